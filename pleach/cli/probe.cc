// pleach probe: measures what messages between ranks of this host cost.
#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "pleach/base/files.h"
#include "pleach/base/text.h"
#include "pleach/cli/common.h"
#include "pleach/cli/log.h"
#include "pleach/cli/print.h"
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
  print_text(invocation.out, line.json() ? to_json(report) + "\n" : text_of(report));
  return ok();
}

// What this rank measures; rank 0 tells it.
Status measure_model(const CommandLine& line, const Invocation& invocation,
                     EndpointOptions options) {
  const bool is_first = options.rank.value == 0;
  const int32_t rank_count = options.rank_count;
  PLEACH_ASSIGN(model, probe_host(std::move(options)));
  return is_first
             ? tell(line, invocation, {line.text("--transport"), rank_count, core_count(), model})
             : ok();
}

Status measure_book(const CommandLine& line, const Invocation& invocation,
                    EndpointOptions options) {
  const bool is_first = options.rank.value == 0;
  PLEACH_ASSIGN(sizes, line.value("--sizes", parse_sizes));
  PLEACH_ASSIGN(book, tune_book(std::move(options), {.sizes_bytes = sizes, .progress = log_step}));
  if (is_first) {
    print_book(line, invocation, book);
    PLEACH_TRY(write_book(book, line.text("--book")));
  }
  return ok();
}

// Before minutes are spent for it.
Status check_book_file(const std::string& path) {
  if (!path.ends_with(kBookExtension)) {
    return invalid(
        fmt::format("{} does not end in {}, as a book must", pleach::quoted(path), kBookExtension));
  }
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  if (!folder.empty() && !std::filesystem::is_directory(folder, ignored)) {
    return invalid(fmt::format("there is no folder {}", pleach::quoted(folder.string())));
  }
  return ok();
}

// This process is one rank of those that the command has started, or another starter.
Result<ExitCode> probe_launched(const CommandLine& line, const Invocation& invocation,
                                const LaunchEnvironment& launch) {
  warn_of_strangers(invocation, launch);
  Result<std::unique_ptr<Store>> made = make_store(launch, kDeadline);
  Status done = made ? ok() : Status(made.error());
  if (made) {
    const std::shared_ptr<Store> store = std::move(*made);
    EndpointOptions options;
    options.rank = launch.rank;
    options.rank_count = launch.rank_count;
    options.transport = line.text("--transport");
    options.store = store;
    options.name = (launch.key_prefix.empty() ? "" : launch.key_prefix + "/") + "probe";
    options.deadline = kDeadline;
    done = line.given("--book") ? measure_book(line, invocation, std::move(options))
                                : measure_model(line, invocation, std::move(options));
    if (!done) {
      store->fail(named_failure(done.error(), launch.rank));
    }
  }
  if (!done) {
    print_rank_error(invocation, launch.rank, done.error());
  }
  return done ? ExitCode::kDone : ExitCode::kFailed;
}

Result<ExitCode> run_probe(const Command& command, const Invocation& invocation) {
  CommandLine line(command, invocation);
  line.option("--ranks", "processes to start here; under mpirun, torchrun, Slurm: theirs");
  line.option("--transport", "between them: shm, tcp or host, which is shm here", "shm");
  line.option("-o,--output", "topology file to write: host.toml");
  line.option("--book", "instead: measures every algorithm, and writes a book of the fastest");
  line.option("--sizes", "of that book: 1KiB:64MiB:4 (from, to, factor) or a list", "1KiB:64MiB:4");
  line.json_flag();
  if (const auto stop = line.parse()) {
    return *stop;
  }
  PLEACH_ASSIGN(kind, from_option("--transport", transports().select(line.text("--transport"))));
  if (!kind.entry->spans_processes) {
    return invalid("--transport",
                   fmt::format("{} has no ranks that are processes", kind.entry->name));
  }
  if (line.given("--book") && line.given("--output")) {
    return line.refuse("give either --book or --output");
  }
  if (line.given("--sizes") && !line.given("--book")) {
    return line.refuse("--sizes are those of a --book");
  }
  PLEACH_ASSIGN(sizes, line.value("--sizes", parse_sizes));
  PLEACH_TRY(from_option("--sizes", check_book_sizes(sizes)));
  constexpr int32_t kMostRanks = 1024;
  int32_t rank_count = 0;  // as the starter has it
  if (line.given("--ranks")) {
    PLEACH_SET(rank_count, line.count("--ranks", 2, kMostRanks));
  }
  PLEACH_ASSIGN(launch, detect_launch(process_environment));
  if (line.given("--book") && (!launch || launch->rank.value == 0)) {
    PLEACH_TRY(from_option("--book", check_book_file(line.text("--book"))));
  }
  if (launch) {
    PLEACH_TRY(check_rank_count(rank_count, *launch));
    return probe_launched(line, invocation, *launch);
  }
  if (rank_count == 0) {
    return line.refuse("give --ranks, or start it under mpirun, torchrun or srun");
  }
  return start_again(invocation, command.name, {.rank_count = rank_count, .deadline = kDeadline});
}

}  // namespace

extern const Command kProbeCommand = {
    "probe", "measures what messages between the ranks of this host cost, or what is the fastest",
    "  pleach probe --ranks 4\n"
    "  pleach probe --ranks 4 --transport tcp -o host.toml\n"
    "  pleach plan --topology host.toml -o host.book\n"
    "  pleach probe --ranks 4 --book host.book\n"
    "  PLEACH_BOOK=host.book pleach run --ranks 4 --sizes 1KiB:1MiB:4\n",
    run_probe};

}  // namespace pleach
