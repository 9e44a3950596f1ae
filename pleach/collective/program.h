// Program: a schedule lowered for one rank, one size and one buffer arrangement.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/result.h"
#include "pleach/collective/order.h"
#include "pleach/collective/pieces.h"
#include "pleach/collective/placement.h"
#include "pleach/collective/schedule.h"

namespace pleach {

enum class Buffer : uint8_t { kNone, kInput, kOutput, kScratch };

// Elements [offset, offset + length of the chunk) of a buffer.
struct Location {
  Buffer buffer = Buffer::kNone;
  int64_t offset = 0;
};

// One chunk on this rank. Before its first commit its value is at `initial`, after it at `home`;
// the first reduce writes home = initial + arrival, so inputs are never written.
struct ProgramSlot {
  int32_t chunk = 0;
  int64_t length = 0;  // elements
  Location initial = {};
  Location home = {};
  // Where the value must be copied when the whole operation is done: from home when something was
  // committed, else from initial. kNone: it is already in place or not wanted.
  Location result = {};
  // Scratch of `scratch_segments` segments, reused in turn (segment k at k mod scratch_segments);
  // the first commit of segment k waits for all of the slot's reads and commits of segment
  // k - scratch_segments. Each has room for scratch_stride elements.
  int32_t scratch_segments = 0;  // 0: home holds the whole chunk
  int64_t scratch_stride = 0;
  int32_t commit_count = 0;  // of one segment
  int32_t read_count = 0;
  int32_t segment_count = 1;  // as its messages have
};

// Part of a message: one chunk, and the counter the order makes it wait for.
struct ProgramRead {
  int32_t slot = 0;
  int32_t after_commits = 0;
  int32_t record_item = 0;  // the read's index in the Order, for records
};
struct ProgramCommit {
  int32_t slot = 0;
  int32_t after_commits = 0;
  int32_t after_reads = 0;
  int32_t step = 0;  // commits of one slot and step may be fused, in order
  int32_t record_item = 0;
  // How many arrivals of its slot and step fold before the slot's own value; these commit when all
  // of their step are there.
  int32_t before_own = 0;
};

struct ProgramMessage {
  int32_t stream = 0;  // the same number on both ranks
  Rank peer;
  int32_t step = 0;
  int32_t first_chunk = 0;
  TransferOp op = TransferOp::kCopy;
  int32_t first_item = 0;  // of Program::reads (a send) or Program::commits (a receive)
  int32_t item_count = 0;
  int32_t segment_count = 1;
  int32_t translate = 0;    // of a symmetric schedule, for records
  bool may_borrow = false;  // a send that its target may read where it stands
};

struct ProgramOptions {
  Rank rank;
  int64_t count = 0;  // whole buffer [elements]
  int32_t segment_count = 1;
  // In place of the count: of each part, as Placement wants them. An all_to_all that
  // moves_directly() may also have segments by part.
  std::span<const int64_t> part_counts = {};
  std::span<const int32_t> part_segments = {};
  // Input and output are the same buffer; then every offset is into it, as Buffer::kOutput
  // (where there are shards: it is the whole, and the shard lies at its place in it).
  bool in_place = false;
};

// Limit on (slots + reads + commits) × segments of one program.
inline constexpr int64_t kMaxProgramEvents = int64_t{1} << 28;

struct Program {
  std::vector<ProgramSlot> slots;
  std::vector<ProgramMessage> sends;     // by (peer, step, first_chunk)
  std::vector<ProgramMessage> receives;  // by (peer, step, first_chunk)
  std::vector<ProgramRead> reads;
  std::vector<ProgramCommit> commits;
  int64_t scratch_elements = 0;
  int32_t period = 1;
  int32_t segment_count = 1;  // the most that a message has
  // Of an all_to_all with counts by part: what the rank exchanges with each other one [elements].
  struct Exchange {
    Rank peer;
    int64_t sent = 0;
    int64_t received = 0;
  };
  Rank rank;
  std::vector<Exchange> exchanges;  // by peer

  // The segment's elements within the chunk.
  Interval segment(const ProgramSlot& slot, int32_t segment) const {
    if (slot.segment_count == 1) {
      return {0, slot.length};
    }
    return {segment_boundary(0, slot.length, segment, slot.segment_count),
            segment_boundary(0, slot.length, segment + 1, slot.segment_count)};
  }
  // With that peer; of nothing where there is none.
  Exchange exchange(Rank peer) const;
  // Whether what is read is never written: it may be read whenever, also once the slot has moved
  // on.
  bool is_constant(const ProgramRead& read) const {
    return read.after_commits == 0 && slots[at(read.slot)].initial.buffer == Buffer::kInput;
  }
  // Names the ranks by other numbers, distinct ones, and puts the messages in their order.
  //   names  by the rank that it was lowered for
  void rename_ranks(std::span<const Rank> names);
  // Offset of the segment in the buffer of slot.home.
  int64_t home_offset(const ProgramSlot& slot, int32_t segment) const;
};

// Errors: kUnsupported naming a switch that would have to reduce or multicast. Cost: O(transfers)
// where all are between ranks.
//   schedule  well formed
Status check_switchless(const Schedule& schedule);

// Whether every message of an all_to_all goes from where its chunks come from to where they belong.
//   schedule  verified
bool moves_directly(const Schedule& schedule);

// Lowers `schedule` for one rank. A symmetric schedule is lowered for that rank only.
//   schedule  verified; `order` is its Order
//   errors    kUnsupported: as check_switchless; kInvalidArgument: rank, size or segments out of
//             range
//   cost      O(transfers held + chunks); symmetric ones are not expanded
Result<Program> lower(const Schedule& schedule, const Order& order, const ProgramOptions& options);
// The same of a schedule in pieces, which has its counts; the options have none.
//   order  that of pieced.schedule
Result<Program> lower(const PiecedSchedule& pieced, const Order& order,
                      const ProgramOptions& options);

}  // namespace pleach
