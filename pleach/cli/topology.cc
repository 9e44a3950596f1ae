// pleach topology: describes a topology and what is possible on it.
#include <fmt/core.h>

#include "pleach/base/text.h"
#include "pleach/cli/common.h"
#include "pleach/cli/log.h"
#include "pleach/cli/table.h"

namespace pleach {
namespace {

std::string text_of(const TopologySummary::Span& span, std::string (*text)(int64_t)) {
  return span.least == span.most ? text(span.least) : text(span.least) + " to " + text(span.most);
}

std::string text_of(const TopologySummary& summary) {
  Facts facts;
  facts.add("name", summary.name);
  facts.add("ranks", std::to_string(summary.rank_count));
  facts.add("nodes", std::to_string(summary.node_count));
  facts.add("links", std::to_string(summary.link_count));
  for (const TopologySummary::Switches& alike : summary.switches) {
    facts.add(&alike == summary.switches.data() ? "switches" : "",
              fmt::format("{} {} of {} ports", alike.count, alike.model, alike.ports));
  }
  if (const auto& latency_ps = summary.switch_latency_ps; latency_ps && latency_ps->most > 0) {
    facts.add("switches take", text_of(*latency_ps, format_time));
  }
  if (const auto& lanes = summary.lanes; lanes && lanes->most > 1) {
    facts.add("lanes",
              text_of(*lanes, [](int64_t count) { return std::to_string(count); }) + " to a link");
  }
  facts.add("bisection", format_bandwidth(static_cast<double>(summary.bisection.bytes_per_s)) +
                             (summary.bisection.exact ? "" : " or less"));
  facts.add("diameter", fmt::format("{}{} links", summary.diameter.exact ? "" : "at least ",
                                    summary.diameter.link_count));
  Table bounds({{"  best possible", Table::Align::kLeft},
                {"algbw", Table::Align::kRight},
                {"because", Table::Align::kLeft}});
  for (const CollectiveBound& entry : summary.bounds) {
    bounds.add({"  " + std::string(to_text(entry.collective)),
                format_bandwidth(entry.bound.algbw_bytes_per_s),
                entry.bound.witness + (entry.bound.exact ? " (attainable)" : "")});
  }
  return facts.text() + "\n" + bounds.text();
}

Result<ExitCode> run_topology(const Command& command, const Invocation& invocation) {
  CommandLine line(command, invocation);
  line.required_argument("SPEC", "topology: torus:4x4, ring:8,latency=1us, cluster.toml, ...");
  line.json_flag();
  if (const auto stop = line.parse()) {
    return *stop;
  }
  PLEACH_ASSIGN(topology, load_topology(line.text("SPEC")));
  log_step(fmt::format("looking for bounds of {}", pleach::quoted(topology.name())));
  PLEACH_ASSIGN(summary, summarize(topology));
  if (line.json()) {
    fmt::print(invocation.out, "{}\n", to_json(summary));
  } else {
    fmt::print(invocation.out, "{}", text_of(summary));
  }
  return ExitCode::kDone;
}

}  // namespace

extern const Command kTopologyCommand = {
    "topology", "describes a topology and the best that any schedule can do on it",
    "  pleach topology torus:4x4                      sizes, bisection, bounds\n"
    "  pleach topology mesh:4x4,without_link=5-6      without one cable\n"
    "  pleach topology examples/two_boxes.toml --json a file; for scripts\n"
    "  pleach list topologies                         the shapes there are\n",
    run_topology};

}  // namespace pleach
