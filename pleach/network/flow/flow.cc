// flow: fluid simulation, one segment at a time per connection, max-min shares of links.
//
// Landing places are taken and given back without delay; headers as options.flow_control says. Jobs
// may start while others run, and all share the links: what a simulation with every start known
// beforehand gives, a session gives too, to the picosecond.
//   cost    O(log) per segment of a transfer where links are not shared; a solve of the connected
//           part of the network per change where they are. Memory: 4 bytes per slot, segment and
//           translate, and the schedule's tables.
//   source  docs/network.md
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/units.h"
#include "pleach/network/flow/engine.h"
#include "pleach/network/job_checks.h"
#include "pleach/network/model.h"
#include "pleach/network/schedule_forms.h"

namespace pleach {
namespace {

// A schedule at a size without company: a simulation does not depend on its start.
struct Alone {
  int64_t time_ps = 0;
  int64_t event_count = 0;
  // By class of links, where it was folded; else nothing but its time has been looked at.
  std::optional<std::vector<LinkUse>> classes = {};
  int64_t jobs = 0;  // that took this time without being simulated
};

struct FlowSessionJob {
  int32_t number = 0;
  ScheduleForms* forms = nullptr;
  int64_t size_bytes = 0;
  int64_t start_ps = 0;
  int32_t traffic_class = 0;
  int32_t name = 0;  // what conflicts call it
};

// The job that had no company so far.
struct Solo {
  FlowSessionJob job;
  // Its time: it is simulated only if it gets company. Null: it is in the engine, and its time is
  // remembered if it ends without.
  Alone* known = nullptr;
};

class FlowSession final : public NetworkSession {
 public:
  FlowSession(const Topology& topology, const SimulationOptions& options)
      : topology_(topology),
        options_(options),
        engine_(topology, options_),
        known_(topology, options_) {}

  Result<int32_t> start(const Job& job) override;
  std::optional<int64_t> next_ps() const override;
  Result<std::vector<Finish>> advance(int64_t until_ps) override;
  Result<NetworkUse> use() override;

 private:
  Result<Alone*> time_alone(ScheduleForms& forms, int64_t size_bytes);
  Result<NetworkUse> run_alone(LoweredJob job, int64_t& time_ps) const;
  Status enter(const FlowSessionJob& job);
  std::vector<Finish> take_finished();
  bool has_known_solo() const { return solo_ && solo_->known != nullptr; }

  const Topology& topology_;
  const SimulationOptions options_;
  mutable Engine engine_;  // looking at the next event sorts a bucket
  KnownSchedules known_;
  std::unordered_map<ScheduleForms*, std::unordered_map<int64_t, Alone>> alone_;  // by size
  std::vector<int32_t> job_of_;  // by number in the engine
  std::optional<Solo> solo_;
  std::vector<Record> records_;  // by job, if they are kept
  int64_t now_ps_ = 0;
  int32_t job_count_ = 0;
};

Result<NetworkUse> FlowSession::run_alone(LoweredJob job, int64_t& time_ps) const {
  Engine engine(topology_, options_);
  PLEACH_ASSIGN(number, engine.add(std::move(job), 0));
  PLEACH_TRY(engine.advance(INT64_MAX));
  time_ps = engine.finish_ps(number);
  return engine.use();
}

// Null where it is not known, and one rank cannot stand for all: where switches choose between
// streams, ranks are not alike.
Result<Alone*> FlowSession::time_alone(ScheduleForms& forms, int64_t size_bytes) {
  if (options_.keep_records || engine_.has_admission()) {
    return nullptr;
  }
  auto& alone = alone_[&forms];
  if (const auto known = alone.find(size_bytes); known != alone.end()) {
    return &known->second;
  }
  PLEACH_ASSIGN(folded, forms.folded(size_bytes));
  if (!folded.has_value() || alone.size() >= kMostSizes) {
    return nullptr;
  }
  Alone one;
  PLEACH_ASSIGN(use, run_alone(std::move(*folded), one.time_ps));
  one.event_count = use.event_count * forms.schedule().rank_count();
  one.classes = forms.sum_classes(use.links);
  return &alone.emplace(size_bytes, std::move(one)).first->second;
}

Status FlowSession::enter(const FlowSessionJob& job) {
  PLEACH_ASSIGN(lowered, job.forms->whole(job.size_bytes));
  PLEACH_ASSIGN(number, engine_.add(std::move(lowered), job.start_ps, job.name, job.traffic_class));
  job_of_.resize(std::max(job_of_.size(), at(number) + 1));
  job_of_[at(number)] = job.number;
  return ok();
}

Result<int32_t> FlowSession::start(const Job& asked) {
  PLEACH_TRY(check_job(topology_, asked, now_ps_));
  PLEACH_ASSIGN(forms, known_.find(asked.schedule));
  const FlowSessionJob job{job_count_,          forms,
                           asked.size_bytes,    asked.start_ps,
                           asked.traffic_class, asked.label < 0 ? job_count_ : asked.label};
  const bool is_alone = engine_.is_idle() && !has_known_solo();
  if (is_alone) {
    PLEACH_ASSIGN(alone, time_alone(*forms, job.size_bytes));
    if (alone != nullptr && job.start_ps + alone->time_ps <= kLongestPs) {
      solo_ = Solo{job, alone};
      return job_count_++;
    }
  }
  if (has_known_solo()) {
    PLEACH_TRY(enter(solo_->job));
  }
  solo_.reset();
  PLEACH_TRY(enter(job));
  if (is_alone) {
    solo_ = Solo{job};
  }
  return job_count_++;
}

std::optional<int64_t> FlowSession::next_ps() const {
  if (has_known_solo()) {
    return solo_->job.start_ps + solo_->known->time_ps;
  }
  return engine_.is_idle() ? std::optional<int64_t>() : engine_.next_ps();
}

std::vector<NetworkSession::Finish> FlowSession::take_finished() {
  std::vector<Finish> finished;
  for (const int32_t number : engine_.take_finished()) {
    const int64_t finish_ps = engine_.finish_ps(number);
    finished.push_back({job_of_[at(number)], finish_ps});
    Record record = engine_.release(number);
    if (options_.keep_records) {
      records_.resize(at(job_count_));
      records_[at(finished.back().job)] = std::move(record);
    }
    if (solo_ && alone_[solo_->job.forms].size() < kMostSizes) {
      alone_[solo_->job.forms].try_emplace(solo_->job.size_bytes,
                                           Alone{.time_ps = finish_ps - solo_->job.start_ps});
    }
    solo_.reset();
    now_ps_ = std::max(now_ps_, finish_ps);
  }
  std::ranges::sort(finished, {}, &Finish::job);
  return finished;
}

Result<std::vector<NetworkSession::Finish>> FlowSession::advance(int64_t until_ps) {
  if (has_known_solo()) {
    const Finish finish{solo_->job.number, *next_ps()};
    if (finish.time_ps > until_ps) {
      now_ps_ = std::max(now_ps_, until_ps);
      return std::vector<Finish>();
    }
    now_ps_ = std::max(now_ps_, finish.time_ps);
    ++solo_->known->jobs;
    solo_.reset();
    return std::vector<Finish>{finish};
  }
  PLEACH_TRY(engine_.advance(until_ps));
  std::vector<Finish> finished = take_finished();
  if (finished.empty() && !engine_.is_idle()) {
    now_ps_ = std::max(now_ps_, until_ps);
  }
  return finished;
}

// What was not simulated is what was, as often as it happened.
Result<NetworkUse> FlowSession::use() {
  NetworkUse sum = engine_.use();
  for (auto& [forms, sizes] : alone_) {
    for (auto& [size_bytes, alone] : sizes) {
      if (alone.jobs == 0) {
        continue;
      }
      if (alone.classes.has_value()) {
        forms->spread_classes(*alone.classes, alone.jobs, sum.links);
        sum.event_count += alone.jobs * alone.event_count;
        sum.folded = true;
        continue;
      }
      PLEACH_ASSIGN(whole, forms->whole(size_bytes));
      PLEACH_ASSIGN(one, run_alone(std::move(whole), alone.time_ps));
      for (std::size_t link = 0; link < sum.links.size(); ++link) {
        sum.links[link].add(one.links[link], alone.jobs);
      }
      sum.event_count += alone.jobs * one.event_count;
    }
  }
  sum.records = records_;
  return sum;
}

Result<std::unique_ptr<NetworkSession>> open_flow(const Topology& topology,
                                                  const SimulationOptions& options,
                                                  const Options& /*own*/) {
  return std::unique_ptr<NetworkSession>(std::make_unique<FlowSession>(topology, options));
}

}  // namespace

extern const NetworkModel kFlowModel = {
    .name = "flow",
    .summary = "fluid: one segment at a time per connection, max-min shares of links",
    .source = "Bertsekas & Gallager, Data Networks, sec. 6.5.2",
    .options = {},
    .has_classes = true,
    .open = open_flow,
};

}  // namespace pleach
