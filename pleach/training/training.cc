#include "pleach/training/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/base/units.h"
#include "pleach/planning/io_shares.h"
#include "pleach/policy/setup.h"
#include "pleach/training/fabric_planners.h"
#include "pleach/training/free_iteration.h"
#include "pleach/training/training_bound.h"

namespace pleach {
namespace {

// A gradient group's costs: its own family's, and the expert family's for exchanges.
class GroupCosts : public CostModel {
 public:
  GroupCosts(const CostModel& gradients, const CostModel* exchanges)
      : gradients_(gradients), exchanges_(exchanges) {}
  bool has(CollectiveKind kind) const override {
    return model(kind) != nullptr && model(kind)->has(kind);
  }
  int64_t time_ps(CollectiveKind kind, int64_t size_bytes) const override {
    return model(kind)->time_ps(kind, size_bytes);
  }
  std::vector<int64_t> breakpoints(CollectiveKind kind) const override {
    return model(kind)->breakpoints(kind);
  }

 private:
  const CostModel* model(CollectiveKind kind) const {
    return kind == CollectiveKind::kAllToAll ? exchanges_ : &gradients_;
  }

  const CostModel& gradients_;
  const CostModel* exchanges_;
};

// The most bytes of collectives that are decided and not finished at a time. The log is of one
// iteration: those before and after it have the same.
int64_t most_held_bytes(const std::vector<HostedCollective>& log, int64_t iteration_ps) {
  std::vector<std::pair<int64_t, int64_t>> changes;  // time and bytes, at one time first what goes
  for (const HostedCollective& one : log) {
    const int64_t end_ps = std::max(one.finished_ps, one.issued_ps);
    for (const int64_t shift_ps : {-iteration_ps, int64_t{0}, iteration_ps}) {
      changes.emplace_back(one.issued_ps + shift_ps, one.what.range.size());
      changes.emplace_back(end_ps + shift_ps, -one.what.range.size());
    }
  }
  std::ranges::sort(changes);
  int64_t held = 0, most = 0;
  for (const auto& [time_ps, bytes] : changes) {
    held += bytes;
    most = std::max(most, held);
  }
  return most;
}

// Of each worker; groups of one worker count as full at one time.
std::vector<int64_t> bucket_bytes(const TrainingRow& row) {
  std::vector<int64_t> held(row.trace->workers.size());
  for (std::size_t index = 0; index < row.run.logs.size(); ++index) {
    const std::vector<HostedCollective>& log = row.run.logs[index];
    int64_t bytes = most_held_bytes(log, row.run.iteration_ps);
    if (row.needs.frees_parameters) {
      int64_t largest = 0;
      for (const HostedCollective& one : log) {
        if (one.what.kind == CollectiveKind::kAllGather) {
          largest = std::max(largest, one.what.range.size());
        }
      }
      bytes += largest;
    }
    for (const int32_t worker : row.trace->gradient_groups[index].workers) {
      held[at(worker)] += bytes;
    }
  }
  return held;
}

// What the worker that holds most holds. The stages of a pipeline are workers in a row.
MemoryUse fullest_memory(const TrainingRow& row, const std::vector<MemoryUse>& stages) {
  MemoryUse fullest;
  const std::vector<int64_t> buckets = bucket_bytes(row);
  for (std::size_t worker = 0; worker < buckets.size(); ++worker) {
    MemoryUse use = stages[worker % stages.size()];
    use.bucket_bytes = buckets[worker];
    if (use.total_bytes() > fullest.total_bytes()) {
      fullest = use;
    }
  }
  return fullest;
}

int64_t largest_message(const Trace& trace) {
  int64_t largest = 1;
  for (const WorkerTrace& worker : trace.workers) {
    for (const TraceNode& node : worker.nodes) {
      largest = std::max(largest, node.size_bytes);
    }
  }
  for (const GradientGroup& group : trace.gradient_groups) {
    largest = std::max(largest, ParameterSpace(profile_of(group)).total_bytes());
  }
  return largest;
}

struct Costs {
  std::unique_ptr<TraceCosts> costs;
  int64_t curve_end_bytes = 0;  // TrainingRow's
};

Result<Costs> make_costs(const Trace& trace, const NetworkChoice& network) {
  if (network.source == CostSource::kMeasured) {
    return Costs{measured_costs(trace, *network.measured)};
  }
  if (network.source == CostSource::kAlphaBeta) {
    return Costs{alpha_beta_costs(trace, {.alpha_ps = network.alpha_ps,
                                          .bandwidth_bytes_per_s = network.bandwidth_bytes_per_s,
                                          .overhead_ps = network.overhead_ps,
                                          .families = network.family_links})};
  }
  const int64_t largest_bytes = largest_message(trace);
  PLEACH_ASSIGN(end_bytes, curve_end_bytes(network.fabric, largest_bytes));
  return Costs{
      fabric_costs(*network.topology, trace, network.fabric, end_bytes, network.overhead_ps),
      end_bytes < largest_bytes ? end_bytes : 0};
}

Status check_network(const NetworkChoice& network, int32_t rank_count) {
  if (network.overhead_ps < 0 || network.overhead_ps > kLongestPs) {
    return invalid(fmt::format("an overhead of {} ps is not within 0 and {}", network.overhead_ps,
                               kLongestText));
  }
  if (network.source == CostSource::kAlphaBeta) {
    if (!(network.bandwidth_bytes_per_s > 0) || network.alpha_ps < 0) {
      return invalid(
          fmt::format("alpha-beta costs need a bandwidth above 0 and a latency from 0, not {} B/s "
                      "and {} ps",
                      network.bandwidth_bytes_per_s, network.alpha_ps));
    }
    for (const auto& [family, link] : network.family_links) {
      if (!(link.bandwidth_bytes_per_s.value_or(1) > 0) || link.alpha_ps.value_or(0) < 0) {
        return invalid(
            fmt::format("the links of family {} need a bandwidth above 0 and a latency "
                        "from 0",
                        family));
      }
    }
    return ok();
  }
  if (network.source == CostSource::kMeasured) {
    return network.overhead_ps == 0 ? ok() : Status(invalid("measured costs have their overhead"));
  }
  const auto ranks = count_of(network.topology->rank_nodes());
  if (ranks < rank_count) {
    return invalid(fmt::format("topology {} has {} ranks, and {} are needed",
                               network.topology->name(), ranks, rank_count));
  }
  return network.source == CostSource::kFull ? check_shared(network.fabric) : ok();
}

// That families with algorithms or links of their own are there, and that files are of some group.
Status check_families(const Trace& trace, const NetworkChoice& network) {
  std::vector<std::string> known;
  for (const Family& family : trace.families) {
    if (std::ranges::count(known, family.name) == 0) {  // those of outputs share one
      known.push_back(family.name);
    }
  }
  for (const auto& [name, algorithm] : network.fabric.family_algorithms) {
    if (std::ranges::count(known, name) == 0) {
      return prefixed("algorithms by family", unknown_name("family", name, known));
    }
  }
  const bool has_messages = std::ranges::any_of(trace.workers, [](const WorkerTrace& worker) {
    return std::ranges::count(worker.nodes, TraceNodeKind::kSend, &TraceNode::kind) > 0;
  });
  if (has_messages && std::ranges::count(known, kPipelineFamily) == 0) {
    known.emplace_back(kPipelineFamily);
  }
  for (const auto& [name, link] : network.family_links) {
    if (std::ranges::count(known, name) == 0) {
      return prefixed("links by family", unknown_name("family", name, known));
    }
  }
  switch (network.source) {
    case CostSource::kAlphaBeta:
      return ok();
    case CostSource::kMeasured:
      return check_measured(trace, *network.measured);
    case CostSource::kCurves:
    case CostSource::kFull:
      break;
  }
  return check_schedule_files(*network.topology, trace, network.fabric);
}

// That there are I/O nodes, where something passes by them.
Status check_io(const Trace& trace, const NetworkChoice& network) {
  constexpr const char* kWhat = "weights by I/O nodes (stream=io)";
  if (find_family(trace, FamilyRole::kIo) < 0) {
    return ok();
  }
  if (network.topology == nullptr || network.source == CostSource::kAlphaBeta) {
    return invalid(kWhat, "only costs of curves and full know of any");
  }
  for (const TraceNodeKind kind : {TraceNodeKind::kLoad, TraceNodeKind::kStore}) {
    if (const auto shares = IoShares::of(*network.topology, io_collective(kind)); !shares) {
      return prefixed(kWhat, shares.error());
    }
  }
  return ok();
}

// That classes of traffic are of something, and that a network tells them apart.
Status check_classes(const Trace& trace, const NetworkChoice& network,
                     const TrafficClasses& classes) {
  if (classes.is_one()) {
    return ok();
  }
  if (network.source != CostSource::kFull) {
    return invalid("classes of traffic", "only full costs let it share links");
  }
  PLEACH_TRY(check_shared(network.fabric, true));
  std::vector<std::string> known = {std::string(kPipelineFamily)};
  for (const Family& family : trace.families) {
    if (family.name != kPipelineFamily) {
      known.push_back(family.name);
    }
  }
  for (const std::string& name : classes.names()) {
    if (std::ranges::count(known, name) == 0) {
      return prefixed("classes of traffic", unknown_name("family", name, known));
    }
  }
  return ok();
}

// Simulates the row's trace, and fills in what a row says of its run.
Status run_row(TrainingRow& row, std::span<Policy* const> policies, const NetworkChoice& choice,
               TraceCosts& costs, const IterationOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  std::unique_ptr<TraceNetwork> network = independent_network(costs);
  if (choice.source == CostSource::kFull) {
    PLEACH_SET(network,
               shared_network(*choice.topology, *row.trace, choice.fabric, choice.overhead_ps));
  }
  PLEACH_SET(row.run, simulate_training(*row.trace, policies, *network, options));
  PLEACH_SET(row.admission, network->admission());
  row.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (const WorkerTimes& worker : row.run.workers) {
    row.compute_ps = std::max(row.compute_ps, worker.compute_ps);
  }
  row.exposed_ps = row.run.iteration_ps - row.compute_ps;
  return ok();
}

class Trainer {
 public:
  explicit Trainer(const TrainingRequest& request) : request_(request), sharded_(request.strategy) {
    sharded_.zero = std::max(1, request.strategy.zero);
  }

  Result<std::vector<TrainingRow>> run() {
    PLEACH_TRY(check_network(request_.network, request_.strategy.rank_end()));
    PLEACH_TRY(check_slowness());
    PLEACH_ASSIGN(plain, build_trace(trace_request({}, true)));
    base_ = std::make_shared<const Trace>(std::move(plain));
    exchange_family_ = find_family(*base_, FamilyRole::kExpert);
    PLEACH_TRY(check_io(*base_, request_.network));
    PLEACH_TRY(check_families(*base_, request_.network));
    PLEACH_TRY(check_classes(*base_, request_.network, request_.iteration.classes));
    PLEACH_SET(costs_, make_costs(*base_, request_.network));
    if (const int64_t end_bytes = costs_.curve_end_bytes; end_bytes > 0) {
      report(fmt::format("curves are simulated up to {}; what is larger follows their last slope",
                         format_size(end_bytes)));
    }
    report("the iteration without gradient communication");
    PLEACH_ASSIGN(free, run_without_gradients(*base_, *costs_.costs, request_.iteration, false));
    free_ps_ = free.iteration_ps;
    std::vector<TrainingRow> rows;
    for (const std::string& spec : request_.policies) {
      PLEACH_ASSIGN(row, run_policy(spec));
      rows.push_back(std::move(row));
    }
    return rows;
  }

 private:
  // `shards`: whether ranks share the optimizer's step.
  TraceRequest trace_request(const PolicyNeeds& needs, bool shards) const {
    return {.workload = request_.workload,
            .strategy = shards ? sharded_ : request_.strategy,
            .slowness = request_.slowness,
            .merge_alike = request_.iteration.jitter <= 0,
            .exchange_parts = needs.exchange_parts,
            .defer_weight_gradients = needs.defers_weight_gradients,
            .backward_gates = needs.frees_parameters};
  }

  bool has_exchanges() const { return exchange_family_ >= 0; }

  Status check_slowness() const {
    const auto ranks = at(request_.strategy.rank_end());
    if (!request_.slowness.empty() && request_.slowness.size() != ranks) {
      return invalid(
          fmt::format("slowness is given for {} ranks of {}", request_.slowness.size(), ranks));
    }
    for (std::size_t rank = 0; rank < request_.slowness.size(); ++rank) {
      if (!(request_.slowness[rank] > 0) || request_.slowness[rank] > 1e6) {
        return invalid(fmt::format("slowness of rank {} is {}, not in (0, 1e6]", rank,
                                   request_.slowness[rank]));
      }
    }
    return ok();
  }

  void report(const std::string& what) const {
    if (request_.progress) {
      request_.progress(what);
    }
  }

  // The costs that a policy of `kinds` sees in a gradient group.
  Result<GroupCosts> costs_of(std::size_t group, std::span<const CollectiveKind> kinds) {
    std::vector<CollectiveKind> own;
    std::copy_if(kinds.begin(), kinds.end(), std::back_inserter(own),
                 [](CollectiveKind kind) { return kind != CollectiveKind::kAllToAll; });
    PLEACH_ASSIGN(gradients, costs_.costs->family_costs(base_->gradient_groups[group].family, own));
    const CostModel* exchanges = nullptr;
    if (has_exchanges()) {
      constexpr std::array kKinds = {CollectiveKind::kAllToAll};
      PLEACH_SET(exchanges, costs_.costs->family_costs(exchange_family_, kKinds));
    }
    return GroupCosts(*gradients, exchanges);
  }

  Result<TrainingRow> run_policy(const std::string& spec) {
    report(fmt::format("policy {}", spec));
    PLEACH_ASSIGN(setup, PolicySetup::create(spec, request_.strategy.zero, request_.settled));
    const bool shards = setup.zero_stage() > 0;
    PLEACH_ASSIGN(profiles, told(shards));
    std::vector<GroupCosts> costs;
    costs.reserve(profiles->size());
    for (std::size_t group = 0; group < profiles->size(); ++group) {
      PLEACH_ASSIGN(one, costs_of(group, setup.collectives()));
      costs.push_back(one);
    }
    std::vector<FittedPolicy> policies;
    std::vector<Policy*> borrowed;
    PolicyNeeds needs;
    for (std::size_t group = 0; group < profiles->size(); ++group) {
      PLEACH_ASSIGN(fitted, setup.fit({.profile = (*profiles)[group],
                                       .costs = costs[group],
                                       .seed = request_.iteration.seed}));
      merge_needs(fitted.needs, base_->gradient_groups[group], needs);
      borrowed.push_back(fitted.policy.get());
      policies.push_back(std::move(fitted));
    }
    PLEACH_ASSIGN(trace, build_trace(trace_request(needs, shards)));
    TrainingRow row{.policy = spec, .trace = std::make_shared<const Trace>(std::move(trace))};
    row.needs = needs;
    row.planned_on_curves = setup.plans_by_costs() && request_.network.source == CostSource::kFull;
    row.curve_end_bytes = costs_.curve_end_bytes;
    PLEACH_TRY(run_row(row, borrowed, request_.network, *costs_.costs, request_.iteration));
    PLEACH_SET(row.bound_ps, bound());
    rate(row, setup.zero_stage());
    return row;
  }

  // How much is trained in a second, and what a rank holds.
  void rate(TrainingRow& row, int32_t zero_stage) const {
    const auto& [model, batch, times] = request_.workload;
    const double iteration_s = static_cast<double>(row.run.iteration_ps) / kPicosecondsPerSecond;
    const double samples = static_cast<double>(batch) * request_.strategy.data;
    if (row.run.iteration_ps > 0) {
      row.samples_per_s = samples / iteration_s;
      row.tokens_per_s = row.samples_per_s * static_cast<double>(model.tokens_per_sample);
    }
    const auto* accelerator = std::get_if<Accelerator>(&times);
    const auto* roof = accelerator == nullptr ? nullptr : std::get_if<Roofline>(&accelerator->rule);
    if (roof != nullptr) {
      row.peak_share = row.samples_per_s * product_operations(model) /
                       (roof->operations_per_s * request_.strategy.rank_count());
    }
    Strategy sharded = request_.strategy;
    sharded.zero = zero_stage;
    row.memory = fullest_memory(row, memory_by_stage(request_.workload, sharded));
  }

  // What the layers of a group ask for, by layer of the model.
  void merge_needs(const PolicyNeeds& own, const GradientGroup& group, PolicyNeeds& all) const {
    all.step_at_once |= own.step_at_once;
    all.frees_parameters |= own.frees_parameters;
    all.defers_weight_gradients |= own.defers_weight_gradients;
    all.exchange_parts.resize(request_.workload.model.layers.size(), 1);
    for (std::size_t layer = 0; layer < own.exchange_parts.size(); ++layer) {
      int32_t& parts = all.exchange_parts[at(group.layers[layer].model_layer)];
      parts = std::max(parts, own.exchange_parts[layer]);
    }
  }

  // What policies are told of times; by gradient group.
  Result<const std::vector<TrainingProfile>*> told(bool shards) {
    std::optional<std::vector<TrainingProfile>>& told = told_[shards ? 1 : 0];
    if (!told.has_value()) {
      TraceRequest request = trace_request({}, shards);
      if (!request.slowness.empty()) {  // the slowest replica is the one that everybody waits for
        request.slowness = slowest_of_stages();
        request.merge_alike = true;
      }
      PLEACH_ASSIGN(trace, build_trace(request));
      PLEACH_ASSIGN(free, run_without_gradients(trace, *costs_.costs, request_.iteration, false));
      told = std::move(free.told);
    }
    return &*told;
  }

  // By rank: the slowness of the slowest rank of its stage.
  std::vector<double> slowest_of_stages() const {
    std::vector<double> slowest = request_.slowness;
    for (const GradientGroup& group : base_->gradient_groups) {
      std::vector<int32_t> ranks;
      for (const int32_t worker : group.workers) {
        const auto& own = base_->workers[at(worker)].ranks;
        ranks.insert(ranks.end(), own.begin(), own.end());
      }
      double most = 0;
      for (const int32_t rank : ranks) {
        most = std::max(most, slowest[at(rank)]);
      }
      for (const int32_t rank : ranks) {
        slowest[at(rank)] = most;
      }
    }
    return slowest;
  }

  // The same for every policy.
  Result<int64_t> bound() {
    if (!bound_ps_.has_value()) {
      report("the bound");
      PLEACH_SET(bound_ps_, training_bound({.trace = *base_,
                                            .strategy = request_.strategy,
                                            .network = request_.network,
                                            .costs = *costs_.costs,
                                            .free_ps = free_ps_,
                                            .iteration = request_.iteration}));
    }
    return *bound_ps_;
  }

  const TrainingRequest& request_;
  Strategy sharded_;  // in which ranks share the optimizer's step, as any policy may have them do
  std::shared_ptr<const Trace> base_;
  Costs costs_;
  int32_t exchange_family_ = -1;  // of experts; −1: there is none
  int64_t free_ps_ = 0;           // the iteration in which gradients travel in no time
  // What policies are told of times: where each rank makes the whole step, and where ranks share
  // it.
  std::array<std::optional<std::vector<TrainingProfile>>, 2> told_;
  std::optional<int64_t> bound_ps_;
};

BucketReport report_bucket(const GradientGroup& group, const ParameterSpace& space,
                           const HostedCollective& one, int64_t start_ps) {
  const ByteRange range = one.what.range;
  const auto name_of = [&](int64_t byte) { return group.layers[at(space.layer_of(byte))].name; };
  const int64_t held_ps = one.issued_ps - one.ready_ps;
  const int64_t queued_ps = one.started_ps - one.issued_ps;
  return {.group = group.name,
          .kind = one.what.kind,
          .first_layer = name_of(range.begin),
          .last_layer = name_of(range.end - 1),
          .size_bytes = range.size(),
          .ready_ps = one.ready_ps - start_ps,
          .issued_ps = one.issued_ps - start_ps,
          .started_ps = one.started_ps - start_ps,
          .finished_ps = one.finished_ps - start_ps,
          .exposed_ps = one.exposed_ps,
          .waited_for = held_ps == 0 && queued_ps == 0 ? "gradients"
                        : held_ps > queued_ps          ? "policy"
                                                       : "channel"};
}

}  // namespace

Result<std::vector<TrainingRow>> train(const TrainingRequest& request) {
  return Trainer(request).run();
}

Result<TrainingRow> replay(const Trace& trace, const NetworkChoice& network,
                           const IterationOptions& options) {
  PLEACH_TRY(check_trace(trace));
  if (!trace.gradient_groups.empty()) {
    return invalid("a trace with gradient groups needs policies");
  }
  PLEACH_TRY(check_network(network, trace.rank_count));
  PLEACH_TRY(check_io(trace, network));
  PLEACH_TRY(check_families(trace, network));
  PLEACH_TRY(check_classes(trace, network, options.classes));
  PLEACH_ASSIGN(made, make_costs(trace, network));
  TrainingRow row{.policy = "as_traced", .trace = std::make_shared<const Trace>(trace)};
  row.curve_end_bytes = made.curve_end_bytes;
  PLEACH_TRY(run_row(row, {}, network, *made.costs, options));
  row.bound_ps = row.compute_ps;
  return row;
}

std::vector<BucketReport> explain(const TrainingRow& row) {
  std::vector<BucketReport> buckets;
  for (std::size_t index = 0; index < row.run.logs.size(); ++index) {
    const GradientGroup& group = row.trace->gradient_groups[index];
    const ParameterSpace space(profile_of(group));
    for (const HostedCollective& one : row.run.logs[index]) {
      buckets.push_back(report_bucket(group, space, one, row.run.last_start_ps));
    }
  }
  return buckets;
}

}  // namespace pleach
