#include "pleach/collective/pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "pleach/base/index.h"

namespace pleach {
namespace {

constexpr auto kMostChunks = static_cast<std::size_t>(kMaxScheduleChunks);

// A piece of one rank's: where it ends in the shard, and where it begins in the whole.
struct RankPiece {
  int64_t shard_end = 0;
  int64_t whole_begin = 0;
};

// By rank, and in each by piece.
std::vector<std::vector<RankPiece>> pieces_by_rank(std::span<const int64_t> counts, std::size_t n) {
  std::vector<std::vector<RankPiece>> pieces(n);
  int64_t whole = 0;
  for (std::size_t index = 0; index < counts.size(); ++index) {
    std::vector<RankPiece>& own = pieces[index % n];
    const int64_t begin = own.empty() ? 0 : own.back().shard_end;
    own.push_back({begin + counts[index], whole});
    whole += counts[index];
  }
  return pieces;
}

// Elements [begin, end) of a shard, cut where its pieces end, and at every multiple of `most` from
// `begin` on: so transfers are full, wherever pieces end. What is empty stays one chunk.
void cut_chunk(std::span<const RankPiece> pieces, int64_t begin, int64_t end, int64_t most,
               std::vector<ChunkPlace>& places) {
  auto piece = std::ranges::upper_bound(pieces, begin, {}, &RankPiece::shard_end);
  if (begin == end) {
    places.push_back({.shard_begin = begin});
    return;
  }
  int64_t room = most;
  while (begin < end) {
    const int64_t piece_begin = piece == pieces.begin() ? 0 : (piece - 1)->shard_end;
    const int64_t piece_end = std::min(end, piece->shard_end);
    while (begin < piece_end) {
      const int64_t length = std::min(room, piece_end - begin);
      places.push_back({length, piece->whole_begin + begin - piece_begin, begin});
      begin += length;
      room = room == length ? most : room - length;
    }
    ++piece;
  }
}

// A transfer's chunks, as few transfers as hold `most` elements each at most.
void split_transfer(Transfer transfer, std::span<const ChunkPlace> places, int64_t most,
                    std::vector<Transfer>& transfers) {
  const int32_t end = transfer.first_chunk + transfer.chunk_count;
  for (int32_t chunk = transfer.first_chunk; chunk < end;) {
    transfer.first_chunk = chunk;
    for (int64_t elements = 0;
         chunk < end && (elements == 0 || elements + places[at(chunk)].length <= most); ++chunk) {
      elements += places[at(chunk)].length;
    }
    transfer.chunk_count = chunk - transfer.first_chunk;
    transfers.push_back(transfer);
  }
}

// A chunk's weight, shared out among the chunks that it becomes: all but the first weigh 1.
ChunkGrid refined_grid(const ChunkGrid& grid, std::span<const int32_t> first) {
  int64_t most = 1;
  for (std::size_t chunk = 0; chunk + 1 < first.size(); ++chunk) {
    most = std::max<int64_t>(most, first[chunk + 1] - first[chunk]);
  }
  std::vector<int64_t> weights;
  for (int32_t chunk = 0; chunk < grid.count(); ++chunk) {
    const int64_t others = first[at(chunk) + 1] - first[at(chunk)] - 1;
    weights.push_back(grid.weight(chunk) * most - others);
    weights.insert(weights.end(), at(others), 1);
  }
  return ChunkGrid::weighted(std::move(weights));
}

Status check_counts(const Schedule& schedule, std::span<const int64_t> counts) {
  const auto n = at(schedule.rank_count());
  if (counts.empty() || counts.size() % n != 0) {
    return invalid(
        fmt::format("{} counts are not those of some pieces on {} ranks", counts.size(), n));
  }
  if (counts.size() + at(schedule.chunks.count()) > kMostChunks) {
    return invalid(fmt::format("{} pieces of {} chunks are too many", counts.size() / n,
                               schedule.chunks.count()));
  }
  int64_t total = 0;
  for (const int64_t count : counts) {
    if (count < 0) {
      return invalid(fmt::format("count {} is negative", count));
    }
    if (count > INT64_MAX - total) {
      return invalid("the counts of all parts are too large");
    }
    total += count;
  }
  return ok();
}

}  // namespace

Result<PiecedSchedule> cut_into_pieces(const Schedule& schedule, std::span<const int64_t> counts,
                                       int64_t most) {
  const auto n = at(schedule.rank_count());
  PLEACH_TRY(check_counts(schedule, counts));
  PLEACH_ASSIGN(explicit_form, expand(schedule, nullptr, kMaxScheduleMoves));
  PiecedSchedule pieced{std::move(explicit_form), {}, {}};
  const std::vector<std::vector<RankPiece>> pieces = pieces_by_rank(counts, n);
  for (const std::vector<RankPiece>& own : pieces) {
    pieced.shards.push_back(own.back().shard_end);
  }
  const ChunkGrid& grid = schedule.chunks;
  const int64_t part_weight = grid.total() / schedule.rank_count();  // exact: parts begin at chunks
  std::vector<int32_t> first = {0};  // by old chunk, and the end: where it begins among the new
  for (int32_t chunk = 0; chunk < grid.count(); ++chunk) {
    const std::size_t rank = at(grid.cumulative(chunk) / part_weight);
    const int64_t behind = grid.cumulative(chunk) - static_cast<int64_t>(rank) * part_weight;
    const auto boundary = [&](int64_t weight) {
      const __int128 product = static_cast<__int128>(pieced.shards[rank]) * weight;
      return static_cast<int64_t>(product / part_weight);
    };
    cut_chunk(pieces[rank], boundary(behind), boundary(behind + grid.weight(chunk)), most,
              pieced.places);
    if (pieced.places.size() > kMostChunks) {
      return invalid(fmt::format("{} pieces make over {} chunks", counts.size() / n, kMostChunks));
    }
    first.push_back(count_of(pieced.places));
  }
  if (grid.total() > INT64_MAX / count_of(pieced.places)) {
    return invalid(fmt::format("a grid of {} cannot be cut into {} chunks", grid.total(),
                               pieced.places.size()));
  }
  int64_t move_count = 0;
  std::vector<Transfer> transfers;
  for (Transfer transfer : pieced.schedule.transfers) {
    const int32_t end = first[at(transfer.first_chunk + transfer.chunk_count)];
    transfer.first_chunk = first[at(transfer.first_chunk)];
    transfer.chunk_count = end - transfer.first_chunk;
    move_count += transfer.chunk_count;
    if (move_count > kMaxScheduleMoves) {
      return invalid(fmt::format("{} pieces make over {} moves of chunks", counts.size() / n,
                                 kMaxScheduleMoves));
    }
    split_transfer(transfer, pieced.places, most, transfers);
  }
  pieced.schedule.transfers = std::move(transfers);
  sort_transfers(pieced.schedule);
  pieced.schedule.chunks = refined_grid(grid, first);
  return pieced;
}

}  // namespace pleach
