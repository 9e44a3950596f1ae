// Order: a schedule's streams and, per slot, the order of reads and commits that makes every legal
// interleaving give the same bits. The tables that Cursor, verifier, simulators and Program share.
//
// A slot is (rank, chunk). Its events are sorted by step, sends before arrivals, arrivals of one
// step by the smallest source rank of their stream. From that order every rule becomes a counter:
//   a read (a send of c out of v at step s) waits until `after_commits` arrivals of c at v, all
//     those of smaller step, have committed;
//   a commit (an arrival of c at v) waits until `after_commits` arrivals of c at v, all those
//     before it, have committed and `after_reads` sends of c out of v, all those of its step or an
//     earlier one, have been read.
// While a slot keeps these, its counts never overshoot: so "at least" may be tested as "equal".
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/result.h"
#include "pleach/collective/schedule.h"

namespace pleach {

// What moves atomically: a plain transfer, or a maximal chain of transfers joined at switches.
struct Stream {
  int32_t first_chunk = 0;
  int32_t chunk_count = 1;
  int32_t step = 0;
  TransferOp op = TransferOp::kCopy;  // at the targets
};

// One chunk of a stream leaving one of its sources.
struct Read {
  int32_t slot = 0;
  int32_t stream = 0;
  int32_t after_commits = 0;
};

// One chunk of a stream arriving at one of its targets.
struct Commit {
  int32_t slot = 0;
  int32_t stream = 0;
  int32_t after_commits = 0;  // also its place among the slot's arrivals
  int32_t after_reads = 0;
};

// A read as its slot sees it.
struct SlotRead {
  int32_t stream = 0;
  int32_t after_commits = 0;
};

struct Slot {
  int32_t rank = 0;
  int32_t chunk = 0;
};

// Immutable. For a symmetric schedule the tables describe the representative chunks ("template");
// translate g of slot (rank, chunk) is the slot of rank + g and the translated chunk.
class Order {
 public:
  // Precondition: check_form(schedule, ...) found nothing. Streams are numbered in (step,
  // first_chunk, smallest source, smallest target) order. Cost: O(transfers · chunks log).
  static Order build(const Schedule& schedule);

  int32_t stream_count() const { return count_of(streams_); }
  const Stream& stream(int32_t stream) const { return streams_[at(stream)]; }
  // Ranks, ascending.
  std::span<const int32_t> sources(int32_t stream) const {
    return slice(sources_, first_[at(stream)].source, first_[at(stream + 1)].source);
  }
  std::span<const int32_t> targets(int32_t stream) const {
    return slice(targets_, first_[at(stream)].target, first_[at(stream + 1)].target);
  }
  // The transfers of the schedule that the stream is made of.
  std::span<const int32_t> transfers(int32_t stream) const {
    return slice(transfers_, first_[at(stream)].transfer, first_[at(stream + 1)].transfer);
  }
  // Reads are source-major: read of source i and chunk k is reads(s)[i · chunk_count + k].
  std::span<const Read> reads(int32_t stream) const {
    return slice(reads_, first_[at(stream)].read, first_[at(stream + 1)].read);
  }
  int32_t first_read(int32_t stream) const { return first_[at(stream)].read; }
  // Commits are target-major, likewise.
  std::span<const Commit> commits(int32_t stream) const {
    return slice(commits_, first_[at(stream)].commit, first_[at(stream + 1)].commit);
  }
  int32_t first_commit(int32_t stream) const { return first_[at(stream)].commit; }
  const Read& read(int32_t index) const { return reads_[at(index)]; }
  const Commit& commit(int32_t index) const { return commits_[at(index)]; }
  int32_t read_count() const { return count_of(reads_); }
  int32_t commit_count() const { return count_of(commits_); }

  int32_t slot_count() const { return count_of(slots_.all); }
  // Sorted by (chunk, rank).
  const Slot& slot(int32_t slot) const { return slots_.all[at(slot)]; }
  // The slot's reads, by after_commits; indices of its commits, in their order.
  std::span<const SlotRead> slot_reads(int32_t slot) const {
    return slice(slots_.reads, slots_.first[at(slot)].read, slots_.first[at(slot + 1)].read);
  }
  std::span<const int32_t> slot_commits(int32_t slot) const {
    return slice(slots_.commits, slots_.first[at(slot)].commit, slots_.first[at(slot + 1)].commit);
  }
  // Largest number of reads or of commits of one slot.
  int32_t max_slot_events() const { return slots_.most_events; }

 private:
  struct First {  // where a stream's entries start
    int32_t source = 0, target = 0, transfer = 0, read = 0, commit = 0;
  };
  struct SlotFirst {
    int32_t read = 0, commit = 0;
  };
  struct Slots {
    std::vector<Slot> all;
    std::vector<SlotFirst> first;  // slot_count + 1
    std::vector<SlotRead> reads;
    std::vector<int32_t> commits;
    int32_t most_events = 0;
  };
  template <typename T>
  static std::span<const T> slice(const std::vector<T>& all, int32_t first, int32_t end) {
    return std::span(all).subspan(at(first), at(end - first));
  }
  void add_stream(const Stream& stream, std::span<const int32_t> sources,
                  std::span<const int32_t> targets, std::span<const int32_t> transfers);
  void order_slots();

  std::vector<Stream> streams_;
  std::vector<First> first_;  // stream_count + 1
  std::vector<int32_t> sources_, targets_, transfers_;
  std::vector<Read> reads_;
  std::vector<Commit> commits_;
  Slots slots_;
};

}  // namespace pleach
