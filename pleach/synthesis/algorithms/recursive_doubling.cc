// Recursive doubling: in step k every rank exchanges all that it has with the rank 2^k away.
#include "pleach/base/index.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/synthesis/builder.h"
#include "pleach/synthesis/folding.h"

namespace pleach {
namespace {

Result<Schedule> all_reduce(const SynthesisRequest& request) {
  ScheduleBuilder builder(request, CollectiveKind::kAllReduce, 1);
  builder.fold_by_rank();  // both ends of an exchange fold alike
  const Folding folding(builder.rank_count());
  int32_t step = 0;
  if (folding.extra_count() > 0) {
    for (int32_t member = 0; member < folding.extra_count(); ++member) {
      builder.send({.step = step, .op = TransferOp::kReduce}, folding.extra(member),
                   folding.rank(member));
    }
    ++step;
  }
  for (int32_t mask = 1; mask < folding.member_count(); mask *= 2, ++step) {
    for (int32_t member = 0; member < folding.member_count(); ++member) {
      builder.send({.step = step, .op = TransferOp::kReduce}, folding.rank(member),
                   folding.rank(member ^ mask));
    }
  }
  if (folding.extra_count() > 0) {
    for (int32_t member = 0; member < folding.extra_count(); ++member) {
      builder.send({.step = step}, folding.rank(member), folding.extra(member));
    }
    ++step;
  }
  return std::move(builder).finish({step});
}

// Members hold blocks of consecutive chunks throughout, because an extra rank follows the one it
// folds into.
Result<Schedule> all_gather(const SynthesisRequest& request) {
  const auto rank_count = count_of(request.participants);
  PLEACH_TRY(check_size(0, int64_t{rank_count} * (rank_count - 1)));
  ScheduleBuilder builder(request, CollectiveKind::kAllGather, rank_count);
  const Folding folding(rank_count);
  int32_t step = 0;
  if (folding.extra_count() > 0) {
    for (int32_t member = 0; member < folding.extra_count(); ++member) {
      const int32_t extra = folding.extra(member);
      builder.send({.first_chunk = extra, .step = step}, extra, folding.rank(member));
    }
    ++step;
  }
  for (int32_t mask = 1; mask < folding.member_count(); mask *= 2, ++step) {
    for (int32_t member = 0; member < folding.member_count(); ++member) {
      const int32_t first_member = member & ~(mask - 1);
      const int32_t first_chunk = folding.rank(first_member);
      const int32_t chunk_count = folding.rank(first_member + mask) - first_chunk;
      builder.send({first_chunk, chunk_count, step}, folding.rank(member),
                   folding.rank(member ^ mask));
    }
  }
  if (folding.extra_count() > 0) {
    for (int32_t member = 0; member < folding.extra_count(); ++member) {
      const int32_t rank = folding.rank(member), extra = folding.extra(member);
      // All but the extra rank's own chunk, which is not the last.
      builder.send({0, extra, step}, rank, extra);
      builder.send({extra + 1, rank_count - extra - 1, step}, rank, extra);
    }
    ++step;
  }
  return std::move(builder).finish({step});
}

Result<Schedule> recursive_doubling(const SynthesisRequest& request, const Options& /*options*/) {
  return request.collective == CollectiveKind::kAllReduce ? all_reduce(request)
                                                          : all_gather(request);
}

}  // namespace

extern const Algorithm kRecursiveDoubling = {
    .name = "recursive_doubling",
    .summary = "log2(n) exchanges of everything, with ranks 1, 2, 4, ... away",
    .source = "Thakur, Rabenseifner & Gropp 2005, sec. 4.1 and 4.5",
    .collectives = {CollectiveKind::kAllReduce, CollectiveKind::kAllGather},
    .options = {},
    .create = &recursive_doubling,
};

}  // namespace pleach
