// ScheduleTable: a schedule as the network interfaces of MultiTree hold it: for every rank a list
// of entries by step, each of which says what to send and for whose messages to wait.
//
//   Reduce  one message to the parent, which reduces it, when the children's have been reduced here
//   Gather  the same chunks to all children of the step, when they have come from the parent
//   NOP     a step in which the rank sends nothing, though it does in a later one: a gate that
//   keeps
//           to steps holds it open
//
// Every stream of the schedule is in one entry. Entries of a rank are sorted by (step, first
// chunk), as priority does, then by length, opcode and target. A list is that of one segment: an
// interface walks it again for every segment, with slots segment · period + step.
//
// Source: MultiTree (ISCA 2021), section IV. There a flow is a tree, which has one chunk, and so
// are messages; what stands for schedules of any kind:
//   * The flow of an entry is its first chunk. In MultiTree that is the tree; anywhere else it
//   sorts
//     the entries of a step as priority sorts what may be sent. An arrival clears the entries that
//     have a chunk with it in common: where messages have several chunks, flows alone do not tell.
//   * A Reduce has one parent: of an exchange each target has an entry of its own. A Gather has
//     several parents where chunks of its message came in several.
//   * A rank is through with one phase before it begins the next, so an entry names whom it waits
//   for
//     in its own phase only: a root gathers what it has reduced without a parent. What it waits for
//     at the end of a phase beyond that, as no entry of the phase does, stands in ends(). (The
//     authors' simulator has an entry without parent for it, in the root's list.)
//   * Whoever does without phases waits for commits(), which say what the Order says, wholly. What
//     the Order asks of arrivals (that what they overwrite has been read) no entry knows: it is up
//     to whoever takes messages in.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/collective/order.h"
#include "pleach/collective/placement.h"
#include "pleach/collective/schedule.h"

namespace pleach {

enum class TableOp : uint8_t { kReduce, kGather, kNop };
std::string_view to_text(TableOp op);  // "reduce", "gather", "nop"

struct TableEntry {
  struct List {  // a part of what its table has of the kind
    int32_t first = 0, count = 0;
  };
  TableOp op = TableOp::kNop;
  int32_t step = 0;
  int32_t first_chunk = 0;  // also the flow
  int32_t chunk_count = 0;  // of a NOP 0
  List sends = {}, awaited = {}, commits = {};
  int32_t flow() const { return first_chunk; }
};

// Immutable. Borrows nothing; its numbers of streams and commits are the Order's.
class ScheduleTable {
 public:
  // Preconditions: check_form found nothing, check_switchless is content, and the schedule has no
  // symmetry (expand() writes it out). Cost: O(chunks moved · log), and for each chunk of an entry
  // its arrivals in the phase.
  static ScheduleTable build(const Schedule& schedule, const Order& order);

  int32_t rank_count() const { return rank_count_; }
  int32_t phase_count() const { return phase_count_; }
  std::span<const TableEntry> entries(int32_t rank) const {
    return slice(entries_, first_entry_[at(rank)], first_entry_[at(rank + 1)]);
  }
  // What the rank awaits at the end of a phase that is not the last: the chunks that arrive in it
  // and that no entry of it sends on. They send nothing, and their step is the next phase's first.
  std::span<const TableEntry> ends(int32_t rank, int32_t phase) const {
    const int32_t index = rank * phase_count_ + phase;
    return slice(ends_, first_end_[at(index)], first_end_[at(index + 1)]);
  }

  // Streams of an entry, one for each target, and these ranks, ascending.
  std::span<const int32_t> streams(const TableEntry& entry) const {
    return slice(streams_, entry.sends);
  }
  std::span<const int32_t> targets(const TableEntry& entry) const {
    return slice(targets_, entry.sends);
  }
  // The ranks whose messages it waits for in its own phase, ascending: those that the value which
  // it sends is made of, from the last copy on.
  std::span<const int32_t> awaited(const TableEntry& entry) const {
    return slice(awaited_, entry.awaited);
  }
  // Commits of the Order, of this phase or earlier ones: for each of its chunks that arrives before
  // the step, the last to arrive, which is the last to commit. It may be sent when they all have.
  std::span<const int32_t> commits(const TableEntry& entry) const {
    return slice(commits_, entry.commits);
  }
  // The two fields that a table has for the ranks of targets() and awaited().
  std::span<const int32_t> parents(const TableEntry& entry) const {
    return entry.op == TableOp::kReduce ? targets(entry) : awaited(entry);
  }
  std::span<const int32_t> children(const TableEntry& entry) const {
    return entry.op == TableOp::kReduce ? awaited(entry) : targets(entry);
  }

 private:
  friend class ScheduleTableBuilder;
  template <typename T>
  static std::span<const T> slice(const std::vector<T>& all, int32_t first, int32_t end) {
    return std::span(all).subspan(at(first), at(end - first));
  }
  static std::span<const int32_t> slice(const std::vector<int32_t>& all, TableEntry::List list) {
    return std::span(all).subspan(at(list.first), at(list.count));
  }

  int32_t rank_count_ = 0;
  int32_t phase_count_ = 0;
  std::vector<TableEntry> entries_, ends_;
  std::vector<int32_t> first_entry_, first_end_;  // by rank; by rank and phase; and the end
  std::vector<int32_t> streams_, targets_, awaited_, commits_;
};

// What an entry sends, in the collective's whole space: bytes of a placement of bytes; null:
// chunks.
Interval interval_of(const TableEntry& entry, const Placement* placement);

// How wide an entry's fields are [bits]: the same for all entries of all ranks, as hardware has
// them, each as wide as the greatest value of any. Ranks are told from none: of n there are n + 1
// values. Several in one field are a list of as many places as the longest needs, or a bit for each
// rank where that is shorter.
struct TableWidths {
  int32_t opcode = 2;
  int32_t flow = 0;
  int32_t parent = 0;
  int32_t children = 0;
  int32_t step = 0;
  int32_t start = 0;  // of interval_of()
  int32_t size = 0;
  int32_t entry() const { return opcode + flow + parent + children + step + start + size; }
};
TableWidths widths_of(const ScheduleTable& table, const Placement* placement);

}  // namespace pleach
