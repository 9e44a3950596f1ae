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

// How a rank reduces what arrives; the model's to say.
struct ReduceRules {
  // Of those that wait the smallest (segment · period + step, segment), all that have it as one;
  // or message by message, in the order in which they came to wait: of one time the smallest first,
  // or as they were told.
  enum class Turn : uint8_t { kPriority, kArrival, kTold };

  int64_t bandwidth_bytes_per_s = 0;  // 0: reductions take no time
  Turn turn = Turn::kPriority;
  int64_t block_bytes = 1;       // a part of a block takes as long as a block
  int64_t extra_ps = 0;          // for each reduction, besides
  bool last_block_only = false;  // what came before was reduced as it came
};

// What every rank has to reduce, one after the other. By priority, nothing that translation and
// renaming of chunks leave alone tells those of one priority apart, so that any order among them
// would make two forms of one schedule differ.
class Reducers {
 public:
  Reducers(int32_t rank_count, const ReduceRules& rules)
      : rules_(rules), ranks_(at(rules.bandwidth_bytes_per_s > 0 ? rank_count : 0)) {}
  bool take_time() const { return rules_.bandwidth_bytes_per_s > 0; }
  // A chunk of a message waits for its turn. Returns whether it is the first at an idle rank, which
  // begins when all that happens at this time is known.
  bool push(int32_t rank, const Send& message, const Arrival& arrival, int64_t bytes,
            int64_t now_ps);
  // The rank, idle until now, begins; returns how long it takes.
  int64_t begin(int32_t rank);
  // It is done with these, and idle.
  std::vector<Arrival> end(int32_t rank) { return std::exchange(ranks_[at(rank)].under_way, {}); }
  bool has_waiting(int32_t rank) const { return !ranks_[at(rank)].waiting.empty(); }

 private:
  struct Waiting {
    Send message;
    int64_t since_ps = 0;
    int64_t told = 0;  // how many were before it
    Arrival arrival;
    int64_t bytes = 0;
  };
  struct Rank {
    std::vector<Waiting> waiting;  // a heap, first on top
    std::vector<Arrival> under_way;
  };
  // Heaps have what is less than all else on top.
  bool is_later(const Waiting& left, const Waiting& right) const;
  bool go_together(const Waiting& left, const Waiting& right) const;

  ReduceRules rules_;
  std::vector<Rank> ranks_;
  int64_t told_count_ = 0;
};

}  // namespace pleach
