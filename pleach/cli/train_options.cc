// What `pleach train` is asked for.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/base/value_range.h"
#include "pleach/cli/train.h"
#include "pleach/training/group_schedules.h"

namespace pleach {

void TrainOptions::declare(CommandLine& line) {
  line.required_option("--workload", workload,
                       "resnet50, gpt3, ..., a JSON file, or chakra:PREFIX (PREFIX.RANK.et)");
  line.option("--topology", topology, "where: torus:8x8, cluster.toml, ...");
  line.option("--ranks", ranks, "with --costs alpha_beta and no topology");
  line.option("--strategy", strategy,
              "dp=64,tp=8,pp=8,micro_batches=16; all ranks dp if not given");
  line.option("--policy", policy, "one or several: dear,bucket=25MiB,ddp");
  line.option("--algorithm", algorithm, "of all_reduce, reduce_scatter and all_gather");
  line.option("--exchange-algorithm", exchange_algorithm, "of all_to_all");
  line.option("--model", model, "network model of the cost curves");
  line.option("--segments", segments, "parts of each chunk that pipeline; auto (curves only)");
  line.option("--costs", costs,
              "curves: simulated once per size; full: all transfers share the links as they come; "
              "alpha_beta: rings of a few numbers");
  line.option("--alpha", alpha, "latency per hop, with alpha_beta: 15us");
  line.option("--overhead", overhead, "per collective, with alpha_beta: 0.2ms");
  line.option("--bandwidth", bandwidth, "of a rank's link, with alpha_beta: 10Gb/s");
  line.option("--calibration", calibration, "nccl-tests' JSON: alpha_beta fitted to it");
  line.option("--measured-link", measured_link,
              "nominal bandwidth of the links that the calibration was measured on");
  line.option("--accelerator", accelerator, "what computes (pleach list accelerators)");
  line.option("--batch", batch, "samples per replica and iteration; 0: the workload's own");
  line.option("--compute", compute, "scales computation so that one iteration takes this: 250ms");
  line.option(
      "--groups", groups,
      "ASTRA-sim's communicator groups, for chakra:PREFIX; PREFIX.groups.json if it is there");
  line.option("--slow", slow, "ranks that compute slower: 5=1.5,7=2");
  line.option("--jitter", jitter, "computation's noise, as a fraction: 0.05");
  line.option("--iterations", iterations, "at most, from 2; fewer where they repeat");
  line.option("--seed", seed, "of noise and of searches");
  line.option("--bandwidths", bandwidths, "sweeps link bandwidth: 1Gb/s:100Gb/s:2 (factor)");
  line.option("--links", links, "with --bandwidths: the class of links to sweep: nic, rank-switch");
  line.option("--target", target, "with --bandwidths: finds the least that meets this: 300ms");
  line.option("--csv", csv, "folder for rows.csv and buckets.csv");
  line.option("--export-chakra", export_chakra,
              "writes the last policy's iteration as PREFIX.RANK.et");
  line.flag("--explain", explain, "shows each bucket: when it went, and what it waited for");
  line.flag("--json", json, "print one JSON object");
}

Result<std::vector<std::string>> split_policies(const std::string& text) {
  std::vector<std::string> policies;
  for (const std::string_view word : split(text, ',')) {
    if (trim(word).empty()) {
      return invalid(fmt::format("'{}' has an empty name", one_line(text)));
    }
    if (word.find('=') == std::string_view::npos) {
      policies.emplace_back(trim(word));
    } else if (policies.empty()) {
      return invalid(fmt::format("'{}' starts with an option", one_line(text)));
    } else {
      policies.back() += "," + std::string(trim(word));
    }
  }
  return policies;
}

namespace {

constexpr std::string_view kChakraPrefix = "chakra:";

Result<double> parse_fraction(const std::string& text, const std::string& what, double most) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0) || value > most) {
    return invalid(
        fmt::format("{}: {} is no number from 0 to {}", what, pleach::quoted(text), most));
  }
  return value;
}

Result<std::vector<double>> parse_slow(const std::string& text, int32_t rank_count) {
  std::vector<double> slowness;
  if (text.empty()) {
    return slowness;
  }
  slowness.assign(at(rank_count), 1);
  for (const std::string_view word : split(text, ',')) {
    const auto equals = word.find('=');
    if (equals == std::string_view::npos) {
      return invalid(fmt::format("--slow: {} is not RANK=FACTOR", pleach::quoted(word)));
    }
    PLEACH_ASSIGN(rank, parse_integer(word.substr(0, equals), "--slow: rank", 0, rank_count - 1));
    PLEACH_ASSIGN(factor, parse_fraction(std::string(word.substr(equals + 1)), "--slow", 1e6));
    if (factor <= 0) {
      return invalid(fmt::format("--slow: rank {} would take no time", rank));
    }
    slowness[at(rank)] = factor;
  }
  return slowness;
}

Status understand_costs(const TrainOptions& options, const CommandLine& line, TrainPlan& plan) {
  const std::vector<std::string> sources = {"curves", "full", "alpha_beta"};
  const std::string costs = options.calibration.empty() ? options.costs : "alpha_beta";
  const auto source = std::find(sources.begin(), sources.end(), costs);
  if (source == sources.end()) {
    return unknown_name("--costs", costs, sources);
  }
  if (!options.calibration.empty() && line.given("--costs") && options.costs != "alpha_beta") {
    return invalid("--calibration: gives alpha_beta costs, not " + options.costs);
  }
  plan.network.source = static_cast<CostSource>(source - sources.begin());
  if (!options.calibration.empty()) {
    PLEACH_ASSIGN(fit, from_option("--calibration", read_calibration(options.calibration)));
    plan.calibration = fit;
    plan.network.alpha_ps = fit.alpha_ps;
    plan.network.bandwidth_bytes_per_s = fit.bandwidth_bytes_per_s;
  }
  if (!options.alpha.empty()) {
    PLEACH_SET(plan.network.alpha_ps, from_option("--alpha", parse_time_ps(options.alpha)));
  }
  if (!options.overhead.empty()) {
    PLEACH_SET(plan.network.overhead_ps,
               from_option("--overhead", parse_time_ps(options.overhead)));
  }
  if (!options.bandwidth.empty()) {
    PLEACH_ASSIGN(bandwidth,
                  from_option("--bandwidth", parse_bandwidth_bytes_per_s(options.bandwidth)));
    plan.network.bandwidth_bytes_per_s = static_cast<double>(bandwidth);
  }
  const bool two_numbers = plan.network.source == CostSource::kAlphaBeta;
  if (two_numbers && plan.network.bandwidth_bytes_per_s <= 0 && options.bandwidths.empty()) {
    return invalid("--costs alpha_beta needs --bandwidth");
  }
  if (!two_numbers &&
      (!options.alpha.empty() || !options.overhead.empty() || !options.bandwidth.empty())) {
    return invalid(
        "--alpha, --overhead and --bandwidth are for --costs alpha_beta; a topology has "
        "its own");
  }
  plan.network.fabric = {.algorithm = options.algorithm,
                         .exchange_algorithm = options.exchange_algorithm,
                         .model = options.model,
                         .segment_count = 0};
  PLEACH_TRY(from_option("--model", network_models().find(options.model)));
  if (options.segments != "auto") {
    PLEACH_ASSIGN(segments, parse_integer(options.segments, "--segments", 1, kMostSegments));
    plan.network.fabric.segment_count = static_cast<int32_t>(segments);
  } else if (plan.network.source == CostSource::kFull) {
    return invalid("--segments: auto is for --costs curves");
  }
  return ok();
}

// Where the ranks are: the topology, or as many as --ranks says.
Status understand_ranks(const TrainOptions& options, TrainPlan& plan) {
  if (plan.network.source == CostSource::kAlphaBeta && options.topology.empty()) {
    const std::string text = options.ranks.empty() && plan.trace
                                 ? std::to_string(plan.trace->rank_count)
                                 : options.ranks;
    if (text.empty()) {
      return invalid("give --ranks, or a --topology whose ranks to count");
    }
    PLEACH_ASSIGN(ranks, parse_integer(text, "--ranks", 1, 1 << 20));
    plan.rank_count = static_cast<int32_t>(ranks);
    return ok();
  }
  if (options.topology.empty()) {
    return invalid(fmt::format("--costs {} needs a --topology", options.costs));
  }
  if (!options.ranks.empty()) {
    return invalid("--ranks: the topology has its own");
  }
  PLEACH_SET(plan.topology, topology_option(options.topology));
  plan.rank_count = count_of(plan.topology->rank_nodes());
  return ok();
}

Status understand_workload(const TrainOptions& options, const CommandLine& line, TrainPlan& plan) {
  PLEACH_ASSIGN(accelerator, from_option("--accelerator", parse_accelerator(options.accelerator)));
  if (options.workload.starts_with(kChakraPrefix)) {
    for (const char* name : {"--strategy", "--policy", "--batch", "--compute", "--slow"}) {
      if (line.given(name)) {
        return invalid(fmt::format("{}: a trace says itself what it does", name));
      }
    }
    const std::string prefix = options.workload.substr(kChakraPrefix.size());
    ChakraOptions chakra{.groups_path = options.groups};
    const std::string beside = prefix + ".groups.json";  // where --export-chakra writes them
    if (std::error_code none; options.groups.empty() && std::filesystem::exists(beside, none)) {
      chakra.groups_path = beside;
    }
    if (const auto* roof = std::get_if<Roofline>(&accelerator.rule)) {
      chakra.operations_per_s = roof->operations_per_s * roof->efficiency;
      chakra.memory_bytes_per_s = roof->memory_bytes_per_s;
    }
    PLEACH_SET(plan.trace, from_option("--workload", read_chakra(prefix, chakra)));
    return ok();
  }
  PLEACH_ASSIGN(batch, parse_integer(options.batch, "--batch", 0, int64_t{1} << 40));
  PLEACH_ASSIGN(workload,
                from_option("--workload", load_workload(options.workload, accelerator, batch)));
  plan.workload = std::move(workload);
  if (!options.compute.empty()) {
    PLEACH_ASSIGN(total_ps, from_option("--compute", parse_time_ps(options.compute)));
    PLEACH_SET(plan.workload, from_option("--compute", scaled_to(*plan.workload, total_ps)));
  }
  return ok();
}

// Options that would be without effect.
Status check_combinations(const TrainOptions& options, const CommandLine& line) {
  const bool sweeps = !options.bandwidths.empty();
  const auto goes_with = [](const std::string& option, const char* other) {
    return invalid(fmt::format("{}: goes with {}", option, other));
  };
  if (!sweeps && !options.target.empty()) {
    return goes_with("--target", "--bandwidths");
  }
  if (!sweeps && line.given("--links")) {
    return goes_with("--links", "--bandwidths");
  }
  if (!sweeps && !options.measured_link.empty()) {
    return goes_with("--measured-link", "--bandwidths");
  }
  if (!options.groups.empty() && !options.workload.starts_with(kChakraPrefix)) {
    return goes_with("--groups", "--workload chakra:PREFIX");
  }
  const std::vector<std::pair<const char*, bool>> of_one_network = {
      {"--csv", !options.csv.empty()},
      {"--export-chakra", !options.export_chakra.empty()},
      {"--explain", options.explain}};
  for (const auto& [option, is_given] : of_one_network) {
    if (sweeps && is_given) {
      return invalid(fmt::format("{}: not with --bandwidths, which tries many networks", option));
    }
  }
  return ok();
}

Status check_algorithm(const char* option, const std::string& spec) {
  if (names_schedule_file(spec)) {
    return invalid(
        fmt::format("{}: {} is one schedule, and training plans several collectives of "
                    "several groups: give an algorithm's name",
                    option, pleach::quoted(spec)));
  }
  PLEACH_TRY(from_option(option, algorithms().entry_of(spec)));
  return ok();
}

// Whether the algorithm does all that a policy asks for.
bool fits_algorithm(const std::string& policy, const std::string& algorithm) {
  const auto descriptor = policies().find(policy);
  return !descriptor || std::ranges::all_of((*descriptor)->collectives, [&](CollectiveKind kind) {
    return does(algorithm, kind);
  });
}

// Its messages name the strategy, as the option does.
Result<Strategy> strategy_option(const std::string& text, int32_t rank_count) {
  constexpr std::string_view kName = "strategy: ";
  auto strategy = parse_strategy(text, rank_count);
  if (!strategy && strategy.error().message.starts_with(kName)) {
    return Error{strategy.error().code,
                 "--strategy: " + strategy.error().message.substr(kName.size())};
  }
  return from_option("--strategy", std::move(strategy));
}

Result<SweepSettings> understand_sweep(const TrainOptions& options, const CommandLine& line,
                                       const TrainPlan& plan) {
  if (plan.trace.has_value()) {
    return invalid("--bandwidths: not for traces");
  }
  SweepSettings sweep;
  PLEACH_SET(
      sweep.bandwidths_bytes_per_s,
      from_option("--bandwidths",
                  parse_value_range(options.bandwidths, {.parse_value = parse_bandwidth_bytes_per_s,
                                                         .ends_at_last = true})));
  if (plan.network.source != CostSource::kAlphaBeta) {
    PLEACH_SET(sweep.links, from_option("--links", links_of_class(*plan.topology, options.links)));
  } else if (line.given("--links")) {
    return invalid("--links: alpha_beta costs have one bandwidth");
  }
  if (!options.measured_link.empty()) {
    PLEACH_ASSIGN(nominal, from_option("--measured-link",
                                       parse_bandwidth_bytes_per_s(options.measured_link)));
    if (!plan.calibration.has_value()) {
      return invalid("--measured-link: goes with --calibration");
    }
    sweep.efficiency = plan.calibration->bandwidth_bytes_per_s / static_cast<double>(nominal);
  }
  if (!options.target.empty()) {
    PLEACH_SET(sweep.target_ps, from_option("--target", parse_time_ps(options.target)));
  }
  return sweep;
}

}  // namespace

Result<TrainPlan> understand(const TrainOptions& options, const CommandLine& line) {
  TrainPlan plan;
  PLEACH_TRY(check_combinations(options, line));
  PLEACH_TRY(check_algorithm("--algorithm", options.algorithm));
  PLEACH_TRY(check_algorithm("--exchange-algorithm", options.exchange_algorithm));
  PLEACH_TRY(understand_costs(options, line, plan));
  PLEACH_TRY(understand_workload(options, line, plan));
  PLEACH_TRY(understand_ranks(options, plan));
  PLEACH_ASSIGN(iterations, parse_integer(options.iterations, "--iterations", 2, 1'000'000));
  PLEACH_ASSIGN(seed, parse_integer(options.seed, "--seed", 0, INT64_MAX));
  PLEACH_ASSIGN(jitter, parse_fraction(options.jitter, "--jitter", 100));
  plan.iteration = {.most_iterations = static_cast<int32_t>(iterations),
                    .jitter = jitter,
                    .seed = static_cast<uint64_t>(seed)};
  if (plan.trace.has_value()) {
    if (!options.bandwidths.empty()) {
      PLEACH_SET(plan.sweep, understand_sweep(options, line, plan));
    }
    return plan;
  }
  PLEACH_SET(plan.strategy, strategy_option(options.strategy, plan.rank_count));
  PLEACH_SET(plan.policies, from_option("--policy", split_policies(options.policy)));
  if (!line.given("--policy") && plan.network.source != CostSource::kAlphaBeta) {
    std::erase_if(plan.policies, [&](const std::string& name) {
      return !fits_algorithm(name, options.algorithm);
    });
  }
  for (const std::string& policy : plan.policies) {
    PLEACH_TRY(from_option("--policy", policies().entry_of(policy)));
  }
  PLEACH_SET(plan.slowness, parse_slow(options.slow, plan.strategy.rank_count()));
  if (!options.bandwidths.empty()) {
    PLEACH_SET(plan.sweep, understand_sweep(options, line, plan));
  }
  return plan;
}

}  // namespace pleach
