// HDRM: halving and doubling whose exchanges meet on no link of a BiGraph.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/synthesis/builder.h"
#include "pleach/synthesis/leaves.h"

namespace pleach {
namespace {

bool is_odd(int32_t value) {
  return std::popcount(static_cast<uint32_t>(value)) % 2 != 0;
}

// By member of the exchange its rank. Members that differ in one bit are on switches of different
// halves, as one of them has an even number of one bits. Group v of members has slot v of every
// switch, turned so that no two groups need one cable in a step.
std::vector<int32_t> rank_map(const Leaves& leaves) {
  const int32_t half = leaves.switch_count() / 2;
  std::vector<int32_t> rank_of(at(2 * half * leaves.ranks_per_switch()));
  for (int32_t slot = 0; slot < leaves.ranks_per_switch(); ++slot) {
    std::vector<int32_t> first, second;  // members on the lower and the upper half's switches
    for (int32_t i = 0; i < half; ++i) {
      const int32_t even = slot * 2 * half + 2 * i;
      first.push_back(is_odd(i) ? even + 1 : even);
      second.push_back(is_odd(i) ? even : even + 1);
    }
    if (is_odd(slot)) {
      std::swap(first, second);
    }
    std::ranges::rotate(first, first.begin() + (half - slot % half) % half);
    first.insert(first.end(), second.begin(), second.end());
    for (int32_t place = 0; place < 2 * half; ++place) {
      rank_of[at(first[at(place)])] = leaves.ranks[at(place)][at(slot)];
    }
  }
  return rank_of;
}

// In step k a member exchanges with the one whose number differs in bit k, and keeps half of what
// it had; then the same backwards. Of `count` chunks those that it has after k steps begin here.
int32_t block_begin(int32_t member, int32_t steps, int32_t count) {
  int32_t begin = 0;
  for (int32_t bit = 0; bit < steps; ++bit) {
    begin += (member >> bit & 1) * (count >> (bit + 1));
  }
  return begin;
}

Result<Schedule> hdrm(const SynthesisRequest& request, const Options& /*options*/) {
  const int32_t count = count_of(request.participants);
  const std::optional<Leaves> leaves = find_leaves(request.topology, request.participants);
  if (!leaves || !are_bigraph(request.topology, *leaves)) {
    return Error{ErrorCode::kInfeasible,
                 "it takes a BiGraph with as many participants on every switch"};
  }
  if (!std::has_single_bit(static_cast<uint32_t>(count))) {
    return Error{ErrorCode::kInfeasible,
                 fmt::format("it takes a power of two of ranks, not {}", count)};
  }
  PLEACH_TRY(check_size(0, 2 * int64_t{count} * (count - 1)));
  const std::vector<int32_t> rank_of = rank_map(*leaves);
  const int32_t step_count = std::countr_zero(static_cast<uint32_t>(count));
  ScheduleBuilder builder(request, CollectiveKind::kAllReduce, count);
  for (int32_t bit = 0; bit < step_count; ++bit) {
    for (int32_t member = 0; member < count; ++member) {
      const int32_t partner = member ^ (1 << bit), chunks = count >> (bit + 1);
      builder.send({block_begin(partner, bit + 1, count), chunks, bit, TransferOp::kReduce},
                   rank_of[at(member)], rank_of[at(partner)]);
      builder.send({block_begin(member, bit + 1, count), chunks, 2 * step_count - 1 - bit,
                    TransferOp::kCopy},
                   rank_of[at(member)], rank_of[at(partner)]);
    }
  }
  return std::move(builder).finish({step_count, step_count});
}

}  // namespace

extern const Algorithm kHdrm = {
    .name = "hdrm",
    .summary = "halving and doubling with a rank map for BiGraphs, where no cable serves two",
    .source = "Dong et al., EFLOPS, HPCA 2020 (halving-doubling with rank mapping)",
    .collectives = {CollectiveKind::kAllReduce},
    .options = {},
    .create = &hdrm,
};

}  // namespace pleach
