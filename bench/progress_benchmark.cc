// What operations in flight cost and gain, between two ranks over TCP; prints JSON, and fails
// beyond its limits: the share of a core that waiting for a late peer takes (2 s late); what is
// left to wait for of an all_reduce of 64 MiB after a computation that it was started before, in
// its own time; and the time of 8 operations of 256 KiB in flight, in that of one after the other,
// where all news of a peer comes a millisecond late. Results are checked.
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pleach/api/library.h"

namespace pleach {
namespace {

constexpr double kMostWaitingShare = 0.02;
constexpr double kMostTailShare = 0.2;
constexpr double kMostFlightShare = 0.7;
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

// Tells what happens a millisecond later than it does.
class LateTransport final : public Transport {
 public:
  explicit LateTransport(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}

  void set_sink(Sink& sink) override { inner_->set_sink(sink); }
  Status open(const ChannelOptions& channel) override { return inner_->open(channel); }
  void abandon(uint64_t channel) override { inner_->abandon(channel); }
  void close(uint64_t channel) override { inner_->close(channel); }
  std::string address() const override { return inner_->address(); }
  Status introduce(Rank peer, std::string_view address) override {
    return inner_->introduce(peer, address);
  }
  Status connect(Rank peer) override { return inner_->connect(peer); }
  Status tell_begun(Rank peer, uint64_t channel, uint64_t operation,
                    uint64_t fingerprint) override {
    return inner_->tell_begun(peer, channel, operation, fingerprint);
  }
  Result<bool> send(Rank peer, uint64_t channel, SegmentTag tag, uint64_t fingerprint,
                    std::span<const std::span<const std::byte>> pieces) override {
    return inner_->send(peer, channel, tag, fingerprint, pieces);
  }
  Status release(Rank peer, uint64_t channel, SegmentTag tag, int32_t place) override {
    return inner_->release(peer, channel, tag, place);
  }
  bool holds_back() const override { return inner_->holds_back(); }
  Status flush() override { return inner_->flush(); }
  bool has_events() const override { return inner_->has_events(); }
  TimePoint expiry() const override {
    return held_.empty() ? inner_->expiry() : std::min(inner_->expiry(), held_.front().due);
  }
  void interrupt() override { inner_->interrupt(); }
  Status wait(TimePoint deadline, bool is_eager) override {
    return inner_->wait(held_.empty() ? deadline : std::min(deadline, held_.front().due), is_eager);
  }
  Status progress(std::vector<TransportEvent>& events) override {
    std::vector<TransportEvent> fresh;
    PLEACH_TRY(inner_->progress(fresh));
    const TimePoint now = clock_.now();
    for (const TransportEvent& event : fresh) {
      held_.push_back({now + std::chrono::milliseconds(1), event});
    }
    for (; !held_.empty() && held_.front().due <= now; held_.pop_front()) {
      events.push_back(held_.front().event);
    }
    return ok();
  }
  uint64_t moved_bytes() const override { return inner_->moved_bytes(); }

 private:
  struct Held {
    TimePoint due;
    TransportEvent event;
  };
  std::unique_ptr<Transport> inner_;
  SteadyClock clock_;
  std::deque<Held> held_;
};

// The time of operations in flight, in that of as many one after the other.
Result<double> flight_share(BenchmarkRank& own) {
  constexpr int kOperations = 8;
  constexpr std::size_t kCount = std::size_t{256} * 1024 / sizeof(float);
  std::vector<std::vector<float>> data(kOperations);
  const auto request = [&](int i) {
    std::byte* const bytes = std::as_writable_bytes(std::span(data[at(i)])).data();
    return RunRequest{.count = kCount, .input = bytes, .output = bytes};
  };
  std::vector<double> shares;
  for (int round = 0; round < kRounds; ++round) {
    std::array<double, 2> times = {};
    for (const std::size_t in_flight : {0U, 1U}) {
      std::ranges::fill(data, std::vector<float>(kCount, 1));
      PLEACH_TRY(own.communicator.barrier());
      const double start = wall();
      std::vector<Operation> operations;
      for (int i = 0; i < kOperations; ++i) {
        PLEACH_ASSIGN(operation, own.communicator.start(own.schedule, request(i)));
        operations.push_back(std::move(operation));
        if (in_flight == 0) {
          PLEACH_TRY(operations.back().wait());
        }
      }
      for (Operation& operation : operations) {
        PLEACH_TRY(operation.wait());
      }
      times[in_flight] = wall() - start;
      for (const std::vector<float>& one : data) {
        if (std::ranges::count(one, 2) != std::ssize(one)) {
          return Error{ErrorCode::kIo, "the result is wrong"};
        }
      }
    }
    shares.push_back(times[1] / times[0]);
  }
  return median(shares);
}

// flight_share() between ranks that hear late of each other.
Result<double> late_flight_share(const TcpStoreOptions& options,
                                 const std::shared_ptr<Store>& store) {
  static const SteadyClock kClock;
  PLEACH_ASSIGN(inner, create_transport("tcp", {.rank = options.rank,
                                                .rank_count = options.rank_count,
                                                .store = store,
                                                .epoch = store->epoch(),
                                                .clock = &kClock,
                                                .key_prefix = "late"}));
  EndpointOptions late{
      .rank = options.rank, .rank_count = options.rank_count, .store = store, .name = "late"};
  late.transport_override = std::make_unique<LateTransport>(std::move(inner));
  PLEACH_ASSIGN(endpoint, Endpoint::create(std::move(late)));
  PLEACH_ASSIGN(communicator, Communicator::create(std::move(endpoint)));
  PLEACH_ASSIGN(topology, parse_topology("ring:2"));
  PLEACH_ASSIGN(schedule, obtain_schedule(topology, "ring"));
  PLEACH_ASSIGN(prepared,
                communicator->prepare(options.rank.value == 0 ? schedule.get() : nullptr));
  BenchmarkRank own{*communicator, *prepared, {}};
  PLEACH_ASSIGN(share, flight_share(own));
  PLEACH_TRY(communicator->close());
  return share;
}

Status run_rank(const TcpStoreOptions& options) {
  PLEACH_ASSIGN(made, make_tcp_store(options));
  const std::shared_ptr<Store> store = std::move(made);
  PLEACH_ASSIGN(
      endpoint,
      Endpoint::create({.rank = options.rank, .rank_count = options.rank_count, .store = store}));
  PLEACH_ASSIGN(communicator, Communicator::create(std::move(endpoint)));
  PLEACH_ASSIGN(topology, parse_topology("ring:2"));
  PLEACH_ASSIGN(schedule, obtain_schedule(topology, "ring"));
  PLEACH_ASSIGN(prepared,
                communicator->prepare(options.rank.value == 0 ? schedule.get() : nullptr));
  BenchmarkRank own{*communicator, *prepared, {}};
  PLEACH_ASSIGN(waiting, waiting_share(own));
  PLEACH_ASSIGN(tail, tail_share(own));
  PLEACH_ASSIGN(flight, late_flight_share(options, store));
  PLEACH_TRY(communicator->close());
  if (options.rank.value == 0) {
    fmt::print("{{\"waiting_share\": {:.5f}, \"tail_share\": {:.3f}, \"flight_share\": {:.3f}}}\n",
               waiting, tail, flight);
    if (waiting > kMostWaitingShare || tail > kMostTailShare || flight > kMostFlightShare) {
      return Error{ErrorCode::kInfeasible,
                   fmt::format("over its limits of {}, {} and {}", kMostWaitingShare,
                               kMostTailShare, kMostFlightShare)};
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
