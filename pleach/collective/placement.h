// Placement: where a chunk lies in each rank's input and output.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "pleach/base/collective_kind.h"
#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/collective/chunk_grid.h"
#include "pleach/collective/pieces.h"
#include "pleach/collective/schedule.h"

namespace pleach {

struct Interval {  // elements
  int64_t begin = 0;
  int64_t end = 0;
  bool operator==(const Interval&) const = default;
};

// Elements of one rank's input and output buffer when the collective's whole is `count`.
struct BufferSizes {
  int64_t input = 0;
  int64_t output = 0;
};

// Where the chunks of one collective lie. `count` is the whole buffer of one rank [elements]:
//   - all_reduce, broadcast, reduce: input count, output count;
//   - reduce_scatter, scatter: input count, output shard r = [floor(count·r/n),
//     floor(count·(r+1)/n));
//   - all_gather, gather: input shard r, output count;
//   - all_to_all: input count, output count; count is a multiple of n; the chunk grid covers
//     n·count elements, source rank major: block (i, j) goes from rank i's block j to rank j's
//     block i.
// Where parts have counts of their own, the whole is those parts, one behind the other, and so is
// every buffer that holds several. A chunk that lies between w and w' of the W that its part weighs
// covers [floor(L·w/W), floor(L·w'/W)) of its L elements.
// Pure; borrows the schedule's grid.
class Placement {
 public:
  // Precondition: check_form found nothing. Errors: kInvalidArgument: negative count; all_to_all
  // with count not a multiple of n, or n·count beyond int64.
  static Result<Placement> create(const Schedule& schedule, int64_t count);
  // Of a collective that has parts: as many counts as part_count() says. Those of an all_to_all are
  // of the blocks (i, j), i major; a rank that knows those that it sends and receives, and takes
  // the others for empty, places its own chunks right. Errors: kInvalidArgument: another number of
  // counts, a negative one, a sum beyond int64.
  static Result<Placement> create(const Schedule& schedule, std::span<const int64_t> part_counts);
  // In pieces (pieces.h). Borrows it; then begin() is where a chunk lies in the whole, and
  // part_begin() only measures shards: they lie in no one place there.
  static Placement create(const PiecedSchedule& pieced);

  bool is_pieced() const { return places_ != nullptr; }
  BufferSizes sizes(Rank rank) const;
  // The rank's own contribution to the chunk, in its input buffer.
  std::optional<Interval> input(Rank rank, int32_t chunk) const;
  // Where the rank's result of the chunk belongs, in its output buffer.
  std::optional<Interval> output(Rank rank, int32_t chunk) const;
  // Elements of the chunk.
  int64_t length(int32_t chunk) const;
  // First element of the chunk, or of the part, in the collective's whole space.
  int64_t begin(int32_t chunk) const;
  int64_t part_begin(int64_t part) const;
  // The part that the chunk lies in.
  int64_t part_of(int32_t chunk) const;

 private:
  int64_t output_origin(Rank source, Rank target) const;
  Interval in_whole(int32_t chunk) const;
  Interval in_shard(Rank rank, int32_t chunk) const;

  CollectiveKind collective_ = CollectiveKind::kAllReduce;
  Rank root_;
  int32_t rank_count_ = 1;
  const ChunkGrid* grid_ = nullptr;
  int64_t count_ = 0;
  std::vector<int64_t> part_begins_;  // by part, and the end; empty: equal parts of the count
  const std::vector<ChunkPlace>* places_ = nullptr;  // null: chunks lie as the grid says
};

// Equal parts of the space whose chunks have a source or an owner of their own: n, n² for
// all_to_all, 1 where all chunks fare alike.
bool has_parts(CollectiveKind collective);
int64_t part_count(CollectiveKind collective, int64_t rank_count);
// The same questions without sizes: does the rank start with / end with the chunk?
bool has_input(const Schedule& schedule, Rank rank, int32_t chunk);
bool has_output(const Schedule& schedule, Rank rank, int32_t chunk);
// The only rank that starts with the chunk; nothing where all do, to reduce it.
std::optional<Rank> chunk_source(const Schedule& schedule, int32_t chunk);
// The only rank that ends with the chunk; nothing where all do.
std::optional<Rank> chunk_destination(const Schedule& schedule, int32_t chunk);

}  // namespace pleach
