// pleach train: simulates training iterations under communication policies.
#include "pleach/cli/train.h"

#include <fmt/core.h>

#include <optional>

#include "pleach/cli/log.h"
#include "pleach/cli/table.h"

namespace pleach {
namespace {

NetworkChoice network_of(const TrainSettings& settings) {
  NetworkChoice network = settings.network;
  network.topology = settings.topology.has_value() ? &*settings.topology : nullptr;
  return network;
}

// Borrows the settings, which have a workload.
TrainingRequest training_request(const TrainSettings& settings) {
  const WorkloadSettings& own = *settings.workload;
  return {.workload = own.workload,
          .strategy = own.strategy,
          .network = network_of(settings),
          .policies = own.policies,
          .slowness = own.slowness,
          .iteration = settings.iteration,
          .progress = log_step};
}

// The result, its error after the option that it is about where that is the algorithm.
template <typename T>
Result<T> name_algorithm(const TrainSettings& settings, Result<T> result) {
  if (!result && result.error().code == ErrorCode::kUnsupported && settings.topology) {
    return prefixed("--algorithm " + settings.network.fabric.algorithm, result.error());
  }
  return result;
}

Result<std::vector<TrainingRow>> run_training(const TrainSettings& settings) {
  if (settings.trace.has_value()) {
    PLEACH_ASSIGN(row, replay(*settings.trace, network_of(settings), settings.iteration));
    return std::vector<TrainingRow>{row};
  }
  return name_algorithm(settings, train(training_request(settings)));
}

Result<Sweep> run_sweep(const TrainSettings& settings) {
  const SweepSettings& own = *settings.sweep;
  return name_algorithm(settings,
                        sweep_bandwidths({.training = training_request(settings),
                                          .links = own.links,
                                          .bandwidths_bytes_per_s = own.bandwidths_bytes_per_s,
                                          .efficiency = own.efficiency,
                                          .target_ps = own.target_ps}));
}

// "1.250x", or nothing.
std::string times(std::optional<double> ratio) {
  return ratio.has_value() ? fmt::format("{:.3f}x", *ratio) : "";
}

using Align = Table::Align;

// What keeps the row from being taken at its word.
std::string remarks(const TrainingRow& row) {
  std::string text;
  if (!row.run.steady) {
    text = fmt::format("mean, +- {}", format_time(row.run.deviation_ps));
  }
  if (row.planned_on_curves) {
    text += fmt::format("{}planned on curves", text.empty() ? "" : "; ");
  }
  return text;
}

std::string rows_text(const std::vector<TrainingRow>& rows) {
  Table table({{"policy", Align::kLeft},
               {"iteration", Align::kRight},
               {"computes", Align::kRight},
               {"exposed", Align::kRight},
               {"speedup", Align::kRight},
               {"bound", Align::kRight},
               {"over bound", Align::kRight},
               {"", Align::kLeft}});
  for (const TrainingRow& row : rows) {
    const TrainingRun& run = row.run;
    table.add({row.policy, format_time(run.iteration_ps), format_time(row.compute_ps),
               format_time(row.exposed_ps), times(speedup(row, rows.front())),
               format_time(row.bound_ps), times(over_bound(row)), remarks(row)});
  }
  return table.text();
}

std::string buckets_text(const TrainingRow& row) {
  Table table({{"bucket", Align::kLeft},
               {"layers", Align::kLeft},
               {"size", Align::kRight},
               {"ready", Align::kRight},
               {"started", Align::kRight},
               {"finished", Align::kRight},
               {"exposed", Align::kRight},
               {"waited for", Align::kLeft}});
  for (const BucketReport& bucket : explain(row)) {
    const bool one = bucket.first_layer == bucket.last_layer;
    const auto time = [](int64_t time_ps) {
      return time_ps < 0 ? "-" + format_time(-time_ps) : format_time(time_ps);
    };
    table.add({std::string(to_text(bucket.kind)),
               one ? bucket.first_layer : bucket.first_layer + " .. " + bucket.last_layer,
               format_size(bucket.size_bytes), time(bucket.ready_ps), time(bucket.started_ps),
               time(bucket.finished_ps), format_time(bucket.exposed_ps), bucket.waited_for});
  }
  return fmt::format("\n{}, from the start of forward:\n{}", row.policy, table.text("  "));
}

std::string sweep_text(const Sweep& sweep) {
  std::vector<Table::Column> columns = {{"link", Align::kRight}};
  for (const TrainingRow& row : sweep.points.front().rows) {
    columns.push_back({row.policy, Align::kRight});
  }
  columns.push_back({"bound", Align::kRight});
  Table table(columns);
  for (const SweepPoint& point : sweep.points) {
    std::vector<std::string> cells = {
        format_bandwidth(static_cast<double>(point.bandwidth_bytes_per_s))};
    for (const TrainingRow& row : point.rows) {
      cells.push_back(format_time(row.run.iteration_ps));
    }
    cells.push_back(format_time(point.rows.front().bound_ps));
    table.add(cells);
  }
  std::string text = table.text();
  for (std::size_t index = 0; index < sweep.needed_bytes_per_s.size(); ++index) {
    const int64_t needed = sweep.needed_bytes_per_s[index];
    text += fmt::format("{} needs {} for {}\n", sweep.points.front().rows[index].policy,
                        needed > 0 ? "links of " + format_bandwidth(static_cast<double>(needed))
                                   : "more than the sweep's last bandwidth",
                        format_time(sweep.target_ps));
  }
  return text;
}

std::string network_text(const TrainSettings& settings, const CommandLine& line) {
  const NetworkChoice& network = settings.network;
  const std::string& swept = line.text("--bandwidths");
  if (network.source == CostSource::kAlphaBeta) {
    const std::string overhead =
        network.overhead_ps > 0
            ? fmt::format(", {} per collective", format_time(network.overhead_ps))
            : "";
    return fmt::format("rings of {} per hop and {}{}", format_time(network.alpha_ps),
                       swept.empty() ? format_bandwidth(network.bandwidth_bytes_per_s) : swept,
                       overhead);
  }
  const std::string& chosen = line.text("--links");
  const std::string links = chosen == kAllLinks ? "links" : chosen + " links";
  return fmt::format("{}{} by {}{}", line.text("--topology"),
                     swept.empty() ? "" : fmt::format(" with {} of {}", links, swept),
                     network.fabric.algorithm,
                     network.source == CostSource::kFull ? ", full contention" : "");
}

std::string header_text(const TrainSettings& settings, const CommandLine& line) {
  Facts facts;
  if (settings.workload.has_value()) {
    const Workload& workload = settings.workload->workload;
    facts.add("workload",
              fmt::format(
                  "{}: {} of parameters in {} layers, {} samples per replica", workload.model.name,
                  format_size(parameter_count(workload.model) * workload.model.element_bytes),
                  workload.model.layers.size(), workload.batch));
    facts.add("strategy", to_text(settings.workload->strategy));
  } else {
    facts.add("workload", settings.trace->name);
  }
  facts.add("network", network_text(settings, line));
  if (const auto& fit = settings.calibration; fit.has_value()) {
    facts.add("calibration", fmt::format("{} on {} ranks, {} rows, off by at most {:.1f} %",
                                         to_text(fit->collective), fit->rank_count, fit->rows,
                                         fit->worst_error * 100));
  }
  return facts.text() + "\n";
}

TrainingReport report_of(const TrainSettings& settings, const CommandLine& line,
                         std::vector<TrainingRow> rows) {
  constexpr int32_t kAdamBytes = 12;
  const auto& own = settings.workload;
  return {.workload = line.text("--workload"),
          .topology = line.text("--topology"),
          .strategy = own ? to_text(own->strategy) : "",
          .algorithm = settings.network.fabric.algorithm,
          .costs = settings.calibration.has_value() ? "calibration" : line.text("--costs"),
          .rank_count = settings.rank_count,
          .memory_bytes = own ? memory_bytes(own->workload, own->strategy, kAdamBytes) : 0,
          .rows = std::move(rows),
          .with_buckets = line.given("--explain")};
}

Result<ExitCode> print_training(const TrainSettings& settings, const CommandLine& line,
                                const Stopwatch& watch, std::FILE* out) {
  PLEACH_ASSIGN(rows, run_training(settings));
  if (line.given("--csv")) {
    PLEACH_TRY(write_csv(line, {{"rows.csv", rows_csv(rows)}, {"buckets.csv", buckets_csv(rows)}}));
  }
  if (line.given("--export-chakra")) {
    const Trace whole = with_gradient_collectives(rows.back());
    PLEACH_TRY(from_option("--export-chakra", write_chakra(whole, line.text("--export-chakra"))));
  }
  if (line.json()) {
    fmt::print(out, "{}\n", to_json(report_of(settings, line, std::move(rows)), watch.elapsed_s()));
    return ExitCode::kDone;
  }
  fmt::print(out, "{}{}", header_text(settings, line), rows_text(rows));
  for (std::size_t index = 0; line.given("--explain") && index < rows.size(); ++index) {
    fmt::print(out, "{}", buckets_text(rows[index]));
  }
  return ExitCode::kDone;
}

Result<ExitCode> print_sweep(const TrainSettings& settings, const CommandLine& line,
                             const Stopwatch& watch, std::FILE* out) {
  PLEACH_ASSIGN(sweep, run_sweep(settings));
  if (line.json()) {
    fmt::print(out, "{}\n", to_json(sweep, watch.elapsed_s()));
  } else {
    fmt::print(out, "{}{}", header_text(settings, line), sweep_text(sweep));
  }
  return ExitCode::kDone;
}

Result<ExitCode> run_train(const Command& command, const Invocation& invocation) {
  CommandLine line(command, invocation);
  declare_train(line);
  if (const auto stop = line.parse()) {
    return *stop;
  }
  if (lacks_topology(line)) {
    return line.refuse("give --topology, or --costs alpha_beta with --bandwidth and --ranks");
  }
  const Stopwatch watch;
  PLEACH_ASSIGN(settings, understand_train(line));
  return settings.sweep.has_value() ? print_sweep(settings, line, watch, invocation.out)
                                    : print_training(settings, line, watch, invocation.out);
}

}  // namespace

extern const Command kTrainCommand = {
    "train", "simulates training iterations under communication policies",
    "  pleach train --workload resnet50 --topology torus:8x8 --algorithm multitree\n"
    "  pleach train --workload bert_base --ranks 64 --costs alpha_beta --alpha 15us\n"
    "      --bandwidth 1.18GB/s --compute 301ms --policy dear,bucket=25MiB,work_conserving\n"
    "  pleach train --workload gpt3 --topology torus:16x16x16 --strategy dp=64,tp=8,pp=8\n"
    "  pleach train --workload resnet50 --calibration nccl.json --measured-link 10Gb/s\n"
    "      --ranks 64 --bandwidths 1Gb/s:100Gb/s:2 --target 300ms\n"
    "  pleach train --workload resnet50 --topology cluster.toml --links nic\n"
    "      --bandwidths 10GB/s:100GB/s:2\n"
    "  pleach train --workload chakra:traces/job --topology switch:16\n",
    run_train};

}  // namespace pleach
