// Arrivals that have not committed: those that wait for their turn, and reductions under way.
#pragma once

#include <cstdint>
#include <utility>
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

// Every rank reduces at a bandwidth, and one priority after the other: of those that wait the
// smallest, and all that have it as one. Nothing that translation and renaming of chunks leave
// alone tells these apart, so that any order among them would make two forms of one schedule
// differ.
class Reducers {
 public:
  struct Priority {
    int64_t key = 0;  // segment · period + step
    int32_t segment = 0;
    auto operator<=>(const Priority&) const = default;
  };

  // bandwidth_bytes_per_s 0: reductions take no time, and are not for this.
  Reducers(int32_t rank_count, int64_t bandwidth_bytes_per_s)
      : bandwidth_bytes_per_s_(bandwidth_bytes_per_s),
        ranks_(at(bandwidth_bytes_per_s > 0 ? rank_count : 0)) {}
  bool take_time() const { return bandwidth_bytes_per_s_ > 0; }
  // A reduction waits for its turn. Returns whether it is the first at an idle rank, which begins
  // when all that happens at this time is known.
  bool push(int32_t rank, const Priority& priority, const Arrival& arrival, int64_t bytes);
  // The rank, idle until now, begins; returns how long it takes.
  int64_t begin(int32_t rank);
  // It is done with these, and idle.
  std::vector<Arrival> end(int32_t rank) { return std::exchange(ranks_[at(rank)].under_way, {}); }
  bool has_waiting(int32_t rank) const { return !ranks_[at(rank)].waiting.empty(); }

 private:
  struct Waiting {
    Priority priority;
    Arrival arrival;
    int64_t bytes = 0;
    bool operator>(const Waiting& other) const { return priority > other.priority; }
  };
  struct Rank {
    std::vector<Waiting> waiting;  // a heap, smallest on top
    std::vector<Arrival> under_way;
  };

  int64_t bandwidth_bytes_per_s_;
  std::vector<Rank> ranks_;
};

}  // namespace pleach
