// pleach run: real ranks, real bytes, checked results.
#include "pleach/cli/run.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <future>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "pleach/base/files.h"
#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/cli/print.h"
#include "pleach/cli/processes.h"
#include "pleach/runtime/net.h"

namespace pleach {
namespace {

// What every rank of this process knows.
struct RunContext {
  const Invocation& invocation;
  const CommandLine& line;
  const RunSettings& settings;
};

// Prints while somebody reads. Who has read enough, as `head`, closes the pipe: that is no error,
// and the ranks are told to stop.
class Printer {
 public:
  explicit Printer(std::FILE* out) : out_(out) { std::signal(SIGPIPE, SIG_IGN); }
  bool write(std::string_view text) {
    const std::string shown = printable(text);
    if (is_read_ && (std::fwrite(shown.data(), 1, shown.size(), out_) < shown.size() ||
                     std::fflush(out_) != 0)) {
      is_read_ = false;
      failure_ = errno == EPIPE ? 0 : errno;
    }
    return is_read_;
  }
  // The errno with which it could not be written, for another reason; 0: it could.
  int failure() const { return failure_; }

 private:
  std::FILE* out_;
  bool is_read_ = true;
  int failure_ = 0;
};

// One rank: measures, and on rank 0 prints. Errors are printed here, with the rank.
ExitCode run_rank(const RunContext& context, BenchmarkJob job) {
  const RunSettings& settings = context.settings;
  std::FILE* out = context.invocation.out;
  const bool prints = job.rank.value == 0 && !context.line.json();
  job.transport = settings.transport;
  job.deadline = settings.deadline;
  job.landing_places = settings.landing_places;
  std::string output_file;
  Printer printer(out);
  job.plan = [&](const TransportChoice& choice) -> Result<Book> {
    if (context.line.given("--output-file")) {
      PLEACH_SET(output_file, context.line.value("--output-file", new_file_name));
    }
    return book_for(context.line, job.rank_count, choice);
  };
  const Result<std::optional<Rank>> root = root_option(context.line, job.rank_count);
  if (!root) {
    print_rank_error(context.invocation, job.rank, root.error());
    return ExitCode::kFailed;
  }
  job.root = *root;
  if (prints) {
    job.started = [&](const BenchmarkReport& report) {
      const std::string file =
          output_file.empty() ? "" : fmt::format("# Writing JSON output to {}\n", output_file);
      return printer.write(file + nccl_tests_header(report));
    };
    job.measured = [&](const BenchmarkReport& report) {
      return printer.write(nccl_tests_choice(report) + nccl_tests_row(report, report.rows.back()));
    };
  }
  const Result<BenchmarkReport> report = run_benchmark(job, settings.benchmark);
  Result<std::string> written = output_file;
  if (report && !output_file.empty()) {
    std::vector<std::string> words = {context.invocation.program, "run"};
    words.insert(words.end(), context.invocation.arguments.begin(),
                 context.invocation.arguments.end());
    written =
        write_new_file(context.line.text("--output-file"), nccl_tests_json(*report, words) + "\n");
  }
  if (!report || !written) {
    print_rank_error(context.invocation, job.rank, report ? written.error() : report.error());
    return ExitCode::kFailed;
  }
  if (prints && *written != output_file) {  // somebody else took that name
    printer.write(fmt::format("# Wrote JSON output to {}\n", *written));
  }
  if (prints) {
    printer.write(nccl_tests_footer(*report));
  } else if (job.rank.value == 0) {
    printer.write(to_json(*report) + "\n");
  }
  if (printer.failure() != 0) {
    print_rank_error(context.invocation, job.rank,
                     {ErrorCode::kIo, unwritten_text(printer.failure())});
    return ExitCode::kFailed;
  }
  if (job.rank.value == 0 && report->wrong_count() > 0) {
    print_error(context.invocation.error, "rank 0",
                fmt::format("{} elements of results are wrong", report->wrong_count()));
    return ExitCode::kFailed;
  }
  return ExitCode::kDone;
}

Status check_memory(const RunSettings& settings, int64_t ranks_here) {
  const int64_t available_bytes = available_memory_bytes();
  const int64_t rank_bytes = benchmark_memory_bytes(settings.benchmark);
  if (available_bytes > 0 && rank_bytes > available_bytes / ranks_here) {
    return invalid(
        fmt::format("--sizes: buffers of {} on each of {} ranks do not fit into the {} of "
                    "memory available",
                    format_size(rank_bytes), ranks_here, format_size(available_bytes)));
  }
  return ok();
}

// This process is one rank among those that a starter made.
Result<ExitCode> run_launched(const RunContext& context, const LaunchEnvironment& launch) {
  PLEACH_TRY(check_rank_count(context.settings.rank_count, launch));
  if (!context.settings.spans_processes) {
    return invalid(fmt::format("--transport: {} keeps all ranks in one process, but {} started {}",
                               context.settings.transport, launch.starter, launch.rank_count));
  }
  if (context.settings.host_count > 1 && launch.starter != "pleach") {
    return invalid(fmt::format("--hosts: {} started the ranks; PLEACH_HOST says where each is",
                               launch.starter));
  }
  PLEACH_TRY(check_memory(context.settings, 1));
  warn_of_strangers(context.invocation, launch);
  Result<std::unique_ptr<Store>> store = make_store(launch, context.settings.deadline);
  if (!store) {
    print_rank_error(context.invocation, launch.rank, store.error());
    return ExitCode::kFailed;
  }
  BenchmarkJob job;
  job.rank = launch.rank;
  job.rank_count = launch.rank_count;
  job.store = std::move(*store);
  job.name = (launch.key_prefix.empty() ? "" : launch.key_prefix + "/") + "world";
  return run_rank(context, std::move(job));
}

// Runs a rank in a thread. An exception ends the job, and not the process.
ExitCode run_rank_of_thread(const RunContext& context, BenchmarkJob job) {
  const std::shared_ptr<Store> store = job.store;
  const Rank rank = job.rank;
  const auto fail = [&](const char* cause) {
    const Error error{ErrorCode::kInfeasible, cause};
    store->fail(named_failure(error, rank));
    print_rank_error(context.invocation, rank, error);
    return ExitCode::kFailed;
  };
  try {
    return run_rank(context, std::move(job));
  } catch (const std::bad_alloc&) {
    return fail("out of memory");
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}

// Before anything is planned: threads share the descriptors of the process.
Status check_descriptors(const RunSettings& settings) {
  raise_descriptor_limit();
  constexpr int64_t kOthers = 16;  // files, and what the ranks have in common
  std::vector<Descriptor> tried;
  for (int64_t left = settings.rank_count + kOthers; left > 0; --left) {
    tried.push_back(make_event());
    if (!tried.back().is_open()) {
      return out_of_descriptors(
          fmt::format("run {} ranks as threads of one process", settings.rank_count), errno);
    }
  }
  return ok();
}

// All ranks are threads of this process.
Result<ExitCode> run_threads(const RunContext& context) {
  const std::shared_ptr<Store> store = make_local_store();
  std::atomic<bool> failed = false;
  std::string no_thread;
  std::promise<bool> all_are_here;
  const std::shared_future<bool> begins = all_are_here.get_future().share();
  std::vector<std::jthread> threads;
  threads.reserve(at(context.settings.rank_count));
  for (int32_t rank = 0; rank < context.settings.rank_count && no_thread.empty(); ++rank) {
    const auto work = [&, begins, rank] {
      if (!begins.get()) {
        return;
      }
      BenchmarkJob job;
      job.rank = Rank{rank};
      job.rank_count = context.settings.rank_count;
      job.store = store;
      if (run_rank_of_thread(context, std::move(job)) != ExitCode::kDone) {
        failed = true;
      }
    };
    try {
      threads.emplace_back(work);
    } catch (const std::system_error& error) {
      no_thread = fmt::format("cannot start the thread of rank {}: {} (ulimit -u, ulimit -v)", rank,
                              error.what());
    }
  }
  all_are_here.set_value(no_thread.empty());
  threads.clear();  // waits for them
  if (!no_thread.empty()) {
    return Error{ErrorCode::kInfeasible, no_thread};
  }
  return failed ? ExitCode::kFailed : ExitCode::kDone;
}

Result<ExitCode> run_run(const Command& command, const Invocation& invocation) {
  CommandLine line(command, invocation);
  declare_run(line);
  if (const auto stop = line.parse()) {
    return *stop;
  }
  if (line.given("FILE") && line.given("--algorithm")) {
    return line.refuse("give either FILE or --algorithm");
  }
  PLEACH_ASSIGN(settings, understand_run(line));
  PLEACH_ASSIGN(launch, detect_launch(process_environment));
  const RunContext context = {invocation, line, settings};
  if (launch) {
    return run_launched(context, *launch);
  }
  if (settings.rank_count == 0) {
    return line.refuse("give --ranks, or start it under mpirun, torchrun or srun");
  }
  if (!settings.spans_processes) {
    PLEACH_TRY(check_descriptors(settings));
  }
  // What would fail on rank 0 fails here already, as one line, before any rank exists.
  PLEACH_TRY(
      book_for(line, settings.rank_count,
               {settings.transport, spread_over_hosts(settings.rank_count, settings.host_count)}));
  PLEACH_TRY(root_option(line, settings.rank_count));
  PLEACH_TRY(check_memory(settings, settings.rank_count));
  if (line.given("--output-file")) {
    PLEACH_TRY(line.value("--output-file", new_file_name));
  }
  return settings.spans_processes
             ? start_again(invocation, command.name,
                           {settings.rank_count, settings.host_count, settings.deadline})
             : run_threads(context);
}

}  // namespace

extern const Command kRunCommand = {
    "run", "runs a schedule on real ranks, times it and checks every result",
    "  pleach run --ranks 4 --sizes 1KiB:1MiB:4\n"
    "  pleach run --ranks 4 --algorithm ring --transport tcp --sizes 1KiB:1MiB:4\n"
    "  pleach run --ranks 16 --topology torus:4x4 --algorithm multitree --sizes 100MB -n 3\n"
    "  pleach run --ranks 8 schedule.json --dtype int32 --op max\n"
    "  mpirun -np 4 pleach run --algorithm halving_doubling --sizes 1MiB\n"
    "  torchrun --no-python --nproc_per_node 4 pleach run --algorithm ring --sizes 1MiB\n"
    "Output is nccl-tests' text; exit code 1 when a result is wrong or a rank is lost.\n",
    run_run};

}  // namespace pleach
