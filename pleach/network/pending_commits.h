// Arrivals that have not committed: those that wait for their turn, and reductions under way.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "pleach/network/lowered_schedule.h"

namespace pleach {

// The set of arrivals that wait for their turn. Costs nothing until there is one.
class LandedChunks {
 public:
  // Borrows the schedule.
  explicit LandedChunks(const LoweredSchedule& schedule) : schedule_(schedule) {}
  bool empty() const { return count_ == 0; }
  void add(const Arrival& arrival);  // not in the set yet
  bool has(const Arrival& arrival) const;
  void remove(const Arrival& arrival);  // in the set

 private:
  std::size_t bit_of(const Arrival& arrival) const {
    return (at(arrival.commit) * at(schedule_.segment_count()) + at(arrival.segment)) *
               at(schedule_.translate_count()) +
           at(arrival.translate);
  }

  const LoweredSchedule& schedule_;
  std::vector<uint64_t> bits_;
  int64_t count_ = 0;
};

// Every rank reduces one chunk after the other, at a bandwidth.
class Reducers {
 public:
  // bandwidth_bytes_per_s 0: reductions take no time, and are not for this.
  Reducers(int32_t rank_count, int64_t bandwidth_bytes_per_s)
      : bandwidth_bytes_per_s_(bandwidth_bytes_per_s),
        ranks_(at(bandwidth_bytes_per_s > 0 ? rank_count : 0)) {}
  bool take_time() const { return bandwidth_bytes_per_s_ > 0; }
  // Queues a reduction; returns when it ends.
  int64_t push(int32_t rank, const Arrival& arrival, int64_t bytes, int64_t now_ps);
  // The rank's first reduction, which ends now.
  Arrival pop(int32_t rank);

 private:
  struct Rank {
    int64_t free_ps = 0;
    std::deque<Arrival> queue;
  };

  int64_t bandwidth_bytes_per_s_;
  std::vector<Rank> ranks_;
};

}  // namespace pleach
