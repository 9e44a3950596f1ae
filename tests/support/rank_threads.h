// Ranks as threads: runs a schedule on an executor per rank.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/collective/order.h"
#include "pleach/collective/placement.h"
#include "pleach/collective/program.h"
#include "pleach/runtime/executor.h"
#include "pleach/runtime/rendezvous/store.h"
#include "pleach/runtime/transport.h"
#include "tests/support/delaying_transport.h"

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
                     uint64_t delay_seed = 0, Duration deadline = std::chrono::seconds(20))
      : store_(make_local_store()) {
    const Result<const TransportKind*> kind = transports().find(transport);
    for (int32_t rank = 0; rank < rank_count; ++rank) {
      Result<std::unique_ptr<Transport>> made = (*kind)->create({.rank = Rank{rank},
                                                                 .rank_count = rank_count,
                                                                 .store = store_,
                                                                 .clock = &clock_,
                                                                 .key_prefix = "test",
                                                                 .deadline = deadline});
      std::unique_ptr<Transport> own = std::move(made).value();
      if (delay_seed != 0) {
        own = std::make_unique<DelayingTransport>(std::move(own),
                                                  delay_seed * 1000 + static_cast<uint64_t>(rank));
      }
      transports_.push_back(std::move(own));
    }
  }

  Store& store() { return *store_; }
  Transport& transport(Rank rank) { return *transports_[rank.index()]; }

  // Runs the rank's program. All ranks are told when it fails.
  Status run(Rank rank, Executor& executor, Operation operation) {
    Rank culprit = rank;
    operation.culprit = &culprit;
    const Status status = executor.run({transport(rank), clock_}, operation);
    if (!status) {
      store_->fail({culprit, status.error().message});
    }
    return status;
  }

 private:
  SteadyClock clock_;
  std::shared_ptr<Store> store_;
  std::vector<std::unique_ptr<Transport>> transports_;
};

// Runs the schedule once. `fill` writes a rank's input; outputs start as `blank` bytes.
inline RunOutcome run_schedule(const Schedule& schedule, const RunSetup& setup,
                               const std::function<void(Rank, std::span<std::byte>)>& fill,
                               std::byte blank = std::byte{0xa5}) {
  const int32_t ranks = schedule.rank_count();
  const Order order = Order::build(schedule);
  RankGroup group(ranks, setup.transport, setup.delay_seed, setup.deadline);
  RunOutcome outcome;
  outcome.outputs.resize(at(ranks));
  outcome.records.resize(at(ranks));
  outcome.errors.resize(at(ranks));
  on_every_rank(ranks, [&](Rank rank) {
    const Result<Placement> placement = Placement::create(schedule, setup.count);
    Result<Program> program = lower(schedule, order,
                                    {.rank = rank,
                                     .count = setup.count,
                                     .segment_count = setup.segment_count,
                                     .in_place = setup.in_place});
    if (!program) {
      outcome.errors[rank.index()] = program.error().message;
      group.store().fail({rank, program.error().message});
      return;
    }
    const int64_t element = element_bytes(setup.type);
    const BufferSizes sizes = placement->sizes(rank);
    Bytes input(at(sizes.input * element));
    fill(rank, input);
    Bytes& output = outcome.outputs[rank.index()];
    output.assign(at(sizes.output * element), blank);
    // In place: one buffer of the whole, with input and output at their places in it.
    Bytes whole(at(setup.count * element), blank);
    const int64_t shard = setup.count * rank.value / ranks * element;
    const bool gathers = schedule.collective == CollectiveKind::kAllGather;
    const bool scatters = schedule.collective == CollectiveKind::kReduceScatter;
    if (setup.in_place) {
      std::copy(input.begin(), input.end(), whole.begin() + (gathers ? shard : 0));
    }
    Executor executor(std::move(program).value());
    const Status status = group.run(rank, executor,
                                    {.type = setup.type,
                                     .op = setup.op,
                                     .input = setup.in_place ? nullptr : input.data(),
                                     .output = setup.in_place ? whole.data() : output.data(),
                                     .landing_places = setup.landing_places,
                                     .deadline = setup.deadline,
                                     .record = &outcome.records[rank.index()]});
    if (!status) {
      outcome.errors[rank.index()] = status.error().message;
    }
    if (setup.in_place) {
      std::copy_n(whole.begin() + (scatters ? shard : 0), output.size(), output.begin());
    }
  });
  return outcome;
}

}  // namespace pleach::support
