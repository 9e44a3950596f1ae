#include "pleach/collective/placement.h"

#include <fmt/format.h>

namespace pleach {
namespace {

// floor(position · parts / total): which of `parts` equal parts of the grid the chunk starts in.
int64_t part_of(const ChunkGrid& grid, int32_t chunk, int64_t parts) {
  return static_cast<int64_t>(static_cast<__int128>(grid.cumulative(chunk)) * parts / grid.total());
}

// First element of part r of n of a buffer.
int64_t shard_begin(int64_t count, int64_t rank, int64_t rank_count) {
  return static_cast<int64_t>(static_cast<__int128>(count) * rank / rank_count);
}

struct Block {  // all_to_all: from rank `source` to rank `target`
  int64_t source = 0;
  int64_t target = 0;
};

Block block_of(const ChunkGrid& grid, int32_t chunk, int64_t rank_count) {
  const int64_t block = part_of(grid, chunk, rank_count * rank_count);
  return {block / rank_count, block % rank_count};
}

Interval moved(int64_t begin, int64_t length, int64_t origin) {
  return {begin - origin, begin - origin + length};
}

}  // namespace

Result<Placement> Placement::create(const Schedule& schedule, int64_t count) {
  if (count < 0) {
    return invalid(fmt::format("count {} is negative", count));
  }
  const int64_t rank_count = schedule.rank_count();
  if (schedule.collective == CollectiveKind::kAllToAll) {
    if (count % rank_count != 0) {
      return invalid(
          fmt::format("all_to_all of {} elements on {} ranks: the count must be a multiple "
                      "of the ranks",
                      count, rank_count));
    }
    if (count > INT64_MAX / rank_count) {
      return invalid(
          fmt::format("all_to_all of {} elements on {} ranks is too large", count, rank_count));
    }
  }
  Placement placement;
  placement.collective_ = schedule.collective;
  placement.root_ = schedule.root;
  placement.rank_count_ = schedule.rank_count();
  placement.grid_ = &schedule.chunks;
  placement.count_ = count;
  return placement;
}

BufferSizes Placement::sizes(Rank rank) const {
  const int64_t shard = shard_begin(count_, rank.value + int64_t{1}, rank_count_) -
                        shard_begin(count_, rank.value, rank_count_);
  return {gives_shards(collective_) ? shard : count_,
          ends_with_shards(collective_) ? shard : count_};
}

int64_t Placement::begin(int32_t chunk) const {
  const bool is_exchange = collective_ == CollectiveKind::kAllToAll;
  return grid_->boundary(chunk, is_exchange ? count_ * rank_count_ : count_);
}

int64_t Placement::length(int32_t chunk) const {
  return begin(chunk + 1) - begin(chunk);
}

std::optional<Interval> Placement::input(Rank rank, int32_t chunk) const {
  const Interval whole = {begin(chunk), begin(chunk + 1)};
  switch (collective_) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kReduce:
      return whole;
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kScatter:
      return rank == root_ ? std::optional(whole) : std::nullopt;
    case CollectiveKind::kAllGather:
    case CollectiveKind::kGather:
      if (part_of(*grid_, chunk, rank_count_) != rank.value) {
        return std::nullopt;
      }
      return moved(whole.begin, length(chunk), shard_begin(count_, rank.value, rank_count_));
    case CollectiveKind::kAllToAll:
      if (block_of(*grid_, chunk, rank_count_).source != rank.value) {
        return std::nullopt;
      }
      return moved(whole.begin, length(chunk), count_ * rank.value);
  }
  return std::nullopt;
}

std::optional<Interval> Placement::output(Rank rank, int32_t chunk) const {
  const Interval whole = {begin(chunk), begin(chunk + 1)};
  switch (collective_) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kAllGather:
    case CollectiveKind::kBroadcast:
      return whole;
    case CollectiveKind::kReduce:
    case CollectiveKind::kGather:
      return rank == root_ ? std::optional(whole) : std::nullopt;
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kScatter:
      if (part_of(*grid_, chunk, rank_count_) != rank.value) {
        return std::nullopt;
      }
      return moved(whole.begin, length(chunk), shard_begin(count_, rank.value, rank_count_));
    case CollectiveKind::kAllToAll: {
      const Block block = block_of(*grid_, chunk, rank_count_);
      if (block.target != rank.value) {
        return std::nullopt;
      }
      // Block (i, j) starts at (i·n + j)·b of the whole space and at i·b of rank j's output.
      const int64_t block_length = count_ / rank_count_;
      const int64_t origin = (block.source * (rank_count_ - 1) + block.target) * block_length;
      return moved(whole.begin, length(chunk), origin);
    }
  }
  return std::nullopt;
}

bool has_input(const Schedule& schedule, Rank rank, int32_t chunk) {
  return chunk_source(schedule, chunk).value_or(rank) == rank;
}

bool has_output(const Schedule& schedule, Rank rank, int32_t chunk) {
  return chunk_destination(schedule, chunk).value_or(rank) == rank;
}

int64_t part_count(CollectiveKind collective, int64_t rank_count) {
  if (collective == CollectiveKind::kAllToAll) {
    return rank_count * rank_count;
  }
  return gives_shards(collective) || ends_with_shards(collective) ? rank_count : 1;
}

std::optional<Rank> chunk_source(const Schedule& schedule, int32_t chunk) {
  const int32_t rank_count = schedule.rank_count();
  if (reduces(schedule.collective)) {
    return std::nullopt;
  }
  if (schedule.collective == CollectiveKind::kAllToAll) {
    return Rank{static_cast<int32_t>(block_of(schedule.chunks, chunk, rank_count).source)};
  }
  return gives_shards(schedule.collective)
             ? Rank{static_cast<int32_t>(part_of(schedule.chunks, chunk, rank_count))}
             : schedule.root;
}

std::optional<Rank> chunk_destination(const Schedule& schedule, int32_t chunk) {
  const int32_t rank_count = schedule.rank_count();
  switch (schedule.collective) {
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kScatter:
      return Rank{static_cast<int32_t>(part_of(schedule.chunks, chunk, rank_count))};
    case CollectiveKind::kReduce:
    case CollectiveKind::kGather:
      return schedule.root;
    case CollectiveKind::kAllToAll:
      return Rank{static_cast<int32_t>(block_of(schedule.chunks, chunk, rank_count).target)};
    default:
      return std::nullopt;
  }
}

}  // namespace pleach
