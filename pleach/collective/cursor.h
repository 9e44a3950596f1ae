// Cursor: the reference semantics of a schedule in progress. Given what has been read and
// committed, says which sends may read and which arrivals may commit. Knows no credits, no clock
// and no I/O.
#pragma once

#include <cstdint>
#include <vector>

#include "pleach/base/check.h"
#include "pleach/base/index.h"
#include "pleach/collective/order.h"

namespace pleach {

// Borrows `order`. Not thread safe. State: two counters per slot, segment and instance. Every slot
// goes by (instance, segment) so that one template serves all translates of a symmetric schedule;
// a plain schedule has one instance.
//
// An executor calls may_read before it takes a segment from its sources and finish_read when those
// may be overwritten; may_commit when a chunk has arrived and finish_commit when it is in place.
class Cursor {
 public:
  Cursor(const Order& order, int32_t segment_count, int32_t instance_count = 1)
      : order_(order),
        segments_(segment_count),
        instances_(instance_count),
        counts_(at(order.slot_count()) * at(segments_) * at(instances_)) {
    PLEACH_CHECK(order.max_slot_events() <= UINT16_MAX, "a slot has more events than a counter");
  }

  const Order& order() const { return order_; }

  // Whether the order permits one chunk of a stream to leave one source now.
  bool may_read(const Read& read, int32_t segment, int32_t instance = 0) const {
    return count(read.slot, segment, instance).commits == read.after_commits;
  }
  // Whether it permits the whole stream to start: all chunks at all sources.
  bool may_start(int32_t stream, int32_t segment, int32_t instance = 0) const {
    for (const Read& read : order_.reads(stream)) {
      if (!may_read(read, segment, instance)) {
        return false;
      }
    }
    return true;
  }
  void finish_read(const Read& read, int32_t segment, int32_t instance = 0) {
    ++count(read.slot, segment, instance).reads;
  }
  bool may_commit(const Commit& commit, int32_t segment, int32_t instance = 0) const {
    const Counts& now = count(commit.slot, segment, instance);
    return now.commits == commit.after_commits && now.reads == commit.after_reads;
  }
  void finish_commit(const Commit& commit, int32_t segment, int32_t instance = 0) {
    ++count(commit.slot, segment, instance).commits;
  }
  int32_t commits(int32_t slot, int32_t segment, int32_t instance = 0) const {
    return count(slot, segment, instance).commits;
  }
  int32_t reads(int32_t slot, int32_t segment, int32_t instance = 0) const {
    return count(slot, segment, instance).reads;
  }

 private:
  struct Counts {
    uint16_t reads = 0;
    uint16_t commits = 0;
  };
  std::size_t index(int32_t slot, int32_t segment, int32_t instance) const {
    return (at(slot) * at(segments_) + at(segment)) * at(instances_) + at(instance);
  }
  Counts& count(int32_t slot, int32_t segment, int32_t instance) {
    return counts_[index(slot, segment, instance)];
  }
  const Counts& count(int32_t slot, int32_t segment, int32_t instance) const {
    return counts_[index(slot, segment, instance)];
  }

  const Order& order_;
  int32_t segments_;
  int32_t instances_;
  std::vector<Counts> counts_;
};

}  // namespace pleach
