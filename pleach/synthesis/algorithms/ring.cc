// Ring: data passes around a Hamiltonian cycle of the participants.
#include "pleach/synthesis/algorithm.h"
#include "pleach/synthesis/ring_schedule.h"

namespace pleach {
namespace {

Result<Schedule> ring(const SynthesisRequest& request, const Options& options) {
  return ring_schedule(request, options, 1);
}

}  // namespace

extern const Algorithm kRing = {
    .name = "ring",
    .summary = "n-1 steps around a cycle; every rank sends to the next",
    .source = "Patarasuk & Yuan 2009 (bandwidth optimal all_reduce)",
    .collectives = {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter,
                    CollectiveKind::kAllGather, CollectiveKind::kBroadcast,
                    CollectiveKind::kReduce},
    .options = ring_options(),
    .create = &ring,
};

}  // namespace pleach
