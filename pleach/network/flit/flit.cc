// flit: routers, their virtual channels and the ranks' interfaces, cycle by cycle; or FRED's
// switches, packet by packet.
//
// All jobs of a run are known before it begins: what is started while jobs run is refused. Once all
// have finished others may start.
//   cost    about 0.1 us per flit and router; memory: the schedule's tables and the buffers' state
//   source  docs/network.md
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/collective/schedule.h"
#include "pleach/fabric/switch_cores.h"
#include "pleach/network/flit/flit_engine.h"
#include "pleach/network/flit/flit_options.h"
#include "pleach/network/flit/packet_engine.h"
#include "pleach/network/flit/packet_options.h"
#include "pleach/network/job_checks.h"
#include "pleach/network/model.h"
#include "pleach/network/schedule_forms.h"

namespace pleach {
namespace {

// What switches are.
using RouterKind = std::variant<FlitOptions, PacketShape>;

class FlitSession final : public NetworkSession {
 public:
  FlitSession(const Topology& topology, const SimulationOptions& simulation, RouterKind kind)
      : topology_(topology),
        simulation_(simulation),
        kind_(std::move(kind)),
        known_(topology, simulation_) {
    use_.links.resize(topology.links().size());
  }

  Result<int32_t> start(const Job& job) override;
  std::optional<int64_t> next_ps() const override;
  Result<std::vector<Finish>> advance(int64_t until_ps) override;
  Result<NetworkUse> use() override { return use_; }

 private:
  Result<std::shared_ptr<const Schedule>> written_out(
      const std::shared_ptr<const Schedule>& schedule);
  std::optional<int64_t> first_start_ps() const;
  // Errors: kUnsupported: a stream that a switch reduces or multicasts.
  Status check_switches(const Schedule& schedule) const;
  Status check_class(const Job& job) const;
  Result<std::unique_ptr<FlitRun>> begin_run();
  void add_counters(const NetworkUse& use);
  void add_admission(const AdmissionUse& admission);
  void end_run();
  int32_t job_count() const { return count_of(names_); }

  const Topology& topology_;
  const SimulationOptions simulation_;
  const RouterKind kind_;
  KnownSchedules known_;
  // Of the symmetric schedules that were started.
  std::unordered_map<std::shared_ptr<const Schedule>, std::shared_ptr<const Schedule>> written_out_;
  std::vector<FlitJob> waiting_;     // of the next run
  std::unique_ptr<FlitRun> engine_;  // null: no run is under way
  NetworkUse use_;
  std::vector<int32_t> names_;  // by job: what conflicts call it
  int64_t now_ps_ = 0;
};

Result<std::shared_ptr<const Schedule>> FlitSession::written_out(
    const std::shared_ptr<const Schedule>& schedule) {
  if (!schedule->symmetry.has_value()) {
    return schedule;
  }
  std::shared_ptr<const Schedule>& known = written_out_[schedule];
  if (known == nullptr) {
    PLEACH_ASSIGN(expanded, expand(*schedule, &topology_));
    known = std::make_shared<const Schedule>(std::move(expanded));
  }
  return known;
}

Status FlitSession::check_switches(const Schedule& schedule) const {
  if (!std::holds_alternative<FlitOptions>(kind_)) {
    return ok();
  }
  for (const Transfer& transfer : schedule.transfers) {
    for (const NodeId node : {transfer.source, transfer.target}) {
      if (topology_.node(node).kind == NodeKind::kSwitch) {
        return Error{
            ErrorCode::kUnsupported,
            fmt::format(
                "flit has no streams that switches reduce or multicast, but with router=fred; "
                "the schedule has one through '{}' in step {}",
                topology_.node(node).name, transfer.step)};
      }
    }
  }
  return ok();
}

Status FlitSession::check_class(const Job& job) const {
  if (std::holds_alternative<FlitOptions>(kind_) && !waiting_.empty() &&
      job.traffic_class != waiting_.front().traffic_class) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("flit serves one class of traffic at a time, but with router=fred: a "
                             "job of class {} comes to those of class {}",
                             job.traffic_class, waiting_.front().traffic_class)};
  }
  return ok();
}

Result<int32_t> FlitSession::start(const pleach::Job& job) {
  PLEACH_TRY(check_job(topology_, job, now_ps_));
  if (engine_ != nullptr) {
    return Error{ErrorCode::kUnsupported,
                 "flit takes no job while others run: all must be known before the first begins"};
  }
  PLEACH_TRY(check_class(job));
  PLEACH_TRY(check_switches(*job.schedule));
  PLEACH_ASSIGN(schedule, written_out(job.schedule));
  PLEACH_ASSIGN(forms, known_.find(schedule));
  PLEACH_ASSIGN(lowered, forms->whole(job.size_bytes));
  waiting_.push_back({std::move(lowered), job.start_ps, job.traffic_class});
  names_.push_back(job.label < 0 ? job_count() : job.label);
  return job_count() - 1;
}

std::optional<int64_t> FlitSession::next_ps() const {
  if (engine_ != nullptr) {
    return engine_->next_ps();
  }
  const auto first = first_start_ps();
  return first ? std::optional(*first + 1) : std::nullopt;
}

std::optional<int64_t> FlitSession::first_start_ps() const {
  const auto first = std::ranges::min_element(waiting_, {}, &FlitJob::start_ps);
  return first == waiting_.end() ? std::nullopt : std::optional(first->start_ps);
}

Result<std::unique_ptr<FlitRun>> FlitSession::begin_run() {
  std::vector<FlitJob> jobs = std::exchange(waiting_, {});
  if (const auto* options = std::get_if<FlitOptions>(&kind_)) {
    PLEACH_ASSIGN(engine, FlitEngine::create(topology_, simulation_, *options, std::move(jobs)));
    return std::unique_ptr<FlitRun>(std::move(engine));
  }
  PLEACH_ASSIGN(engine, PacketEngine::create(topology_, simulation_, std::get<PacketShape>(kind_),
                                             std::move(jobs)));
  return std::unique_ptr<FlitRun>(std::move(engine));
}

Result<std::vector<NetworkSession::Finish>> FlitSession::advance(int64_t until_ps) {
  if (engine_ == nullptr) {
    const auto first = first_start_ps();
    if (!first || until_ps <= *first) {  // others may still come
      now_ps_ = first ? std::max(now_ps_, until_ps) : now_ps_;
      return std::vector<Finish>();
    }
    PLEACH_SET(engine_, begin_run());
  }
  PLEACH_TRY(engine_->advance(until_ps));
  std::vector<Finish> finished = engine_->take_finished();
  now_ps_ = std::max(now_ps_, finished.empty() ? until_ps : finished.front().time_ps);
  const int32_t first = job_count() - engine_->job_count();
  for (Finish& one : finished) {
    one.job += first;
  }
  std::ranges::sort(finished, {}, &Finish::job);
  if (engine_->is_idle()) {
    end_run();
  }
  return finished;
}

void FlitSession::add_counters(const NetworkUse& use) {
  if (use_.counters.empty()) {
    use_.counters = use.counters;
    use_.link_counters = use.link_counters;
    return;
  }
  for (std::size_t i = 0; i < use.counters.size(); ++i) {
    use_.counters[i].add(use.counters[i]);
  }
  for (std::size_t i = 0; i < use.link_counters.size(); ++i) {
    std::ranges::transform(use_.link_counters[i].counts, use.link_counters[i].counts,
                           use_.link_counters[i].counts.begin(), std::plus());
  }
}

void FlitSession::add_admission(const AdmissionUse& admission) {
  AdmissionUse& sum = use_.admission.has_value() ? *use_.admission : use_.admission.emplace();
  sum.configurations += admission.configurations;
  sum.waited_ps += admission.waited_ps;
  sum.preemptions += admission.preemptions;
  sum.undecided += admission.undecided;
  for (SwitchConflict conflict : admission.conflicts) {
    for (int32_t& job : conflict.jobs) {
      job = names_[at(job_count() - engine_->job_count() + job)];
    }
    std::ranges::sort(conflict.jobs);
    conflict.jobs.erase(std::unique(conflict.jobs.begin(), conflict.jobs.end()),
                        conflict.jobs.end());
    const auto known = std::ranges::find_if(sum.conflicts, [&](const SwitchConflict& one) {
      return one.node == conflict.node && one.jobs == conflict.jobs;
    });
    if (known != sum.conflicts.end()) {
      known->count += conflict.count;
    } else if (sum.conflicts.size() < AdmissionUse::kMostConflicts) {
      sum.conflicts.push_back(std::move(conflict));
    }
  }
}

void FlitSession::end_run() {
  const NetworkUse use = engine_->use();
  for (std::size_t link = 0; link < use.links.size(); ++link) {
    use_.links[link].add(use.links[link]);
  }
  use_.event_count += use.event_count;
  if (use.cycles.has_value()) {
    use_.cycles = use_.cycles.value_or(0) + *use.cycles;
  }
  add_counters(use);
  use_.note = use.note;
  if (use.admission.has_value()) {
    add_admission(*use.admission);
  }
  const auto* options = std::get_if<FlitOptions>(&kind_);
  if (options != nullptr && !options->energies.empty()) {
    use_.energy_j = energy_of(options->energies, use_.counters);
  }
  for (int32_t job = 0; simulation_.keep_records && job < engine_->job_count(); ++job) {
    use_.records.push_back(engine_->take_record(job));
  }
  engine_.reset();
}

Result<std::unique_ptr<NetworkSession>> open_flit(const Topology& topology,
                                                  const SimulationOptions& simulation,
                                                  const Options& own) {
  if (simulation.landing_places > 0) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("landing places '{}': the flit model has credits of its own, "
                             "flit,vcs=...,buffer=...",
                             simulation.landing_places)};
  }
  PLEACH_TRY(check_no_reconfiguration(simulation, "flit"));
  PLEACH_TRY(check_router(own));
  RouterKind kind;
  if (has_packet_routers(own)) {
    PLEACH_SET(kind, packet_shape(topology, simulation.flow_control, own));
  } else if (const SwitchCores cores(topology); !cores.empty()) {
    const Node& node = topology.node(cores.nodes().front());
    return Error{
        ErrorCode::kUnsupported,
        fmt::format("switch {} ({}) does not carry whatever enters; flit's routers do, but "
                    "with router=fred",
                    node.name, node.switch_model)};
  } else {
    PLEACH_SET(kind, flit_options(topology, simulation.flow_control, own));
  }
  return std::unique_ptr<NetworkSession>(
      std::make_unique<FlitSession>(topology, simulation, std::move(kind)));
}

}  // namespace

extern const NetworkModel kFlitModel = {
    .name = "flit",
    .summary =
        "routers with virtual channels and MultiTree's interfaces, cycle by cycle; FRED's switches",
    .source = "Huang et al., MultiTree, ISCA 2021; Dally, Virtual-channel flow control, 1992",
    .options = flit_model_options(),
    .shares_links = false,
    .has_clock = true,
    .curve_end_bytes = int64_t{16} << 20,
    .open = open_flit,
};

}  // namespace pleach
