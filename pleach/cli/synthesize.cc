// pleach synthesize: writes a schedule.
#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <span>

#include "pleach/base/index.h"
#include "pleach/base/ranges.h"
#include "pleach/base/text.h"
#include "pleach/cli/common.h"
#include "pleach/cli/log.h"
#include "pleach/cli/print.h"
#include "pleach/cli/table.h"

namespace pleach {
namespace {

// `size_bytes`: also how long it takes for this buffer.
std::string text_of(const ScheduleSummary& summary, std::optional<int64_t> size_bytes) {
  std::vector<std::string> phases;
  for (const int32_t steps : summary.phase_steps) {
    phases.push_back(std::to_string(steps));
  }
  const auto& [algorithm, options, fingerprint, certificate] = summary.provenance;
  Facts facts;
  facts.add("algorithm", algorithm + (options.empty() ? "" : "," + options));
  facts.add("collective", std::string(to_text(summary.collective)));
  facts.add("ranks", std::to_string(summary.rank_count));
  facts.add("steps", fmt::format("{} ({}), period {}", summary.step_count, join(phases, " + "),
                                 summary.period));
  facts.add("chunks", std::to_string(summary.chunk_count));
  facts.add("transfers", fmt::format("{}{}, at most {} on a link in a step", summary.transfer_count,
                                     summary.symmetric ? " (symmetric)" : "",
                                     summary.max_transfers_per_link_step));
  facts.add("algbw", fmt::format("{} for large sizes, {:.1f} % of the bound",
                                 format_bandwidth(certificate.algbw_bytes_per_s),
                                 certificate.fraction * 100));
  facts.add("bound", describe_bound(certificate.bound_algbw_bytes_per_s, certificate.exact,
                                    certificate.witness));
  if (size_bytes.has_value()) {
    const int64_t time_ps = estimate_time_ps(certificate, *size_bytes);
    facts.add("estimate",
              fmt::format("{}{} for {}, in one segment", time_ps <= kLongestPs ? "" : "more than ",
                          format_time(time_ps), format_size(*size_bytes)));
  }
  return facts.text();
}

// "0,3": "-" for none.
std::string ranks_text(std::span<const int32_t> ranks) {
  return ranks.empty() ? "-" : ranges_text(ranks);
}

std::string text_of(const InterfaceTables& tables) {
  const auto& [opcode, flow, parent, children, step, start, size] = tables.widths;
  std::map<std::pair<int32_t, int32_t>, std::vector<int32_t>, std::greater<>> alike;
  for (int32_t rank = 0; rank < tables.table.rank_count(); ++rank) {
    alike[{entry_count(tables, rank), nop_count(tables, rank)}].push_back(rank);
  }
  Table counts({{"entries", Table::Align::kRight},
                {"NOPs", Table::Align::kRight},
                {"bits", Table::Align::kRight},
                {"ranks", Table::Align::kLeft}});
  for (const auto& [count, ranks] : alike) {
    counts.add({std::to_string(count.first), std::to_string(count.second),
                std::to_string(table_bits(tables, ranks.front())), ranges_text(ranks)});
  }
  const std::vector<int32_t> overfull = overfull_ranks(tables);
  const std::string fullness =
      overfull.empty()
          ? fmt::format("all ranks fit into {} entries", tables.room)
          : fmt::format("more than {} entries: {} of {} ranks, {}", tables.room, overfull.size(),
                        tables.table.rank_count(), ranges_text(overfull));
  return fmt::format(
      "tables      {}\n{}"
      "entry       {} bits: opcode {}, flow {}, parent {}, children {}, step {}, start {}, size "
      "{}\n",
      fullness, counts.text("  "), tables.widths.entry(), opcode, flow, parent, children, step,
      start, size);
}

// The entries of one rank, and how its phases end.
std::string text_of(const InterfaceTables& tables, int32_t rank) {
  Table lines({{"step", Table::Align::kRight},
               {"opcode", Table::Align::kLeft},
               {"flow", Table::Align::kRight},
               {"parent", Table::Align::kLeft},
               {"children", Table::Align::kLeft},
               {tables.placement ? "start" : "chunk", Table::Align::kRight},
               {tables.placement ? "size" : "chunks", Table::Align::kRight}});
  const auto add = [&](const TableEntry& entry, std::string_view what) {
    if (entry.op == TableOp::kNop) {
      lines.add({std::to_string(entry.step), std::string(what)});
      return;
    }
    const Interval interval = interval_of(entry, tables.placement ? &*tables.placement : nullptr);
    lines.add({std::to_string(entry.step), std::string(what), std::to_string(entry.flow()),
               ranks_text(tables.table.parents(entry)), ranks_text(tables.table.children(entry)),
               std::to_string(interval.begin), std::to_string(interval.end - interval.begin)});
  };
  const std::span<const TableEntry> entries = tables.table.entries(rank);
  auto next = entries.begin();
  for (int32_t phase = 0, end_step = 0; phase < tables.table.phase_count(); ++phase) {
    end_step += tables.schedule->phase_steps[at(phase)];
    for (; next != entries.end() && next->step < end_step; ++next) {
      add(*next, to_text(next->op));
    }
    for (const TableEntry& end : tables.table.ends(rank, phase)) {
      add(end, "end");
    }
  }
  return fmt::format("rank {}: {} entries, {} bits\n{}", rank, entry_count(tables, rank),
                     table_bits(tables, rank), lines.text("  "));
}

// What --tables and the options to it ask for; nothing without it.
Result<std::optional<InterfaceTables>> tables_option(const CommandLine& line,
                                                     std::shared_ptr<const Schedule> schedule,
                                                     std::optional<int64_t> size_bytes) {
  if (!line.given("--tables")) {
    return std::optional<InterfaceTables>();
  }
  PLEACH_ASSIGN(tables, from_option("--tables", tabulate(std::move(schedule), size_bytes)));
  PLEACH_SET(tables.room, line.count("--table-room", 1, INT32_MAX));
  const int32_t last = tables.table.rank_count() - 1;
  if (line.given("--table-ranks")) {
    PLEACH_SET(
        tables.listed_ranks,
        from_option("--table-ranks", parse_ranges(line.text("--table-ranks"), "rank", last)));
  } else if (line.json()) {
    tables.listed_ranks.resize(at(last) + 1);
    std::iota(tables.listed_ranks.begin(), tables.listed_ranks.end(), 0);
  } else {
    tables.listed_ranks = {fullest_rank(tables)};
  }
  std::ranges::sort(tables.listed_ranks);
  return std::optional(std::move(tables));
}

Result<ExitCode> run_synthesize(const Command& command, const Invocation& invocation) {
  CommandLine line(command, invocation);
  declare_topology(line);
  line.required_option("--algorithm", "how: ring, multitree,step_rule=published");
  declare_collective(line);
  line.option("--size", "also estimate the time for this buffer: 64MiB; auto chooses by it");
  line.option("-o,--output", "file to write, " + schedule_extensions());
  line.flag("--tables", "also print the tables of the network interfaces that would run it");
  line.option("--table-ranks",
              "whose entries: 0,1,4-7 (default the fullest table's; with --json all)");
  line.option("--table-room", "entries that an interface holds; says which ranks have more",
              std::to_string(kPublishedTableEntries));
  line.json_flag();
  if (const auto stop = line.parse()) {
    return *stop;
  }
  for (const char* option : {"--table-ranks", "--table-room"}) {
    if (line.given(option) && !line.given("--tables")) {
      return line.refuse(fmt::format("{} goes with --tables", option));
    }
  }
  const Stopwatch watch;
  std::optional<int64_t> size_bytes;
  if (line.given("--size")) {
    PLEACH_SET(size_bytes, line.value("--size", parse_size_bytes));
  }
  PLEACH_ASSIGN(topology, line.value("--topology", load_topology));
  const std::string& source = line.text("--algorithm");
  PLEACH_ASSIGN(request, schedule_request(line, topology, source));
  request.size_bytes = size_bytes.value_or(0);
  if (source == kAutoAlgorithm && !size_bytes) {
    return line.refuse("--algorithm auto chooses by --size");
  }
  log_step(fmt::format("obtaining a schedule: {}", pleach::quoted(source)));
  PLEACH_ASSIGN(schedule, obtain_schedule(topology, source, request));
  if (line.given("--output")) {
    PLEACH_TRY(write_schedule(*schedule, line.text("--output")));
  }
  log_step(fmt::format("judging {} transfers", schedule->transfer_count()));
  PLEACH_ASSIGN(summary, summarize(*schedule, topology));
  PLEACH_ASSIGN(tables, tables_option(line, schedule, size_bytes));
  if (line.json()) {
    print_text(invocation.out,
               to_json(summary, watch.elapsed_s(), tables ? &*tables : nullptr) + "\n");
  } else {
    print_text(invocation.out, text_of(summary, size_bytes));
    if (tables.has_value()) {
      print_text(invocation.out, text_of(*tables));
      for (const int32_t rank : tables->listed_ranks) {
        print_text(invocation.out, text_of(*tables, rank));
      }
    }
  }
  return ExitCode::kDone;
}

}  // namespace

extern const Command kSynthesizeCommand = {
    "synthesize", "writes a schedule for a collective on a topology",
    "  pleach synthesize --topology torus:4x4 --algorithm multitree\n"
    "  pleach synthesize --topology mesh:4x4 --algorithm ring --collective all_gather -o "
    "ring.json\n"
    "  pleach synthesize --topology torus:8x8 --algorithm multitree,step_rule=published --json\n"
    "  pleach synthesize --topology fully_connected:8 --algorithm direct --group 0,2,4,6\n"
    "  pleach synthesize --topology mesh:2x2 --algorithm multitree --tables --table-ranks 0-3\n",
    run_synthesize};

}  // namespace pleach
