#include "pleach/network/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "pleach/base/index.h"
#include "pleach/network/flow/engine.h"
#include "pleach/network/flow/flow_plans.h"
#include "pleach/network/job_checks.h"

namespace pleach {
namespace {

// What the session knows of one schedule. It keeps a copy, because the caller's need not outlive
// its jobs.
struct Known {
  Schedule schedule;
  std::unique_ptr<FlowPlans> plans;
  // By size: how long a job takes that has no company. A simulation does not depend on its start.
  std::unordered_map<int64_t, int64_t> alone_ps;
};

constexpr std::size_t kMostSizes = 1 << 16;  // remembered of one schedule

class FlowSession final : public NetworkSession {
 public:
  FlowSession(const Topology& topology, const SimulationOptions& options)
      : topology_(topology), options_(options), engine_(topology, options_) {}

  Result<int32_t> start(const Schedule& schedule, int64_t size_bytes, int64_t now_ps) override;
  std::optional<int64_t> next_ps() const override;
  Result<std::vector<Finish>> advance(int64_t until_ps) override;

 private:
  // A job that is alone and whose time is known: it is simulated only if it gets company.
  struct Lone {
    int32_t job = 0;
    Known* known = nullptr;
    int64_t size_bytes = 0;
    int64_t start_ps = 0;
    int64_t finish_ps = 0;
  };
  // A job in the engine that had no company so far, to be remembered when it ends like that.
  struct Candidate {
    Known* known = nullptr;
    int64_t size_bytes = 0;
    int64_t start_ps = 0;
  };

  Result<Known*> find(const Schedule& schedule);
  Result<std::optional<int64_t>> time_alone(Known& known, int64_t size_bytes);
  Status enter(int32_t job, Known& known, int64_t size_bytes, int64_t start_ps);
  std::vector<Finish> take_finished();

  const Topology& topology_;
  const SimulationOptions options_;
  mutable Engine engine_;  // looking at the next event sorts a bucket
  std::deque<Known> known_;
  std::unordered_map<const Schedule*, Known*> known_at_;  // where a schedule was last seen
  std::vector<int32_t> job_of_;                           // by number in the engine
  std::optional<Lone> lone_;
  std::optional<Candidate> candidate_;
  int64_t now_ps_ = 0;
  int32_t job_count_ = 0;
};

Result<Known*> FlowSession::find(const Schedule& schedule) {
  Known*& hint = known_at_[&schedule];
  if (hint != nullptr && hint->schedule == schedule) {
    return hint;
  }
  const auto found = std::find_if(known_.begin(), known_.end(),
                                  [&](const Known& one) { return one.schedule == schedule; });
  if (found != known_.end()) {
    return hint = &*found;
  }
  Known& made = known_.emplace_back(Known{schedule, nullptr, {}});
  auto plans = FlowPlans::create(topology_, made.schedule, options_);
  if (!plans) {
    known_.pop_back();
    known_at_.erase(&schedule);
    return plans.error();
  }
  made.plans = std::move(*plans);
  return hint = &made;
}

Result<std::optional<int64_t>> FlowSession::time_alone(Known& known, int64_t size_bytes) {
  if (const auto time_ps = known.alone_ps.find(size_bytes); time_ps != known.alone_ps.end()) {
    return std::optional(time_ps->second);
  }
  PLEACH_ASSIGN(folded, known.plans->folded(size_bytes));
  if (!folded.has_value()) {
    return std::optional<int64_t>();
  }
  Engine engine(topology_, options_);
  engine.add(std::move(*folded), 0);
  PLEACH_ASSIGN(result, engine.run());
  if (known.alone_ps.size() < kMostSizes) {
    known.alone_ps.emplace(size_bytes, result.finish_ps);
  }
  return std::optional(result.finish_ps);
}

Status FlowSession::enter(int32_t job, Known& known, int64_t size_bytes, int64_t start_ps) {
  PLEACH_ASSIGN(plan, known.plans->whole(size_bytes));
  const auto number = at(engine_.add(std::move(plan), start_ps));
  job_of_.resize(std::max(job_of_.size(), number + 1));
  job_of_[number] = job;
  return ok();
}

Result<int32_t> FlowSession::start(const Schedule& schedule, int64_t size_bytes, int64_t now_ps) {
  const Job asked{&schedule, size_bytes, now_ps};
  PLEACH_TRY(check_jobs(topology_, std::span(&asked, 1), options_));
  if (now_ps < now_ps_) {
    return invalid(fmt::format("job at {} ps: the session is at {} ps already", now_ps, now_ps_));
  }
  PLEACH_ASSIGN(known, find(schedule));
  const bool is_alone = engine_.is_idle() && !lone_.has_value();
  if (is_alone) {
    PLEACH_ASSIGN(time_ps, time_alone(*known, size_bytes));
    if (time_ps.has_value() && now_ps + *time_ps <= kLongestPs) {
      lone_ = Lone{job_count_, known, size_bytes, now_ps, now_ps + *time_ps};
      return job_count_++;
    }
  }
  candidate_.reset();
  if (lone_.has_value()) {
    PLEACH_TRY(enter(lone_->job, *lone_->known, lone_->size_bytes, lone_->start_ps));
    lone_.reset();
  }
  PLEACH_TRY(enter(job_count_, *known, size_bytes, now_ps));
  if (is_alone) {
    candidate_ = Candidate{known, size_bytes, now_ps};
  }
  return job_count_++;
}

std::optional<int64_t> FlowSession::next_ps() const {
  if (lone_.has_value()) {
    return lone_->finish_ps;
  }
  return engine_.is_idle() ? std::optional<int64_t>() : engine_.next_ps();
}

std::vector<NetworkSession::Finish> FlowSession::take_finished() {
  std::vector<Finish> finished;
  for (const int32_t number : engine_.take_finished()) {
    const int64_t finish_ps = engine_.finish_ps(number);
    finished.push_back({job_of_[at(number)], finish_ps});
    engine_.release(number);
    if (candidate_.has_value() && candidate_->known->alone_ps.size() < kMostSizes) {
      candidate_->known->alone_ps.emplace(candidate_->size_bytes, finish_ps - candidate_->start_ps);
    }
    candidate_.reset();
    now_ps_ = std::max(now_ps_, finish_ps);
  }
  std::sort(finished.begin(), finished.end(),
            [](const Finish& left, const Finish& right) { return left.job < right.job; });
  return finished;
}

Result<std::vector<NetworkSession::Finish>> FlowSession::advance(int64_t until_ps) {
  if (lone_.has_value()) {
    if (lone_->finish_ps > until_ps) {
      now_ps_ = std::max(now_ps_, until_ps);
      return std::vector<Finish>();
    }
    const Finish finish{lone_->job, lone_->finish_ps};
    now_ps_ = std::max(now_ps_, finish.time_ps);
    lone_.reset();
    return std::vector<Finish>{finish};
  }
  PLEACH_TRY(engine_.advance(until_ps));
  std::vector<Finish> finished = take_finished();
  if (finished.empty() && !engine_.is_idle()) {
    now_ps_ = std::max(now_ps_, until_ps);
  }
  return finished;
}

}  // namespace

Result<std::unique_ptr<NetworkSession>> NetworkSession::create(const Topology& topology,
                                                               const SimulationOptions& options) {
  if (options.records != nullptr || options.gate == Gate::kLockstep) {
    return Error{ErrorCode::kUnsupported, options.records != nullptr
                                              ? "a network session keeps no records"
                                              : "a network session has no lockstep gate"};
  }
  PLEACH_TRY(check_jobs(topology, {}, options));
  return std::unique_ptr<NetworkSession>(std::make_unique<FlowSession>(topology, options));
}

}  // namespace pleach
