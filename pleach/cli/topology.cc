// pleach topology: describes a topology and what is possible on it.
#include <fmt/core.h>

#include "pleach/base/text.h"
#include "pleach/base/units.h"
#include "pleach/cli/common.h"
#include "pleach/cli/log.h"
#include "pleach/cli/print.h"
#include "pleach/cli/table.h"

namespace pleach {
namespace {

std::string text_of(const TopologySummary::Span& span, std::string (*text)(int64_t)) {
  return span.least == span.most ? text(span.least) : text(span.least) + " to " + text(span.most);
}

// What is not known of how the published figures come about is said in docs/fred.md.
void add_parts(const SwitchParts& parts, Facts& facts) {
  facts.add("chiplets", fmt::format("{} in {} planes, with {} cells; {} of configurations",
                                    parts.chiplet_count(), parts.planes, parts.cell_count(),
                                    format_size(parts.memory_bytes())));
  facts.add("area",
            fmt::format("{:.0f} mm2 as squares whose edges the I/O fills{}; published of 20 "
                        "NPUs: {:.0f} mm2, {} chiplets",
                        parts.area_mm2(),
                        parts.density_share == 1
                            ? ""
                            : fmt::format(", {:.1f} % of that at the published density",
                                          100 * parts.density_share),
                        kPublishedMm2, kPublishedChiplets));
  facts.add("", fmt::format("{:.0f} mm2 of ranks and I/O nodes, {:.0f} mm2 a wafer",
                            parts.ranks_and_io_mm2, kWaferMm2));
  facts.add("wires", fmt::format("{:.1f} W at full rate; published of 20 NPUs, chiplets too: {} W",
                                 parts.wire_w, kPublishedWatts));
  facts.add("left open", "what cells, buffers and control take of area and power");
}

std::string chiplets_text(const SwitchParts& parts) {
  using enum Table::Align;
  Table table({{"  chiplets", kLeft},
               {"count", kRight},
               {"ports", kRight},
               {"I/O", kRight},
               {"area", kRight},
               {"cells", kRight},
               {"configuration", kRight},
               {"phases", kRight}});
  for (const ChipletKind& kind : parts.chiplets) {
    const auto known = [](int64_t count, const std::string& unit) {
      return count > 0 ? std::to_string(count) + unit : "?";
    };
    table.add({"  " + kind.model, std::to_string(kind.count), std::to_string(kind.ports),
               format_bandwidth(static_cast<double>(kind.bytes_per_s)),
               fmt::format("{:.0f} mm2", kind.area_mm2), known(kind.cells, ""),
               known(kind.configuration_bits, " bits"), known(kind.phases(), "")});
  }
  return table.text();
}

std::string bisection_text(const TopologySummary& summary) {
  const auto text = [](int64_t bytes_per_s) {
    return format_bandwidth(static_cast<double>(bytes_per_s));
  };
  const int64_t proportional = summary.proportional_bisection_bytes_per_s;
  return text(summary.bisection.bytes_per_s) + (summary.bisection.exact ? "" : " or less") +
         (proportional < summary.bisection.bytes_per_s
              ? fmt::format("; {} in proportion to the narrowest part", text(proportional))
              : "");
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
  if (summary.parts) {
    add_parts(*summary.parts, facts);
  }
  facts.add("bisection", bisection_text(summary));
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
  const std::string parts = summary.parts ? "\n" + chiplets_text(*summary.parts) : "";
  return facts.text() + parts + "\n" + bounds.text();
}

Result<PartsModel> parts_model(const CommandLine& line) {
  PartsModel model;
  PLEACH_SET(model.port_bytes_per_s, line.value("--port-bandwidth", parse_bandwidth_bytes_per_s));
  PLEACH_SET(model.chiplet_ports, line.count("--chiplet-ports", 2, 65'536));
  PLEACH_SET(model.io_bytes_per_s_per_mm, line.value("--io-density", parse_bandwidth_bytes_per_s));
  PLEACH_SET(model.memory_bytes, configuration_memory(line));
  return model;
}

Result<ExitCode> run_topology(const Command& command, const Invocation& invocation) {
  CommandLine line(command, invocation);
  line.required_argument("SPEC", "topology: torus:4x4, ring:8,latency=1us, cluster.toml, ...");
  line.option("--port-bandwidth", "of a chiplet's port, one way: of what switches are built",
              "600GB/s");
  line.option("--chiplet-ports", "at most", "12");
  line.option("--io-density", "through a millimetre of a chiplet's edge, both ways", "107.4GB/s");
  line.option("--memory", "of configurations, in a chiplet", "1536");
  line.json_flag();
  if (const auto stop = line.parse()) {
    return *stop;
  }
  PLEACH_ASSIGN(model, parts_model(line));
  PLEACH_ASSIGN(topology, load_topology(line.text("SPEC")));
  log_step(fmt::format("looking for bounds of {}", pleach::quoted(topology.name())));
  PLEACH_ASSIGN(summary, summarize(topology, model));
  if (line.json()) {
    print_text(invocation.out, to_json(summary) + "\n");
  } else {
    print_text(invocation.out, text_of(summary));
  }
  return ExitCode::kDone;
}

}  // namespace

extern const Command kTopologyCommand = {
    "topology", "describes a topology and the best that any schedule can do on it",
    "  pleach topology torus:4x4                      sizes, bisection, bounds\n"
    "  pleach topology mesh:4x4,without_link=5-6      without one cable\n"
    "  pleach topology examples/two_boxes.toml --json a file; for scripts\n"
    "  pleach topology fred:D --io-density 250GB/s    also what its switches are built of\n"
    "  pleach list topologies                         the shapes there are\n",
    run_topology};

}  // namespace pleach
