// Ranks as threads: runs a schedule on all of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/collective/order.h"
#include "pleach/collective/placement.h"
#include "pleach/collective/program.h"
#include "pleach/runtime/peer_memory.h"
#include "pleach/runtime/progress.h"
#include "pleach/runtime/rendezvous/store.h"
#include "pleach/runtime/transport.h"
#include "tests/support/delaying_transport.h"
#include "tests/support/job_secret.h"
#include "tests/support/transports.h"

namespace pleach::support {

// Calls the body once per rank, each in its own thread, and waits for all.
inline void on_every_rank(int32_t rank_count, const std::function<void(Rank)>& body) {
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < rank_count; ++rank) {
    threads.emplace_back([&body, rank] { body(Rank{rank}); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

using Bytes = std::vector<std::byte>;

struct RunSetup {
  ElementType type = ElementType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int64_t count = 0;
  int32_t segment_count = 1;
  int32_t landing_places = 1;
  bool in_place = false;
  std::string transport = "inproc";
  uint64_t delay_seed = 0;  // 0: no delays
  Duration deadline = std::chrono::seconds(20);
  uint64_t lenders = 0;  // bit r: rank r's buffers are peer memory
  ChannelOptions::Fetching fetching = ChannelOptions::Fetching::kAlways;
};

struct RunOutcome {
  std::vector<Bytes> outputs;   // by rank, as Placement says
  std::vector<Record> records;  // by rank
  std::vector<std::string> errors;
};

// The transports of all ranks over one local store. They live until the object does, so that no
// rank takes another, which is done earlier, for lost.
class RankGroup {
 public:
  explicit RankGroup(int32_t rank_count, const std::string& transport = "inproc",
                     uint64_t delay_seed = 0, Duration deadline = std::chrono::seconds(20),
                     int32_t landing_places = 4,
                     ChannelOptions::Fetching fetching = ChannelOptions::Fetching::kAlways)
      : store_(make_local_store(job_secret())), fetching_(fetching) {
    for (int32_t rank = 0; rank < rank_count; ++rank) {
      std::unique_ptr<Transport> own = make_transport(transport, {.rank = Rank{rank},
                                                                  .rank_count = rank_count,
                                                                  .store = store_,
                                                                  .epoch = store_->epoch(),
                                                                  .clock = &clock_,
                                                                  .key_prefix = "test",
                                                                  .deadline = deadline});
      if (delay_seed != 0) {
        own = std::make_unique<DelayingTransport>(std::move(own),
                                                  delay_seed * 1000 + static_cast<uint64_t>(rank));
      }
      transports_.push_back(std::move(own));
      progress_.push_back(std::make_unique<Progress>(*transports_.back(), clock_, rank_count));
      open_channel(Rank{rank}, kChannel, landing_places, kPlaceBytes);
    }
    introduce_all(transports_);
  }

  ~RankGroup() {
    for (const auto& progress : progress_) {
      progress->close(kChannel, {ErrorCode::kPeerLost, "the test is over"});
    }
  }
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  // The channel that run() takes.
  static constexpr uint64_t kChannel = 1;
  // Every segment of the tests' fits; memory that nothing arrives in is not touched.
  static constexpr int64_t kPlaceBytes = 64 << 20;

  Store& store() { return *store_; }
  Transport& transport(Rank rank) { return *transports_[rank.index()]; }

  Progress& progress(Rank rank) { return *progress_[rank.index()]; }

  // A channel whose first error all ranks are told.
  void open_channel(Rank rank, uint64_t number, int32_t places, int64_t place_bytes) {
    const auto failed = [this, rank](const Error& error, const Progress::Culprit& culprit) {
      store_->fail(failure_of(error, culprit.rank.value < 0 ? rank : culprit.rank));
      return error;
    };
    static_cast<void>(progress(rank).open({.number = number,
                                           .places = places,
                                           .place_bytes = place_bytes,
                                           .least_lent = 1,
                                           .fetching = fetching_},
                                          failed));
  }

  // Runs the rank's program.
  Status run(Rank rank, OperationPool& pool, const RunSpec& spec) {
    return progress(rank).run(kChannel, pool.take(spec));
  }

 private:
  SteadyClock clock_;
  std::shared_ptr<Store> store_;
  ChannelOptions::Fetching fetching_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<std::unique_ptr<Progress>> progress_;
};

// One operation of several in flight. `fill` writes a rank's input.
struct Flight {
  const Schedule& schedule;
  RunSetup setup;  // the first flight's says what is of the group: places, transport, delays
  std::function<void(Rank, std::span<std::byte>)> fill;
};

// Bytes, where peers may read them or where they may not.
class Buffer {
 public:
  Buffer() = default;
  Buffer(int64_t bytes, bool is_peer_memory, std::byte blank) : bytes_(bytes) {
    if (is_peer_memory && bytes > 0) {
      shared_ = allocate_peer_memory(bytes).value();
    } else {
      own_.resize(at(bytes));
    }
    std::ranges::fill(span(), blank);
  }
  std::span<std::byte> span() { return {data(), at(bytes_)}; }
  std::span<const std::byte> span() const { return {data(), at(bytes_)}; }
  std::byte* data() { return shared_ ? shared_.get() : own_.data(); }
  const std::byte* data() const { return shared_ ? shared_.get() : own_.data(); }

 private:
  int64_t bytes_ = 0;
  std::shared_ptr<std::byte> shared_;
  Bytes own_;
};

// One rank's buffers of a flight, and what becomes of it.
class FlyingRank {
 public:
  // Outputs start as `blank` bytes.
  FlyingRank(const Flight& flight, Rank rank, std::byte blank) : flight_(flight), rank_(rank) {
    const RunSetup& setup = flight.setup;
    const bool lends = (setup.lenders >> at(rank.value) & 1U) != 0;
    const int64_t element = element_bytes(setup.type);
    const BufferSizes sizes = Placement::create(flight.schedule, setup.count)->sizes(rank);
    input_ = Buffer(sizes.input * element, lends, blank);
    flight.fill(rank, input_.span());
    output_ = Buffer(sizes.output * element, lends, blank);
    // In place: one buffer of the whole, with input and output at their places in it.
    whole_ = Buffer(setup.count * element, lends, blank);
    shard_ = setup.count * rank.value / flight.schedule.rank_count() * element;
    if (setup.in_place) {
      const bool gathers = gives_shards(flight.schedule.collective);
      std::ranges::copy(input_.span(), whole_.span().begin() + (gathers ? shard_ : 0));
    }
  }

  RunSpec spec() {
    const RunSetup& setup = flight_.setup;
    return {.type = setup.type,
            .op = setup.op,
            .input = setup.in_place ? nullptr : input_.data(),
            .output = setup.in_place ? whole_.data() : output_.data(),
            .deadline = setup.deadline,
            .record = &record};
  }
  Result<Program> program(const Order& order) const {
    return lower(flight_.schedule, order,
                 {.rank = rank_,
                  .count = flight_.setup.count,
                  .segment_count = flight_.setup.segment_count,
                  .in_place = flight_.setup.in_place});
  }
  Bytes output() const {
    std::span<const std::byte> held = output_.span();
    if (flight_.setup.in_place) {
      const bool scatters = ends_with_shards(flight_.schedule.collective);
      held = whole_.span().subspan(at(scatters ? shard_ : 0), held.size());
    }
    return {held.begin(), held.end()};
  }

  Record record;
  std::shared_ptr<CollectiveState> state;

 private:
  const Flight& flight_;
  Rank rank_;
  Buffer input_, output_, whole_;
  int64_t shard_ = 0;
};

// Runs all of them at once on every rank of a group, once; each rank waits for them in an order of
// its own. By flight.
inline std::vector<RunOutcome> run_in_flight(const std::vector<Flight>& flights,
                                             std::byte blank = std::byte{0xa5}) {
  const RunSetup& first = flights.front().setup;
  const int32_t ranks = flights.front().schedule.rank_count();
  RankGroup group(ranks, first.transport, first.delay_seed, first.deadline, first.landing_places,
                  first.fetching);
  std::vector<Order> orders;
  std::vector<RunOutcome> outcomes(flights.size());
  for (std::size_t i = 0; i < flights.size(); ++i) {
    orders.push_back(Order::build(flights[i].schedule));
    outcomes[i].outputs.resize(at(ranks));
    outcomes[i].records.resize(at(ranks));
    outcomes[i].errors.resize(at(ranks));
  }
  on_every_rank(ranks, [&](Rank rank) {
    Progress& progress = group.progress(rank);
    std::vector<std::unique_ptr<FlyingRank>> flying;
    for (std::size_t i = 0; i < flights.size(); ++i) {
      FlyingRank& own = *flying.emplace_back(std::make_unique<FlyingRank>(flights[i], rank, blank));
      Result<Program> program = own.program(orders[i]);
      if (!program) {
        outcomes[i].errors[rank.index()] = program.error().message;
        group.store().fail(failure_of(program.error(), rank));
        return;
      }
      own.state = OperationPool(std::move(program).value()).take(own.spec());
    }
    for (const auto& own : flying) {
      static_cast<void>(progress.start(RankGroup::kChannel, own->state));
    }
    Rng rng(first.delay_seed * 77 + static_cast<uint64_t>(rank.value));
    std::vector<std::size_t> waits(flights.size());
    std::iota(waits.begin(), waits.end(), std::size_t{0});
    for (std::size_t left = waits.size(); left > 1; --left) {
      std::swap(waits[left - 1], waits[rng.below(left)]);
    }
    for (const std::size_t i : waits) {
      const Status status = progress.wait(*flying[i]->state, Duration::max());
      outcomes[i].errors[rank.index()] = status ? "" : status.error().message;
      outcomes[i].outputs[rank.index()] = flying[i]->output();
      outcomes[i].records[rank.index()] = std::move(flying[i]->record);
    }
  });
  return outcomes;
}

// Runs the schedule once. `fill` writes a rank's input; outputs start as `blank` bytes.
inline RunOutcome run_schedule(const Schedule& schedule, const RunSetup& setup,
                               const std::function<void(Rank, std::span<std::byte>)>& fill,
                               std::byte blank = std::byte{0xa5}) {
  return std::move(run_in_flight({{schedule, setup, fill}}, blank).front());
}

}  // namespace pleach::support
