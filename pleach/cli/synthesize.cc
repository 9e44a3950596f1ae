// pleach synthesize: writes a schedule.
#include <fmt/core.h>

#include <optional>

#include "pleach/base/text.h"
#include "pleach/cli/common.h"
#include "pleach/cli/log.h"
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

Result<ExitCode> run_synthesize(const Command& command, const Invocation& invocation) {
  CommandLine line(command, invocation);
  declare_topology(line);
  line.required_option("--algorithm", "how: ring, multitree,step_rule=published");
  declare_collective(line);
  line.option("--size", "also estimate the time for this buffer: 64MiB; auto chooses by it");
  line.option("-o,--output", "file to write, " + schedule_extensions());
  line.json_flag();
  if (const auto stop = line.parse()) {
    return *stop;
  }
  const Stopwatch watch;
  std::optional<int64_t> size_bytes;
  if (line.given("--size")) {
    PLEACH_SET(size_bytes, line.value("--size", parse_size_bytes));
  }
  PLEACH_ASSIGN(topology, line.value("--topology", parse_topology));
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
  if (line.json()) {
    fmt::print(invocation.out, "{}\n", to_json(summary, watch.elapsed_s()));
  } else {
    fmt::print(invocation.out, "{}", text_of(summary, size_bytes));
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
