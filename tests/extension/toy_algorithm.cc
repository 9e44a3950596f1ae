// An all_reduce through rank 0.
#include "pleach/synthesis/algorithm.h"
#include "pleach/synthesis/builder.h"

namespace pleach {
namespace {

Result<Schedule> create(const SynthesisRequest& request, const Options& /*options*/) {
  ScheduleBuilder builder(request, CollectiveKind::kAllReduce, 1);
  for (int32_t rank = 1; rank < builder.rank_count(); ++rank) {
    builder.send({.op = TransferOp::kReduce}, rank, 0);
    builder.send({.step = 1}, 0, rank);
  }
  return std::move(builder).finish({1, 1});
}

}  // namespace

extern const Algorithm kToyAlgorithm = {
    .name = "toy",
    .summary = "everything through rank 0",
    .source = {},
    .collectives = {CollectiveKind::kAllReduce},
    .options = {},
    .create = create,
};

}  // namespace pleach
