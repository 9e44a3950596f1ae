// analytic: alpha-beta per step, all ranks in lockstep.
//
// Slot k holds the transfers of segment s and step t with s · period + t = k. It takes as long as
// its slowest stream: overhead + latency + the time the busiest of its links needs for all bytes of
// the slot (+ the reduction, where that has a bandwidth). Slots follow one another; jobs do not see
// each other.
//   cost    O(transfers × segments) when a job starts
//   source  Hockney's alpha-beta model; Thakur et al., IJHPCA 2005, per step
#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "pleach/base/interruptible_sort.h"
#include "pleach/base/interruption.h"
#include "pleach/base/units.h"
#include "pleach/network/job_checks.h"
#include "pleach/network/model.h"
#include "pleach/network/schedule_forms.h"

namespace pleach {
namespace {

class StepTimes {
 public:
  StepTimes(const Topology& topology, const LoweredJob& job, const SimulationOptions& options)
      : topology_(topology),
        job_(job),
        options_(options),
        load_bytes_(topology.links().size()),
        uses_(topology.links().size()) {}

  int64_t total_ps() {
    const LoweredSchedule& schedule = job_.schedule();
    std::vector<Send> all;
    for (int32_t stream = 0; stream < job_.order().stream_count(); ++stream) {
      check_interruption();
      for (int32_t segment = 0; segment < schedule.segment_count(); ++segment) {
        all.push_back(schedule.send(stream, segment, 0));
      }
    }
    sort_interruptibly(all);
    int64_t sum_ps = 0;
    for (std::size_t begin = 0, end = 0; begin < all.size(); begin = end) {
      while (end < all.size() && all[end].key == all[begin].key) {
        ++end;
      }
      sum_ps = add_times_ps(sum_ps, slot_ps(std::span(all).subspan(begin, end - begin)));
    }
    return sum_ps;
  }
  const std::vector<LinkUse>& uses() const { return uses_; }

 private:
  // Calls with every translate of a send, whose bytes may differ by what rounding leaves, and its
  // connection.
  template <typename Visit>
  void for_each_translate(Send send, Visit visit) const {
    const LoweredSchedule& schedule = job_.schedule();
    for (; send.translate < schedule.translate_count(); ++send.translate) {
      visit(send, schedule.connections()[at(schedule.connection_of(send))]);
    }
  }

  int64_t slot_ps(std::span<const Send> sends) {
    for (const Send& send : sends) {
      check_interruption();
      for_each_translate(send, [&](const Send& moved, const LoweredConnection& connection) {
        const int64_t bytes = job_.wire_bytes(moved);
        for (const LinkId link : connection.links) {
          load_bytes_[link.index()] += bytes;
        }
      });
    }
    int64_t slowest_ps = 0;
    for (const Send& send : sends) {
      check_interruption();
      for_each_translate(send, [&](const Send& moved, const LoweredConnection& connection) {
        slowest_ps = std::max(slowest_ps, send_ps(moved, connection));
      });
    }
    for (const Send& send : sends) {
      check_interruption();
      for_each_translate(send, [&](const Send&, const LoweredConnection& connection) {
        for (const LinkId link : connection.links) {
          const int64_t bytes = std::exchange(load_bytes_[link.index()], 0);
          LinkUse& use = uses_[link.index()];
          use.wire_bytes += bytes;
          use.busy_ps = add_times_ps(use.busy_ps, transmit_ps(bytes, link));
        }
      });
    }
    return slowest_ps;
  }

  int64_t send_ps(const Send& send, const LoweredConnection& connection) const {
    int64_t busiest_ps = 0;
    for (const LinkId link : connection.links) {
      busiest_ps = std::max(busiest_ps, transmit_ps(load_bytes_[link.index()], link));
    }
    const int64_t start_ps = add_times_ps(connection.overhead_ps, connection.latency_ps);
    const int64_t arrival_ps = add_times_ps(start_ps, busiest_ps);
    if (options_.reduce_bandwidth_bytes_per_s.value_or(0) == 0 ||
        job_.order().stream(send.stream).op != TransferOp::kReduce) {
      return arrival_ps;
    }
    return add_times_ps(arrival_ps, transmit_time_ps(job_.payload_bytes(send),
                                                     *options_.reduce_bandwidth_bytes_per_s));
  }

  int64_t transmit_ps(int64_t bytes, LinkId link) const {
    return transmit_time_ps(bytes, topology_.link(link).bandwidth_bytes_per_s);
  }

  const Topology& topology_;
  const LoweredJob& job_;
  const SimulationOptions& options_;
  std::vector<int64_t> load_bytes_;  // by link, of the slot at hand
  std::vector<LinkUse> uses_;
};

class AnalyticSession final : public NetworkSession {
 public:
  AnalyticSession(const Topology& topology, const SimulationOptions& options)
      : topology_(topology), options_(options), known_(topology, options_) {
    use_.links.resize(topology.links().size());
  }

  Result<int32_t> start(const Job& job) override {
    PLEACH_TRY(check_job(topology_, job, now_ps_));
    PLEACH_ASSIGN(forms, known_.find(job.schedule));
    PLEACH_ASSIGN(finish_ps, run(*forms, job));
    running_.emplace(finish_ps, job_count_);
    return job_count_++;
  }

  std::optional<int64_t> next_ps() const override {
    return running_.empty() ? std::nullopt : std::optional(running_.top().first);
  }

  Result<std::vector<Finish>> advance(int64_t until_ps) override {
    std::vector<Finish> finished;
    while (!running_.empty() && running_.top().first <= until_ps &&
           (finished.empty() || running_.top().first == finished.front().time_ps)) {
      finished.push_back({running_.top().second, running_.top().first});
      running_.pop();
    }
    if (!finished.empty() || !running_.empty()) {
      now_ps_ = std::max(now_ps_, finished.empty() ? until_ps : finished.front().time_ps);
    }
    return finished;
  }

  Result<NetworkUse> use() override { return use_; }

 private:
  // Adds a job's use; returns when it finishes.
  Result<int64_t> run(ScheduleForms& forms, const Job& asked) {
    PLEACH_ASSIGN(job, forms.folded(asked.size_bytes));
    const bool folds = job.has_value();
    if (!folds) {
      PLEACH_SET(job, forms.whole(asked.size_bytes));
    }
    StepTimes times(topology_, *job, options_);
    const int64_t finish_ps = add_times_ps(asked.start_ps, times.total_ps());
    if (finish_ps > kLongestPs) {
      return takes_too_long();
    }
    const int64_t events = int64_t{job->order().stream_count()} * options_.segment_count;
    if (folds) {
      forms.spread_classes(forms.sum_classes(times.uses()), 1, use_.links);
      use_.event_count += events * job->schedule().schedule().rank_count();
      use_.folded = true;
      return finish_ps;
    }
    for (std::size_t link = 0; link < use_.links.size(); ++link) {
      use_.links[link].add(times.uses()[link]);
    }
    use_.event_count += events * job->schedule().translate_count();
    return finish_ps;
  }

  using End = std::pair<int64_t, int32_t>;  // time, job

  const Topology& topology_;
  const SimulationOptions options_;
  KnownSchedules known_;
  std::priority_queue<End, std::vector<End>, std::greater<>> running_;
  NetworkUse use_;
  int64_t now_ps_ = 0;
  int32_t job_count_ = 0;
};

Result<std::unique_ptr<NetworkSession>> open_analytic(const Topology& topology,
                                                      const SimulationOptions& options,
                                                      const Options& /*own*/) {
  if (options.landing_places > 0 || options.keep_records) {
    return Error{ErrorCode::kUnsupported,
                 "the analytic model knows no landing places and keeps no records; use flow"};
  }
  PLEACH_TRY(check_no_reconfiguration(options, "analytic"));
  SimulationOptions folding = options;
  folding.fold = true;  // the closed form of one rank is that of all
  return std::unique_ptr<NetworkSession>(std::make_unique<AnalyticSession>(topology, folding));
}

}  // namespace

extern const NetworkModel kAnalyticModel = {
    .name = "analytic",
    .summary = "alpha-beta per step: latency + the busiest link's bytes, step after step",
    .source = "Hockney 1994; Thakur et al., IJHPCA 2005",
    .options = {},
    .shares_links = false,
    .open = open_analytic,
};

}  // namespace pleach
