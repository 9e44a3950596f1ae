// What `pleach train` is asked for.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>

#include "pleach/base/index.h"
#include "pleach/base/names.h"
#include "pleach/base/text.h"
#include "pleach/base/value_range.h"
#include "pleach/cli/timing_options.h"
#include "pleach/cli/train.h"
#include "pleach/synthesis/algorithm.h"

namespace pleach {

void declare_train(CommandLine& line) {
  line.required_option("--workload",
                       "resnet50, gpt3, ..., a JSON file, or chakra:PREFIX (PREFIX.RANK.et)");
  line.option("--topology", "where: torus:8x8, cluster.toml, ...");
  line.option("--ranks", "with --costs alpha_beta and no topology");
  line.option("--strategy", "dp=64,tp=8,pp=8,micro_batches=16; all ranks dp if not given");
  line.option("--policy", "one or several: dear,bucket=25MiB,ddp", "wfbp,ddp,dear,work_conserving");
  line.flag("--settled", "policies as real ranks follow them: by the plans that they settle on");
  line.option("--algorithm",
              "of all_reduce, reduce_scatter and all_gather; or dp.json,ring: files first; or "
              "auto: the fastest at each size",
              "ring");
  line.option("--exchange-algorithm", "of all_to_all", "direct");
  line.option("--family-algorithms",
              "of all of a family's: 'tensor=halving_doubling;data=multitree'");
  declare_timing(line, "1");
  line.option("--costs",
              "curves: simulated once per size; full: all transfers share the links as they come; "
              "alpha_beta: rings of a few numbers; measured:FILE: as measured on a group of ranks",
              "curves");
  line.option("--classes",
              "with --costs full, whose traffic links serve first: role (what computation waits "
              "for, then messages of stages, then gradients, then I/O), or families in order, "
              "tensor,pipeline,data; one: all alike",
              "one");
  line.option("--curve-end",
              "where curves end, 16MiB: larger sizes follow the last slope; not given: at the "
              "largest size, or where the model has it");
  line.option("--alpha", "latency per hop, with alpha_beta: 15us, or '15us;tensor=1us'");
  line.option("--overhead", "of every collective, before its first byte: 0.2ms");
  line.option("--bandwidth",
              "of a rank's link, with alpha_beta: 10Gb/s, or '10Gb/s;tensor=450GB/s'");
  line.option("--calibration",
              "nccl-tests' JSON: alpha_beta fitted to it; or 'nic.json;tensor=nvlink.json'");
  line.option("--measured-link",
              "nominal bandwidth of the links that the calibration was measured on");
  line.option("--accelerator", "what computes (pleach list accelerators)", "a100");
  line.option("--batch", "samples per replica and iteration; 0: the workload's own", "0");
  line.option("--compute", "scales computation so that one iteration takes this: 250ms");
  line.option(
      "--groups",
      "ASTRA-sim's communicator groups, for chakra:PREFIX; PREFIX.groups.json if it is there");
  line.option("--slow", "ranks that compute slower: 5=1.5,7=2");
  line.option("--jitter", "computation's noise, as a fraction: 0.05", "0");
  line.option("--iterations", "at most, from 2; fewer where they repeat", "60");
  line.option("--seed", "of noise and of searches", "0");
  line.option("--bandwidths", "sweeps link bandwidth: 1Gb/s:100Gb/s:2 (factor)");
  line.option("--links", "with --bandwidths: the class of links to sweep: nic, rank-switch", "all");
  line.option("--target", "with --bandwidths: finds the least that meets this: 300ms");
  line.option("--csv", "folder for rows.csv and buckets.csv");
  line.option("--export-chakra", "writes the last policy's iteration as PREFIX.RANK.et");
  line.option("--export-profile",
              "writes the workload with every layer's times, as --workload reads it: FILE.json");
  line.flag("--explain", "shows each bucket: when it went, and what it waited for");
  line.json_flag();
}

namespace {

constexpr std::string_view kChakraPrefix = "chakra:";

constexpr std::array<Name<CostSource>, 4> kCosts = {{{CostSource::kCurves, "curves"},
                                                     {CostSource::kFull, "full"},
                                                     {CostSource::kAlphaBeta, "alpha_beta"},
                                                     {CostSource::kMeasured, "measured"}}};

// "measured:FILE" names its file behind the colon.
std::string costs_name(const CommandLine& line) {
  const std::string& text = line.text("--costs");
  return text.substr(0, text.find(':'));
}

}  // namespace

bool lacks_topology(const CommandLine& line) {
  const auto costs = parse_name(kCosts, "--costs", costs_name(line));
  return !line.given("--topology") && !line.given("--calibration") && costs &&
         *costs != CostSource::kAlphaBeta && *costs != CostSource::kMeasured;
}

namespace {

Result<double> parse_fraction(const std::string& text, const std::string& what, double most) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0) || value > most) {
    return invalid(what, fmt::format("{} is no number from 0 to {}", pleach::quoted(text), most));
  }
  return value;
}

Result<std::vector<double>> slowness_option(const CommandLine& line, int32_t rank_count) {
  std::vector<double> slowness;
  if (!line.given("--slow")) {
    return slowness;
  }
  slowness.assign(at(rank_count), 1);
  for (const std::string_view word : split(line.text("--slow"), ',')) {
    const auto equals = word.find('=');
    if (equals == std::string_view::npos) {
      return invalid("--slow", fmt::format("{} is not RANK=FACTOR", pleach::quoted(word)));
    }
    PLEACH_ASSIGN(rank, parse_count(word.substr(0, equals), "--slow: rank", 0, rank_count - 1));
    PLEACH_ASSIGN(factor, parse_fraction(std::string(word.substr(equals + 1)), "--slow", 1e6));
    if (factor <= 0) {
      return invalid("--slow", fmt::format("rank {} would take no time", rank));
    }
    slowness[at(rank)] = factor;
  }
  return slowness;
}

// "10Gb/s;tensor=450GB/s": one value, and others for families.
struct FamilyValues {
  std::string otherwise;  // empty: none
  std::map<std::string, std::string> by_family;
};

Result<FamilyValues> parse_by_family(const std::string& text) {
  FamilyValues values;
  for (const std::string_view word : split(text, ';')) {
    const auto equals = word.find('=');
    const std::string family(trim(word.substr(0, equals)));
    const bool is_family = equals != std::string_view::npos &&
                           family.find_first_of("/.,") == std::string::npos;  // of a file
    if (is_family) {
      if (!values.by_family.emplace(family, trim(word.substr(equals + 1))).second) {
        return invalid(fmt::format("family {} is there twice", pleach::quoted(family)));
      }
    } else if (values.otherwise.empty()) {
      values.otherwise = trim(word);
    } else {
      return invalid(fmt::format("{} and {} are both of no family",
                                 pleach::quoted(values.otherwise), pleach::quoted(word)));
    }
  }
  return values;
}

// Gives what an option says, parsed, to `otherwise`, and to each family that it names.
template <typename Read, typename Otherwise, typename OfFamily>
Status read_by_family(const CommandLine& line, const std::string& option, Read read,
                      Otherwise otherwise, OfFamily of_family) {
  if (!line.given(option)) {
    return ok();
  }
  PLEACH_ASSIGN(values, line.value(option, parse_by_family));
  if (!values.otherwise.empty()) {
    PLEACH_ASSIGN(value, from_option(option, read(values.otherwise)));
    otherwise(value);
  }
  for (const auto& [family, text] : values.by_family) {
    PLEACH_ASSIGN(value, from_option(fmt::format("{}: {}", option, family), read(text)));
    of_family(family, value);
  }
  return ok();
}

// The numbers of alpha_beta, which calibrations may give.
Status understand_alpha_beta(const CommandLine& line, TrainSettings& settings) {
  NetworkChoice& network = settings.network;
  PLEACH_TRY(read_by_family(
      line, "--calibration", read_calibration,
      [&](const Calibration& fit) {
        settings.calibration = fit;
        network.alpha_ps = fit.alpha_ps;
        network.bandwidth_bytes_per_s = fit.bandwidth_bytes_per_s;
      },
      [&](const std::string& family, const Calibration& fit) {
        network.family_links[family] = {fit.alpha_ps, fit.bandwidth_bytes_per_s};
      }));
  PLEACH_TRY(read_by_family(
      line, "--alpha", parse_time_ps, [&](int64_t time_ps) { network.alpha_ps = time_ps; },
      [&](const std::string& family, int64_t time_ps) {
        network.family_links[family].alpha_ps = time_ps;
      }));
  if (line.given("--overhead")) {
    PLEACH_SET(network.overhead_ps, line.value("--overhead", parse_time_ps));
  }
  return read_by_family(
      line, "--bandwidth", parse_bandwidth_bytes_per_s,
      [&](int64_t bandwidth) { network.bandwidth_bytes_per_s = static_cast<double>(bandwidth); },
      [&](const std::string& family, int64_t bandwidth) {
        network.family_links[family].bandwidth_bytes_per_s = static_cast<double>(bandwidth);
      });
}

// Algorithms that are known, files, and `auto`.
Status check_sources(const std::string& text) {
  PLEACH_ASSIGN(sources, split_specs(text));
  for (const std::string& source : sources) {
    if (source.starts_with(std::string(kAutoAlgorithm) + ",")) {
      return invalid(fmt::format("auto takes no options, as {} has", pleach::quoted(source)));
    }
    if (source != kAutoAlgorithm && !names_schedule_file(source)) {
      PLEACH_TRY(algorithms().entry_of(source));
    }
  }
  return ok();
}

Result<std::map<std::string, std::string>> family_algorithms(const std::string& text) {
  PLEACH_ASSIGN(values, parse_by_family(text));
  if (!values.otherwise.empty() || values.by_family.empty()) {
    return invalid(fmt::format("{} is not FAMILY=ALGORITHM", pleach::quoted(values.otherwise)));
  }
  for (const auto& [family, sources] : values.by_family) {
    PLEACH_TRY(check_sources(sources));
  }
  return values.by_family;
}

// Options of simulations, where there are none.
Status check_nothing_simulated(const CommandLine& line) {
  for (const char* name : {"--gate", "--flow-control", "--landing-places", "--reduce-bandwidth",
                           "--admission", "--reconfiguration", "--no-fold", "--curve-end"}) {
    if (line.given(name)) {
      return invalid(name, "goes with --costs curves and full, which simulate collectives");
    }
  }
  return ok();
}

// What was measured says all there is to say of the network.
Status understand_measured(const CommandLine& line, TrainSettings& settings) {
  for (const char* name :
       {"--topology", "--ranks", "--alpha", "--bandwidth", "--overhead", "--bandwidths",
        "--segments", "--model", "--algorithm", "--exchange-algorithm", "--family-algorithms"}) {
    if (line.given(name)) {
      return invalid(name, "not with --costs measured, which has ranks and times of its own");
    }
  }
  PLEACH_TRY(check_nothing_simulated(line));
  const std::string& text = line.text("--costs");
  if (text.find(':') == std::string::npos) {
    return invalid("--costs", "measured needs a file: measured:costs.json");
  }
  PLEACH_SET(settings.measured,
             from_option("--costs", MeasuredCosts::read(text.substr(text.find(':') + 1))));
  return ok();
}

Status understand_costs(const CommandLine& line, TrainSettings& settings) {
  const bool calibrated = line.given("--calibration");
  const std::string costs = calibrated ? "alpha_beta" : costs_name(line);
  PLEACH_SET(settings.network.source, parse_name(kCosts, "--costs", costs));
  if (calibrated && line.given("--costs") && line.text("--costs") != costs) {
    return invalid("--calibration", "gives alpha_beta costs, not " + line.text("--costs"));
  }
  if (settings.network.source == CostSource::kMeasured) {
    return understand_measured(line, settings);
  }
  if (!calibrated && line.text("--costs") != costs) {
    return invalid("--costs", fmt::format("{} takes no file, as in {}", costs,
                                          pleach::quoted(line.text("--costs"))));
  }
  PLEACH_TRY(understand_alpha_beta(line, settings));
  NetworkChoice& network = settings.network;
  const bool two_numbers = network.source == CostSource::kAlphaBeta;
  if (two_numbers && network.bandwidth_bytes_per_s <= 0 && !line.given("--bandwidths")) {
    return invalid("--costs alpha_beta needs --bandwidth, one of no family");
  }
  if (!two_numbers && (line.given("--alpha") || line.given("--bandwidth"))) {
    return invalid("--alpha and --bandwidth are for --costs alpha_beta; a topology has its own");
  }
  if (two_numbers) {
    PLEACH_TRY(check_nothing_simulated(line));
  }
  PLEACH_TRY(from_option("--model", network_models().select(line.text("--model"))));
  PLEACH_ASSIGN(how, timing_request(line));
  if (how.choose_segments && network.source == CostSource::kFull) {
    return invalid("--segments", "auto is for --costs curves");
  }
  network.fabric = {.algorithm = line.text("--algorithm"),
                    .exchange_algorithm = line.text("--exchange-algorithm"),
                    .model = line.text("--model"),
                    .segment_count = planner_options(how).segment_count,
                    .simulation = how.options};
  if (line.given("--curve-end")) {
    PLEACH_SET(network.fabric.curve_end_bytes, line.value("--curve-end", parse_size_bytes));
    if (network.fabric.curve_end_bytes < 1) {
      return invalid("--curve-end", "a curve has sizes from 1 byte");
    }
  }
  if (line.given("--family-algorithms")) {
    if (two_numbers) {
      return invalid("--family-algorithms", "alpha_beta costs are of rings");
    }
    PLEACH_SET(network.fabric.family_algorithms,
               line.value("--family-algorithms", family_algorithms));
  }
  return ok();
}

// Where the ranks are: the topology, or as many as --ranks says.
Status understand_ranks(const CommandLine& line, TrainSettings& settings) {
  if (settings.measured.has_value()) {
    settings.rank_count = settings.measured->rank_count();
    return ok();
  }
  if (settings.network.source == CostSource::kAlphaBeta && !line.given("--topology")) {
    const std::string text = !line.given("--ranks") && settings.trace
                                 ? std::to_string(settings.trace->rank_count)
                                 : line.text("--ranks");
    if (text.empty()) {
      return invalid("give --ranks, or a --topology whose ranks to count");
    }
    PLEACH_SET(settings.rank_count, parse_count(text, "--ranks", 1, 1 << 20));
    return ok();
  }
  if (!line.given("--topology")) {
    return invalid(fmt::format("--costs {} needs a --topology", line.text("--costs")));
  }
  if (line.given("--ranks")) {
    return invalid("--ranks", "the topology has its own");
  }
  PLEACH_SET(settings.topology, line.value("--topology", load_topology));
  settings.rank_count = count_of(settings.topology->rank_nodes());
  return ok();
}

Result<Trace> trace_option(const CommandLine& line, const Accelerator& accelerator) {
  for (const char* name : {"--strategy", "--policy", "--settled", "--batch", "--compute", "--slow",
                           "--export-profile"}) {
    if (line.given(name)) {
      return invalid(name, "a trace says itself what it does");
    }
  }
  const std::string prefix = line.text("--workload").substr(kChakraPrefix.size());
  ChakraOptions chakra;
  const std::string beside = prefix + ".groups.json";  // where --export-chakra writes them
  std::error_code none;
  if (line.given("--groups") || std::filesystem::exists(beside, none)) {
    PLEACH_ASSIGN(rank_count, from_option("--workload", count_chakra_ranks(prefix)));
    const auto read = [&](const std::string& path) { return read_chakra_groups(path, rank_count); };
    PLEACH_SET(chakra.groups, line.given("--groups") ? line.value("--groups", read)
                                                     : from_option("--workload", read(beside)));
  }
  if (const auto* roof = std::get_if<Roofline>(&accelerator.rule)) {
    chakra.operations_per_s = roof->operations_per_s * roof->efficiency;
    chakra.memory_bytes_per_s = roof->memory_bytes_per_s;
  }
  return from_option("--workload", read_chakra(prefix, chakra));
}

Result<Workload> workload_option(const CommandLine& line, const Accelerator& accelerator) {
  PLEACH_ASSIGN(batch, parse_integer(line.text("--batch"), "--batch", 0, int64_t{1} << 40));
  PLEACH_ASSIGN(workload, from_option("--workload",
                                      load_workload(line.text("--workload"), accelerator, batch)));
  if (!line.given("--compute")) {
    return std::move(workload);
  }
  PLEACH_ASSIGN(total_ps, line.value("--compute", parse_time_ps));
  return from_option("--compute", scaled_to(workload, total_ps));
}

// Options that would be without effect.
Status check_combinations(const CommandLine& line) {
  const bool sweeps = line.given("--bandwidths");
  for (const char* option : {"--target", "--measured-link", "--links"}) {
    if (!sweeps && line.given(option)) {
      return invalid(option, "goes with --bandwidths");
    }
  }
  if (line.given("--groups") && !line.text("--workload").starts_with(kChakraPrefix)) {
    return invalid("--groups", "goes with --workload chakra:PREFIX");
  }
  for (const char* option : {"--csv", "--export-chakra", "--export-profile", "--explain"}) {
    if (sweeps && line.given(option)) {
      return invalid(option, "not with --bandwidths, which tries many networks");
    }
  }
  return ok();
}

// The collectives that some of the sources do.
Result<std::set<CollectiveKind>> collectives_of(const std::vector<std::string>& sources) {
  std::set<CollectiveKind> kinds;
  for (const std::string& source : sources) {
    if (names_schedule_file(source)) {
      PLEACH_ASSIGN(schedule, read_schedule(source));
      kinds.insert(schedule.collective);
      continue;
    }
    std::ranges::copy_if(kAllCollectives, std::inserter(kinds, kinds.end()),
                         [&](CollectiveKind kind) {
                           return source == kAutoAlgorithm || algorithm_does(source, kind);
                         });
  }
  return kinds;
}

// Without --policy, those of the default that the algorithm can serve.
Result<std::vector<std::string>> policies_option(const CommandLine& line, CostSource costs) {
  PLEACH_ASSIGN(specs, line.value("--policy", split_specs));
  if (!line.given("--policy") && costs != CostSource::kAlphaBeta &&
      costs != CostSource::kMeasured) {
    PLEACH_ASSIGN(sources, line.value("--algorithm", split_specs));
    PLEACH_ASSIGN(kinds, collectives_of(sources));
    std::erase_if(specs, [&](const std::string& name) {
      const auto policy = policies().find(name);
      return policy && !std::ranges::all_of((*policy)->collectives, [&](CollectiveKind kind) {
               return kinds.contains(kind);
             });
    });
  }
  for (const std::string& spec : specs) {
    PLEACH_TRY(from_option("--policy", policies().entry_of(spec)));
  }
  return std::move(specs);
}

Result<SweepSettings> understand_sweep(const CommandLine& line, const TrainSettings& settings) {
  if (settings.trace.has_value()) {
    return invalid("--bandwidths", "not for traces");
  }
  SweepSettings sweep;
  const auto parse = [](const std::string& text) {
    return parse_value_range(text,
                             {.parse_value = parse_bandwidth_bytes_per_s, .ends_at_last = true});
  };
  PLEACH_SET(sweep.bandwidths_bytes_per_s, line.value("--bandwidths", parse));
  if (settings.network.source != CostSource::kAlphaBeta) {
    PLEACH_SET(sweep.links,
               from_option("--links", links_of_class(*settings.topology, line.text("--links"))));
  } else if (line.given("--links")) {
    return invalid("--links", "alpha_beta costs have one bandwidth");
  }
  if (line.given("--measured-link")) {
    PLEACH_ASSIGN(nominal, line.value("--measured-link", parse_bandwidth_bytes_per_s));
    if (!settings.calibration.has_value()) {
      return invalid("--measured-link", "goes with --calibration, one of no family");
    }
    sweep.efficiency = settings.calibration->bandwidth_bytes_per_s / static_cast<double>(nominal);
  }
  if (line.given("--target")) {
    PLEACH_SET(sweep.target_ps, line.value("--target", parse_time_ps));
  }
  return sweep;
}

}  // namespace

Result<TrainSettings> understand_train(const CommandLine& line) {
  TrainSettings settings;
  PLEACH_TRY(check_combinations(line));
  for (const char* option : {"--algorithm", "--exchange-algorithm"}) {
    PLEACH_TRY(line.value(option, check_sources));
  }
  PLEACH_TRY(understand_costs(line, settings));
  PLEACH_ASSIGN(accelerator, line.value("--accelerator", parse_accelerator));
  if (line.text("--workload").starts_with(kChakraPrefix)) {
    PLEACH_SET(settings.trace, trace_option(line, accelerator));
  } else {
    PLEACH_SET(settings.workload.emplace().workload, workload_option(line, accelerator));
  }
  PLEACH_TRY(understand_ranks(line, settings));
  IterationOptions& iteration = settings.iteration;
  PLEACH_SET(iteration.classes, line.value("--classes", TrafficClasses::parse));
  PLEACH_SET(iteration.most_iterations, line.count("--iterations", 2, 1'000'000));
  PLEACH_SET(iteration.seed, seed_option(line));
  PLEACH_SET(iteration.jitter, parse_fraction(line.text("--jitter"), "--jitter", 100));
  if (settings.workload.has_value()) {
    WorkloadSettings& own = *settings.workload;
    const bool computes = std::holds_alternative<Accelerator>(own.workload.times);
    own.capacity_bytes = computes || line.given("--accelerator") ? accelerator.capacity_bytes : 0;
    PLEACH_SET(own.strategy, strategy_option(line, settings.rank_count,
                                             settings.topology ? &*settings.topology : nullptr));
    PLEACH_SET(own.policies, policies_option(line, settings.network.source));
    own.settled = line.given("--settled");
    PLEACH_SET(own.slowness, slowness_option(line, own.strategy.rank_end()));
  }
  if (line.given("--bandwidths")) {
    PLEACH_SET(settings.sweep, understand_sweep(line, settings));
  }
  return settings;
}

}  // namespace pleach
