// SendPools: which interfaces take what which connections may send, and what they have taken.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/network/lowered_schedule.h"

namespace pleach {

// Of a pool any free interface takes what any connection may send. Connections of one pool leave
// one node.
class SendPools {
 public:
  struct Source {
    int32_t job = 0, connection = 0;
  };
  struct Pool {
    std::vector<int32_t> interfaces;
    std::vector<Source> sources;
    int64_t overhead_cycles = 0;  // of the rank, before each message
    bool is_touched = false;
  };
  // What an interface has taken and has not arrived.
  struct Flight {
    int32_t job = 0;
    Send send = {};
    int32_t pool = 0;
  };

  // The pool of some interfaces, which are in no other: the same each time.
  int32_t of(int32_t first_interface, int32_t interfaces) {
    const auto [known, is_new] = numbers_.try_emplace(first_interface, count_of(pools_));
    if (is_new) {
      Pool& pool = pools_.emplace_back();
      for (int32_t i = 0; i < interfaces; ++i) {
        pool.interfaces.push_back(first_interface + i);
      }
    }
    return known->second;
  }
  Pool& operator[](int32_t pool) { return pools_[at(pool)]; }

  // It may have something that an interface may take.
  void touch(int32_t pool) {
    if (!pools_[at(pool)].is_touched) {
      pools_[at(pool)].is_touched = true;
      touched_.push_back(pool);
    }
  }
  bool has_touched() const { return !touched_.empty(); }
  // One that is touched, and is no longer.
  int32_t next_touched() {
    const int32_t pool = touched_.back();
    touched_.pop_back();
    pools_[at(pool)].is_touched = false;
    return pool;
  }

  // Numbers of flights that are over are used again.
  int32_t add(const Flight& flight) {
    if (unused_.empty()) {
      unused_.push_back(count_of(flights_));
      flights_.emplace_back();
    }
    const int32_t number = unused_.back();
    unused_.pop_back();
    flights_[at(number)] = flight;
    return number;
  }
  const Flight& flight(int32_t number) const { return flights_[at(number)]; }
  Flight remove(int32_t number) {
    unused_.push_back(number);
    return flights_[at(number)];
  }

 private:
  std::vector<Pool> pools_;
  std::map<int32_t, int32_t> numbers_;  // by first interface
  std::vector<int32_t> touched_;
  std::vector<Flight> flights_;
  std::vector<int32_t> unused_;
};

}  // namespace pleach
