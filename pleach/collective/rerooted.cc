#include "pleach/collective/rerooted.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "pleach/collective/verify.h"

namespace pleach {
namespace {

// Moves the shards of all ranks on by `shift`; a transfer of shards that come apart is two then.
void rotate_shards(Schedule& schedule, int32_t shift) {
  const ChunkGrid grid = schedule.chunks;
  const int32_t ranks = schedule.rank_count();
  // The first chunk that comes to lie at the beginning: shards begin on the grid.
  const int32_t cut = grid.chunk_at(grid.total() / ranks * (ranks - shift));
  std::vector<int64_t> weights;
  for (int32_t chunk = 0; chunk < grid.count(); ++chunk) {
    weights.push_back(grid.weight((chunk + cut) % grid.count()));
  }
  schedule.chunks = grid.is_uniform() ? grid : ChunkGrid::weighted(std::move(weights));
  std::vector<Transfer> moved;
  for (Transfer transfer : schedule.transfers) {
    const int32_t end = transfer.first_chunk + transfer.chunk_count;
    if (transfer.first_chunk < cut && end > cut) {
      Transfer later = transfer;
      later.first_chunk = 0;
      later.chunk_count = end - cut;
      moved.push_back(later);
      transfer.chunk_count = cut - transfer.first_chunk;
    }
    transfer.first_chunk = (transfer.first_chunk + grid.count() - cut) % grid.count();
    moved.push_back(transfer);
  }
  schedule.transfers = std::move(moved);
  sort_transfers(schedule);
}

}  // namespace

Result<Schedule> rerooted(const Schedule& schedule, Rank root) {
  const int32_t ranks = schedule.rank_count();
  if (!has_root(schedule.collective)) {
    return invalid(fmt::format("{} has no root", to_text(schedule.collective)));
  }
  if (root.value < 0 || root.value >= ranks) {
    return invalid(fmt::format("root {}: ranks are 0 to {}", root.value, ranks - 1));
  }
  const int32_t shift = (root.value - schedule.root.value + ranks) % ranks;
  Schedule result = schedule;
  result.root = root;
  result.provenance.certificate = {};
  std::ranges::rotate(result.participants, result.participants.begin() + (ranks - shift));
  const bool is_sharded = schedule.collective != CollectiveKind::kBroadcast &&
                          schedule.collective != CollectiveKind::kReduce;
  if (is_sharded && shift > 0) {
    rotate_shards(result, shift);
  }
  const Verification verification = verify(result, nullptr);
  if (!verification.correct) {
    return invalid(first_violation(verification, result, nullptr));
  }
  return result;
}

}  // namespace pleach
