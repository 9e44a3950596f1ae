#include "pleach/c_abi/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/interruption.h"
#include "pleach/base/text.h"
#include "pleach/base/version.h"

namespace pleach::c_abi {
namespace {

// By their number in the C interface.
constexpr std::array kTypes = {ElementType::kFloat32,  ElementType::kFloat64, ElementType::kFloat16,
                               ElementType::kBFloat16, ElementType::kInt8,    ElementType::kInt32,
                               ElementType::kInt64,    ElementType::kUint8};
constexpr std::array kReductions = {
    ReduceOp::kSum,     ReduceOp::kProduct,    ReduceOp::kMin,       ReduceOp::kMax,
    ReduceOp::kAverage, ReduceOp::kBitwiseAnd, ReduceOp::kBitwiseOr, ReduceOp::kBitwiseXor};
constexpr std::array kCollectives = {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter,
                                     CollectiveKind::kAllGather, CollectiveKind::kBroadcast,
                                     CollectiveKind::kReduce,    CollectiveKind::kAllToAll,
                                     CollectiveKind::kGather,    CollectiveKind::kScatter};
static_assert(kTypes[PLEACH_UINT8] == ElementType::kUint8);
static_assert(kReductions[PLEACH_BITWISE_XOR] == ReduceOp::kBitwiseXor);
static_assert(kCollectives[PLEACH_SCATTER] == CollectiveKind::kScatter);

template <typename Choices>
Result<typename Choices::value_type> choice_of(const Choices& choices, int32_t number,
                                               const char* kind) {
  if (number < 0 || number >= std::ssize(choices)) {
    return invalid(fmt::format("{} is no {}", number, kind));
  }
  return choices[at(number)];
}

std::string& last_error() {
  thread_local std::string text;
  return text;
}

struct Asked {
  pleach_interrupt function = nullptr;  // null: nothing is asked
  void* context = nullptr;
};

// The thread's.
Asked& own_interrupt() {
  thread_local Asked interrupt;
  return interrupt;
}

}  // namespace

pleach_status status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return PLEACH_INVALID_ARGUMENT;
    case ErrorCode::kInfeasible:
      return PLEACH_INFEASIBLE;
    case ErrorCode::kIo:
      return PLEACH_IO;
    case ErrorCode::kTimeout:
      return PLEACH_TIMEOUT;
    case ErrorCode::kPeerLost:
      return PLEACH_PEER_LOST;
    case ErrorCode::kUnsupported:
      return PLEACH_UNSUPPORTED;
  }
  return PLEACH_INTERNAL;
}

pleach_status report(const Status& status) noexcept {
  if (status) {
    return PLEACH_OK;
  }
  try {
    last_error() = one_line(status.error().message);
  } catch (...) {
    return report_thrown();
  }
  const Interruption* const own = Interruption::present();
  return own != nullptr && own->has_ended() ? PLEACH_INTERRUPTED : status_of(status.error().code);
}

pleach_status report_thrown() noexcept {
  try {
    throw;
  } catch (const Interrupted& thrown) {
    last_error().assign(thrown.what());  // short enough to need no memory
    return PLEACH_INTERRUPTED;
  } catch (const std::bad_alloc&) {
    last_error().assign("no memory");
  } catch (const std::exception& thrown) {
    try {
      last_error() = fmt::format("a mistake of the library: {}", thrown.what());
    } catch (...) {
      last_error().assign("no memory");
    }
  } catch (...) {
    last_error().assign("unknown error");
  }
  return PLEACH_INTERNAL;
}

Interruptions::Interruptions() {
  if (const Asked own = own_interrupt(); own.function != nullptr) {
    asked_.emplace([own] { return own.function(own.context) != 0; });
  }
}

Status check_needed(const char* function, std::initializer_list<Needed> needed) {
  const auto* const missing =
      std::ranges::find_if(needed, [](const Needed& one) { return one.value == nullptr; });
  return missing == needed.end()
             ? ok()
             : Status(invalid(fmt::format("{}: {} is NULL", function, missing->name)));
}

Result<ElementType> element_type(pleach_type type) {
  return choice_of(kTypes, type, "pleach_type");
}

Result<ReduceOp> reduce_op(pleach_reduction reduction) {
  return choice_of(kReductions, reduction, "pleach_reduction");
}

Result<CollectiveKind> collective_kind(pleach_collective collective) {
  return choice_of(kCollectives, collective, "pleach_collective");
}

Result<std::optional<ElementType>> wire_type(pleach_wire wire) {
  constexpr std::array kWires = {std::optional<ElementType>(),
                                 std::optional(ElementType::kFloat32)};
  return choice_of(kWires, wire, "pleach_wire");
}

Result<std::optional<Duration>> deadline(const char* function, int64_t deadline_ms) {
  constexpr int64_t kMostMs = int64_t{365} * 24 * 3600 * 1000;
  if (deadline_ms == 0) {
    return std::optional<Duration>();
  }
  if (deadline_ms < 1 || deadline_ms > kMostMs) {
    return invalid(
        fmt::format("{}: deadline_ms {} is not in [1, {}]", function, deadline_ms, kMostMs));
  }
  return std::optional<Duration>(std::chrono::milliseconds(deadline_ms));
}

Result<Duration> timeout(const char* function, int64_t timeout_ms) {
  using std::chrono::milliseconds;
  if (timeout_ms == PLEACH_FOREVER) {
    return Duration::max();
  }
  if (timeout_ms < 0) {
    return invalid(fmt::format("{}: a timeout of {} ms is negative", function, timeout_ms));
  }
  // Beyond what a clock can tell it is forever too.
  constexpr int64_t kMostMs = std::chrono::duration_cast<milliseconds>(Duration::max()).count() / 2;
  return timeout_ms > kMostMs ? Duration::max() : Duration(milliseconds(timeout_ms));
}

Status copy_options(const void* given, std::size_t size, void* options, std::size_t bytes,
                    const char* name, std::size_t least) {
  if (size < least) {
    return invalid(fmt::format("{} has a size of {}: it is sizeof({})", name, size, name));
  }
  const auto* const begin = static_cast<const std::byte*>(given);
  std::copy_n(begin, std::min(size, bytes), static_cast<std::byte*>(options));
  for (std::size_t byte = bytes; byte < size; ++byte) {
    if (begin[byte] != std::byte{0}) {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("{} of {} bytes says something at byte {} that version {} does not "
                               "know: it has {}",
                               name, size, byte, version(), bytes)};
    }
  }
  return ok();
}

}  // namespace pleach::c_abi

const char* pleach_version() {
  return pleach::version().data();
}

int32_t pleach_abi_version() {
  return PLEACH_ABI_VERSION;
}

const char* pleach_last_error() {
  return pleach::c_abi::last_error().c_str();
}

void pleach_set_interrupt(pleach_interrupt is_interrupted, void* context) {
  pleach::c_abi::own_interrupt() = {is_interrupted, context};
}
