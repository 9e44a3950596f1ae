// pleach verify: proves a schedule, or shows why it is wrong.
#include <fmt/core.h>

#include <optional>

#include "pleach/cli/common.h"
#include "pleach/cli/log.h"
#include "pleach/cli/print.h"
#include "pleach/cli/table.h"

namespace pleach {
namespace {

const char* yes_no(bool value) {
  return value ? "yes" : "no";
}

std::string text_of(const Schedule& schedule, const Verification& verification, bool on_topology,
                    std::optional<bool> is_planned_here) {
  Facts facts;
  facts.add("correct", fmt::format("yes: {} on {} ranks, {} chunks, {} transfers",
                                   to_text(schedule.collective), schedule.rank_count(),
                                   schedule.chunks.count(), schedule.transfer_count()));
  facts.add("contention free",
            on_topology ? yes_no(verification.contention_free) : "not checked (give --topology)");
  for (const std::string& conflict : verification.switch_conflicts) {
    facts.add("", conflict);
  }
  facts.add("same bits on all ranks", yes_no(verification.bitwise_replicated));
  if (is_planned_here == false) {
    facts.add("note",
              "planned for another topology: other nodes, links, figures of theirs or routing");
  }
  return facts.text();
}

Result<ExitCode> run_verify(const Command& command, const Invocation& invocation) {
  CommandLine line(command, invocation);
  line.required_argument("FILE", "schedule file, " + schedule_extensions());
  line.option("--topology", "also check routes, switches and contention on it");
  line.json_flag();
  if (const auto stop = line.parse()) {
    return *stop;
  }
  const Stopwatch watch;
  const std::string& path = line.text("FILE");
  PLEACH_ASSIGN(schedule, read_schedule(path));
  std::optional<Topology> topology;
  if (line.given("--topology")) {
    PLEACH_SET(topology, line.value("--topology", load_topology));
  }
  log_step(fmt::format("proving {} transfers", schedule.transfer_count()));
  const Topology* const where = topology ? &*topology : nullptr;
  const Verification verification =
      verify(schedule, where, where == nullptr ? SwitchJudge() : switch_judge(*where));
  const std::optional<bool> is_planned_here =
      topology ? is_planned_for(schedule, *topology) : std::nullopt;
  if (line.json()) {
    print_text(
        invocation.out,
        to_json(verification, topology.has_value(), is_planned_here, watch.elapsed_s()) + "\n");
  } else if (verification.correct) {
    print_text(invocation.out,
               text_of(schedule, verification, topology.has_value(), is_planned_here));
  }
  if (!verification.correct) {
    print_error(invocation.error, "pleach verify",
                fmt::format("{}: {}", path, first_violation(verification, schedule, where)));
    return ExitCode::kIncorrect;
  }
  return ExitCode::kDone;
}

}  // namespace

extern const Command kVerifyCommand = {
    "verify", "proves that a schedule gives the right result in every interleaving",
    "  pleach verify ring.json                        the proof; exit code 3 when it fails\n"
    "  pleach verify ring.json --topology mesh:4x4    also routes and contention\n"
    "  pleach verify ring.json --json                 all violations, for scripts\n",
    run_verify};

}  // namespace pleach
