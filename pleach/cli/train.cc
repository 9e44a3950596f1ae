// pleach train: simulates training iterations under communication policies.
#include "pleach/cli/train.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pleach/cli/log.h"
#include "pleach/cli/print.h"
#include "pleach/cli/table.h"

namespace pleach {
namespace {

NetworkChoice network_of(const TrainSettings& settings) {
  NetworkChoice network = settings.network;
  network.topology = settings.topology.has_value() ? &*settings.topology : nullptr;
  network.measured = settings.measured.has_value() ? &*settings.measured : nullptr;
  return network;
}

// Borrows the settings, which have a workload.
TrainingRequest training_request(const TrainSettings& settings) {
  const WorkloadSettings& own = *settings.workload;
  return {.workload = own.workload,
          .strategy = own.strategy,
          .network = network_of(settings),
          .policies = own.policies,
          .settled = own.settled,
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
  if (!result && result.error().code == ErrorCode::kUnsupported && settings.measured) {
    return prefixed("--costs", result.error());
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

// What is said where curves do not reach as far as they are asked.
std::string curve_end_text(const TrainingRow& row) {
  return row.curve_end_bytes > 0
             ? fmt::format(
                   "\nCurves are simulated up to {}; what is larger follows their last "
                   "slope.\n",
                   format_size(row.curve_end_bytes))
             : "";
}

using Align = Table::Align;

// What computation waited for: "gradients 1.20 ms, messages 300 us".
std::string waits_text(const TrainingRow& row) {
  const WorkerTimes& times = busiest_worker(row);
  std::string text;
  for (const auto& [name, time_ps] : {std::pair{"gradients", times.gradient_wait_ps},
                                      {"collectives", times.collective_wait_ps},
                                      {"bubbles", times.bubble_wait_ps},
                                      {"messages", times.receive_wait_ps - times.bubble_wait_ps},
                                      {"inputs", times.input_wait_ps},
                                      {"loads", times.load_wait_ps - times.input_wait_ps}}) {
    if (time_ps > 0) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, format_time(time_ps));
    }
  }
  return text;
}

// What keeps the row from being taken at its word.
std::string remarks(const TrainingRow& row, int64_t capacity_bytes) {
  std::string text;
  const auto add = [&](const std::string& remark) { text += (text.empty() ? "" : "; ") + remark; };
  if (!row.run.steady) {
    add(row.run.deviation_ps > 0 ? fmt::format("mean, +- {}", format_time(row.run.deviation_ps))
                                 : fmt::format("not settled in {} iterations", row.run.iterations));
  }
  if (row.planned_on_curves) {
    add("planned on curves");
  }
  if (row.admission.has_value() && row.admission->waited_ps > 0) {
    add(fmt::format("streams waited {} at switches",
                    format_time(row.admission->waited_ps / row.run.iterations)));
  }
  if (capacity_bytes > 0 && row.memory.total_bytes() > capacity_bytes) {
    const bool is_certain = row.memory.state_bytes > capacity_bytes;
    add(fmt::format("{} not fit into {}", is_certain ? "does" : "may",
                    format_size(capacity_bytes)));
  }
  return text;
}

// A column where any row has something to say.
struct RowColumn {
  Table::Column column;
  std::function<std::string(const TrainingRow&)> cell;
};

std::vector<RowColumn> row_columns(const TrainingRow& first, int64_t capacity_bytes) {
  constexpr Align kRight = Align::kRight;
  const auto amount = [](double value) {
    return value <= 0     ? std::string()
           : value < 1000 ? fmt::format("{:.3g}", value)
                          : fmt::format("{:.0f}", value);
  };
  return {
      {{"policy", Align::kLeft}, [](const TrainingRow& row) { return row.policy; }},
      {{"iteration", kRight}, [](const auto& row) { return format_time(row.run.iteration_ps); }},
      {{"computes", kRight}, [](const auto& row) { return format_time(row.compute_ps); }},
      {{"exposed", kRight}, [](const auto& row) { return format_time(row.exposed_ps); }},
      {{"speedup", kRight}, [&first](const auto& row) { return times(speedup(row, first)); }},
      {{"bound", kRight}, [](const auto& row) { return format_time(row.bound_ps); }},
      {{"over bound", kRight}, [](const auto& row) { return times(over_bound(row)); }},
      {{"samples/s", kRight}, [=](const auto& row) { return amount(row.samples_per_s); }},
      {{"tokens/s", kRight}, [=](const auto& row) { return amount(row.tokens_per_s); }},
      {{"MFU", kRight},
       [](const auto& row) {
         return row.peak_share > 0 ? fmt::format("{:.1f} %", 100 * row.peak_share) : std::string();
       }},
      {{"memory", kRight},
       [](const auto& row) {
         return row.memory.state_bytes > 0 ? format_size(row.memory.total_bytes()) : std::string();
       }},
      {{"waits for", Align::kLeft}, waits_text},
      {{"", Align::kLeft}, [=](const auto& row) { return remarks(row, capacity_bytes); }},
  };
}

std::string rows_text(const std::vector<TrainingRow>& rows, int64_t capacity_bytes) {
  std::vector<RowColumn> columns = row_columns(rows.front(), capacity_bytes);
  std::erase_if(columns, [&](const RowColumn& one) {
    return std::ranges::all_of(rows, [&](const TrainingRow& row) { return one.cell(row).empty(); });
  });
  std::vector<Table::Column> titles;
  titles.reserve(columns.size());
  for (const RowColumn& one : columns) {
    titles.push_back(one.column);
  }
  Table table(titles);
  for (const TrainingRow& row : rows) {
    std::vector<std::string> cells;
    cells.reserve(columns.size());
    for (const RowColumn& one : columns) {
      cells.push_back(one.cell(row));
    }
    table.add(cells);
  }
  return table.text();
}

// Where the fastest row owes its place to collectives that cost nothing but their bytes.
std::string free_collectives_text(const TrainSettings& settings,
                                  const std::vector<TrainingRow>& rows) {
  if (!settings.topology.has_value() || settings.network.source == CostSource::kAlphaBeta ||
      settings.network.overhead_ps > 0 || !messages_are_free(*settings.topology)) {
    return "";
  }
  const auto fastest = std::ranges::min_element(
      rows, {}, [](const TrainingRow& row) { return row.run.iteration_ps; });
  std::vector<std::size_t> counts;  // of collectives, by row
  std::ranges::transform(rows, std::back_inserter(counts),
                         [](const TrainingRow& row) { return explain(row).size(); });
  const std::size_t count = counts[static_cast<std::size_t>(fastest - rows.begin())];
  const auto [fewest, most] = std::ranges::minmax(counts);
  return count == most && fewest < count
             ? fmt::format(
                   "\nThe fastest, {}, starts {} collectives, and starting them is free here; "
                   "--overhead, or link= of the topology, says what it costs.\n",
                   fastest->policy, count)
             : "";
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
  const std::string overhead =
      network.overhead_ps > 0 ? fmt::format(", {} per collective", format_time(network.overhead_ps))
                              : "";
  if (network.source == CostSource::kAlphaBeta) {
    std::string families;
    for (const auto& [family, link] : network.family_links) {
      families += fmt::format(
          ", of {} {} and {}", family, format_time(link.alpha_ps.value_or(network.alpha_ps)),
          link.bandwidth_bytes_per_s ? format_bandwidth(*link.bandwidth_bytes_per_s) : "the same");
    }
    return fmt::format("rings of {} per hop and {}{}{}", format_time(network.alpha_ps),
                       swept.empty() ? format_bandwidth(network.bandwidth_bytes_per_s) : swept,
                       families, overhead);
  }
  if (settings.measured.has_value()) {
    return fmt::format("as measured on {} ranks ({})", settings.rank_count,
                       line.text("--costs").substr(line.text("--costs").find(':') + 1));
  }
  const std::string& chosen = line.text("--links");
  const std::string links = chosen == kAllLinks ? "links" : chosen + " links";
  std::string families;
  for (const auto& [family, algorithm] : network.fabric.family_algorithms) {
    families += fmt::format(", {} by {}", family, algorithm);
  }
  return fmt::format("{}{} by {}{}{}{}", line.text("--topology"),
                     swept.empty() ? "" : fmt::format(" with {} of {}", links, swept),
                     network.fabric.algorithm, families,
                     network.source == CostSource::kFull ? ", full contention" : "", overhead);
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
  const auto& own = settings.workload;
  return {.workload = line.text("--workload"),
          .topology = line.text("--topology"),
          .strategy = own ? to_text(own->strategy) : "",
          .algorithm = settings.network.fabric.algorithm,
          .costs = settings.calibration.has_value() ? "calibration" : line.text("--costs"),
          .rank_count = settings.rank_count,
          .memory_bytes = own ? memory_use(own->workload, own->strategy).state_bytes : 0,
          .rows = std::move(rows),
          .with_buckets = line.given("--explain")};
}

// The workload with what its layers take on one rank, whatever that follows from.
Workload with_times(const Workload& workload) {
  Workload timed = workload;
  MeasuredTimes& times = timed.times.emplace<MeasuredTimes>();
  times.batch = workload.batch;
  for (int32_t layer = 0; layer < count_of(workload.model.layers); ++layer) {
    times.layers.push_back(layer_times(workload, layer, static_cast<double>(workload.batch), 1));
  }
  return timed;
}

Result<ExitCode> print_training(const TrainSettings& settings, const CommandLine& line,
                                const Stopwatch& watch, std::FILE* out) {
  PLEACH_ASSIGN(rows, run_training(settings));
  if (line.given("--csv")) {
    PLEACH_TRY(write_csv(line, {{"rows.csv", rows_csv(rows)}, {"buckets.csv", buckets_csv(rows)}}));
  }
  if (line.given("--export-profile")) {
    const std::string text = workload_json(with_times(settings.workload->workload));
    PLEACH_TRY(from_option("--export-profile", write_file(line.text("--export-profile"), text)));
  }
  if (line.given("--export-chakra")) {
    const Trace whole = with_gradient_collectives(rows.back());
    PLEACH_TRY(from_option("--export-chakra", write_chakra(whole, line.text("--export-chakra"))));
  }
  if (line.json()) {
    print_text(out, to_json(report_of(settings, line, std::move(rows)), watch.elapsed_s()) + "\n");
    return ExitCode::kDone;
  }
  print_text(out, header_text(settings, line) +
                      rows_text(rows, settings.workload ? settings.workload->capacity_bytes : 0) +
                      curve_end_text(rows.front()) + free_collectives_text(settings, rows));
  for (std::size_t index = 0; line.given("--explain") && index < rows.size(); ++index) {
    print_text(out, buckets_text(rows[index]));
  }
  return ExitCode::kDone;
}

Result<ExitCode> print_sweep(const TrainSettings& settings, const CommandLine& line,
                             const Stopwatch& watch, std::FILE* out) {
  PLEACH_ASSIGN(sweep, run_sweep(settings));
  if (line.json()) {
    print_text(out, to_json(sweep, watch.elapsed_s()) + "\n");
  } else {
    print_text(out, header_text(settings, line) + sweep_text(sweep) +
                        curve_end_text(sweep.points.front().rows.front()));
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
    return line.refuse(
        "give --topology, --costs alpha_beta with --bandwidth and --ranks, or --costs "
        "measured:FILE");
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
