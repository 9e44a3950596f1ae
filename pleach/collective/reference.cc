#include "pleach/collective/reference.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <vector>

#include "pleach/base/check.h"
#include "pleach/base/index.h"

namespace pleach {
namespace {

// Inputs repeat after so many elements (a prime, so that no chunk boundary falls on it).
constexpr int64_t kPeriod = 65521;
constexpr std::byte kUntouched{0xa5};

// Finaliser of SplitMix64: every bit of the result depends on every bit of `value`.
uint64_t mixed(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

template <typename T>
T input_value(const ReferenceRequest& request, int32_t rank, int64_t phase) {
  const uint64_t random =
      mixed(request.seed * 0x9e3779b97f4a7c15 +
            mixed((static_cast<uint64_t>(rank) << 32) + static_cast<uint64_t>(phase)));
  if (request.op != ReduceOp::kProduct) {
    return static_cast<T>(static_cast<int64_t>(random % 17) - 8);
  }
  switch (random % 16) {
    case 0:
      return T{2};
    case 1:
      return std::is_integral_v<T> ? T{3} : static_cast<T>(0.5);
    default:
      return random % 2 == 0 ? T{1} : T{-1};
  }
}

template <typename T>
T combine_values(ReduceOp op, T left, T right) {
  using Wide = std::conditional_t<std::is_integral_v<T>, uint32_t, double>;
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return static_cast<T>(static_cast<Wide>(left) + static_cast<Wide>(right));
    case ReduceOp::kProduct:
      return static_cast<T>(static_cast<Wide>(left) * static_cast<Wide>(right));
    case ReduceOp::kMin:
      return std::min(left, right);
    case ReduceOp::kMax:
      return std::max(left, right);
  }
  return left;
}

// The inputs of one rank for every phase that `count` elements have.
template <typename T>
std::vector<T> one_period(const ReferenceRequest& request, int32_t rank, int64_t count) {
  std::vector<T> values(at(std::min(count, kPeriod)));
  for (std::size_t phase = 0; phase < values.size(); ++phase) {
    values[phase] = input_value<T>(request, rank, static_cast<int64_t>(phase));
  }
  return values;
}

// The same, reduced over all ranks in ascending order.
template <typename T>
std::vector<T> reduced_period(const ReferenceRequest& request) {
  std::vector<T> values = one_period<T>(request, 0, request.count);
  for (int32_t rank = 1; rank < request.rank_count; ++rank) {
    for (std::size_t phase = 0; phase < values.size(); ++phase) {
      values[phase] = combine_values(request.op, values[phase],
                                     input_value<T>(request, rank, static_cast<int64_t>(phase)));
    }
  }
  for (T& value : values) {
    value = request.op == ReduceOp::kAverage
                ? static_cast<T>(value / static_cast<T>(request.rank_count))
                : value;
  }
  return values;
}

// Elements of `output` that differ from the periodic values that start at phase `begin`.
template <typename T>
int64_t differences(std::span<const T> output, const std::vector<T>& period, int64_t begin) {
  int64_t wrong = 0;
  std::size_t phase = period.empty() ? 0 : at(begin) % period.size();
  for (const T value : output) {
    wrong += static_cast<int64_t>(value != period[phase]);
    phase = phase + 1 == period.size() ? 0 : phase + 1;
  }
  return wrong;
}

int64_t shard_begin(const ReferenceRequest& request, int32_t rank) {
  return static_cast<int64_t>(static_cast<__int128>(request.count) * rank / request.rank_count);
}

// Compares an all_gather's or all_to_all's output: part i is what rank i gave.
template <typename T>
int64_t gathered_differences(const ReferenceRequest& request, Rank rank,
                             std::span<const T> output) {
  const bool is_exchange = request.collective == CollectiveKind::kAllToAll;
  int64_t wrong = 0;
  for (int32_t source = 0; source < request.rank_count; ++source) {
    const int64_t begin = shard_begin(request, source);
    const int64_t length = shard_begin(request, source + 1) - begin;
    const int64_t origin = is_exchange ? length * rank.value : 0;
    wrong += differences(output.subspan(at(begin), at(length)),
                         one_period<T>(request, source, request.count), origin);
  }
  return wrong;
}

template <typename T>
int64_t count_wrong_typed(const ReferenceRequest& request, Rank rank,
                          std::span<const std::byte> bytes, bool in_place) {
  const std::span output(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T));
  const int64_t expected =
      request.collective == CollectiveKind::kReduceScatter
          ? shard_begin(request, rank.value + 1) - shard_begin(request, rank.value)
          : request.count;
  PLEACH_CHECK(std::ssize(output) == expected, "the output has the size that its placement says");
  switch (request.collective) {
    case CollectiveKind::kAllReduce:
      return differences(output, reduced_period<T>(request), 0);
    case CollectiveKind::kReduceScatter:
      return differences(output, reduced_period<T>(request), shard_begin(request, rank.value));
    case CollectiveKind::kBroadcast:
      return differences(output, one_period<T>(request, request.root.value, request.count), 0);
    case CollectiveKind::kAllGather:
    case CollectiveKind::kAllToAll:
      return gathered_differences(request, rank, output);
    case CollectiveKind::kReduce:
      break;
  }
  if (rank == request.root) {
    return differences(output, reduced_period<T>(request), 0);
  }
  if (in_place) {
    return differences(output, one_period<T>(request, rank.value, request.count), 0);
  }
  T untouched;
  std::memset(&untouched, std::to_integer<int>(kUntouched), sizeof(untouched));
  return differences(output, std::vector<T>{untouched}, 0);
}

template <typename T>
void fill_typed(const ReferenceRequest& request, Rank rank, std::span<std::byte> bytes) {
  const std::vector<T> period = one_period<T>(request, rank.value, request.count);
  auto* const values = reinterpret_cast<T*>(bytes.data());
  const std::size_t count = bytes.size() / sizeof(T);
  for (std::size_t begin = 0; begin < count; begin += period.size()) {
    std::copy_n(period.begin(), std::min(period.size(), count - begin), values + begin);
  }
}

}  // namespace

ReferenceRequest reference_request(const Schedule& schedule, ElementType type, ReduceOp op,
                                   int64_t count, uint64_t seed) {
  return {.collective = schedule.collective,
          .rank_count = schedule.rank_count(),
          .root = schedule.root,
          .type = type,
          .op = op,
          .count = count,
          .seed = seed};
}

void fill_input(const ReferenceRequest& request, Rank rank, std::span<std::byte> input) {
  switch (request.type) {
    case ElementType::kFloat32:
      return fill_typed<float>(request, rank, input);
    case ElementType::kFloat64:
      return fill_typed<double>(request, rank, input);
    case ElementType::kInt32:
      return fill_typed<int32_t>(request, rank, input);
  }
}

void fill_output(std::span<std::byte> output) {
  std::fill(output.begin(), output.end(), kUntouched);
}

int64_t count_wrong(const ReferenceRequest& request, Rank rank, std::span<const std::byte> output,
                    bool in_place) {
  switch (request.type) {
    case ElementType::kFloat32:
      return count_wrong_typed<float>(request, rank, output, in_place);
    case ElementType::kFloat64:
      return count_wrong_typed<double>(request, rank, output, in_place);
    case ElementType::kInt32:
      return count_wrong_typed<int32_t>(request, rank, output, in_place);
  }
  return 0;
}

}  // namespace pleach
