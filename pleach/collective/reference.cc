#include "pleach/collective/reference.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <vector>

#include "pleach/base/check.h"
#include "pleach/base/element.h"
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

// Numbers up to `largest` are exact in T where they are integers; with `exponents` factors of 2, or
// of 1/2, products are.
struct Exact {
  int64_t largest;
  int32_t exponents;
};
template <typename T>
constexpr Exact kExact = std::is_same_v<T, Float16>    ? Exact{1 << 11, 15}
                         : std::is_same_v<T, BFloat16> ? Exact{1 << 8, 126}
                                                       : Exact{1 << 24, 126};

// Whether the rank is one of those, `most` of them at each phase, that give a value of their own.
bool is_chosen(const ReferenceRequest& request, int32_t rank, int64_t phase, int64_t most) {
  const int64_t stride = (request.rank_count + most - 1) / most;
  return (rank + phase) % stride == 0;
}

template <typename T>
T input_value(const ReferenceRequest& request, int32_t rank, int64_t phase) {
  const uint64_t random =
      mixed(request.seed * 0x9e3779b97f4a7c15 +
            mixed((static_cast<uint64_t>(rank) << 32) + static_cast<uint64_t>(phase)));
  const auto number = [](int64_t value) { return narrow<T>(static_cast<Arithmetic<T>>(value)); };
  if (request.op != ReduceOp::kProduct) {
    const int64_t most = std::clamp<int64_t>(kExact<T>.largest / request.rank_count, 1, 8);
    return is_chosen(request, rank, phase, kExact<T>.largest)
               ? number(static_cast<int64_t>(random % static_cast<uint64_t>(2 * most + 1)) - most)
               : number(0);
  }
  if (random % 16 < 2 && is_chosen(request, rank, phase, kExact<T>.exponents)) {
    if constexpr (std::is_integral_v<T>) {
      return number(random % 16 == 0 ? 2 : 3);
    } else {
      return narrow<T>(random % 16 == 0 ? 2.0F : 0.5F);
    }
  }
  return number(random % 2 == 0 ? 1 : -1);
}

template <typename T>
T combine_values(ReduceOp op, T left, T right) {
  using Wide = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  const auto x = static_cast<Wide>(widen(left));
  const auto y = static_cast<Wide>(widen(right));
  const auto narrowed = [](Wide value) { return narrow<T>(static_cast<Arithmetic<T>>(value)); };
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return narrowed(x + y);
    case ReduceOp::kProduct:
      return narrowed(x * y);
    case ReduceOp::kMin:
      return widen(right) < widen(left) ? right : left;
    case ReduceOp::kMax:
      return widen(left) < widen(right) ? right : left;
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    return narrowed(op == ReduceOp::kBitwiseAnd  ? x & y
                    : op == ReduceOp::kBitwiseOr ? x | y
                                                 : x ^ y);
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
                ? narrow<T>(static_cast<Arithmetic<T>>(
                      widen(value) / static_cast<Arithmetic<T>>(request.rank_count)))
                : value;
  }
  return values;
}

// No result is NaN but what fill_output() wrote may be one.
template <typename T>
bool is_equal(T left, T right) {
  return widen(left) == widen(right) || std::memcmp(&left, &right, sizeof(T)) == 0;
}

// Elements of `output` that differ from the periodic values that start at phase `begin`.
template <typename T>
int64_t differences(std::span<const T> output, const std::vector<T>& period, int64_t begin) {
  int64_t wrong = 0;
  std::size_t phase = period.empty() ? 0 : at(begin) % period.size();
  for (const T value : output) {
    wrong += static_cast<int64_t>(!is_equal(value, period[phase]));
    phase = phase + 1 == period.size() ? 0 : phase + 1;
  }
  return wrong;
}

int64_t shard_begin(const ReferenceRequest& request, int32_t rank) {
  return static_cast<int64_t>(static_cast<__int128>(request.count) * rank / request.rank_count);
}

// Compares a gather's, all_gather's or all_to_all's output: part i is what rank i gave.
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

// Elements of an output that the collective does not touch that are no longer what was there: in
// place the input, around a shard and otherwise what fill_output wrote.
template <typename T>
int64_t touched(const ReferenceRequest& request, Rank rank, std::span<const T> output,
                bool in_place) {
  std::array<std::byte, sizeof(T)> untouched;
  untouched.fill(kUntouched);
  const std::vector<T> blank = {std::bit_cast<T>(untouched)};
  if (!in_place) {
    return differences(output, blank, 0);
  }
  const bool is_shard = gives_shards(request.collective);
  const auto begin = at(is_shard ? shard_begin(request, rank.value) : 0);
  const auto end = at(is_shard ? shard_begin(request, rank.value + 1) : request.count);
  return differences(output.first(begin), blank, 0) +
         differences(output.subspan(begin, end - begin),
                     one_period<T>(request, rank.value, request.count), 0) +
         differences(output.subspan(end), blank, 0);
}

template <typename T>
int64_t count_wrong_typed(const ReferenceRequest& request, Rank rank,
                          std::span<const std::byte> bytes, bool in_place) {
  const std::span output(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T));
  const int64_t expected =
      ends_with_shards(request.collective)
          ? shard_begin(request, rank.value + 1) - shard_begin(request, rank.value)
          : request.count;
  PLEACH_CHECK(std::ssize(output) == expected, "the output has the size that its placement says");
  if (is_to_root(request.collective) && rank != request.root) {
    return touched(request, rank, output, in_place);
  }
  switch (request.collective) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduce:
      return differences(output, reduced_period<T>(request), 0);
    case CollectiveKind::kReduceScatter:
      return differences(output, reduced_period<T>(request), shard_begin(request, rank.value));
    case CollectiveKind::kBroadcast:
      return differences(output, one_period<T>(request, request.root.value, request.count), 0);
    case CollectiveKind::kScatter:
      return differences(output, one_period<T>(request, request.root.value, request.count),
                         shard_begin(request, rank.value));
    case CollectiveKind::kAllGather:
    case CollectiveKind::kAllToAll:
    case CollectiveKind::kGather:
      return gathered_differences(request, rank, output);
  }
  return 0;
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
  with_element(request.type,
               [&](auto tag) { fill_typed<typename decltype(tag)::type>(request, rank, input); });
}

void fill_output(std::span<std::byte> output) {
  std::fill(output.begin(), output.end(), kUntouched);
}

int64_t count_wrong(const ReferenceRequest& request, Rank rank, std::span<const std::byte> output,
                    bool in_place) {
  return with_element(request.type, [&](auto tag) {
    return count_wrong_typed<typename decltype(tag)::type>(request, rank, output, in_place);
  });
}

}  // namespace pleach
