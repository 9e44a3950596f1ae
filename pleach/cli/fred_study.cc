// pleach fred study: how many sets of flows route, of which kind, on which switches.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "pleach/base/text.h"
#include "pleach/cli/common.h"
#include "pleach/cli/fred.h"
#include "pleach/cli/log.h"
#include "pleach/cli/print.h"
#include "pleach/cli/table.h"
#include "pleach/fabric/fred_faults.h"

namespace pleach {
namespace {

constexpr int32_t kMostSets = 1'000'000'000;

// --ports and --middle, each a list: a row for each pair.
Result<std::vector<FredSize>> sizes_of(const CommandLine& line) {
  std::vector<FredSize> sizes;
  for (const std::string_view ports : split(line.text("--ports"), ',')) {
    for (const std::string_view middle : split(line.text("--middle"), ',')) {
      FredSize& size = sizes.emplace_back();
      PLEACH_SET(size.ports, parse_count(ports, "--ports", 2, INT32_MAX));
      PLEACH_SET(size.middle, parse_count(middle, "--middle", 2, INT32_MAX));
      const auto count = count_cells(size);
      if (!count) {
        return count.error();
      }
      PLEACH_SET(size.dead, dead_parts(line, size));
    }
  }
  return sizes;
}

// --dead-cells and --dead-subnetworks, each a list: a sample for each pair.
Result<std::vector<FaultSample>> fault_samples(const CommandLine& line, const FredSize& size) {
  std::vector<FaultSample> samples;
  for (const std::string_view cells : split(line.text("--dead-cells"), ',')) {
    for (const std::string_view subnetworks : split(line.text("--dead-subnetworks"), ',')) {
      FaultSample& sample = samples.emplace_back();
      PLEACH_SET(sample.cells, parse_count(cells, "--dead-cells", 0, INT32_MAX));
      PLEACH_SET(sample.subnetworks, parse_count(subnetworks, "--dead-subnetworks", 0, INT32_MAX));
      PLEACH_SET(sample.level, line.count("--dead-level", 1, INT32_MAX));
      PLEACH_TRY(check_sample(sample, size));
    }
  }
  return samples;
}

std::string phase_text(const PlacementCount::Refused& refused) {
  const auto& [model, data, pipeline] = refused.strategy;
  return fmt::format("{} of MP{}-DP{}-PP{}", to_text(refused.phase), model, data, pipeline);
}

Result<FredStudyRow> partitions_row(const FredSize& size, const RouteOptions& options) {
  FredStudyRow row;
  row.size = size;
  row.of = "partitions";
  PLEACH_SET(row.count, count_partitions(size, options));
  return row;
}

Result<FredStudyRow> placements_row(const FredSize& size, const std::string& view,
                                    const RouteOptions& options) {
  FredStudyRow row;
  row.size = size;
  row.of = "phases";
  if (view != "logical" && view != "plane") {
    const std::array<std::string, 2> known = {"logical", "plane"};
    return prefixed("--view", unknown_name("view", view, known));
  }
  const PlacementCount count =
      view == "plane" ? count_plane_placements(size, options) : count_placements(size, options);
  row.count = count.all;
  for (const PlacementCount::Refused& refused : count.refused) {
    row.refused.push_back(phase_text(refused));
  }
  return row;
}

// Flows of a random set of a switch, or several, of which the share of ports that is in use is
// given.
Result<std::vector<FlowSample>> samples_of(const CommandLine& line, int32_t ports) {
  FlowSample sample;
  PLEACH_SET(sample.kind,
             line.value("--kind", [](const std::string& text) { return parse_flow_sample(text); }));
  PLEACH_SET(sample.ports_each, line.count("--of", 1, INT32_MAX));
  std::vector<FlowSample> samples;
  if (line.given("--load")) {
    for (const std::string_view word : split(line.text("--load"), ',')) {
      PLEACH_ASSIGN(percent, parse_count(word, "--load", 1, 100));
      const int64_t used = int64_t{ports} * percent / 100;
      sample.flows = static_cast<int32_t>(std::max<int64_t>(1, used / sample.ports_each));
      if (samples.empty() || samples.back().flows != sample.flows) {
        samples.push_back(sample);
      }
    }
  } else {
    PLEACH_SET(sample.flows, line.count("--flows", 1, INT32_MAX));
    samples.push_back(sample);
  }
  for (const FlowSample& one : samples) {
    PLEACH_TRY(check_sample(one, ports));
  }
  return samples;
}

Result<FredStudyRow> random_row(const CommandLine& line, const FredSize& size,
                                const FlowSample& sample, const FaultSample& faults,
                                const RouteOptions& options) {
  PLEACH_ASSIGN(sets, line.count("--sets", 1, kMostSets));
  PLEACH_ASSIGN(seed, seed_option(line));
  FredStudyRow row;
  row.size = size;
  row.of = fmt::format("{} flows of {}", sample.flows, sample.ports_each);
  row.is_sample = true;
  row.faults = faults;
  Rng rng(seed);
  Rng fault_rng(~seed);  // the same flows, whatever is dead
  for (int32_t set = 0; set < sets; ++set) {
    const std::vector<PortFlow> flows = draw_flows(sample, size.ports, rng);
    FredSize left = size;
    if (!faults.empty()) {
      left.dead = draw_faults(faults, size, fault_rng);
    }
    const Stopwatch watch;
    row.count.add(left, flows, options);
    row.most_wall_s = std::max(row.most_wall_s, watch.elapsed_s());
  }
  return row;
}

// A row per strategy where strategies are named; else all of as many workers as ports in one.
Result<std::vector<FredStudyRow>> shuffled_rows(const CommandLine& line, const FredSize& size,
                                                const RouteOptions& options) {
  int32_t sets = 0;
  if (!line.given("--all")) {
    PLEACH_SET(sets, line.count("--sets", 1, kMostSets));
  }
  PLEACH_ASSIGN(seed, seed_option(line));
  std::vector<std::vector<SwitchStrategy>> rows;
  if (line.given("--strategies")) {
    for (const std::string_view word : split(line.text("--strategies"), ';')) {
      PLEACH_ASSIGN(strategy, from_option("--strategies", parse_switch_strategy(trim(word))));
      rows.push_back({strategy});
    }
  } else {
    rows.push_back(strategies_of(size.ports));
  }
  std::vector<FredStudyRow> result;
  for (const std::vector<SwitchStrategy>& strategies : rows) {
    const Stopwatch watch;
    FredStudyRow row;
    row.size = size;
    row.of = strategies.size() == 1 ? to_text(strategies.front())
                                    : fmt::format("{} strategies", strategies.size());
    row.is_sample = sets > 0;
    PLEACH_SET(row.count, count_random_placements(size, strategies, sets, seed, options));
    row.wall_s = watch.elapsed_s();
    result.push_back(std::move(row));
  }
  return result;
}

std::string dead_text(const FredStudyRow& row) {
  std::vector<std::string> words;
  const auto add = [&](int32_t count, const char* what) {
    if (count > 0) {
      words.push_back(fmt::format("{} {}{}", count, what, count == 1 ? "" : "s"));
    }
  };
  add(row.faults.cells, "cell");
  add(row.faults.subnetworks, "subnetwork");
  return words.empty() ? "none dead" : "without " + join(words, ", ");
}

std::string text_of(const std::vector<FredStudyRow>& rows) {
  using enum Table::Align;
  const bool has_faults =
      std::ranges::any_of(rows, [](const FredStudyRow& row) { return !row.faults.empty(); });
  Table table({{"switch", kLeft},
               {"of", kLeft},
               {"sets", kRight},
               {"routed", kRight},
               {has_faults ? "refused (cut off)" : "refused", kRight},
               {"given up", kRight},
               {"share", kRight},
               {"95 % within", kLeft},
               {"first colouring", kRight},
               {"seconds", kRight}});
  std::string notes;
  for (const FredStudyRow& row : rows) {
    const Share share = row.share();
    table.add(
        {row.size.text(), row.of + (has_faults ? ", " + dead_text(row) : ""),
         std::to_string(row.count.sets), std::to_string(row.count.routed),
         std::to_string(row.count.refused) +
             (has_faults ? fmt::format(" ({})", row.count.cut_off) : ""),
         std::to_string(row.count.given_up()), fmt::format("{:.4f}", share.value),
         row.is_sample ? fmt::format("{:.4f} to {:.4f}", share.low, share.high) : "these are all",
         std::to_string(row.count.first_routed), fmt::format("{:.3f}", row.wall_s)});
    if (!row.refused.empty()) {
      notes += fmt::format("{} does not route {}\n", row.size.text(), join(row.refused, ", "));
    } else if (!row.count.refused_example.empty()) {
      const FredFaults& dead = row.count.refused_dead;
      notes += fmt::format("{}{} does not route \"{}\"\n", row.size.text(),
                           dead.empty() ? "" : " without " + faults_text(row.size, dead),
                           flows_text(row.count.refused_example));
    }
  }
  for (const LeastAliveRow& least : least_alive(rows)) {
    notes += fmt::format(
        "{} ports, {}, {}: {}\n", least.row->size.ports, least.row->of, dead_text(*least.row),
        least.middle == 0
            ? std::string("none of these m routes all that have their ports")
            : fmt::format("from m = {} on all route that have their ports", least.middle));
  }
  return table.text() + (notes.empty() ? "" : "\n" + notes);
}

void declare(CommandLine& line) {
  line.required_option("-p,--ports", "of the switches: 8, or 6,8,12");
  line.option("-m,--middle", "subnetworks in the middle of each level", "2,3");
  line.flag("--partitions", "every partition of the ports into all-reduces");
  line.flag("--placements", "every phase of every strategy of 2 workers to as many as ports");
  line.option("--view", "of placements: logical, one switch; plane, switches of four NPUs as built",
              "logical");
  line.flag("--random", "random disjoint flows");
  line.option("--kind", "of random flows: " + join(flow_sample_names(), ", "), "all_reduce");
  line.option("--flows", "of a random set", "2");
  line.option("--load", "in place of it, the percentage of ports in use: 25,50,100");
  line.option("--of", "ports of a random flow; mixed: at most, each side by itself", "2");
  line.flag("--shuffled", "strategies with their workers at random ports");
  line.option("--strategies",
              "of shuffled workers, a row each: '5,4,1;2,5,2' (MP,DP,PP); not "
              "given: all of as many workers as ports");
  line.flag("--all", "with --shuffled, every placement in place of random ones");
  line.flag("--workloads", "the least m for the strategies of FRED's workloads");
  line.option("--sets", "that are drawn, with --shuffled of each strategy", "1000");
  line.option("--seed", "of what is drawn", "1");
  declare_dead(line);
  line.option("--dead-cells", "in place of named ones, so many random ones a random set: 0,1,2",
              "0");
  line.option("--dead-subnetworks", "likewise, of --dead-level: 0,1", "0");
  line.option("--dead-level", "of subnetworks, the outermost is 1", "1");
  declare_search(line);
  line.json_flag();
}

Result<std::vector<FredStudyRow>> rows_of(const CommandLine& line, const FredSize& size,
                                          const RouteOptions& options) {
  if (line.given("--shuffled")) {
    return shuffled_rows(line, size, options);
  }
  std::vector<FredStudyRow> rows;
  if (line.given("--random")) {
    PLEACH_ASSIGN(samples, samples_of(line, size.ports));
    PLEACH_ASSIGN(faults, fault_samples(line, size));
    for (const FlowSample& sample : samples) {
      for (const FaultSample& dead : faults) {
        const Stopwatch watch;
        PLEACH_ASSIGN(row, random_row(line, size, sample, dead, options));
        row.wall_s = watch.elapsed_s();
        rows.push_back(std::move(row));
      }
    }
    return rows;
  }
  const Stopwatch watch;
  PLEACH_ASSIGN(row, line.given("--partitions")
                         ? partitions_row(size, options)
                         : placements_row(size, line.text("--view"), options));
  row.wall_s = watch.elapsed_s();
  rows.push_back(std::move(row));
  return rows;
}

std::string least_text(std::span<const LeastMiddleRow> rows) {
  using enum Table::Align;
  const auto name_of = [](int32_t middle) {
    return middle == 0 ? fmt::format("over {}", kMostMiddle) : std::to_string(middle);
  };
  Table table({{"workload", kLeft},
               {"strategy", kLeft},
               {"in order", kRight},
               {"random placements by least m", kLeft}});
  for (const auto& [workload, least] : rows) {
    std::vector<std::string> words;
    for (const auto& [middle, sets] : least.random) {
      words.push_back(fmt::format("{}: {}", name_of(middle), sets));
    }
    table.add({workload.workload, to_text(workload.strategy), name_of(least.in_order),
               join(words, ", ")});
  }
  return table.text();
}

Result<ExitCode> study_workloads(const CommandLine& line, const Invocation& invocation) {
  PLEACH_ASSIGN(options, route_options(line));
  PLEACH_ASSIGN(ports, line.count("--ports", 2, INT32_MAX));
  PLEACH_ASSIGN(sets, line.count("--sets", 1, kMostSets));
  PLEACH_ASSIGN(seed, seed_option(line));
  std::vector<LeastMiddleRow> rows;
  for (StrategyOfWorkload& workload : strategies_of_workloads()) {
    log_step("placing the workers of " + workload.workload);
    PLEACH_ASSIGN(least, least_middle(ports, workload.strategy, sets, seed, options));
    rows.push_back({std::move(workload), std::move(least)});
  }
  print_text(invocation.out,
             line.json() ? least_middle_json(ports, rows) + "\n" : least_text(rows));
  return ExitCode::kDone;
}

Result<ExitCode> run(const Command& command, const Invocation& invocation) {
  CommandLine line(command, invocation);
  declare(line);
  if (const auto stop = line.parse()) {
    return *stop;
  }
  std::vector<std::string> studies;
  for (const std::string name : {"partitions", "placements", "random", "shuffled", "workloads"}) {
    if (line.given("--" + name)) {
      studies.push_back(name);
    }
  }
  if (studies.size() != 1) {
    return line.refuse(
        "give one of --partitions, --placements, --random, --shuffled and --workloads");
  }
  for (const std::string option : {"--strategies", "--all"}) {
    if (line.given(option) && studies.front() != "shuffled") {
      return line.refuse(option + " goes with --shuffled");
    }
  }
  if (line.given("--load") && (studies.front() != "random" || line.given("--flows"))) {
    return line.refuse("--load goes with --random, in place of --flows");
  }
  for (const std::string option : {"--dead-cells", "--dead-subnetworks", "--dead-level"}) {
    if (line.given(option) && studies.front() != "random") {
      return line.refuse(option + " goes with --random");
    }
  }
  for (const std::string option : {"--without-cell", "--without-subnetwork"}) {
    if (line.given(option) && (studies.front() == "workloads" || line.text("--view") == "plane" ||
                               line.given("--dead-cells") || line.given("--dead-subnetworks"))) {
      return line.refuse(option +
                         " goes with one switch, and not with --dead-cells, "
                         "--dead-subnetworks, --workloads or --view plane");
    }
  }
  if (studies.front() == "workloads") {
    return study_workloads(line, invocation);
  }
  PLEACH_ASSIGN(options, route_options(line));
  PLEACH_ASSIGN(sizes, sizes_of(line));
  std::vector<FredStudyRow> rows;
  for (const FredSize& size : sizes) {
    log_step(fmt::format("routing through {}", size.text()));
    PLEACH_ASSIGN(more, rows_of(line, size, options));
    std::ranges::move(more, std::back_inserter(rows));
  }
  print_text(invocation.out,
             line.json() ? study_json(studies.front(), rows) + "\n" : text_of(rows));
  return ExitCode::kDone;
}

}  // namespace

Command fred_study_command() {
  return {"fred study", "counts which sets of flows route, all of a kind or random ones",
          "  pleach fred study --placements --ports 20\n"
          "  pleach fred study --partitions --ports 4,5,6,7,8\n"
          "  pleach fred study --random --ports 256 --middle 3 --flows 64 --of 4 --sets 10\n"
          "  pleach fred study --random --ports 8,16,32 --load 25,50,100 --of 3\n"
          "  pleach fred study --shuffled --ports 20 --strategies \"2,5,2;3,3,2\"\n"
          "  pleach fred study --workloads --ports 20\n"
          "  pleach fred study --random --ports 20 --middle 2,3,4,5 --load 50 --dead-cells 0,1,2\n",
          run};
}

}  // namespace pleach
