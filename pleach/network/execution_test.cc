// The interfaces of the nodes, driven by hand and by a model without clock or links: any order in
// which sends end and arrive that keeps each connection first in, first out.
#include "pleach/network/execution.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <string>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/network/schedule_forms.h"
#include "tests/support/random_schedules.h"
#include "tests/support/small_schedules.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

using support::kCopy;
using support::kReduce;
using support::make_schedule;

constexpr NopTimes kNops = {.first_ps = 70, .later_ps = 30};

InterfaceRules rules_of(const SimulationOptions& options) {
  return {kNops, {options.reduce_bandwidth_bytes_per_s.value_or(0)}};
}

Topology all_connected(int32_t nodes) {
  return support::topology_of("fully_connected:" + std::to_string(nodes));
}

LoweredJob lowered(const Topology& topology, const Schedule& schedule, int64_t size_bytes,
                   const SimulationOptions& options) {
  const auto forms = ScheduleForms::create(topology, borrowed(schedule), options);
  EXPECT_TRUE(forms) << (forms ? "" : forms.error().message);
  auto job = (*forms)->whole(size_bytes);
  EXPECT_TRUE(job) << (job ? "" : job.error().message);
  return std::move(*job);
}

// The connection of the stream from one rank to another.
int32_t connection(const Execution& execution, int32_t source, int32_t target) {
  const Order& order = execution.job().order();
  for (int32_t stream = 0; stream < order.stream_count(); ++stream) {
    if (order.sources(stream).front() == source && order.targets(stream).front() == target) {
      return execution.job().schedule().connection_of(
          execution.job().schedule().send(stream, 0, 0));
    }
  }
  ADD_FAILURE() << "no stream from " << source << " to " << target;
  return 0;
}

// 0 → 1 → 2, two segments.
class Chain : public ::testing::Test {
 protected:
  Execution execution(SimulationOptions options = {}) {
    options.segment_count = 2;
    return {lowered(topology_, schedule_, 2'000, options), options, rules_of(options)};
  }

  const Topology topology_ = all_connected(3);
  const Schedule schedule_ =
      make_schedule({.collective = CollectiveKind::kBroadcast, .rank_count = 3},
                    {{0, 1, 0, 1, kCopy, 0}, {0, 1, 1, 2, kCopy, 1}});
};

TEST_F(Chain, ASegmentGoesOnWhenItHasArrived) {
  Execution chain = execution();
  const int32_t first = connection(chain, 0, 1), second = connection(chain, 1, 2);
  chain.start(0);
  EXPECT_EQ(chain.answers().connections, (std::vector<int32_t>{first, first}));
  EXPECT_EQ(chain.next(second), nullptr);
  chain.answers().connections.clear();

  ASSERT_NE(chain.next(first), nullptr);
  const Send sent = chain.begin(first, 0);
  EXPECT_EQ(sent.segment, 0);
  EXPECT_EQ(chain.next(first)->segment, 1) << "links are the model's: the next may follow";
  chain.sent(sent, 10);
  EXPECT_TRUE(chain.answers().empty());
  chain.arrived(sent, 20);
  EXPECT_EQ(chain.answers().connections, std::vector<int32_t>{second});
  ASSERT_NE(chain.next(second), nullptr);
  EXPECT_EQ(chain.next(second)->segment, 0);
  EXPECT_FALSE(chain.is_finished());
}

TEST_F(Chain, OneLandingPlaceIsFreeWhenItsChunkIsInPlace) {
  Execution chain = execution({.landing_places = 1});
  const int32_t first = connection(chain, 0, 1);
  chain.start(0);
  const Send sent = chain.begin(first, 0);
  EXPECT_TRUE(chain.has_ready(first));
  EXPECT_EQ(chain.next(first), nullptr) << "the one place is taken";
  chain.sent(sent, 10);
  EXPECT_EQ(chain.next(first), nullptr);
  chain.answers().connections.clear();
  chain.arrived(sent, 20);
  EXPECT_TRUE(std::ranges::count(chain.answers().connections, first) > 0);
  ASSERT_NE(chain.next(first), nullptr);
  EXPECT_EQ(chain.next(first)->segment, 1);
}

// Period 2: rank 1 sends nothing in slot 0, segment 0 in slot 1, nothing in 2, segment 1 in 3.
TEST_F(Chain, LockstepHoldsSlotsWithoutASendOpenAndNamesTheirTime) {
  Execution chain = execution({.gate = Gate::kLockstep});
  const int32_t first = connection(chain, 0, 1), second = connection(chain, 1, 2);
  chain.start(5);
  ASSERT_EQ(chain.answers().alarms.size(), 2U);  // rank 2 never sends
  EXPECT_EQ(chain.answers().alarms[0].kind, Execution::Alarm::Kind::kNopOver);
  EXPECT_EQ(chain.answers().alarms[0].rank, 1);
  EXPECT_EQ(chain.answers().alarms[0].time_ps, 5 + kNops.first_ps);
  chain.answers().alarms.clear();

  const Send sent = chain.begin(first, 0);
  EXPECT_EQ(chain.next(first), nullptr) << "segment 1 is of slot 2";
  chain.sent(sent, 10);
  chain.arrived(sent, 20);
  EXPECT_TRUE(chain.has_ready(second));
  EXPECT_EQ(chain.next(second), nullptr) << "slot 0 of rank 1 is still open";
  chain.nop_over(1, 75);
  ASSERT_NE(chain.next(second), nullptr);
  const Send onward = chain.begin(second, 0);
  chain.sent(onward, 80);
  chain.answers().alarms.clear();
  chain.over(onward, 80);
  ASSERT_EQ(chain.answers().alarms.size(), 1U);
  EXPECT_EQ(chain.answers().alarms[0].time_ps, 80 + kNops.first_ps);
}

TEST(Execution, ServesReadySendsByStepThenChunk) {
  const Topology topology = all_connected(2);
  const Schedule schedule =
      make_schedule({.collective = CollectiveKind::kBroadcast, .chunk_count = 3, .period = 1},
                    {{2, 1, 0, 1, kCopy, 0}, {0, 1, 0, 1, kCopy, 1}, {1, 1, 0, 1, kCopy, 0}});
  const SimulationOptions options{.segment_count = 2};
  Execution execution(lowered(topology, schedule, 6'000, options), options, rules_of(options));
  execution.start(0);
  std::vector<std::pair<int32_t, int32_t>> order;  // chunk, segment
  while (execution.next(0) != nullptr) {
    const Send send = execution.begin(0, 0);
    order.emplace_back(execution.job().order().stream(send.stream).first_chunk, send.segment);
  }
  EXPECT_EQ(order, (std::vector<std::pair<int32_t, int32_t>>{
                       {1, 0}, {2, 0}, {0, 0}, {1, 1}, {2, 1}, {0, 1}}));
}

// Rank 2 receives from 0 in step 0 and from 1 in step 1, and what comes too early waits.
TEST(Execution, WhatLandsTooEarlyWaitsForItsTurn) {
  const Topology topology = all_connected(3);
  const Schedule schedule =
      make_schedule({.collective = CollectiveKind::kReduce, .rank_count = 3, .root = 2},
                    {{0, 1, 0, 2, kReduce, 0}, {0, 1, 1, 2, kReduce, 1}});
  const SimulationOptions options{.keep_records = true};
  Execution execution(lowered(topology, schedule, 1'000, options), options, rules_of(options));
  execution.start(0);
  const Send early = execution.begin(connection(execution, 1, 2), 0);
  execution.sent(early, 1);
  execution.arrived(early, 2);
  EXPECT_NE(execution.stuck().message.find("chunk 0 at rank 2 in step 0 (segment 0)"),
            std::string::npos)
      << execution.stuck().message;
  const Send first = execution.begin(connection(execution, 0, 2), 0);
  execution.sent(first, 3);
  EXPECT_FALSE(execution.is_finished());
  execution.arrived(first, 4);
  EXPECT_TRUE(execution.is_finished());
  std::vector<int32_t> steps;
  for (const RecordEvent& event : execution.take_record()) {
    if (event.kind == RecordEvent::Kind::kCommit) {
      const Order& order = execution.job().order();
      steps.push_back(order.stream(order.commit(event.item).stream).step);
    }
  }
  EXPECT_EQ(steps, (std::vector<int32_t>{0, 1}));
}

// The same where reductions come as they arrive: up to a send of the chunk, which waits for both.
TEST(Execution, ReductionsMayComeAsTheyArrive) {
  const Topology topology = all_connected(4);
  const Schedule schedule =
      make_schedule({.collective = CollectiveKind::kReduce, .rank_count = 4, .root = 3},
                    {{0, 1, 0, 2, kReduce, 0}, {0, 1, 1, 2, kReduce, 1}, {0, 1, 2, 3, kReduce, 2}});
  for (const int64_t bandwidth : {int64_t{0}, int64_t{2'000'000'000}}) {
    const SimulationOptions options{.reduce_bandwidth_bytes_per_s = bandwidth};
    InterfaceRules rules = rules_of(options);
    rules.reductions.turn = ReduceRules::Turn::kArrival;
    rules.reduces_as_they_arrive = true;
    Execution execution(lowered(topology, schedule, 1'000, options), options, rules);
    const int32_t onward = connection(execution, 2, 3);
    const auto settle = [&](int64_t now_ps) {  // what was asked for, all at once
      for (bool rings = true; rings;) {
        const auto alarms = std::exchange(execution.answers().alarms, {});
        rings = !alarms.empty();
        for (const Execution::Alarm& alarm : alarms) {
          if (alarm.kind == Execution::Alarm::Kind::kReduce) {
            execution.reduce(alarm.rank, now_ps);
          } else {
            execution.reduced(alarm.rank, now_ps);
          }
        }
      }
    };
    execution.start(0);
    int64_t now_ps = 0;
    for (const int32_t source : {1, 0}) {
      EXPECT_EQ(execution.next(onward), nullptr) << source;
      const Send send = execution.begin(connection(execution, source, 2), ++now_ps);
      execution.sent(send, now_ps);
      execution.arrived(send, now_ps);
      settle(now_ps);
    }
    ASSERT_NE(execution.next(onward), nullptr);
    const Send send = execution.begin(onward, ++now_ps);
    execution.sent(send, now_ps);
    execution.arrived(send, now_ps);
    settle(now_ps);
    EXPECT_TRUE(execution.is_finished());
  }
}

// The only alarm that is asked for, at rank 2.
void expect_alarm(Execution& execution, Execution::Alarm::Kind kind, int64_t time_ps) {
  const auto alarms = std::exchange(execution.answers().alarms, {});
  ASSERT_EQ(alarms.size(), 1U);
  EXPECT_EQ(alarms[0].kind, kind);
  EXPECT_EQ(alarms[0].rank, 2);
  EXPECT_EQ(alarms[0].time_ps, time_ps);
}

// 1,000 bytes at 2 GB/s take 500 ns; the second waits for the first.
TEST(Execution, ARankReducesOneChunkAfterTheOther) {
  const Topology topology = all_connected(3);
  const Schedule schedule =
      make_schedule({.collective = CollectiveKind::kReduce, .rank_count = 3, .root = 2},
                    {{0, 1, 0, 2, kReduce}, {0, 1, 1, 2, kReduce}});
  const SimulationOptions options{.reduce_bandwidth_bytes_per_s = 2'000'000'000};
  Execution execution(lowered(topology, schedule, 1'000, options), options, rules_of(options));
  execution.start(0);
  for (const int32_t source : {0, 1}) {
    const Send send = execution.begin(connection(execution, source, 2), 0);
    execution.sent(send, 10);
    execution.arrived(send, 10);
  }
  expect_alarm(execution, Execution::Alarm::Kind::kReduce, 10);  // not the second's turn yet
  execution.reduce(2, 10);
  expect_alarm(execution, Execution::Alarm::Kind::kReduced, 10 + 500'000);
  execution.reduced(2, 500'010);
  expect_alarm(execution, Execution::Alarm::Kind::kReduce, 500'010);
  execution.reduce(2, 500'010);
  expect_alarm(execution, Execution::Alarm::Kind::kReduced, 500'010 + 500'000);
  EXPECT_FALSE(execution.is_finished());
  execution.reduced(2, 1'000'010);
  EXPECT_TRUE(execution.is_finished());
}

// Chunks 0 and 1 of step 0, from two ranks, and chunk 2 of step 1, 100 bytes each, come to rank 2
// at one time: in whichever order that is told, those of step 0 take 200 ns together, and the last
// one waits for them.
TEST(Execution, WhatArrivesAtOneTimeIsReducedByPriority) {
  const Topology topology = all_connected(3);
  const Schedule schedule = make_schedule(
      {.collective = CollectiveKind::kReduce, .rank_count = 3, .chunk_count = 3, .root = 2},
      {{0, 1, 0, 2, kReduce, 0}, {1, 1, 1, 2, kReduce, 0}, {2, 1, 0, 2, kReduce, 1}});
  const SimulationOptions options{.reduce_bandwidth_bytes_per_s = 1'000'000'000,
                                  .keep_records = true};
  std::vector<int32_t> order = {0, 1, 2};
  int32_t orders = 0;
  do {
    Execution execution(lowered(topology, schedule, 300, options), options, rules_of(options));
    execution.start(0);
    std::vector<Send> sends;
    for (const int32_t source : {0, 1, 0}) {
      sends.push_back(execution.begin(connection(execution, source, 2), 0));
      execution.sent(sends.back(), 5);
    }
    for (const int32_t index : order) {
      execution.arrived(sends[at(index)], 10);
    }
    expect_alarm(execution, Execution::Alarm::Kind::kReduce, 10);
    execution.reduce(2, 10);
    expect_alarm(execution, Execution::Alarm::Kind::kReduced, 10 + 200'000);
    execution.reduced(2, 200'010);
    const Record record = execution.take_record();
    EXPECT_EQ(std::ranges::count(record, RecordEvent::Kind::kCommit, &RecordEvent::kind), 2);
    expect_alarm(execution, Execution::Alarm::Kind::kReduce, 200'010);
    execution.reduce(2, 200'010);
    expect_alarm(execution, Execution::Alarm::Kind::kReduced, 200'010 + 100'000);
    execution.reduced(2, 300'010);
    EXPECT_TRUE(execution.is_finished());
    ++orders;
  } while (std::ranges::next_permutation(order).found);
  EXPECT_EQ(orders, 6);
}

// A model that knows no links: whatever may happen next happens in random order. It tries what the
// answers name and connections that come free, nothing else, so that a missing answer shows.
class RandomModel {
 public:
  RandomModel(Execution& execution, Rng& rng) : execution_(execution), rng_(rng) {}

  // Returns whether everything was in place when nothing could happen any more.
  bool run() {
    execution_.start(0);
    follow();
    while (!choices_.empty()) {
      auto chosen = choices_.begin();
      std::advance(chosen, static_cast<std::ptrdiff_t>(rng_.below(choices_.size())));
      const auto [kind, number] = chosen->first;
      if (--chosen->second == 0) {
        choices_.erase(chosen);
      }
      ++now_ps_;
      happen(kind, number);
      follow();
    }
    return execution_.is_finished();
  }

 private:
  enum class Kind : uint8_t { kStart, kSent, kArrived, kBegin, kReduced, kNopOver };
  struct Wire {
    bool is_busy = false;
    Send active;
    std::deque<Send> flying;
  };

  void may_happen(Kind kind, int32_t number) { ++choices_[{kind, number}]; }

  void happen(Kind kind, int32_t number) {
    Wire& wire = wires_[number];  // of a connection, where the number is one
    switch (kind) {
      case Kind::kStart:
        if (!wire.is_busy && execution_.next(number) != nullptr) {
          wire.is_busy = true;
          wire.active = execution_.begin(number, 0);
          may_happen(Kind::kSent, number);
        }
        return;
      case Kind::kSent:
        wire.is_busy = false;
        wire.flying.push_back(wire.active);
        execution_.sent(wire.active, now_ps_);
        execution_.over(wire.active, now_ps_);
        may_happen(Kind::kStart, number);
        return may_happen(Kind::kArrived, number);
      case Kind::kArrived: {
        const Send send = wire.flying.front();
        wire.flying.pop_front();
        return execution_.arrived(send, now_ps_);
      }
      case Kind::kBegin:
        return execution_.reduce(number, now_ps_);
      case Kind::kReduced:
        return execution_.reduced(number, now_ps_);
      case Kind::kNopOver:
        return execution_.nop_over(number, now_ps_);
    }
  }

  void follow() {
    auto& [connections, alarms] = execution_.answers();
    for (const int32_t connection : connections) {
      may_happen(Kind::kStart, connection);
    }
    connections.clear();
    for (const auto& alarm : alarms) {
      may_happen(alarm.kind == Execution::Alarm::Kind::kReduced  ? Kind::kReduced
                 : alarm.kind == Execution::Alarm::Kind::kReduce ? Kind::kBegin
                                                                 : Kind::kNopOver,
                 alarm.rank);
    }
    alarms.clear();
  }

  Execution& execution_;
  Rng& rng_;
  int64_t now_ps_ = 0;
  std::map<std::pair<Kind, int32_t>, int32_t> choices_;  // how often each may happen
  std::map<int32_t, Wire> wires_;
};

SimulationOptions random_options(Rng& rng) {
  return {.segment_count = 1 + support::pick(rng, 3),
          .gate = kGates[rng.below(kGates.size())].value,
          .landing_places = support::pick(rng, 3),
          .reduce_bandwidth_bytes_per_s = rng.below(2) == 0 ? 0 : 1'000'000'000,
          .keep_records = true};
}

TEST(Execution, FinishesInAnyOrderAndItsRecordReplays) {
  const uint64_t seed = 20260419;
  Rng rng(seed);
  for (int32_t round = 0; round < support::repeated(2'000); ++round) {
    const Schedule schedule = support::random_schedule({.most_ranks = 5, .most_steps = 5}, rng);
    const Topology topology = all_connected(5);
    const SimulationOptions options = random_options(rng);
    SCOPED_TRACE("seed " + std::to_string(seed) + " round " + std::to_string(round));
    Execution execution(lowered(topology, schedule, 60 * schedule.rank_count(), options), options,
                        rules_of(options));
    ASSERT_TRUE(RandomModel(execution, rng).run()) << execution.stuck().message;
    const Record record = execution.take_record();
    ASSERT_FALSE(record.empty());
    const auto replayed =
        replay(execution.job().order(), std::span(&record, 1), options.segment_count);
    ASSERT_TRUE(replayed) << replayed.error().message;
  }
}

// Every translate of a symmetric schedule has its own state: the records are those of all.
TEST(Execution, RunsEveryTranslateOfASymmetricSchedule) {
  Rng rng(7);
  const Topology topology = support::topology_of("ring:5");
  const Schedule ring = support::symmetric_ring_schedule(5);
  for (int32_t round = 0; round < 50; ++round) {
    const SimulationOptions options = random_options(rng);
    Execution execution(lowered(topology, ring, 1'000, options), options, rules_of(options));
    ASSERT_EQ(execution.job().schedule().translate_count(), 5);
    ASSERT_TRUE(RandomModel(execution, rng).run()) << execution.stuck().message;
    const Record record = execution.take_record();
    const auto replayed =
        replay(execution.job().order(), std::span(&record, 1), options.segment_count, 5);
    ASSERT_TRUE(replayed) << replayed.error().message;
  }
}

}  // namespace
}  // namespace pleach
