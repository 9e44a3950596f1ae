// Recursive halving and doubling: reduce_scatter by exchanging halves, all_gather by doubling.
#include <fmt/format.h>

#include <bit>

#include "pleach/base/index.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/synthesis/builder.h"
#include "pleach/synthesis/folding.h"

namespace pleach {
namespace {

// Every member ends with its own chunk of member_count: it sends, in step k, the half of its block
// that its partner keeps. Returns the next step.
int32_t add_halving(ScheduleBuilder& builder, const Folding& folding, int32_t step) {
  for (int32_t mask = folding.member_count() / 2; mask > 0; mask /= 2, ++step) {
    for (int32_t member = 0; member < folding.member_count(); ++member) {
      const int32_t partner = member ^ mask;
      builder.send({partner & ~(mask - 1), mask, step, TransferOp::kReduce}, folding.rank(member),
                   folding.rank(partner));
    }
  }
  return step;
}

int32_t add_doubling(ScheduleBuilder& builder, const Folding& folding, int32_t step) {
  for (int32_t mask = 1; mask < folding.member_count(); mask *= 2, ++step) {
    for (int32_t member = 0; member < folding.member_count(); ++member) {
      builder.send({member & ~(mask - 1), mask, step, TransferOp::kCopy}, folding.rank(member),
                   folding.rank(member ^ mask));
    }
  }
  return step;
}

Result<Schedule> all_reduce(const SynthesisRequest& request) {
  const Folding folding(count_of(request.participants));
  const int32_t chunk_count = folding.member_count();
  ScheduleBuilder builder(request, CollectiveKind::kAllReduce, chunk_count);
  int32_t step = 0;
  if (folding.extra_count() > 0) {
    for (int32_t member = 0; member < folding.extra_count(); ++member) {
      builder.send({0, chunk_count, step, TransferOp::kReduce}, folding.extra(member),
                   folding.rank(member));
    }
    ++step;
  }
  const int32_t half = step = add_halving(builder, folding, step);
  step = add_doubling(builder, folding, step);
  if (folding.extra_count() > 0) {
    for (int32_t member = 0; member < folding.extra_count(); ++member) {
      builder.send({0, chunk_count, step, TransferOp::kCopy}, folding.rank(member),
                   folding.extra(member));
    }
    ++step;
  }
  return std::move(builder).finish({half, step - half});
}

Result<Schedule> halving_doubling(const SynthesisRequest& request, const Options& /*options*/) {
  const auto rank_count = count_of(request.participants);
  const int64_t phase_count = request.collective == CollectiveKind::kAllReduce ? 2 : 1;
  PLEACH_TRY(check_size(0, phase_count * rank_count * (Folding(rank_count).member_count() - 1)));
  if (request.collective == CollectiveKind::kAllReduce) {
    return all_reduce(request);
  }
  if (!std::has_single_bit(static_cast<uint32_t>(rank_count))) {
    return Error{ErrorCode::kInfeasible, fmt::format("{} takes a power of two of ranks, not {}",
                                                     to_text(request.collective), rank_count)};
  }
  ScheduleBuilder builder(request, request.collective, rank_count);
  const Folding folding(rank_count);
  const int32_t step_count = request.collective == CollectiveKind::kReduceScatter
                                 ? add_halving(builder, folding, 0)
                                 : add_doubling(builder, folding, 0);
  return std::move(builder).finish({step_count});
}

}  // namespace

extern const Algorithm kHalvingDoubling = {
    .name = "halving_doubling",
    .summary = "log2(n) exchanges of halves, quarters, ... and back",
    .source =
        "Rabenseifner 2004 (Optimization of Collective Reduction Operations); Thakur, Rabenseifner "
        "& Gropp 2005, sec. 4.5",
    .collectives = {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter,
                    CollectiveKind::kAllGather},
    .options = {},
    .create = &halving_doubling,
};

}  // namespace pleach
