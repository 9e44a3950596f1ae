// Bidirectional ring: half of every chunk travels each way round.
#include "pleach/synthesis/algorithm.h"
#include "pleach/synthesis/ring_schedule.h"

namespace pleach {
namespace {

Result<Schedule> bidirectional_ring(const SynthesisRequest& request, const Options& options) {
  return ring_schedule(request, options, 2);
}

}  // namespace

extern const Algorithm kBidirectionalRing = {
    .name = "bidirectional_ring",
    .summary = "two rings of half the data each, in opposite directions",
    .source = "Patarasuk & Yuan 2009 (bandwidth optimal all_reduce)",
    .collectives = {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter,
                    CollectiveKind::kAllGather, CollectiveKind::kBroadcast,
                    CollectiveKind::kReduce},
    .options = ring_options(),
    .create = &bidirectional_ring,
};

}  // namespace pleach
