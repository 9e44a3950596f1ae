// pleach synthesize: writes a schedule.
#include <fmt/core.h>

#include "pleach/base/text.h"
#include "pleach/cli/common.h"
#include "pleach/cli/table.h"

namespace pleach {
namespace {

std::string text_of(const ScheduleSummary& summary, const std::string& size_text,
                    int64_t size_bytes) {
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
  if (!size_text.empty()) {
    const int64_t time_ps = estimate_time_ps(certificate, size_bytes);
    facts.add("estimate",
              fmt::format("{}{} for {}, in one segment", time_ps <= kLongestPs ? "" : "more than ",
                          format_time(time_ps), format_size(size_bytes)));
  }
  return facts.text();
}

Result<ExitCode> run_synthesize(const Command& command, const Invocation& invocation) {
  ScheduleOptions options;
  std::string size_text;
  std::string output;
  bool json = false;
  CommandLine line(command, invocation);
  line.required_option("--topology", options.topology, "where: torus:4x4, cluster.toml, ...");
  line.required_option("--algorithm", options.algorithm,
                       "how: ring, multitree,step_rule=published");
  options.declare_collective(line);
  line.option("--size", size_text, "also estimate the time for this buffer: 64MiB");
  line.option("-o,--output", output, "file to write, .json or .pleach");
  line.flag("--json", json, "print one JSON object");
  if (const auto stop = line.parse()) {
    return *stop;
  }
  const Stopwatch watch;
  int64_t size_bytes = 0;
  if (!size_text.empty()) {
    PLEACH_SET(size_bytes, from_option("--size", parse_size_bytes(size_text)));
  }
  PLEACH_ASSIGN(topology, topology_option(options.topology));
  PLEACH_ASSIGN(request, options.request(topology, line, options.algorithm));
  request.algorithm = options.algorithm;
  PLEACH_ASSIGN(schedule, obtain_schedule(topology, request));
  if (!output.empty()) {
    PLEACH_TRY(write_schedule(schedule, output));
  }
  PLEACH_ASSIGN(summary, summarize(schedule, topology));
  if (json) {
    fmt::print(invocation.out, "{}\n", to_json(summary, watch.elapsed_s()));
  } else {
    fmt::print(invocation.out, "{}", text_of(summary, size_text, size_bytes));
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
    "  pleach synthesize --topology fully_connected:8 --algorithm direct --group 0,2,4,6\n",
    run_synthesize};

}  // namespace pleach
