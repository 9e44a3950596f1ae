// LaneWheel: what is due in one of the next cycles, by cycle, where there are a few delays.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "pleach/base/index.h"

namespace pleach {

// Events of some kinds, which are added in the cycle under way and are due after one of a few
// delays. Kind and delay are a lane, whose number who adds has: adding is then a store, to where
// the lane's events of this cycle go. Memory is used again: none is asked for once the fullest
// cycles have been seen.   cost  O(1) per event, less than a TimeWheel's; O(lanes) per cycle
template <typename Event>
class LaneWheel {
 public:
  explicit LaneWheel(int64_t longest_delay = 1, std::size_t kinds = 1) : buckets_(kinds) {
    std::size_t size = 2;
    while (size <= at(longest_delay)) {
      size *= 2;
    }
    for (auto& buckets : buckets_) {
      buckets.resize(size);
    }
    last_ = size - 1;
  }

  // `delay` is 1 to the longest one, or, where nothing is added, any.
  uint32_t lane(uint32_t kind, int32_t delay) {
    for (uint32_t lane = 0; lane < lanes_.size(); ++lane) {
      if (lanes_[lane].kind == kind && lanes_[lane].delay == delay) {
        return lane;
      }
    }
    lanes_.push_back({.kind = kind, .delay = delay});
    return static_cast<uint32_t>(lanes_.size() - 1);
  }

  // Begins a cycle, and ends it: in between is what follows.
  void open(int64_t cycle) {
    for (Lane& lane : lanes_) {
      lane.bucket = &buckets_[lane.kind][at(cycle + lane.delay) & last_];
      lane.set_ends(lane.bucket->count);
    }
  }
  void close() {
    for (Lane& lane : lanes_) {
      lane.bucket->count = static_cast<uint32_t>(lane.end - lane.bucket->events.get());
    }
  }
  void add(uint32_t lane, const Event& event) { add_if(lane, event, true); }
  // Adds it or not, without a branch.
  void add_if(uint32_t number, const Event& event, bool is_due) {
    Lane& lane = lanes_[number];
    if (lane.end == lane.limit) {
      lane.grow();
    }
    *lane.end = event;
    lane.end += is_due ? 1 : 0;
  }
  // Calls visit(event) for what is due in the cycle under way, in the order in which a lane's
  // events were added, and prefetch(event) somewhat earlier. visit may add others.
  //   returns  how many there were
  template <typename Visit, typename Prefetch>
  uint32_t take(std::size_t kind, int64_t cycle, Visit visit, Prefetch prefetch) {
    constexpr uint32_t kAhead = 6;
    Bucket& bucket = buckets_[kind][at(cycle) & last_];
    const uint32_t count = bucket.count;
    bucket.count = 0;
    const Event* const events = bucket.events.get();
    for (uint32_t i = 0; i < std::min(count, kAhead); ++i) {
      prefetch(events[i]);
    }
    uint32_t i = 0;
    for (; i + kAhead < count; ++i) {
      prefetch(events[i + kAhead]);
      visit(events[i]);
    }
    for (; i < count; ++i) {
      visit(events[i]);
    }
    return count;
  }
  template <typename Visit>
  uint32_t take(std::size_t kind, int64_t cycle, Visit visit) {
    return take(kind, cycle, visit, [](const Event&) {});
  }

  // Between cycles: one more that is due in `cycle`, which the longest delay reaches.
  void put(std::size_t kind, int64_t cycle, const Event& event) {
    Bucket& bucket = buckets_[kind][at(cycle) & last_];
    if (bucket.count == bucket.capacity) {
      bucket.grow(bucket.count);
    }
    bucket.events[bucket.count++] = event;
  }
  // Between cycles.   cost  O(events of the kind)
  template <typename Goes>
  void remove_if(std::size_t kind, Goes goes) {
    for (Bucket& bucket : buckets_[kind]) {
      Event* const begin = bucket.events.get();
      bucket.count =
          static_cast<uint32_t>(std::remove_if(begin, begin + bucket.count, goes) - begin);
    }
  }
  int32_t delay_of(uint32_t lane) const { return lanes_[lane].delay; }
  // Of these cycles events are kept: at least the longest delay, and one.
  int64_t size() const { return static_cast<int64_t>(last_ + 1); }

  // The first cycle from `cycle` on in which something is due, or `none`, when that is sooner or
  // nothing is. Between cycles.   cost  O(longest delay)
  int64_t next(int64_t cycle, int64_t none) const {
    for (const auto& buckets : buckets_) {
      for (std::size_t ahead = 0; ahead <= last_ && cycle + static_cast<int64_t>(ahead) < none;
           ++ahead) {
        if (buckets[(at(cycle) + ahead) & last_].count > 0) {
          none = cycle + static_cast<int64_t>(ahead);
        }
      }
    }
    return none;
  }
  // Between cycles.
  template <typename Visit>
  void for_each(std::size_t kind, Visit visit) const {
    for (const Bucket& bucket : buckets_[kind]) {
      for (uint32_t i = 0; i < bucket.count; ++i) {
        visit(bucket.events[i]);
      }
    }
  }

 private:
  struct Bucket {
    std::unique_ptr<Event[]> events;
    uint32_t count = 0, capacity = 0;

    [[gnu::noinline]] void grow(std::ptrdiff_t used) {
      capacity = std::max(16U, 2 * capacity);
      auto more = std::make_unique<Event[]>(capacity);
      std::copy_n(events.get(), used, more.get());
      events = std::move(more);
    }
  };
  struct Lane {
    Event* end = nullptr;  // of what has been added
    Event* limit = nullptr;
    Bucket* bucket = nullptr;
    uint32_t kind = 0;
    int32_t delay = 0;

    void set_ends(std::ptrdiff_t count) {
      end = bucket->events.get() + count;
      limit = bucket->events.get() + bucket->capacity;
    }
    void grow() {
      const std::ptrdiff_t count = end - bucket->events.get();
      bucket->grow(count);
      set_ends(count);
    }
  };

  std::vector<std::vector<Bucket>> buckets_;  // by kind
  std::size_t last_ = 0;                      // of a kind
  std::vector<Lane> lanes_;
};

}  // namespace pleach
