#include "pleach/collective/placement.h"

#include <fmt/format.h>

namespace pleach {
namespace {

// floor(position · parts / total): which of `parts` equal parts of the grid the chunk starts in.
int64_t part_of(const ChunkGrid& grid, int32_t chunk, int64_t parts) {
  return static_cast<int64_t>(static_cast<__int128>(grid.cumulative(chunk)) * parts / grid.total());
}

struct Block {  // all_to_all: from rank `source` to rank `target`
  int64_t source = 0;
  int64_t target = 0;
};

Block block_of(const ChunkGrid& grid, int32_t chunk, int64_t rank_count) {
  const int64_t block = part_of(grid, chunk, rank_count * rank_count);
  return {block / rank_count, block % rank_count};
}

Interval moved(const Interval& interval, int64_t origin) {
  return {interval.begin - origin, interval.end - origin};
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

Result<Placement> Placement::create(const Schedule& schedule,
                                    std::span<const int64_t> part_counts) {
  const int64_t parts = part_count(schedule.collective, schedule.rank_count());
  if (!has_parts(schedule.collective)) {
    return invalid(
        fmt::format("{} has no parts with counts of their own", to_text(schedule.collective)));
  }
  if (std::ssize(part_counts) != parts) {
    return invalid(fmt::format("{} counts for the {} parts of {} on {} ranks", part_counts.size(),
                               parts, to_text(schedule.collective), schedule.rank_count()));
  }
  PLEACH_ASSIGN(placement, create(schedule, 0));
  placement.part_begins_ = {0};
  placement.part_begins_.reserve(part_counts.size() + 1);
  for (const int64_t count : part_counts) {
    if (count < 0) {
      return invalid(fmt::format("count {} is negative", count));
    }
    if (count > INT64_MAX - placement.count_) {
      return invalid("the counts of all parts are too large");
    }
    placement.count_ += count;
    placement.part_begins_.push_back(placement.count_);
  }
  return placement;
}

Placement Placement::create(const PiecedSchedule& pieced) {
  Placement placement = *create(pieced.schedule, pieced.shards);
  placement.places_ = &pieced.places;
  return placement;
}

BufferSizes Placement::sizes(Rank rank) const {
  const int64_t n = rank_count_;
  if (collective_ == CollectiveKind::kAllToAll) {
    return {part_begin(n * (rank.value + 1)) - part_begin(n * rank.value),
            output_origin(Rank{rank_count_}, rank)};
  }
  const int64_t shard = part_begin(rank.value + 1) - part_begin(rank.value);
  return {gives_shards(collective_) ? shard : count_,
          ends_with_shards(collective_) ? shard : count_};
}

int64_t Placement::part_begin(int64_t part) const {
  if (!part_begins_.empty()) {
    return part_begins_[at(part)];
  }
  const bool is_exchange = collective_ == CollectiveKind::kAllToAll;
  return is_exchange ? count_ / rank_count_ * part
                     : segment_boundary(0, count_, static_cast<int32_t>(part), rank_count_);
}

int64_t Placement::part_of(int32_t chunk) const {
  return pleach::part_of(*grid_, chunk, part_count(collective_, rank_count_));
}

int64_t Placement::begin(int32_t chunk) const {
  if (places_ != nullptr) {
    return (*places_)[at(chunk)].whole_begin;
  }
  if (part_begins_.empty()) {
    const bool is_exchange = collective_ == CollectiveKind::kAllToAll;
    return grid_->boundary(chunk, is_exchange ? count_ * rank_count_ : count_);
  }
  const auto parts = std::ssize(part_begins_) - 1;
  const int64_t weight = grid_->total() / parts;  // exact: parts begin at chunks
  const int64_t part = grid_->cumulative(chunk) / weight;
  const int64_t behind = grid_->cumulative(chunk) % weight;
  if (behind == 0) {
    return part_begins_[at(part)];
  }
  const int64_t length = part_begins_[at(part) + 1] - part_begins_[at(part)];
  return part_begins_[at(part)] +
         static_cast<int64_t>(static_cast<__int128>(length) * behind / weight);
}

int64_t Placement::length(int32_t chunk) const {
  return places_ != nullptr ? (*places_)[at(chunk)].length : begin(chunk + 1) - begin(chunk);
}

Interval Placement::in_whole(int32_t chunk) const {
  const int64_t first = begin(chunk);
  return {first, first + length(chunk)};
}

Interval Placement::in_shard(Rank rank, int32_t chunk) const {
  if (places_ == nullptr) {
    return moved(in_whole(chunk), part_begin(rank.value));
  }
  const ChunkPlace& place = (*places_)[at(chunk)];
  return {place.shard_begin, place.shard_begin + place.length};
}

// all_to_all: where the block from `source` begins in the output of `target`.
int64_t Placement::output_origin(Rank source, Rank target) const {
  if (part_begins_.empty()) {
    return count_ / rank_count_ * source.value;
  }
  int64_t begin = 0;
  for (int64_t block = target.value; block < int64_t{source.value} * rank_count_;
       block += rank_count_) {
    begin += part_begin(block + 1) - part_begin(block);
  }
  return begin;
}

std::optional<Interval> Placement::input(Rank rank, int32_t chunk) const {
  const Interval whole = in_whole(chunk);
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
      if (part_of(chunk) != rank.value) {
        return std::nullopt;
      }
      return in_shard(rank, chunk);
    case CollectiveKind::kAllToAll:
      if (block_of(*grid_, chunk, rank_count_).source != rank.value) {
        return std::nullopt;
      }
      return moved(whole, part_begin(int64_t{rank.value} * rank_count_));
  }
  return std::nullopt;
}

std::optional<Interval> Placement::output(Rank rank, int32_t chunk) const {
  const Interval whole = in_whole(chunk);
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
      if (part_of(chunk) != rank.value) {
        return std::nullopt;
      }
      return in_shard(rank, chunk);
    case CollectiveKind::kAllToAll: {
      const Block block = block_of(*grid_, chunk, rank_count_);
      if (block.target != rank.value) {
        return std::nullopt;
      }
      const int64_t begin = part_begin(block.source * rank_count_ + block.target);
      const int64_t origin = output_origin(Rank{static_cast<int32_t>(block.source)}, rank);
      return moved(whole, begin - origin);
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

bool has_parts(CollectiveKind collective) {
  return gives_shards(collective) || ends_with_shards(collective) ||
         collective == CollectiveKind::kAllToAll;
}

int64_t part_count(CollectiveKind collective, int64_t rank_count) {
  if (collective == CollectiveKind::kAllToAll) {
    return rank_count * rank_count;
  }
  return has_parts(collective) ? rank_count : 1;
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
