#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <variant>

#include "pleach/base/index.h"
#include "pleach/base/units.h"
#include "pleach/fabric/switch_cores.h"
#include "pleach/network/model.h"
#include "pleach/planning/message.h"
#include "pleach/planning/padding.h"
#include "pleach/training/fabric_planners.h"
#include "pleach/training/trace_network.h"

namespace pleach {
namespace {

// An operation is one job per group, or per pair of ranks; it finishes with the last of them.
class SharedNetwork : public TraceNetwork {
 public:
  SharedNetwork(std::unique_ptr<NetworkSession> session, const Topology& topology,
                const Trace& trace, const FabricOptions& options, int64_t overhead_ps)
      : session_(std::move(session)),
        topology_(topology),
        trace_(trace),
        segment_count_(*options.segment_count),
        overhead_ps_(overhead_ps),
        planners_(topology, trace, options) {}

  Result<int32_t> start(const GroupCollective& what, int64_t now_ps) override {
    const int32_t operation = begin();
    const Family& family = trace_.families[at(what.family)];
    for (const int32_t group : *what.groups) {
      const bool moves = family.groups[at(group)].size() > 1 || is_of_io(family.role);
      if (!moves || what.size_bytes == 0) {
        continue;
      }
      PLEACH_ASSIGN(choice, choose(what, group));
      for (std::size_t part = 0; part < choice.schedules.size(); ++part) {
        PLEACH_TRY(add(operation, {.schedule = choice.schedules[part],
                                   .size_bytes = choice.bytes_of(part, what.size_bytes),
                                   .start_ps = add_times_ps(now_ps, overhead_ps_),
                                   .traffic_class = what.traffic_class,
                                   .label = label(OwnGroup{what.family, group})}));
      }
    }
    return end(operation, now_ps);
  }

  Result<int32_t> start(const WorkerSend& what, int64_t now_ps) override {
    const int32_t operation = begin();
    for (std::size_t i = 0; i < what.sources->size() && what.size_bytes > 0; ++i) {
      PLEACH_TRY(add(operation, {.schedule = message((*what.sources)[i], (*what.targets)[i]),
                                 .size_bytes = what.size_bytes,
                                 .start_ps = now_ps,
                                 .traffic_class = what.traffic_class,
                                 .label = label(Message((*what.sources)[i], (*what.targets)[i]))}));
    }
    return end(operation, now_ps);
  }

  std::optional<int64_t> next_ps() const override {
    return finished_.empty() ? session_->next_ps() : std::optional(finished_.front().time_ps);
  }

  Result<std::vector<Finish>> advance(int64_t until_ps) override {
    if (!finished_.empty()) {  // those without any job, first: the session may be behind
      return std::exchange(finished_, {});
    }
    std::vector<Finish> finishes;
    PLEACH_ASSIGN(jobs, session_->advance(until_ps));
    for (const NetworkSession::Finish& job : jobs) {
      const int32_t operation = operations_.of_job[at(job.job)];
      if (--operations_.left[at(operation)] == 0) {
        finishes.push_back({operation, job.time_ps});
      }
    }
    return finishes;
  }

  Result<std::optional<TraceAdmission>> admission() override {
    if (SwitchCores(topology_).empty()) {  // what a session used may take time to add up
      return std::optional<TraceAdmission>();
    }
    PLEACH_ASSIGN(use, session_->use());
    if (!use.admission.has_value()) {
      return std::optional<TraceAdmission>();
    }
    TraceAdmission admission{use.admission->configurations, use.admission->waited_ps,
                             use.admission->preemptions, use.admission->undecided,
                             use.admission->reconfigurations};
    for (const SwitchConflict& one : use.admission->conflicts) {
      TraceConflict& conflict = admission.conflicts.emplace_back();
      conflict.node = topology_.node(one.node).name;
      conflict.level = one.level;
      conflict.count = one.count;
      for (const int32_t label : one.jobs) {
        conflict.groups.push_back(group_of(labels_.whose[at(label)]));
      }
    }
    return std::optional(std::move(admission));
  }

 private:
  using Message = std::pair<int32_t, int32_t>;  // ranks, source and target
  struct OwnGroup {
    int32_t family = 0;
    int32_t group = 0;
    auto operator<=>(const OwnGroup&) const = default;
  };
  using Labelled = std::variant<OwnGroup, Message>;

  // The same for all jobs of a group, or of a pair of ranks.
  int32_t label(const Labelled& whose) {
    const auto [known, is_new] = labels_.numbers.try_emplace(whose, count_of(labels_.whose));
    if (is_new) {
      labels_.whose.push_back(whose);
    }
    return known->second;
  }

  TraceGroup group_of(const Labelled& whose) const {
    if (const auto* message = std::get_if<Message>(&whose)) {
      return {std::string(kPipelineFamily), {message->first, message->second}};
    }
    const auto& [number, group] = std::get<OwnGroup>(whose);
    const Family& family = trace_.families[at(number)];
    return {family.name, family.groups[at(group)]};
  }

  Result<CommonChoice> choose(const GroupCollective& what, int32_t group) {
    const Family& family = trace_.families[at(what.family)];
    const std::vector<NodeId> nodes = nodes_of(topology_, family.groups[at(group)]);
    PLEACH_ASSIGN(planner, planners_.planner(what.family, what.kind));
    return is_of_io(family.role)
               ? planner->choose_io(what.kind, {&nodes, 1}, what.size_bytes)
               : planner->choose_together(what.kind, {&nodes, 1}, what.size_bytes);
  }

  // The same pointer for the same ranks, as the session wants it.
  const std::shared_ptr<const Schedule>& message(int32_t source_rank, int32_t target_rank) {
    auto& known = messages_[Message(source_rank, target_rank)];
    if (known == nullptr) {
      known = message_schedule(node_of(topology_, source_rank), node_of(topology_, target_rank));
    }
    return known;
  }

  int32_t begin() {
    operations_.left.push_back(0);
    return count_of(operations_.left) - 1;
  }

  // A job of the operation, whose size may take padding.
  Status add(int32_t operation, Job what) {
    const int64_t unit_bytes = padding_unit_bytes(*what.schedule, segment_count_);
    what.size_bytes = padded_bytes(what.size_bytes, unit_bytes);
    PLEACH_ASSIGN(job, session_->start(what));
    operations_.of_job.resize(at(job) + 1);
    operations_.of_job[at(job)] = operation;
    ++operations_.left[at(operation)];
    return ok();
  }

  Result<int32_t> end(int32_t operation, int64_t now_ps) {
    if (operations_.left[at(operation)] == 0) {
      finished_.push_back({operation, now_ps});
    }
    return operation;
  }

  std::unique_ptr<NetworkSession> session_;
  const Topology& topology_;
  const Trace& trace_;
  const int32_t segment_count_;
  const int64_t overhead_ps_;
  FabricPlanners planners_;
  std::map<Message, std::shared_ptr<const Schedule>> messages_;
  struct {
    std::map<Labelled, int32_t> numbers;
    std::vector<Labelled> whose;  // by number
  } labels_;
  struct {
    std::vector<int32_t> left;    // by operation: jobs under way
    std::vector<int32_t> of_job;  // by job
  } operations_;
  std::vector<Finish> finished_;  // without any job, at the time they started
};

}  // namespace

Status check_shared(const FabricOptions& options, bool has_classes) {
  PLEACH_ASSIGN(model, network_models().entry_of(options.model));
  if (!model->shares_links) {
    return invalid(
        fmt::format("network model {}: its jobs do not share links as they come, as full "
                    "costs ask for",
                    model->name));
  }
  if (has_classes && !model->has_classes) {
    return invalid(fmt::format("network model {}: it knows no classes of traffic", model->name));
  }
  if (!options.segment_count) {
    return invalid("full costs ask for one number of segments");
  }
  return ok();
}

Result<std::unique_ptr<TraceNetwork>> shared_network(const Topology& topology, const Trace& trace,
                                                     const FabricOptions& options,
                                                     int64_t overhead_ps) {
  PLEACH_TRY(check_shared(options));
  SimulationOptions simulation = options.simulation;
  simulation.segment_count = *options.segment_count;
  PLEACH_ASSIGN(session, open_network(options.model, topology, simulation));
  return std::unique_ptr<TraceNetwork>(
      std::make_unique<SharedNetwork>(std::move(session), topology, trace, options, overhead_ps));
}

}  // namespace pleach
