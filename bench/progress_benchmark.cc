// What operations in flight cost and gain, between two ranks over TCP; prints JSON, and fails
// beyond its limits: the share of a core that waiting for a late peer takes (2 s late), and what is
// left to wait for of an all_reduce of 64 MiB after a computation that it was started before, in
// its own time. Results are checked.
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "pleach/api/library.h"

namespace pleach {
namespace {

constexpr double kMostWaitingShare = 0.02;
constexpr double kMostTailShare = 0.2;
constexpr int kRounds = 5;

double seconds_of(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double wall() {
  return seconds_of(CLOCK_MONOTONIC);
}

// Keeps a core busy.
void compute(double seconds) {
  volatile double sum = 0;
  for (const double end = wall() + seconds; wall() < end;) {
    for (int i = 0; i < 1000; ++i) {
      sum = sum + i;
    }
  }
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct BenchmarkRank {
  Communicator& communicator;
  const PreparedSchedule& schedule;
  std::vector<float> data;

  RunRequest request() {
    std::byte* const bytes = std::as_writable_bytes(std::span(data)).data();
    return {.count = static_cast<int64_t>(data.size()), .input = bytes, .output = bytes};
  }
};

// The share of a core that a rank takes that waits for one who is two seconds late.
Result<double> waiting_share(BenchmarkRank& own) {
  constexpr int kLate = 2;
  own.data.assign(256, 1);
  PLEACH_TRY(own.communicator.barrier());
  if (own.communicator.rank().value == 1) {
    std::this_thread::sleep_for(std::chrono::seconds(kLate));
  }
  const double busy = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  PLEACH_TRY(own.communicator.run(own.schedule, own.request()));
  return (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - busy) / kLate;
}

// What a rank still waits after 300 ms of computation, in the time of the operation alone.
Result<double> tail_share(BenchmarkRank& own) {
  std::vector<double> shares;
  for (int round = 0; round < kRounds; ++round) {
    own.data.assign(16 << 20, 1);
    PLEACH_TRY(own.communicator.barrier());
    const double start = wall();
    PLEACH_TRY(own.communicator.run(own.schedule, own.request()));
    const double alone = wall() - start;
    own.data.assign(own.data.size(), 1);
    PLEACH_TRY(own.communicator.barrier());
    PLEACH_ASSIGN(operation, own.communicator.start(own.schedule, own.request()));
    compute(0.3);
    const double end = wall();
    PLEACH_TRY(operation.wait());
    shares.push_back((wall() - end) / alone);
    if (std::ranges::count(own.data, 2) != std::ssize(own.data)) {
      return Error{ErrorCode::kIo, "the result is wrong"};
    }
  }
  return median(shares);
}

Status run_rank(const TcpStoreOptions& options) {
  PLEACH_ASSIGN(store, make_tcp_store(options));
  PLEACH_ASSIGN(endpoint, Endpoint::create({.rank = options.rank,
                                            .rank_count = options.rank_count,
                                            .store = std::move(store)}));
  PLEACH_ASSIGN(communicator, Communicator::create(std::move(endpoint)));
  PLEACH_ASSIGN(topology, parse_topology("ring:2"));
  PLEACH_ASSIGN(schedule, obtain_schedule(topology, "ring"));
  PLEACH_ASSIGN(prepared,
                communicator->prepare(options.rank.value == 0 ? schedule.get() : nullptr));
  BenchmarkRank own{*communicator, *prepared, {}};
  PLEACH_ASSIGN(waiting, waiting_share(own));
  PLEACH_ASSIGN(tail, tail_share(own));
  PLEACH_TRY(communicator->close());
  if (options.rank.value == 0) {
    fmt::print("{{\"waiting_share\": {:.5f}, \"tail_share\": {:.3f}}}\n", waiting, tail);
    if (waiting > kMostWaitingShare || tail > kMostTailShare) {
      return Error{ErrorCode::kInfeasible,
                   fmt::format("over its limits of {} and {}", kMostWaitingShare, kMostTailShare)};
    }
  }
  return ok();
}

}  // namespace
}  // namespace pleach

int main() {
  using pleach::Rank;
  const std::string file = fmt::format("/tmp/progress_benchmark.{}", getpid());
  const pid_t child = fork();
  const pleach::Status status = pleach::run_rank({.rank = Rank{child == 0 ? 1 : 0},
                                                  .rank_count = 2,
                                                  .job = "progress_benchmark",
                                                  .rendezvous_file = file});
  if (!status) {
    fmt::print(stderr, "progress_benchmark: {}\n", status.error().message);
  }
  int code = 0;
  if (child > 0) {
    waitpid(child, &code, 0);
    unlink(file.c_str());
  }
  return status && code == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
