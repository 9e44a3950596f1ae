// EventQueue: a calendar queue for simulations whose events cluster in time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "pleach/base/index.h"

namespace pleach {

struct Event {
  int64_t time_ps = 0;
  uint64_t tag = 0;  // what it means is the owner's; orders events of one time
  auto operator<=>(const Event&) const = default;
};

// A ring of kBucketCount buckets of 2^shift picoseconds each; the one being emptied is sorted when
// it is reached, events beyond the ring wait in a heap. Pops in (time, tag) order; pushes must not
// lie before the last popped time. Amortised O(1) when a bucket holds a few events.
// Source: Brown, Calendar queues (CACM 1988), without resizing: the owner knows its event density.
class EventQueue {
 public:
  explicit EventQueue(int shift) : shift_(shift), buckets_(kBucketCount) {}

  bool empty() const { return size_ == 0; }
  int shift() const { return shift_; }

  // Sorts all events into buckets of another width; `now_ps` is no later than any event. O(events).
  void retune(int shift, int64_t now_ps) {
    std::vector<Event> events = std::move(now_);
    for (std::vector<Event>& bucket : buckets_) {
      events.insert(events.end(), bucket.begin(), bucket.end());
      bucket.clear();
    }
    for (; !later_.empty(); later_.pop()) {
      events.push_back(later_.top());
    }
    now_.clear();
    std::fill(filled_.begin(), filled_.end(), 0);
    shift_ = shift;
    current_ = (now_ps >> shift) - 1;
    size_ = 0;
    for (const Event& event : events) {
      push(event);
    }
  }
  void clear() {
    while (!empty()) {
      top();
      size_ -= now_.size();
      now_.clear();
    }
  }

  void push(Event event) {
    ++size_;
    const int64_t bucket = event.time_ps >> shift_;
    if (bucket <= current_) {
      now_.insert(std::upper_bound(now_.begin(), now_.end(), event, std::greater<>()), event);
    } else if (bucket < current_ + kBucketCount) {
      put(bucket, event);
    } else {
      later_.push(event);
    }
  }

  // The earliest event; the queue must not be empty.
  const Event& top() {
    if (now_.empty()) {
      advance();
    }
    return now_.back();
  }
  void pop() {
    now_.pop_back();
    --size_;
  }

 private:
  static constexpr int64_t kBucketCount = 4096;
  static constexpr std::size_t kKeptCapacity = 64;
  static constexpr int64_t kWordCount = kBucketCount / 64;

  static std::size_t slot(int64_t bucket) { return at(bucket & (kBucketCount - 1)); }
  void put(int64_t bucket, Event event) {
    const std::size_t index = slot(bucket);
    buckets_[index].push_back(event);
    filled_[index / 64] |= uint64_t{1} << (index % 64);
  }
  // The first filled bucket after current_, or -1.
  int64_t next_filled() const {
    const std::size_t start = slot(current_ + 1);
    uint64_t word = filled_[start / 64] & (~uint64_t{0} << (start % 64));
    for (int64_t step = 0; step <= kWordCount; ++step) {
      const std::size_t index = (start / 64 + at(step)) % kWordCount;
      if (step > 0) {
        word = filled_[index];
      }
      if (word != 0) {
        const std::size_t found = index * 64 + at(std::countr_zero(word));
        return current_ + 1 + static_cast<int64_t>((found - start) & (kBucketCount - 1));
      }
    }
    return -1;
  }
  void advance() {
    int64_t next = next_filled();
    if (next < 0) {
      next = later_.top().time_ps >> shift_;
    }
    current_ = next;
    // Whatever the ring now reaches leaves the heap, before this bucket is sorted.
    while (!later_.empty() && (later_.top().time_ps >> shift_) < current_ + kBucketCount) {
      put(later_.top().time_ps >> shift_, later_.top());
      later_.pop();
    }
    const std::size_t index = slot(current_);
    std::vector<Event>& bucket = buckets_[index];
    now_.assign(bucket.begin(), bucket.end());
    if (bucket.capacity() > kKeptCapacity) {
      std::vector<Event>().swap(bucket);  // a burst must not make all buckets large in time
    }
    bucket.clear();
    filled_[index / 64] &= ~(uint64_t{1} << (index % 64));
    std::sort(now_.begin(), now_.end(), std::greater<>());
  }

  int shift_;
  int64_t current_ = -1;
  std::size_t size_ = 0;
  std::vector<Event> now_;  // the bucket being emptied, latest first
  std::vector<std::vector<Event>> buckets_;
  std::vector<uint64_t> filled_ = std::vector<uint64_t>(kWordCount);
  std::priority_queue<Event, std::vector<Event>, std::greater<>> later_;
};

}  // namespace pleach
