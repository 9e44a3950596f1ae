// FlowJobs: the jobs of an engine, by number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pleach/network/execution.h"
#include "pleach/network/lowered_schedule.h"

namespace pleach {

// Its connections and ranks have consecutive numbers among all jobs', which stay its own.
struct FlowJob {
  std::shared_ptr<const LoweredSchedule> schedule;  // its links are those of the connections
  std::unique_ptr<Execution> execution = {};        // null: released
  int32_t number = 0;
  struct {
    int64_t start_ps = 0;
    int32_t name = 0;  // the session's
    int32_t traffic_class = 0;
  } asked = {};
  int32_t first_connection = 0;
  int32_t first_rank = 0;
  uint32_t generation = 0;  // of its alarms: how often its number was given away
  bool is_running = false;
  int64_t finish_ps = 0;

  int32_t connection_count() const { return count_of(schedule->connections()); }
};

// Numbers of released jobs are given to later jobs of the same schedule.
class FlowJobs {
 public:
  FlowJob& operator[](int32_t number) { return jobs_[at(number)]; }
  const FlowJob& operator[](int32_t number) const { return jobs_[at(number)]; }
  auto begin() const { return jobs_.begin(); }
  auto end() const { return jobs_.end(); }
  // The job that the rank, counted over all jobs, belongs to.   cost  O(log jobs)
  int32_t of_rank(int32_t rank) const {
    const auto after = std::ranges::upper_bound(jobs_, rank, {}, &FlowJob::first_rank);
    return static_cast<int32_t>(after - jobs_.begin()) - 1;
  }

  // A job that runs from now on. Where it has a new number, its connections are the next ones; the
  // caller makes them.
  FlowJob& take(const std::shared_ptr<const LoweredSchedule>& schedule, int32_t connection_count);
  void finish(FlowJob& job, int64_t now_ps);
  void release(FlowJob& job);

  int32_t running() const { return running_; }
  // Those that have finished since, in no order.
  bool has_finished() const { return !finished_.empty(); }
  std::vector<int32_t> take_finished() { return std::exchange(finished_, {}); }

 private:
  std::vector<FlowJob> jobs_;
  std::unordered_map<const LoweredSchedule*, std::vector<int32_t>> released_;
  std::vector<int32_t> finished_;
  int32_t running_ = 0;
};

}  // namespace pleach
