#include "pleach/collective/merge_chunks.h"

#include <algorithm>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/collective/placement.h"
#include "pleach/collective/symmetry.h"

namespace pleach {
namespace {

// By chunk of the `unit` after which boundaries repeat: whether one begins there that may differ
// from the chunk before.
std::vector<bool> begins_of(const Schedule& schedule, int32_t unit) {
  std::vector<bool> begins(at(unit), false);
  begins[0] = true;
  for (const Transfer& transfer : schedule.transfers) {
    begins[at(transfer.first_chunk % unit)] = true;
    begins[at((transfer.first_chunk + transfer.chunk_count) % unit)] = true;
  }
  const ChunkGrid& grid = schedule.chunks;
  const int64_t parts = schedule.symmetry  // the unit lies in a part
                            ? 1
                            : part_count(schedule.collective, schedule.rank_count());
  for (int64_t part = 1; part < parts; ++part) {
    const __int128 position = static_cast<__int128>(grid.total()) * part / parts;
    begins[at(grid.chunk_at(static_cast<int64_t>(position)))] = true;
  }
  return begins;
}

}  // namespace

std::optional<MergedChunks> merge_alike_chunks(const Schedule& schedule) {
  const int32_t unit = block_chunk_count(schedule);
  const auto moves_one = [](const Transfer& transfer) { return transfer.chunk_count == 1; };
  if (count_of(schedule.transfers) >= unit &&
      std::all_of(schedule.transfers.begin(), schedule.transfers.end(), moves_one)) {
    return std::nullopt;
  }
  const std::vector<bool> begins = begins_of(schedule, unit);
  const int64_t merged_count = std::count(begins.begin(), begins.end(), true);
  if (2 * merged_count > unit) {
    return std::nullopt;
  }
  std::vector<int32_t> new_chunk(at(unit));  // by old one of the unit
  std::vector<int32_t> first_chunk;
  first_chunk.reserve(at(merged_count * (schedule.chunks.count() / unit)) + 1);
  for (int32_t chunk = 0, merged = -1; chunk < unit; ++chunk) {
    merged += begins[at(chunk)] ? 1 : 0;
    new_chunk[at(chunk)] = merged;
  }
  for (int32_t chunk = 0; chunk < schedule.chunks.count(); ++chunk) {
    if (begins[at(chunk % unit)]) {
      first_chunk.push_back(chunk);
    }
  }
  first_chunk.push_back(schedule.chunks.count());
  std::vector<int64_t> weights(first_chunk.size() - 1);
  for (std::size_t chunk = 0; chunk < weights.size(); ++chunk) {
    weights[chunk] = schedule.chunks.cumulative(first_chunk[chunk + 1]) -
                     schedule.chunks.cumulative(first_chunk[chunk]);
  }
  Schedule merged = schedule;
  const bool are_equal = std::ranges::count(weights, weights.front()) == std::ssize(weights);
  merged.chunks =
      are_equal ? ChunkGrid::uniform(count_of(weights)) : ChunkGrid::weighted(std::move(weights));
  const auto new_boundary = [&](int32_t chunk) {
    return chunk / unit * static_cast<int32_t>(merged_count) + new_chunk[at(chunk % unit)];
  };
  for (Transfer& transfer : merged.transfers) {
    const int32_t first = new_boundary(transfer.first_chunk);
    transfer.chunk_count = new_boundary(transfer.first_chunk + transfer.chunk_count) - first;
    transfer.first_chunk = first;
  }
  return MergedChunks{std::move(merged), std::move(first_chunk)};
}

}  // namespace pleach
