// pleach plan: which algorithm, in how many segments, at which size; and books of that.
#include <fmt/core.h>

#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/cli/common.h"
#include "pleach/cli/log.h"
#include "pleach/cli/print.h"
#include "pleach/cli/table.h"
#include "pleach/cli/timing_options.h"

namespace pleach {
namespace {

void declare(CommandLine& line) {
  line.optional_argument("FILE", "a book to print");
  line.option("--topology", "where: torus:4x4, cluster.toml, ...");
  line.option("--ranks", "without --topology: so many on this host, as its transport is known");
  line.option("--hosts", "where these ranks are, evenly", "1");
  line.option("--transport", "of these ranks", kAutoTransport);
  line.option("--network", "of these hosts: what the link of each carries", "25Gb/s");
  declare_collective(line);
  line.option("--algorithm", "what plans: auto, or one algorithm, whose segments are planned",
              kAutoAlgorithm);
  line.option("--size", "whole buffer of one rank: 64MiB");
  line.option("--sizes", "several: 1KiB:256MiB:4 (from, to, factor) or a list");
  declare_timing(line, "auto");
  line.option("-o,--output", "book to write, of all collectives: FILE.book");
  line.json_flag();
}

std::string text_of(const Comparison& choices) {
  Table table({{"size", Table::Align::kRight},
               {"algorithm", Table::Align::kLeft},
               {"segments", Table::Align::kRight},
               {"time", Table::Align::kRight},
               {"of the bound", Table::Align::kRight}});
  for (const ComparisonRow& row : choices.rows) {
    const std::optional<double> fraction = fraction_of_bound(row);
    table.add({format_size(row.size_bytes), row.chosen, std::to_string(row.segment_count),
               format_time(row.time_ps), fraction ? fmt::format("{:.1f} %", 100 * *fraction) : ""});
  }
  return table.text("  ");
}

// Where to plan; adds to `how` what is known of ranks on this host.
Result<Topology> topology_option(const CommandLine& line, TimingRequest& how) {
  if (line.given("--topology")) {
    return line.value("--topology", load_topology);
  }
  constexpr int32_t kMostRanks = 4096;
  PLEACH_ASSIGN(ranks, line.count("--ranks", 2, kMostRanks));
  const std::string& wanted = line.text("--transport");
  PLEACH_TRY(from_option("--transport", check_transport(wanted)));
  PLEACH_ASSIGN(hosts, line.count("--hosts", 1, ranks));
  PLEACH_TRY(from_option("--hosts", check_hosts(wanted, hosts)));
  PLEACH_ASSIGN(network, line.value("--network", default_network));
  const std::vector<int32_t> spread = spread_over_hosts(ranks, hosts);
  const std::string transport = wanted == kAutoTransport ? best_transport(spread) : wanted;
  const std::string where = hosts > 1 ? fmt::format(" on {} hosts", hosts) : "";
  PLEACH_ASSIGN(
      known, default_topology(transport, spread,
                              fmt::format("{} ranks{} over {}", ranks, where, transport), network));
  if (!line.given("--reduce-bandwidth")) {
    how.options.reduce_bandwidth_bytes_per_s = known.reduce_bandwidth_bytes_per_s;
  }
  return std::move(known.topology);
}

Result<ExitCode> plan_sizes(const CommandLine& line, const Invocation& invocation,
                            const Topology& topology, const TimingRequest& how) {
  const std::string& source = line.text("--algorithm");
  ComparisonRequest request;
  request.progress = log_step;
  request.how = how;
  request.models = {how.model};
  PLEACH_SET(request.sizes_bytes,
             line.value(line.given("--size") ? "--size" : "--sizes", parse_sizes));
  PLEACH_ASSIGN(schedule, schedule_request(line, topology, source));
  request.cases.push_back({&topology, topology.name(), source, std::move(schedule)});
  PLEACH_ASSIGN(choices, compare(request));
  if (!choices.refusals.empty()) {
    return invalid(choices.refusals.front().why);
  }
  if (line.json()) {
    print_text(invocation.out, plan_json(choices) + "\n");
  } else {
    print_text(invocation.out, fmt::format("{} on {}\n{}", choices.collective,
                                           one_line(topology.name()), text_of(choices)));
  }
  return ExitCode::kDone;
}

Result<ExitCode> write_plan(const CommandLine& line, const Invocation& invocation,
                            const Topology& topology, const TimingRequest& how) {
  BookOptions options;
  options.algorithm = line.text("--algorithm");
  options.planner = planner_options(how);
  options.planner.wants_certificate = false;
  options.planner.only_what_ranks_run = true;
  if (line.given("--topology") || line.given("--hosts")) {
    options.planner = on_network(options.planner);
  }
  if (line.given("--sizes")) {
    PLEACH_SET(options.sizes_bytes, line.value("--sizes", parse_sizes));
  }
  log_step(fmt::format("planning {} sizes of every collective", options.sizes_bytes.size()));
  PLEACH_ASSIGN(book, plan_book(topology, options));
  PLEACH_TRY(write_book(book, line.text("--output")));
  print_book(line, invocation, book);
  return ExitCode::kDone;
}

Result<ExitCode> run_plan(const Command& command, const Invocation& invocation) {
  CommandLine line(command, invocation);
  declare(line);
  if (const auto stop = line.parse()) {
    return *stop;
  }
  if (line.given("FILE")) {
    for (const char* option : {"--topology", "--ranks", "--size", "--sizes", "--output"}) {
      if (line.given(option)) {
        return line.refuse(fmt::format("a book is printed as it is: it takes no {}", option));
      }
    }
    PLEACH_ASSIGN(book, read_book(line.text("FILE")));
    print_book(line, invocation, book);
    return ExitCode::kDone;
  }
  if (line.given("--topology") == line.given("--ranks")) {
    return line.refuse("give either --topology or --ranks");
  }
  const bool has_sizes = line.given("--size") != line.given("--sizes");
  if (!has_sizes && !line.given("--output")) {
    return line.refuse("give --size or --sizes, or -o for a book");
  }
  PLEACH_ASSIGN(how, timing_request(line));
  how.model = line.text("--model");
  PLEACH_ASSIGN(topology, topology_option(line, how));
  return line.given("--output") ? write_plan(line, invocation, topology, how)
                                : plan_sizes(line, invocation, topology, how);
}

}  // namespace

extern const Command kPlanCommand = {
    "plan", "says which algorithm and how many segments are the fastest, and writes books",
    "  pleach plan --topology torus:4x4 --sizes 1KiB:256MiB:8\n"
    "  pleach plan --ranks 4 --transport tcp --collective all_gather --size 1MiB\n"
    "  pleach plan --topology host.toml -o host.book\n"
    "  PLEACH_BOOK=host.book pleach run --ranks 4 --sizes 1KiB:1MiB:4\n",
    run_plan};

}  // namespace pleach
