// pleach probe: measures what messages between ranks of this host cost.
#include <fmt/core.h>

#include <optional>

#include "pleach/base/files.h"
#include "pleach/base/text.h"
#include "pleach/cli/common.h"
#include "pleach/cli/processes.h"
#include "pleach/cli/table.h"

namespace pleach {
namespace {

constexpr Duration kDeadline = std::chrono::seconds(30);

std::string text_of(const ProbeReport& report) {
  const HostModel& model = report.model;
  Facts facts;
  facts.add("ranks", fmt::format("{} over {}, {} core{}", report.rank_count, report.transport,
                                 report.core_count, report.core_count == 1 ? "" : "s"));
  facts.add("latency", format_time(model.latency_ps));
  facts.add("a message", fmt::format("takes as long as {} more", format_size(model.message_bytes)));
  facts.add("a rank", format_bandwidth(static_cast<double>(model.rank_bandwidth_bytes_per_s)));
  facts.add("all ranks", format_bandwidth(static_cast<double>(model.host_bandwidth_bytes_per_s)));
  facts.add("reductions",
            format_bandwidth(static_cast<double>(model.reduce_bandwidth_bytes_per_s)));
  return facts.text();
}

Status tell(const CommandLine& line, const Invocation& invocation, const ProbeReport& report) {
  if (line.given("--output")) {
    const std::string comment = fmt::format(
        "{} ranks over {} on {} cores, by pleach probe.\nReductions: {} B/s "
        "(--reduce-bandwidth).",
        report.rank_count, report.transport, report.core_count,
        report.model.reduce_bandwidth_bytes_per_s);
    PLEACH_TRY(write_file(
        line.text("--output"),
        host_topology_toml(report.model, report.rank_count,
                           fmt::format("{} ranks over {}", report.rank_count, report.transport),
                           comment)));
  }
  fmt::print(invocation.out, "{}{}", line.json() ? to_json(report) : text_of(report),
             line.json() ? "\n" : "");
  return ok();
}

// This process is one rank of those that the command has started, or another starter.
Result<ExitCode> probe_launched(const CommandLine& line, const Invocation& invocation,
                                const LaunchEnvironment& launch) {
  ProbeJob job;
  job.rank = launch.rank;
  job.rank_count = launch.rank_count;
  job.transport = line.text("--transport");
  job.deadline = kDeadline;
  job.name = (launch.key_prefix.empty() ? "" : launch.key_prefix + "/") + "probe";
  Result<std::unique_ptr<Store>> store = make_store(launch, job.deadline);
  Status done = store ? ok() : Status(store.error());
  if (store) {
    job.store = std::move(*store);
    Result<HostModel> model = probe_host(job);
    done = model ? ok() : Status(model.error());
    if (model && job.rank.value == 0) {
      done = tell(line, invocation, {job.transport, job.rank_count, core_count(), *model});
    }
    if (!done) {
      job.store->fail({job.rank, done.error().message});
    }
  }
  if (!done) {
    fmt::print(invocation.error, "{}\n", said_by(launch.rank, done.error().message));
  }
  return done ? ExitCode::kDone : ExitCode::kFailed;
}

Result<ExitCode> run_probe(const Command& command, const Invocation& invocation) {
  CommandLine line(command, invocation);
  line.option("--ranks", "processes to start here; under mpirun, torchrun, Slurm: theirs");
  line.option("--transport", "between them: shm, tcp or host, which is shm here", "shm");
  line.option("-o,--output", "topology file to write: host.toml");
  line.json_flag();
  if (const auto stop = line.parse()) {
    return *stop;
  }
  PLEACH_ASSIGN(kind, from_option("--transport", transports().select(line.text("--transport"))));
  if (!kind.entry->spans_processes) {
    return invalid("--transport",
                   fmt::format("{} has no ranks that are processes", kind.entry->name));
  }
  PLEACH_ASSIGN(launch, detect_launch(process_environment));
  if (launch) {
    return probe_launched(line, invocation, *launch);
  }
  if (!line.given("--ranks")) {
    return line.refuse("give --ranks, or start it under mpirun, torchrun or srun");
  }
  constexpr int32_t kMostRanks = 1024;
  PLEACH_ASSIGN(rank_count, line.count("--ranks", 2, kMostRanks));
  return start_again(invocation, command.name, {.rank_count = rank_count, .deadline = kDeadline});
}

}  // namespace

extern const Command kProbeCommand = {
    "probe", "measures what messages between the ranks of this host cost, as a topology",
    "  pleach probe --ranks 4\n"
    "  pleach probe --ranks 4 --transport tcp -o host.toml\n"
    "  pleach plan --topology host.toml -o host.book\n",
    run_probe};

}  // namespace pleach
