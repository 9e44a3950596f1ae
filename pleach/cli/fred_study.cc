// pleach fred study: how many sets of flows route, of which kind, on which switches.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "pleach/base/text.h"
#include "pleach/cli/common.h"
#include "pleach/cli/fred.h"
#include "pleach/cli/table.h"

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
    }
  }
  return sizes;
}

std::string phase_text(const PlacementCount::Refused& refused) {
  const auto& [model, data, pipeline] = refused.strategy;
  return fmt::format("{} of MP{}-DP{}-PP{}", to_text(refused.phase), model, data, pipeline);
}

Result<FredStudyRow> partitions_row(const FredSize& size, const RouteOptions& options) {
  FredStudyRow row = {size, {}, {}};
  PLEACH_SET(row.count, count_partitions(size, options));
  return row;
}

Result<FredStudyRow> placements_row(const FredSize& size, const std::string& view,
                                    const RouteOptions& options) {
  FredStudyRow row = {size, {}, {}};
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

struct RandomStudy {
  FlowSample sample;
  int32_t sets = 0;
  uint64_t seed = 0;
};

Result<RandomStudy> random_study(const CommandLine& line) {
  RandomStudy study;
  PLEACH_SET(study.sample.kind,
             line.value("--kind", [](const std::string& text) { return parse_flow_sample(text); }));
  PLEACH_SET(study.sample.flows, line.count("--flows", 1, INT32_MAX));
  PLEACH_SET(study.sample.ports_each, line.count("--of", 1, INT32_MAX));
  PLEACH_SET(study.sets, line.count("--sets", 1, kMostSets));
  PLEACH_SET(study.seed, seed_option(line));
  return study;
}

Result<FredStudyRow> random_row(const FredSize& size, const RandomStudy& study,
                                const RouteOptions& options) {
  PLEACH_TRY(check_sample(study.sample, size.ports));
  FredStudyRow row = {size, {}, {}};
  Rng rng(study.seed);
  for (int32_t set = 0; set < study.sets; ++set) {
    const std::vector<PortFlow> flows = draw_flows(study.sample, size.ports, rng);
    const Stopwatch watch;
    row.count.add(size, flows, options);
    row.most_wall_s = std::max(row.most_wall_s, watch.elapsed_s());
  }
  return row;
}

std::string text_of(const std::vector<FredStudyRow>& rows) {
  using enum Table::Align;
  Table table({{"switch", kLeft},
               {"sets", kRight},
               {"routed", kRight},
               {"refused", kRight},
               {"given up", kRight},
               {"share", kRight},
               {"95 % within", kLeft},
               {"first colouring", kRight},
               {"seconds", kRight}});
  std::string notes;
  for (const FredStudyRow& row : rows) {
    const Share share = share_of(row.count.routed, row.count.sets);
    table.add({row.size.text(), std::to_string(row.count.sets), std::to_string(row.count.routed),
               std::to_string(row.count.refused), std::to_string(row.count.given_up()),
               fmt::format("{:.4f}", share.value),
               fmt::format("{:.4f} to {:.4f}", share.low, share.high),
               std::to_string(row.count.first_routed), fmt::format("{:.3f}", row.wall_s)});
    if (!row.refused.empty()) {
      notes += fmt::format("{} does not route {}\n", row.size.text(), join(row.refused, ", "));
    } else if (!row.count.refused_example.empty()) {
      notes += fmt::format("{} does not route \"{}\"\n", row.size.text(),
                           flows_text(row.count.refused_example));
    }
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
  line.option("--of", "ports of a random flow; mixed: at most, each side by itself", "2");
  line.option("--sets", "that are drawn", "1000");
  line.option("--seed", "of what is drawn", "1");
  declare_search(line);
  line.json_flag();
}

Result<FredStudyRow> row_of(const CommandLine& line, const FredSize& size,
                            const RouteOptions& options) {
  if (line.given("--partitions")) {
    return partitions_row(size, options);
  }
  if (line.given("--placements")) {
    return placements_row(size, line.text("--view"), options);
  }
  PLEACH_ASSIGN(study, random_study(line));
  return random_row(size, study, options);
}

Result<ExitCode> run(const Command& command, const Invocation& invocation) {
  CommandLine line(command, invocation);
  declare(line);
  if (const auto stop = line.parse()) {
    return *stop;
  }
  std::vector<std::string> studies;
  for (const std::string name : {"partitions", "placements", "random"}) {
    if (line.given("--" + name)) {
      studies.push_back(name);
    }
  }
  if (studies.size() != 1) {
    return line.refuse("give one of --partitions, --placements and --random");
  }
  PLEACH_ASSIGN(options, route_options(line));
  PLEACH_ASSIGN(sizes, sizes_of(line));
  std::vector<FredStudyRow> rows;
  for (const FredSize& size : sizes) {
    const Stopwatch watch;
    PLEACH_ASSIGN(row, row_of(line, size, options));
    row.wall_s = watch.elapsed_s();
    rows.push_back(std::move(row));
  }
  fmt::print(invocation.out, "{}",
             line.json() ? study_json(studies.front(), rows) + "\n" : text_of(rows));
  return ExitCode::kDone;
}

}  // namespace

Command fred_study_command() {
  return {"fred study", "counts which sets of flows route, all of a kind or random ones",
          "  pleach fred study --placements --ports 20\n"
          "  pleach fred study --partitions --ports 4,5,6,7,8\n"
          "  pleach fred study --random --ports 256 --middle 3 --flows 64 --of 4 --sets 10\n",
          run};
}

}  // namespace pleach
