#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/network/model.h"
#include "pleach/planning/padding.h"
#include "pleach/training/group_schedules.h"
#include "pleach/training/trace_network.h"

namespace pleach {
namespace {

// An operation is one job per group, or per pair of ranks; it finishes with the last of them.
class SharedNetwork : public TraceNetwork {
 public:
  SharedNetwork(std::unique_ptr<NetworkSession> session, GroupSchedules schedules,
                const Trace& trace, int32_t segment_count)
      : session_(std::move(session)),
        schedules_(std::move(schedules)),
        trace_(trace),
        segment_count_(segment_count) {}

  Result<int32_t> start(const GroupCollective& what, int64_t now_ps) override {
    const int32_t operation = begin();
    const auto& groups = trace_.families[at(what.family)].groups;
    for (const int32_t group : *what.groups) {
      if (groups[at(group)].size() > 1 && what.size_bytes > 0) {
        PLEACH_ASSIGN(schedule, schedules_.collective(what.family, group, what.kind));
        PLEACH_TRY(add(operation, schedule, what.size_bytes, now_ps));
      }
    }
    return end(operation, now_ps);
  }

  Result<int32_t> start(const WorkerSend& what, int64_t now_ps) override {
    const int32_t operation = begin();
    const auto& sources = trace_.workers[at(what.source)].ranks;
    const auto& targets = trace_.workers[at(what.target)].ranks;
    for (std::size_t i = 0; i < sources.size() && what.size_bytes > 0; ++i) {
      PLEACH_ASSIGN(schedule, schedules_.message(sources[i], targets[i]));
      PLEACH_TRY(add(operation, schedule, what.size_bytes, now_ps));
    }
    return end(operation, now_ps);
  }

  std::optional<int64_t> next_ps() const override {
    const std::optional<int64_t> next = session_->next_ps();
    if (finished_.empty()) {
      return next;
    }
    return std::min(finished_.front().time_ps, next.value_or(finished_.front().time_ps));
  }

  Result<std::vector<Finish>> advance(int64_t until_ps) override {
    const std::optional<int64_t> next = session_->next_ps();
    if (!finished_.empty() && (!next.has_value() || finished_.front().time_ps <= *next)) {
      return std::exchange(finished_, {});
    }
    std::vector<Finish> finishes;
    PLEACH_ASSIGN(jobs, session_->advance(until_ps));
    for (const NetworkSession::Finish& job : jobs) {
      const int32_t operation = operation_of_[at(job.job)];
      if (--left_[at(operation)] == 0) {
        finishes.push_back({operation, job.time_ps});
      }
    }
    return finishes;
  }

 private:
  int32_t begin() {
    left_.push_back(0);
    return count_of(left_) - 1;
  }

  Status add(int32_t operation, const std::shared_ptr<const Schedule>& schedule, int64_t size_bytes,
             int64_t now_ps) {
    const int64_t unit_bytes = padding_unit_bytes(*schedule, segment_count_);
    PLEACH_ASSIGN(job, session_->start({schedule, padded_bytes(size_bytes, unit_bytes), now_ps}));
    operation_of_.resize(at(job) + 1);
    operation_of_[at(job)] = operation;
    ++left_[at(operation)];
    return ok();
  }

  Result<int32_t> end(int32_t operation, int64_t now_ps) {
    if (left_[at(operation)] == 0) {
      finished_.push_back({operation, now_ps});
    }
    return operation;
  }

  std::unique_ptr<NetworkSession> session_;
  GroupSchedules schedules_;
  const Trace& trace_;
  const int32_t segment_count_;
  std::vector<int32_t> left_;          // by operation: jobs under way
  std::vector<int32_t> operation_of_;  // by job
  std::vector<Finish> finished_;       // without any job, at the time they started
};

}  // namespace

Result<std::unique_ptr<TraceNetwork>> shared_network(const Topology& topology, const Trace& trace,
                                                     const FabricOptions& options) {
  PLEACH_ASSIGN(session,
                open_network(options.model, topology, {.segment_count = options.segment_count}));
  return std::unique_ptr<TraceNetwork>(std::make_unique<SharedNetwork>(
      std::move(session), GroupSchedules(topology, trace, options), trace, options.segment_count));
}

}  // namespace pleach
