#include "pleach/network/flow/flow_jobs.h"

namespace pleach {

FlowJob& FlowJobs::take(const std::shared_ptr<const LoweredSchedule>& schedule,
                        int32_t connection_count) {
  ++running_;
  std::vector<int32_t>& released = released_[schedule.get()];
  if (released.empty()) {
    FlowJob job{
        .schedule = schedule, .number = count_of(jobs_), .first_connection = connection_count};
    if (!jobs_.empty()) {
      job.first_rank = jobs_.back().first_rank + jobs_.back().schedule->rank_count();
    }
    released.push_back(job.number);
    jobs_.push_back(std::move(job));
  }
  FlowJob& taken = (*this)[released.back()];
  released.pop_back();
  ++taken.generation;
  taken.is_running = true;
  return taken;
}

void FlowJobs::finish(FlowJob& job, int64_t now_ps) {
  job.is_running = false;
  job.finish_ps = now_ps;
  finished_.push_back(job.number);
  --running_;
}

void FlowJobs::release(FlowJob& job) {
  job.execution.reset();
  released_[job.schedule.get()].push_back(job.number);
}

}  // namespace pleach
