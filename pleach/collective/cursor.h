// Cursor: the reference semantics of a schedule in progress. Given what has been read and
// committed, says which sends may read and which arrivals may commit. Knows no credits, no clock
// and no I/O.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ranges>
#include <vector>

#include "pleach/base/check.h"
#include "pleach/base/index.h"
#include "pleach/collective/order.h"

namespace pleach {

// Borrows `order`. Not thread safe. State: two counters per slot, segment and translate. Every slot
// goes by (translate, segment) so that one template serves all translates of a symmetric schedule;
// a plain schedule has one translate.
//
// An executor calls may_read before it takes a segment from its sources and finish_read when those
// may be overwritten; may_commit when a chunk has arrived and finish_commit when it is in place.
class Cursor {
 public:
  Cursor(const Order& order, int32_t segment_count, int32_t translate_count = 1)
      : order_(order),
        segments_(segment_count),
        translates_(translate_count),
        counts_(at(order.slot_count()) * at(segments_) * at(translates_)) {
    static_assert(kMaxSlotEvents <= UINT16_MAX);
    PLEACH_CHECK(order.max_slot_events() <= kMaxSlotEvents, "a slot has as many events as may be");
  }

  const Order& order() const { return order_; }

  // Whether the order permits one chunk of a stream to leave one source now.
  bool may_read(const Read& read, int32_t segment, int32_t translate = 0) const {
    return count(read.slot, segment, translate).commits == read.after_commits;
  }
  // Whether it permits the whole stream to start: all chunks at all sources. Chunks commit in their
  // order mostly, so that the last one is what a stream lacks until the end: it is looked at first.
  bool may_start(int32_t stream, int32_t segment, int32_t translate = 0) const {
    return std::ranges::all_of(order_.reads(stream) | std::views::reverse, [&](const Read& read) {
      return may_read(read, segment, translate);
    });
  }
  void finish_read(const Read& read, int32_t segment, int32_t translate = 0) {
    ++count(read.slot, segment, translate).reads;
  }
  bool may_commit(const Commit& commit, int32_t segment, int32_t translate = 0) const {
    const Counts& now = count(commit.slot, segment, translate);
    return now.commits == commit.after_commits && now.reads == commit.after_reads;
  }
  void finish_commit(const Commit& commit, int32_t segment, int32_t translate = 0) {
    ++count(commit.slot, segment, translate).commits;
  }
  int32_t commits(int32_t slot, int32_t segment, int32_t translate = 0) const {
    return count(slot, segment, translate).commits;
  }
  int32_t reads(int32_t slot, int32_t segment, int32_t translate = 0) const {
    return count(slot, segment, translate).reads;
  }

 private:
  struct Counts {
    uint16_t reads = 0;
    uint16_t commits = 0;
  };
  std::size_t index(int32_t slot, int32_t segment, int32_t translate) const {
    return (at(slot) * at(segments_) + at(segment)) * at(translates_) + at(translate);
  }
  Counts& count(int32_t slot, int32_t segment, int32_t translate) {
    return counts_[index(slot, segment, translate)];
  }
  const Counts& count(int32_t slot, int32_t segment, int32_t translate) const {
    return counts_[index(slot, segment, translate)];
  }

  const Order& order_;
  int32_t segments_;
  int32_t translates_;
  std::vector<Counts> counts_;
};

}  // namespace pleach
