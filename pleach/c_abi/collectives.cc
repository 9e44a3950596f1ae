#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/c_abi/call.h"

namespace pleach::c_abi {
namespace {

// A collective as it is asked for, none of it checked.
struct Asked {
  CollectiveKind collective = CollectiveKind::kAllReduce;
  const void* input = nullptr;
  void* output = nullptr;
  int64_t count = 0;
  pleach_type type = PLEACH_FLOAT32;
  pleach_reduction reduction = PLEACH_SUM;
  pleach_wire wire = PLEACH_WIRE_TYPE;
  int32_t root = 0;
  // One per rank, in place of `count`; read where `has_counts`.
  bool has_counts = false;
  int32_t piece_count = 1;
  const int64_t* counts = nullptr;
  const int64_t* receive_counts = nullptr;
  std::optional<Duration> deadline = {};
};

Result<CollectiveRequest> understand(const Asked& asked, int32_t rank_count) {
  PLEACH_ASSIGN(type, element_type(asked.type));
  ReduceOp op = ReduceOp::kSum;
  if (reduces(asked.collective)) {
    PLEACH_SET(op, reduce_op(asked.reduction));
  }
  PLEACH_ASSIGN(wire, wire_type(asked.wire));
  const auto span = [&](const int64_t* counts, int32_t pieces) {
    return counts == nullptr ? std::span<const int64_t>()
                             : std::span(counts, at(rank_count) * at(pieces));
  };
  return CollectiveRequest{.collective = asked.collective,
                           .type = type,
                           .op = op,
                           .wire = wire,
                           .root = Rank{asked.root},
                           .count = asked.count,
                           .counts = span(asked.counts, asked.piece_count),
                           .receive_counts = span(asked.receive_counts, 1),
                           .input = static_cast<const std::byte*>(asked.input),
                           .output = static_cast<std::byte*>(asked.output),
                           .deadline = asked.deadline};
}

// What is read of `counts` stays an array that somebody could mean.
constexpr int32_t kMostPieces = 1 << 20;

Status read(const pleach_request& request, Asked& asked) {
  constexpr std::size_t kFirstVersionBytes =
      offsetof(pleach_request, receive_counts) + sizeof(request.receive_counts);
  PLEACH_ASSIGN(given, complete(&request, "pleach_request", kFirstVersionBytes));
  PLEACH_SET(asked.collective, collective_kind(given.collective));
  if (given.piece_count < 0 || given.piece_count > kMostPieces) {
    return invalid(
        fmt::format("piece_count is {}, not in [0, {}]", given.piece_count, kMostPieces));
  }
  if (given.piece_count > 1 && given.counts == nullptr) {
    return invalid(fmt::format("piece_count is {}, but there are no counts", given.piece_count));
  }
  asked.piece_count = std::max(1, given.piece_count);
  asked.input = given.input;
  asked.output = given.output;
  asked.count = given.count;
  asked.type = given.type;
  asked.reduction = given.reduction;
  asked.wire = given.wire;
  asked.root = given.root;
  asked.has_counts = given.counts != nullptr || given.receive_counts != nullptr;
  asked.counts = given.counts;
  asked.receive_counts = given.receive_counts;
  PLEACH_SET(asked.deadline, deadline("pleach_perform", given.deadline_ms));
  return ok();
}

// Runs it, or starts it where the caller wants a handle.
pleach_status perform(const char* function, pleach_communicator* communicator, const Asked& asked,
                      pleach_operation** operation) {
  // What stands for a pointer that may be missing.
  const auto needed = [&](bool is_needed, const void* pointer) {
    return is_needed ? pointer : &asked;
  };
  const bool exchanges = asked.collective == CollectiveKind::kAllToAll;
  const Needed counts = {needed(asked.has_counts, asked.counts),
                         exchanges ? "send_counts" : "counts"};
  const Needed receive_counts = {needed(asked.has_counts && exchanges, asked.receive_counts),
                                 "receive_counts"};
  return call(function, {{communicator, "communicator"}, counts, receive_counts}, [&]() -> Status {
    if (operation != nullptr) {
      *operation = nullptr;
    }
    Collectives& collectives = *communicator->collectives;
    const Result<CollectiveRequest> request =
        understand(asked, collectives.communicator().rank_count());
    if (!request) {
      return prefixed(
          fmt::format("rank {}, {}", collectives.job_rank().value, to_text(asked.collective)),
          request.error());
    }
    if (operation == nullptr) {
      return collectives.run(*request);
    }
    return hand_over(collectives.start(*request), operation);
  });
}

}  // namespace

Status hand_over(const Result<Operation>& started, pleach_operation** operation) {
  if (!started) {
    return started.error();
  }
  *operation = new pleach_operation{*started};  // NOLINT(cppcoreguidelines-owning-memory)
  return ok();
}

}  // namespace pleach::c_abi

using pleach::CollectiveKind;
using pleach::c_abi::perform;

pleach_status pleach_all_reduce(pleach_communicator* communicator, const void* input, void* output,
                                int64_t count, pleach_type type, pleach_reduction reduction,
                                pleach_operation** operation) {
  return perform("pleach_all_reduce", communicator,
                 {.collective = CollectiveKind::kAllReduce,
                  .input = input,
                  .output = output,
                  .count = count,
                  .type = type,
                  .reduction = reduction},
                 operation);
}

pleach_status pleach_reduce_scatter(pleach_communicator* communicator, const void* input,
                                    void* output, int64_t count, pleach_type type,
                                    pleach_reduction reduction, pleach_operation** operation) {
  return perform("pleach_reduce_scatter", communicator,
                 {.collective = CollectiveKind::kReduceScatter,
                  .input = input,
                  .output = output,
                  .count = count,
                  .type = type,
                  .reduction = reduction},
                 operation);
}

pleach_status pleach_all_gather(pleach_communicator* communicator, const void* input, void* output,
                                int64_t count, pleach_type type, pleach_operation** operation) {
  return perform("pleach_all_gather", communicator,
                 {.collective = CollectiveKind::kAllGather,
                  .input = input,
                  .output = output,
                  .count = count,
                  .type = type},
                 operation);
}

pleach_status pleach_all_to_all(pleach_communicator* communicator, const void* input, void* output,
                                int64_t count, pleach_type type, pleach_operation** operation) {
  return perform("pleach_all_to_all", communicator,
                 {.collective = CollectiveKind::kAllToAll,
                  .input = input,
                  .output = output,
                  .count = count,
                  .type = type},
                 operation);
}

pleach_status pleach_broadcast(pleach_communicator* communicator, const void* input, void* output,
                               int64_t count, pleach_type type, int32_t root,
                               pleach_operation** operation) {
  return perform("pleach_broadcast", communicator,
                 {.collective = CollectiveKind::kBroadcast,
                  .input = input,
                  .output = output,
                  .count = count,
                  .type = type,
                  .root = root},
                 operation);
}

pleach_status pleach_reduce(pleach_communicator* communicator, const void* input, void* output,
                            int64_t count, pleach_type type, pleach_reduction reduction,
                            int32_t root, pleach_operation** operation) {
  return perform("pleach_reduce", communicator,
                 {.collective = CollectiveKind::kReduce,
                  .input = input,
                  .output = output,
                  .count = count,
                  .type = type,
                  .reduction = reduction,
                  .root = root},
                 operation);
}

pleach_status pleach_gather(pleach_communicator* communicator, const void* input, void* output,
                            int64_t count, pleach_type type, int32_t root,
                            pleach_operation** operation) {
  return perform("pleach_gather", communicator,
                 {.collective = CollectiveKind::kGather,
                  .input = input,
                  .output = output,
                  .count = count,
                  .type = type,
                  .root = root},
                 operation);
}

pleach_status pleach_scatter(pleach_communicator* communicator, const void* input, void* output,
                             int64_t count, pleach_type type, int32_t root,
                             pleach_operation** operation) {
  return perform("pleach_scatter", communicator,
                 {.collective = CollectiveKind::kScatter,
                  .input = input,
                  .output = output,
                  .count = count,
                  .type = type,
                  .root = root},
                 operation);
}

pleach_status pleach_all_gather_v(pleach_communicator* communicator, const void* input,
                                  void* output, const int64_t* counts, pleach_type type,
                                  pleach_operation** operation) {
  return perform("pleach_all_gather_v", communicator,
                 {.collective = CollectiveKind::kAllGather,
                  .input = input,
                  .output = output,
                  .type = type,
                  .has_counts = true,
                  .counts = counts},
                 operation);
}

pleach_status pleach_reduce_scatter_v(pleach_communicator* communicator, const void* input,
                                      void* output, const int64_t* counts, pleach_type type,
                                      pleach_reduction reduction, pleach_operation** operation) {
  return perform("pleach_reduce_scatter_v", communicator,
                 {.collective = CollectiveKind::kReduceScatter,
                  .input = input,
                  .output = output,
                  .type = type,
                  .reduction = reduction,
                  .has_counts = true,
                  .counts = counts},
                 operation);
}

pleach_status pleach_gather_v(pleach_communicator* communicator, const void* input, void* output,
                              const int64_t* counts, pleach_type type, int32_t root,
                              pleach_operation** operation) {
  return perform("pleach_gather_v", communicator,
                 {.collective = CollectiveKind::kGather,
                  .input = input,
                  .output = output,
                  .type = type,
                  .root = root,
                  .has_counts = true,
                  .counts = counts},
                 operation);
}

pleach_status pleach_scatter_v(pleach_communicator* communicator, const void* input, void* output,
                               const int64_t* counts, pleach_type type, int32_t root,
                               pleach_operation** operation) {
  return perform("pleach_scatter_v", communicator,
                 {.collective = CollectiveKind::kScatter,
                  .input = input,
                  .output = output,
                  .type = type,
                  .root = root,
                  .has_counts = true,
                  .counts = counts},
                 operation);
}

pleach_status pleach_all_to_all_v(pleach_communicator* communicator, const void* input,
                                  const int64_t* send_counts, void* output,
                                  const int64_t* receive_counts, pleach_type type,
                                  pleach_operation** operation) {
  return perform("pleach_all_to_all_v", communicator,
                 {.collective = CollectiveKind::kAllToAll,
                  .input = input,
                  .output = output,
                  .type = type,
                  .has_counts = true,
                  .counts = send_counts,
                  .receive_counts = receive_counts},
                 operation);
}

pleach_status pleach_perform(pleach_communicator* communicator, const pleach_request* request,
                             pleach_operation** operation) {
  constexpr const char* kName = "pleach_perform";
  pleach::c_abi::Asked asked;
  const pleach_status status = pleach::c_abi::call(kName, {{request, "request"}}, [&] {
    if (operation != nullptr) {
      *operation = nullptr;
    }
    return pleach::c_abi::read(*request, asked);
  });
  return status == PLEACH_OK ? perform(kName, communicator, asked, operation) : status;
}

pleach_status pleach_barrier(pleach_communicator* communicator, pleach_operation** operation) {
  return pleach_barrier_with(communicator, nullptr, operation);
}

pleach_status pleach_barrier_with(pleach_communicator* communicator,
                                  const pleach_barrier_options* options,
                                  pleach_operation** operation) {
  using pleach::Status;
  return pleach::c_abi::call("pleach_barrier", {{communicator, "communicator"}}, [&]() -> Status {
    if (operation != nullptr) {
      *operation = nullptr;
    }
    PLEACH_ASSIGN(given, pleach::c_abi::complete(options, "pleach_barrier_options"));
    PLEACH_ASSIGN(deadline, pleach::c_abi::deadline("pleach_barrier", given.deadline_ms));
    pleach::Communicator& ranks = communicator->collectives->communicator();
    return operation == nullptr
               ? ranks.barrier(deadline)
               : pleach::c_abi::hand_over(ranks.start_barrier(deadline), operation);
  });
}
