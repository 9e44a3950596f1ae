// pleach train: simulates training iterations under communication policies.
#include "pleach/cli/train.h"

#include <fmt/core.h>

#include <filesystem>

#include "pleach/base/text.h"
#include "pleach/cli/log.h"
#include "pleach/cli/table.h"

namespace pleach {

namespace {

NetworkChoice network_of(const TrainPlan& plan) {
  NetworkChoice network = plan.network;
  network.topology = plan.topology.has_value() ? &*plan.topology : nullptr;
  return network;
}

// Borrows the plan, which has a workload.
TrainingRequest training_request(const TrainPlan& plan) {
  return {.workload = *plan.workload,
          .strategy = plan.strategy,
          .network = network_of(plan),
          .policies = plan.policies,
          .slowness = plan.slowness,
          .iteration = plan.iteration,
          .progress = log_step};
}

// The result, its error after the option that it is about where that is the algorithm.
template <typename T>
Result<T> name_algorithm(const TrainPlan& plan, Result<T> result) {
  if (!result && result.error().code == ErrorCode::kUnsupported && plan.topology) {
    return prefixed("--algorithm " + plan.network.fabric.algorithm, result.error());
  }
  return result;
}

Result<std::vector<TrainingRow>> run_training(const TrainPlan& plan) {
  if (plan.trace.has_value()) {
    PLEACH_ASSIGN(row, replay(*plan.trace, network_of(plan), plan.iteration));
    return std::vector<TrainingRow>{row};
  }
  return name_algorithm(plan, train(training_request(plan)));
}

Result<Sweep> run_sweep(const TrainPlan& plan) {
  const SweepSettings& own = *plan.sweep;
  return name_algorithm(plan,
                        sweep_bandwidths({.training = training_request(plan),
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
               format_time(row.bound_ps), times(over_bound(row)),
               run.steady ? "" : fmt::format("mean, +- {}", format_time(run.deviation_ps))});
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

Status write_csv(const std::string& folder, const std::vector<TrainingRow>& rows) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return Error{ErrorCode::kIo, fmt::format("--csv: {}: {}", folder, error.message())};
  }
  PLEACH_TRY(write_file(folder + "/rows.csv", rows_csv(rows)));
  return write_file(folder + "/buckets.csv", buckets_csv(rows));
}

std::string network_text(const TrainPlan& plan, const TrainOptions& options) {
  const std::string& bandwidths = options.bandwidths;
  if (plan.network.source == CostSource::kAlphaBeta) {
    const std::string overhead =
        plan.network.overhead_ps > 0
            ? fmt::format(", {} per collective", format_time(plan.network.overhead_ps))
            : "";
    return fmt::format(
        "rings of {} per hop and {}{}", format_time(plan.network.alpha_ps),
        bandwidths.empty() ? format_bandwidth(plan.network.bandwidth_bytes_per_s) : bandwidths,
        overhead);
  }
  const std::string links = options.links == kAllLinks ? "links" : options.links + " links";
  return fmt::format("{}{} by {}{}", options.topology,
                     bandwidths.empty() ? "" : fmt::format(" with {} of {}", links, bandwidths),
                     plan.network.fabric.algorithm,
                     plan.network.source == CostSource::kFull ? ", full contention" : "");
}

std::string header_text(const TrainPlan& plan, const TrainOptions& options) {
  Facts facts;
  if (plan.workload.has_value()) {
    const Workload& workload = *plan.workload;
    facts.add("workload",
              fmt::format(
                  "{}: {} of parameters in {} layers, {} samples per replica", workload.model.name,
                  format_size(parameter_count(workload.model) * workload.model.element_bytes),
                  workload.model.layers.size(), workload.batch));
    facts.add("strategy", to_text(plan.strategy));
  } else {
    facts.add("workload", plan.trace->name);
  }
  facts.add("network", network_text(plan, options));
  if (plan.calibration.has_value()) {
    facts.add("calibration",
              fmt::format("{} on {} ranks, {} rows, off by at most {:.1f} %",
                          to_text(plan.calibration->collective), plan.calibration->rank_count,
                          plan.calibration->rows, plan.calibration->worst_error * 100));
  }
  return facts.text() + "\n";
}

TrainingReport report_of(const TrainOptions& options, const TrainPlan& plan,
                         std::vector<TrainingRow> rows) {
  constexpr int32_t kAdamBytes = 12;
  return {.workload = options.workload,
          .topology = options.topology,
          .strategy = plan.workload.has_value() ? to_text(plan.strategy) : "",
          .algorithm = plan.network.fabric.algorithm,
          .costs = plan.calibration.has_value() ? "calibration" : options.costs,
          .rank_count = plan.rank_count,
          .memory_bytes = plan.workload.has_value()
                              ? memory_bytes(*plan.workload, plan.strategy, kAdamBytes)
                              : 0,
          .rows = std::move(rows),
          .with_buckets = options.explain};
}

Result<ExitCode> run_train(const Command& command, const Invocation& invocation) {
  TrainOptions options;
  CommandLine line(command, invocation);
  options.declare(line);
  if (const auto stop = line.parse()) {
    return *stop;
  }
  const bool on_links = options.costs == "curves" || options.costs == "full";
  if (options.topology.empty() && options.calibration.empty() && on_links) {
    fmt::print(
        invocation.error,
        "pleach train: give --topology, or --costs alpha_beta with --bandwidth and --ranks\n");
    return ExitCode::kUsage;
  }
  const Stopwatch watch;
  PLEACH_ASSIGN(plan, understand(options, line));
  if (plan.sweep.has_value()) {
    PLEACH_ASSIGN(sweep, run_sweep(plan));
    if (options.json) {
      fmt::print(invocation.out, "{}\n", to_json(sweep, watch.elapsed_s()));
    } else {
      fmt::print(invocation.out, "{}{}", header_text(plan, options), sweep_text(sweep));
    }
    return ExitCode::kDone;
  }
  PLEACH_ASSIGN(rows, run_training(plan));
  if (!options.csv.empty()) {
    PLEACH_TRY(write_csv(options.csv, rows));
  }
  if (!options.export_chakra.empty()) {
    const Trace whole = with_gradient_collectives(rows.back());
    PLEACH_TRY(from_option("--export-chakra", write_chakra(whole, options.export_chakra)));
  }
  if (options.json) {
    fmt::print(invocation.out, "{}\n",
               to_json(report_of(options, plan, std::move(rows)), watch.elapsed_s()));
    return ExitCode::kDone;
  }
  fmt::print(invocation.out, "{}{}", header_text(plan, options), rows_text(rows));
  for (std::size_t index = 0; options.explain && index < rows.size(); ++index) {
    fmt::print(invocation.out, "{}", buckets_text(rows[index]));
  }
  return ExitCode::kDone;
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
    "  pleach train --workload chakra:traces/job --topology switch:16\n",
    run_train};

}  // namespace pleach
