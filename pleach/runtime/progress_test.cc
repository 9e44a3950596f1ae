#include "pleach/runtime/progress.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/collective/reference.h"
#include "pleach/collective/verify.h"
#include "pleach/runtime/request_fingerprint.h"
#include "tests/support/counterexamples.h"
#include "tests/support/random_schedules.h"
#include "tests/support/rank_threads.h"
#include "tests/support/silent_transport.h"
#include "tests/support/small_schedules.h"
#include "tests/support/two_phase_run.h"

namespace pleach {
namespace {

using support::Floats;
using support::RunOutcome;
using support::RunSetup;

TEST(ProgressTest, SurvivesEveryCounterexampleWithOneLandingPlace) {
  for (const support::Counterexample& example : support::counterexamples()) {
    if (!example.executable()) {
      continue;
    }
    const int64_t count = example.schedule.collective == CollectiveKind::kAllToAll
                              ? 6 * example.schedule.chunks.count()
                              : 23;
    for (const int32_t segments : {1, 2, 5}) {
      for (uint64_t seed = 0; seed < 4; ++seed) {
        SCOPED_TRACE(example.name + ", " + std::to_string(segments) + " segments, seed " +
                     std::to_string(seed));
        Rng rng(7 + seed);
        support::expect_two_phase_bits(example.schedule,
                                       {.count = count,
                                        .segment_count = segments,
                                        .landing_places = 1,
                                        .in_place = example.in_place,
                                        .delay_seed = seed,
                                        .lenders = rng.below(16)},
                                       rng);
      }
    }
  }
}

TEST(ProgressTest, ExchangeGivesTheSameBitsInAThousandDelayedRuns) {
  constexpr int kRuns = 1000;
  const Schedule exchange = support::make_schedule({}, {{0, 1, 0, 1}, {0, 1, 1, 0}});
  const Order order = Order::build(exchange);
  constexpr int64_t kCount = 5;
  Rng rng(11);
  const std::vector<Floats> inputs = support::rounding_inputs(exchange, kCount, rng);
  Floats expected = inputs[0];
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expected[i] += inputs[1][i];
  }
  support::RankGroup group(2, "inproc", 20240601, std::chrono::seconds(20), 1);
  support::on_every_rank(2, [&](Rank rank) {
    OperationPool pool(
        lower(exchange, order, {.rank = rank, .count = kCount, .segment_count = 2}).value());
    for (uint64_t run = 1; run <= kRuns; ++run) {
      Floats output(kCount, 0);
      const Status status =
          group.run(rank, pool,
                    {.input = std::as_bytes(std::span(inputs[rank.index()])).data(),
                     .output = std::as_writable_bytes(std::span(output)).data()});
      ASSERT_TRUE(status.has_value()) << status.error().message;
      ASSERT_EQ(output, expected) << "run " << run << " on rank " << rank.value;
    }
  });
}

TEST(ProgressTest, RandomSchedulesGiveTheBitsOfTheTwoPhasePass) {
  constexpr uint64_t kSeed = 20240602;
  Rng rng(kSeed);
  int32_t executed = 0;
  for (int32_t round = 0; round < support::repeated(400); ++round) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", round " + std::to_string(round));
    const Schedule schedule = support::random_schedule({}, rng);
    const int64_t count = static_cast<int64_t>(rng.below(20));
    const RunSetup setup{.count = count,
                         .segment_count = 1 + support::pick(rng, 4),
                         .landing_places = 1 + support::pick(rng, 2),
                         .in_place = rng.below(3) == 0,
                         .delay_seed = rng.below(1000),
                         .lenders = rng.below(16)};
    Rng values(7);
    const auto inputs = support::rounding_inputs(schedule, count, values);
    if (support::two_phase_outputs(schedule, count, inputs, 0)) {
      ++executed;
      support::expect_two_phase_bits(schedule, setup, values);
    }
  }
  EXPECT_GT(executed, 100);
}

TEST(ProgressTest, OperationsInFlightGiveTheBitsOfOneAfterTheOther) {
  constexpr uint64_t kSeed = 20261123;
  Rng rng(kSeed);
  int32_t executed = 0;
  for (int32_t round = 0; round < support::repeated(300); ++round) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", round " + std::to_string(round));
    const int32_t count = 2 + support::pick(rng, 3);
    const std::array kTransports = {"tcp", "shm", "host/2"};
    const std::string transport = round % 5 == 0 ? kTransports[at(round / 5 % 3)] : "inproc";
    std::vector<Schedule> schedules;
    while (std::ssize(schedules) < count) {
      Schedule drawn = support::random_schedule({}, rng);
      if (schedules.empty() || drawn.rank_count() == schedules.front().rank_count()) {
        schedules.push_back(std::move(drawn));
      }
    }
    std::vector<support::ExpectedRun> runs;
    bool is_right = true;
    const int32_t landing_places = 1 + support::pick(rng, 2);
    const uint64_t delay_seed = rng.below(1000);
    for (const Schedule& schedule : schedules) {
      runs.push_back({&schedule,
                      {.count = static_cast<int64_t>(rng.below(20)),
                       .segment_count = 1 + support::pick(rng, 4),
                       .landing_places = landing_places,
                       .in_place = rng.below(3) == 0,
                       .transport = transport,
                       .delay_seed = delay_seed,
                       .lenders = rng.below(16)}});
      is_right = expect_bits(runs.back(), rng) && is_right;
    }
    if (is_right) {
      ++executed;
      support::expect_two_phase_bits(runs);
    }
  }
  EXPECT_GT(executed, 50);
}

TEST(ProgressTest, RandomTreesGiveTheBitsOfTheTwoPhasePass) {
  constexpr uint64_t kSeed = 20240603;
  Rng rng(kSeed);
  for (const CollectiveKind collective :
       {CollectiveKind::kAllReduce, CollectiveKind::kReduce, CollectiveKind::kBroadcast,
        CollectiveKind::kGather, CollectiveKind::kScatter}) {
    for (int32_t round = 0; round < support::repeated(40); ++round) {
      SCOPED_TRACE("seed " + std::to_string(kSeed) + ", round " + std::to_string(round));
      const int32_t ranks = 2 + support::pick(rng, 5);
      const auto parts = static_cast<int32_t>(part_count(collective, ranks));
      const Schedule schedule = support::random_tree_schedule(
          collective, ranks, parts * (1 + support::pick(rng, 4)), rng);
      ASSERT_TRUE(verify(schedule, nullptr).correct);
      support::expect_two_phase_bits(schedule,
                                     {.count = static_cast<int64_t>(rng.below(50)),
                                      .segment_count = 1 + support::pick(rng, 6),
                                      .landing_places = 1 + support::pick(rng, 3),
                                      .in_place = rng.below(2) == 0,
                                      .delay_seed = rng.below(2),
                                      .lenders = rng.below(64)},
                                     rng);
    }
  }
}

TEST(ProgressTest, SymmetricScheduleRunsAsItsExpansion) {
  const Schedule symmetric = support::symmetric_ring_schedule(4, 1);
  const Schedule expanded = support::ring_schedule(CollectiveKind::kAllReduce, 4, 1);
  constexpr int64_t kCount = 41;
  Rng rng(3);
  const std::vector<Floats> inputs = support::rounding_inputs(expanded, kCount, rng);
  const RunSetup setup{.count = kCount, .segment_count = 3, .delay_seed = 5};
  const auto fill = [&](Rank rank, std::span<std::byte> input) {
    std::memcpy(input.data(), inputs[rank.index()].data(), input.size());
  };
  const RunOutcome first = support::run_schedule(symmetric, setup, fill);
  const RunOutcome second = support::run_schedule(expanded, setup, fill);
  EXPECT_EQ(first.outputs, second.outputs);
  EXPECT_EQ(first.errors, std::vector<std::string>(4));
  const Status replayed = replay(Order::build(symmetric), first.records, 3, 4);
  EXPECT_TRUE(replayed.has_value()) << replayed.error().message;
}

struct ReferenceCase {
  std::string name;
  Schedule schedule;
};

std::vector<ReferenceCase> reference_cases() {
  using Kind = CollectiveKind;
  Rng rng(99);
  return {{"ring all_reduce", support::ring_schedule(Kind::kAllReduce, 3)},
          {"ring reduce_scatter", support::ring_schedule(Kind::kReduceScatter, 3, 1)},
          {"ring all_gather", support::ring_schedule(Kind::kAllGather, 4)},
          {"direct all_reduce", support::direct_schedule(Kind::kAllReduce, 4)},
          {"direct reduce_scatter", support::direct_schedule(Kind::kReduceScatter, 4)},
          {"direct all_gather", support::direct_schedule(Kind::kAllGather, 3)},
          {"direct all_to_all", support::direct_schedule(Kind::kAllToAll, 3)},
          {"halving all_reduce", support::halving_schedule(8)},
          {"tree broadcast", support::random_tree_schedule(Kind::kBroadcast, 5, 2, rng)},
          {"tree reduce", support::random_tree_schedule(Kind::kReduce, 5, 2, rng)},
          {"tree gather", support::random_tree_schedule(Kind::kGather, 5, 10, rng)},
          {"tree scatter", support::random_tree_schedule(Kind::kScatter, 5, 5, rng)}};
}

TEST(ProgressTest, ResultsEqualTheSerialReference) {
  for (const ReferenceCase& row : reference_cases()) {
    ASSERT_TRUE(verify(row.schedule, nullptr).correct) << row.name;
    uint64_t seed = 1;
    for (const ElementType type :
         {ElementType::kFloat32, ElementType::kFloat64, ElementType::kInt32}) {
      for (const ReduceOp op :
           {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax}) {
        for (const int64_t size : {0, 1, 2, 3, 17, 1001}) {
          const bool is_exchange = row.schedule.collective == CollectiveKind::kAllToAll;
          const int64_t count = is_exchange ? size * row.schedule.rank_count() : size;
          const bool in_place = ++seed % 2 == 0;
          SCOPED_TRACE(row.name + ", " + std::string(to_text(type)) + " " +
                       std::string(to_text(op)) + ", count " + std::to_string(count) +
                       (in_place ? ", in place" : ""));
          const ReferenceRequest reference = reference_request(row.schedule, type, op, count, seed);
          const RunOutcome outcome = support::run_schedule(
              row.schedule,
              {.type = type,
               .op = op,
               .count = count,
               .segment_count = static_cast<int32_t>(1 + seed % 3),
               .landing_places = static_cast<int32_t>(1 + seed % 4),
               .in_place = in_place,
               .lenders = seed % 3 == 0 ? 0 : seed},
              [&](Rank rank, std::span<std::byte> input) { fill_input(reference, rank, input); });
          for (int32_t rank = 0; rank < row.schedule.rank_count(); ++rank) {
            ASSERT_EQ(outcome.errors[at(rank)], "");
            ASSERT_EQ(count_wrong(reference, Rank{rank}, outcome.outputs[at(rank)], in_place), 0)
                << "rank " << rank;
          }
        }
      }
    }
  }
}

TEST(ProgressTest, RankThatNeverBeginsIsNamedWithinTheDeadline) {
  const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 3);
  const Order order = Order::build(ring);
  support::RankGroup group(3);
  support::on_every_rank(2, [&](Rank rank) {  // rank 2 stays away
    Floats data(9, 1);
    std::byte* const bytes = std::as_writable_bytes(std::span(data)).data();
    OperationPool pool(lower(ring, order, {.rank = rank, .count = 9, .in_place = true}).value());
    const Status status =
        group.run(rank, pool, {.output = bytes, .deadline = std::chrono::seconds(2)});
    ASSERT_FALSE(status.has_value());
    EXPECT_NE(status.error().message.find("rank 2 did not begin"), std::string::npos)
        << status.error().message;
  });
  ASSERT_TRUE(group.store().failure().has_value());
  EXPECT_EQ(group.store().failure()->rank, Rank{2});
}

TEST(ProgressTest, RankWithAnotherRequestIsRefused) {
  for (const std::string transport : {"inproc", "tcp", "shm"}) {
    const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 3);
    const Order order = Order::build(ring);
    support::RankGroup group(3, transport);
    support::on_every_rank(3, [&](Rank rank) {
      Floats data(9, 1);
      std::byte* const bytes = std::as_writable_bytes(std::span(data)).data();
      OperationPool pool(lower(ring, order, {.rank = rank, .count = 9, .in_place = true}).value());
      const Status status =
          group.run(rank, pool, {.fingerprint = rank.value == 1 ? 5u : 4u, .output = bytes});
      ASSERT_FALSE(status.has_value());
      const std::string& said = status.error().message;
      EXPECT_TRUE(said.find("rank 2 runs what is unknown here, rank 1 ") != std::string::npos ||
                  said.find("rank 1 runs what is unknown here, rank 0 ") != std::string::npos)
          << said;
    });
  }
}

// Takes everything, and says one thing again and again.
class LateTransport final : public support::SilentTransport {
 public:
  explicit LateTransport(TransportEvent late) : late_(late) {}
  Status progress(std::vector<TransportEvent>& events) override {
    events.push_back(late_);
    return ok();
  }

 private:
  TransportEvent late_;
};

TEST(ProgressTest, AnOperationThatIsOverHereAndIsAnotherThereIsSaidOfBoth) {
  using Kind = TransportEvent::Kind;
  const RequestTraits own{.collective = CollectiveKind::kBroadcast, .count = 4};
  const RequestTraits other{.collective = CollectiveKind::kAllReduce, .count = 4};
  const Schedule away = support::make_schedule({}, {{0, 1, 0, 1}});
  const Schedule here = support::make_schedule({}, {{0, 1, 1, 0}});
  const SteadyClock clock;
  for (const Kind kind : {Kind::kArrived, Kind::kBegun}) {
    LateTransport transport({.kind = kind,
                             .peer = Rank{1},
                             .tag = {.operation = 1},
                             .fingerprint = request_fingerprint(other)});
    Floats data(4, 1);
    std::byte* const bytes = std::as_writable_bytes(std::span(data)).data();
    const auto lowered = [](const Schedule& schedule) {
      return lower(schedule, Order::build(schedule),
                   {.rank = Rank{0}, .count = 4, .in_place = true})
          .value();
    };
    OperationPool sends(lowered(away)), receives(lowered(here));
    Progress progress(transport, clock, 2);
    Progress::Culprit culprit;
    const auto failed = [&](const Error& error, const Progress::Culprit& what) {
      culprit = what;
      return error;
    };
    ASSERT_TRUE(progress.open({.number = 0, .places = 3, .place_bytes = 1000}, failed));
    ASSERT_TRUE(
        progress.run(0, sends.take({.fingerprint = request_fingerprint(own), .output = bytes})));
    const Status status =
        progress.run(0, receives.take({.fingerprint = request_fingerprint(own), .output = bytes}));
    progress.close(0, {ErrorCode::kPeerLost, ""});
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().message,
              "rank 1 runs all_reduce of 4 float32 sum, rank 0 broadcast of 4 float32");
    EXPECT_EQ(culprit.operation, 1u);
    EXPECT_EQ(culprit.rank, Rank{1});
  }
}

// Says what no peer may say.
class LyingTransport final : public support::SilentTransport {
 public:
  explicit LyingTransport(TransportEvent lie) : lie_(lie) {}
  Result<bool> send(Rank /*peer*/, uint64_t /*channel*/, SegmentTag /*tag*/,
                    uint64_t /*fingerprint*/,
                    std::span<const std::span<const std::byte>> /*pieces*/) override {
    return false;
  }
  Status progress(std::vector<TransportEvent>& events) override {
    events.push_back(lie_);
    return ok();
  }

 private:
  TransportEvent lie_;
};

TEST(ProgressTest, EventsThatCannotBeAreRefused) {
  using Kind = TransportEvent::Kind;
  const std::vector<std::byte> payload(400);
  const std::span<const std::byte> right(payload.data(), 16);
  struct Case {
    std::string name;
    TransportEvent lie;
    std::string says = "does not belong";
  };
  const std::vector<Case> cases = {
      {"unknown stream", {.kind = Kind::kArrived, .peer = Rank{1}, .tag = {1, 77, 0}}},
      {"unknown segment",
       {.kind = Kind::kArrived, .peer = Rank{1}, .tag = {1, 1, 9}, .payload = right}},
      {"negative segment",
       {.kind = Kind::kArrived, .peer = Rank{1}, .tag = {1, 1, -1}, .payload = right}},
      {"own stream", {.kind = Kind::kArrived, .peer = Rank{1}, .tag = {1, 0, 0}, .payload = right}},
      {"too short", {.kind = Kind::kArrived, .peer = Rank{1}, .tag = {1, 1, 0}}},
      {"too long", {.kind = Kind::kArrived, .peer = Rank{1}, .tag = {1, 1, 0}, .payload = payload}},
      {"sent what was not", {.kind = Kind::kSent, .peer = Rank{1}, .tag = {1, 9, 0}}},
      {"released unsent", {.kind = Kind::kReleased, .peer = Rank{1}, .tag = {1, 0, 1}}},
      {"over",
       {.kind = Kind::kArrived, .peer = Rank{1}, .tag = {0, 1, 0}, .payload = right},
       "operation 0, which is over"},
      {"of a stranger", {.kind = Kind::kSent, .peer = Rank{2}, .tag = {1, 0, 0}}},
  };
  const Schedule exchange = support::make_schedule({}, {{0, 1, 0, 1}, {0, 1, 1, 0}});
  for (const Case& row : cases) {
    SCOPED_TRACE(row.name);
    const SteadyClock clock;
    LyingTransport transport(row.lie);
    Floats data(8, 1);
    OperationPool pool(lower(exchange, Order::build(exchange),
                             {.rank = Rank{0}, .count = 8, .segment_count = 2, .in_place = true})
                           .value());
    Rank culprit;
    Progress progress(transport, clock, 3);
    const auto failed = [&](const Error& error, const Progress::Culprit& what) {
      culprit = what.rank;
      return error;
    };
    ASSERT_TRUE(progress.open({.number = 0, .places = 3, .place_bytes = 1000}, failed));
    const Status status =
        progress.run(0, pool.take({.output = std::as_writable_bytes(std::span(data)).data()}));
    progress.close(0, {ErrorCode::kPeerLost, ""});
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(culprit, row.lie.peer);
    EXPECT_EQ(status.error().code, ErrorCode::kIo);
    EXPECT_NE(status.error().message.find(row.says), std::string::npos) << status.error().message;
  }
}

// Asks twice where a segment belongs, before it tells that it has come.
class RepeatingTransport final : public support::SilentTransport {
 public:
  void set_sink(Sink& sink) override { sink_ = &sink; }
  Status progress(std::vector<TransportEvent>& events) override {
    homes_.push_back(ask());
    homes_.push_back(ask());
    if (!homes_.front().empty()) {
      events.push_back({.kind = TransportEvent::Kind::kArrived,
                        .peer = Rank{0},
                        .tag = kTag,
                        .payload = homes_.front()});
    }
    return ok();
  }
  const std::vector<std::span<std::byte>>& homes() const { return homes_; }

 private:
  static constexpr SegmentTag kTag = {.operation = 1};
  std::span<std::byte> ask() { return sink_->home(Rank{0}, 0, kTag, 0, 16); }

  Sink* sink_ = nullptr;
  std::vector<std::span<std::byte>> homes_;
};

// The first may end the operation: the memory is its owner's then, and the second is still written.
TEST(ProgressTest, NoSegmentIsWrittenWhereAnotherOfItsTagIs) {
  const Schedule down = support::make_schedule({.collective = CollectiveKind::kBroadcast},
                                               {{0, 1, 0, 1, TransferOp::kCopy}});
  const SteadyClock clock;
  RepeatingTransport transport;
  Floats data(4, 1);
  OperationPool pool(
      lower(down, Order::build(down), {.rank = Rank{1}, .count = 4, .in_place = true}).value());
  Progress progress(transport, clock, 2, Rank{1});
  ASSERT_TRUE(progress.open({.number = 0, .places = 3, .place_bytes = 1000},
                            [](const Error& error, const auto&) { return error; }));
  EXPECT_TRUE(
      progress.run(0, pool.take({.output = std::as_writable_bytes(std::span(data)).data()})));
  progress.close(0, {ErrorCode::kPeerLost, ""});
  ASSERT_GE(transport.homes().size(), 2U);
  EXPECT_EQ(transport.homes()[0].size(), 16U);
  EXPECT_TRUE(transport.homes()[1].empty());
}

}  // namespace
}  // namespace pleach
