#include "pleach/runtime/communicator.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/collective/reference.h"
#include "tests/support/counterexamples.h"
#include "tests/support/random_schedules.h"
#include "tests/support/rank_processes.h"
#include "tests/support/rank_threads.h"
#include "tests/support/small_schedules.h"

namespace pleach {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using support::Bytes;
using Floats = std::vector<float>;

struct JobSetup {
  int32_t rank_count = 3;
  std::string transport = "inproc";
  Duration deadline = seconds(20);
};

// An endpoint of its own, and a communicator over it.
Result<std::unique_ptr<Communicator>> make_communicator(EndpointOptions endpoint_options,
                                                        CommunicatorOptions options = {}) {
  PLEACH_ASSIGN(endpoint, Endpoint::create(std::move(endpoint_options)));
  return Communicator::create(std::move(endpoint), std::move(options));
}

// Runs the body on every rank with a communicator over one local store; closes where it may.
void with_communicators(const JobSetup& setup,
                        const std::function<void(Communicator&, Rank)>& body) {
  const auto store = make_local_store();
  support::on_every_rank(setup.rank_count, [&](Rank rank) {
    auto made = make_communicator({.rank = rank,
                                   .rank_count = setup.rank_count,
                                   .transport = setup.transport,
                                   .store = store,
                                   .deadline = setup.deadline});
    ASSERT_TRUE(made.has_value()) << made.error().message;
    body(**made, rank);
    static_cast<void>((*made)->close());
  });
}

std::byte* bytes(Floats& values) {
  return std::as_writable_bytes(std::span(values)).data();
}

std::string message_of(const Status& status) {
  return status ? "" : status.error().message;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(CommunicatorTest, RunsManySchedulesAndSizesOneAfterTheOther) {
  Rng rng(6);
  const std::vector<Schedule> schedules = {
      support::ring_schedule(CollectiveKind::kAllReduce, 4),
      support::direct_schedule(CollectiveKind::kAllToAll, 4),
      support::ring_schedule(CollectiveKind::kReduceScatter, 4),
      support::ring_schedule(CollectiveKind::kAllGather, 4),
      support::symmetric_ring_schedule(4, 2),
      support::random_tree_schedule(CollectiveKind::kGather, 4, 8, rng),
      support::random_tree_schedule(CollectiveKind::kScatter, 4, 4, rng),
  };
  for (const std::string transport : {"inproc", "tcp", "shm"}) {
    SCOPED_TRACE(transport);
    with_communicators({4, transport}, [&](Communicator& communicator, Rank rank) {
      for (const Schedule& schedule : schedules) {
        auto prepared = communicator.prepare(rank.value == 0 ? &schedule : nullptr);
        ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
        EXPECT_EQ(schedule_hash(schedule_of(**prepared)), schedule_hash(schedule));
        for (const int64_t count : {0, 4, 40, 4000, 400'000}) {
          for (uint64_t repeat = 0; repeat < 3; ++repeat) {
            const ReferenceRequest reference =
                reference_request(schedule, ElementType::kFloat32, ReduceOp::kSum, count, repeat);
            const auto placement = Placement::create(schedule, count);
            Bytes input(at(placement->sizes(rank).input * 4));
            Bytes output(at(placement->sizes(rank).output * 4));
            fill_input(reference, rank, input);
            fill_output(output);
            const Status status =
                communicator.run(**prepared, {.count = count,
                                              .segment_count = static_cast<int32_t>(1 + 3 * repeat),
                                              .input = input.data(),
                                              .output = output.data()});
            ASSERT_TRUE(status.has_value()) << status.error().message;
            ASSERT_EQ(count_wrong(reference, rank, output), 0)
                << to_text(schedule.collective) << " of " << count;
          }
        }
        ASSERT_TRUE(communicator.barrier().has_value());
      }
      const Status closed = communicator.close();
      EXPECT_TRUE(closed.has_value()) << message_of(closed);
      EXPECT_TRUE(contains(message_of(communicator.barrier()), "closed"));
    });
  }
}

// Places of a few elements: every schedule is cut until its segments fit, weights and rounding
// whatever they are.
TEST(CommunicatorTest, CutsMessagesToFitTheLandingPlaces) {
  Rng rng(20);
  for (int32_t round = 0; round < support::repeated(60); ++round) {
    const int32_t ranks = 2 + support::pick(rng, 4);
    Schedule tree = support::random_tree_schedule(CollectiveKind::kAllReduce, ranks,
                                                  1 + support::pick(rng, 5), rng);
    std::vector<int64_t> weights;
    for (int32_t chunk = 0; chunk < tree.chunks.count(); ++chunk) {
      weights.push_back(1 + static_cast<int64_t>(rng.below(9)));
    }
    tree.chunks = ChunkGrid::weighted(std::move(weights));
    const std::vector<Schedule> schedules = {
        tree, support::direct_schedule(CollectiveKind::kAllToAll, ranks),
        support::ring_schedule(CollectiveKind::kReduceScatter, ranks)};
    const Schedule& schedule = schedules[at(support::pick(rng, 3))];
    const int64_t count = ranks * static_cast<int64_t>(rng.below(200));
    const int64_t place_bytes = 32 + static_cast<int64_t>(rng.below(100));
    const auto store = make_local_store();
    SCOPED_TRACE("round " + std::to_string(round));
    support::on_every_rank(ranks, [&](Rank rank) {
      auto communicator = make_communicator(
          {.rank = rank, .rank_count = ranks, .transport = "inproc", .store = store},
          {.landing_places = 1 + round % 2, .place_bytes = place_bytes});
      ASSERT_TRUE(communicator.has_value()) << communicator.error().message;
      auto prepared = (*communicator)->prepare(rank.value == 0 ? &schedule : nullptr);
      ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
      const ReferenceRequest reference =
          reference_request(schedule, ElementType::kFloat32, ReduceOp::kSum, count, 1);
      const auto placement = Placement::create(schedule, count);
      Bytes input(at(placement->sizes(rank).input * 4));
      Bytes output(at(placement->sizes(rank).output * 4));
      fill_input(reference, rank, input);
      const Status status =
          (*communicator)
              ->run(**prepared, {.count = count, .input = input.data(), .output = output.data()});
      ASSERT_TRUE(status.has_value()) << status.error().message;
      EXPECT_EQ(count_wrong(reference, rank, output), 0);
      static_cast<void>((*communicator)->close());
    });
  }
  // A place for fewer elements than a message has chunks.
  const Schedule many =
      support::make_schedule({.collective = CollectiveKind::kBroadcast, .chunk_count = 9},
                             {{0, 5, 0, 1, support::kCopy}, {5, 4, 0, 1, support::kCopy}});
  const auto store = make_local_store();
  support::on_every_rank(2, [&](Rank rank) {
    auto communicator = make_communicator(
        {.rank = rank, .rank_count = 2, .transport = "inproc", .store = store}, {.place_bytes = 4});
    ASSERT_TRUE(communicator.has_value()) << communicator.error().message;
    auto prepared = (*communicator)->prepare(rank.value == 0 ? &many : nullptr);
    ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
    Floats data(90, 1);
    const Status status =
        (*communicator)
            ->run(**prepared, {.count = 90, .input = bytes(data), .output = bytes(data)});
    EXPECT_TRUE(contains(message_of(status), "landing places of 4 bytes")) << message_of(status);
  });
}

TEST(CommunicatorTest, ShardPointersMayStandForTheWholeBuffer) {
  Rng rng(4);
  for (const Schedule& schedule :
       {support::ring_schedule(CollectiveKind::kAllGather, 3),
        support::ring_schedule(CollectiveKind::kReduceScatter, 3),
        support::random_tree_schedule(CollectiveKind::kGather, 3, 6, rng),
        support::random_tree_schedule(CollectiveKind::kScatter, 3, 3, rng)}) {
    for (const bool passes_shard : {false, true}) {
      SCOPED_TRACE(std::string(to_text(schedule.collective)) +
                   (passes_shard ? " by shard" : " by whole"));
      const bool gathers = gives_shards(schedule.collective);
      constexpr int64_t kCount = 10;
      with_communicators({}, [&](Communicator& communicator, Rank rank) {
        auto prepared = communicator.prepare(rank.value == 0 ? &schedule : nullptr);
        ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
        const ReferenceRequest reference =
            reference_request(schedule, ElementType::kFloat32, ReduceOp::kSum, kCount, 3);
        Bytes whole(kCount * 4);
        const std::size_t begin = at(kCount * rank.value / 3) * 4;
        const std::size_t end = at(kCount * (rank.value + 1) / 3) * 4;
        const std::span shard = std::span(whole).subspan(begin, end - begin);
        fill_output(whole);
        fill_input(reference, rank, gathers ? shard : std::span(whole));
        std::byte* const other = passes_shard ? shard.data() : whole.data();
        const Status status =
            communicator.run(**prepared, {.count = kCount,
                                          .input = gathers ? other : whole.data(),
                                          .output = gathers ? whole.data() : other});
        ASSERT_TRUE(status.has_value()) << status.error().message;
        EXPECT_EQ(count_wrong(reference, rank, gathers ? std::span(whole) : shard, true), 0);
      });
    }
  }
}

TEST(CommunicatorTest, SchedulesThatCannotRunAreRefusedAlikeOnAllRanksAndPoisonNothing) {
  Schedule in_switch = support::make_schedule({.rank_count = 3}, {});
  for (int32_t rank = 0; rank < 3; ++rank) {
    in_switch.transfers.push_back(
        {.source = NodeId{rank}, .target = NodeId{8}, .op = TransferOp::kReduce});
    in_switch.transfers.push_back(
        {.source = NodeId{8}, .target = NodeId{rank}, .op = TransferOp::kCopy});
  }
  sort_transfers(in_switch);
  const Schedule wrong = support::make_schedule({.rank_count = 3}, {{0, 1, 0, 1}});
  Schedule malformed = support::ring_schedule(CollectiveKind::kAllReduce, 3);
  malformed.transfers[0].step = 99;
  const Schedule two_ranks = support::ring_schedule(CollectiveKind::kAllReduce, 2);
  const Schedule good = support::ring_schedule(CollectiveKind::kAllReduce, 3);
  struct Case {
    std::string name;
    const Schedule* schedule;
    ErrorCode code;
    std::string says;
  };
  const std::vector<Case> cases = {
      {"none", nullptr, ErrorCode::kInvalidArgument, "no schedule"},
      {"switch", &in_switch, ErrorCode::kUnsupported, "node 8"},
      {"wrong", &wrong, ErrorCode::kInvalidArgument, "the schedule is wrong: "},
      {"malformed", &malformed, ErrorCode::kInvalidArgument, "99"},
      {"ranks", &two_ranks, ErrorCode::kInvalidArgument, "is for 2 ranks"},
  };
  for (const Case& row : cases) {
    SCOPED_TRACE(row.name);
    with_communicators({}, [&](Communicator& communicator, Rank rank) {
      const auto refused = communicator.prepare(rank.value == 0 ? row.schedule : nullptr);
      ASSERT_FALSE(refused.has_value());
      EXPECT_EQ(refused.error().code, row.code);
      EXPECT_TRUE(contains(refused.error().message, row.says)) << refused.error().message;
      const auto prepared = communicator.prepare(rank.value == 0 ? &good : nullptr);
      ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
      Floats data(5, 1);
      EXPECT_EQ(message_of(communicator.run(
                    **prepared, {.count = 5, .input = bytes(data), .output = bytes(data)})),
                "");
      EXPECT_EQ(data, Floats(5, 3));
    });
  }
}

TEST(CommunicatorTest, ABadCallOnOneRankFailsAllRanksWithItsCause) {
  const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 3);
  const Schedule exchange = support::direct_schedule(CollectiveKind::kAllToAll, 3);
  Floats a(64), b(64);
  struct Case {
    std::string name;
    const Schedule* schedule;
    RunRequest request;  // of rank 1; the others pass good ones
    std::string says;
  };
  const std::vector<Case> cases = {
      {"input", &ring, {.count = 9, .output = bytes(b)}, "the input of 36 bytes is null"},
      {"output", &ring, {.count = 9, .input = bytes(a)}, "the output of 36 bytes is null"},
      {"count", &ring, {.count = -1, .input = bytes(a), .output = bytes(b)}, "-1"},
      {"huge", &ring, {.count = INT64_MAX, .input = bytes(a), .output = bytes(b)}, "too many"},
      {"no segments",
       &ring,
       {.count = 9, .segment_count = 0, .input = bytes(a), .output = bytes(b)},
       "0 segments"},
      {"segments",
       &ring,
       {.count = 9, .segment_count = 1 << 20, .input = bytes(a), .output = bytes(b)},
       "1048576 segments"},
      {"unaligned",
       &ring,
       {.count = 9, .input = bytes(a) + 1, .output = bytes(b)},
       "the input is not aligned"},
      {"overlap", &ring, {.count = 9, .input = bytes(a), .output = bytes(a) + 8}, "overlap"},
      {"average of integers",
       &ring,
       {.type = ElementType::kInt32,
        .op = ReduceOp::kAverage,
        .count = 9,
        .input = bytes(a),
        .output = bytes(b)},
       "reduction 'average' is for floating types, not for int32"},
      {"blocks", &exchange, {.count = 10, .input = bytes(a), .output = bytes(b)}, "multiple"},
  };
  for (const Case& row : cases) {
    SCOPED_TRACE(row.name);
    with_communicators({}, [&](Communicator& communicator, Rank rank) {
      const auto prepared = communicator.prepare(rank.value == 0 ? row.schedule : nullptr);
      ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
      Floats data(9, 1);
      const RunRequest good{.count = 9, .input = bytes(data), .output = bytes(data)};
      const std::string said =
          message_of(communicator.run(**prepared, rank.value == 1 ? row.request : good));
      EXPECT_TRUE(contains(said, "rank 1, operation 1 (")) << said;
      EXPECT_TRUE(contains(said, row.says)) << said;
      EXPECT_EQ(message_of(communicator.run(**prepared, good)), said);
      EXPECT_EQ(message_of(communicator.barrier()), said);
      EXPECT_EQ(message_of(communicator.close()), said);
    });
  }
}

TEST(CommunicatorTest, AveragesOverTheRanks) {
  const Schedule all = support::ring_schedule(CollectiveKind::kAllReduce, 3);
  const Schedule parts = support::ring_schedule(CollectiveKind::kReduceScatter, 3);
  with_communicators({3}, [&](Communicator& communicator, Rank rank) {
    const auto own = static_cast<float>(3 * rank.value);  // 0, 3 and 6: 3 on average
    for (const Schedule* schedule : {&all, &parts}) {
      const auto prepared = communicator.prepare(rank.value == 0 ? schedule : nullptr);
      ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
      Floats input(9, own), output(9, -1);
      RunRequest request{
          .op = ReduceOp::kAverage, .count = 9, .input = bytes(input), .output = bytes(output)};
      ASSERT_TRUE(communicator.run(**prepared, request));
      const bool whole = schedule == &all;
      Floats expected(9, whole ? 3.0F : -1.0F);
      std::fill_n(expected.begin(), 3, 3.0F);
      EXPECT_EQ(output, expected);
      EXPECT_EQ(input, Floats(9, own));
      request.output = bytes(input);
      ASSERT_TRUE(communicator.run(**prepared, request));
      const int32_t begin = whole ? 0 : 3 * rank.value;
      EXPECT_EQ(Floats(input.begin() + begin, input.begin() + begin + (whole ? 9 : 3)),
                Floats(whole ? 9 : 3, 3.0F));
    }
  });
}

TEST(CommunicatorTest, RanksThatAskForDifferentThingsAreNamedWithBoth) {
  const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 3);
  const std::vector<std::array<std::string, 2>> differences = {
      {"of 13 float32 sum", "of 12"},
      {"of 12 int32 sum", "of 12 float32 sum"},
      {"of 12 float32 max", "of 12 float32 sum"},
      {"of 12 float32 sum in 2 segments", "of 12 in 1 segment"}};
  for (const std::string transport : {"inproc", "tcp", "shm"}) {
    for (std::size_t variant = 0; variant < differences.size(); ++variant) {
      SCOPED_TRACE(transport + std::to_string(variant));
      with_communicators({3, transport}, [&](Communicator& communicator, Rank rank) {
        const auto prepared = communicator.prepare(rank.value == 0 ? &ring : nullptr);
        ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
        Floats data(16, 1);
        RunRequest request{.count = 12, .input = bytes(data), .output = bytes(data)};
        if (rank.value == 2) {
          request.count += variant == 0 ? 1 : 0;
          request.type = variant == 1 ? ElementType::kInt32 : request.type;
          request.op = variant == 2 ? ReduceOp::kMax : request.op;
          request.segment_count += variant == 3 ? 1 : 0;
        }
        const std::string said = message_of(communicator.run(**prepared, request));
        const auto& [odd, usual] = differences[variant];
        EXPECT_TRUE(said == "operation 1: rank 2 runs all_reduce " + odd + ", rank 0 " + usual ||
                    said == "operation 1: rank 2 runs all_reduce " + odd + ", rank 1 " + usual)
            << said;
      });
    }
  }
}

// The refusal that two ranks hear who come with these options.
void expect_refusal(const CommunicatorOptions& options, const std::string& transport,
                    const std::string& expected) {
  const auto store = make_local_store();
  support::on_every_rank(2, [&](Rank rank) {
    const bool is_odd = rank.value == 1;
    const auto made = make_communicator(
        {.rank = rank, .rank_count = 2, .transport = is_odd ? transport : "tcp", .store = store},
        is_odd ? options : CommunicatorOptions());
    ASSERT_FALSE(made.has_value());
    EXPECT_TRUE(contains(made.error().message, expected)) << made.error().message;
  });
}

TEST(CommunicatorTest, RanksOfOtherPlacesOrTransportsAreNamedWithBoth) {
  expect_refusal({.landing_places = 3}, "tcp", "rank 1 has landing_places=3, rank 0 has landing_");
  expect_refusal({.message_places = 2}, "tcp", "rank 1 has message_places=2, rank 0 has message_");
  expect_refusal({}, "tcp,sockets=2", "(PLEACH_SOCKETS)");
  for (const std::string other : {"shm", "host", "inproc"}) {
    expect_refusal({}, other, "rank 1 has transport=" + other + ", rank 0 has transport=tcp");
  }
}

TEST(CommunicatorTest, AnotherOrderOfCallsIsSaidOfBoth) {
  const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 2);
  const Schedule gather = support::ring_schedule(CollectiveKind::kAllGather, 2);
  for (const std::string transport : {"inproc", "tcp", "shm"}) {
    with_communicators({2, transport}, [&](Communicator& communicator, Rank rank) {
      const auto reduces = communicator.prepare(rank.value == 0 ? &ring : nullptr);
      const auto gathers = communicator.prepare(rank.value == 0 ? &gather : nullptr);
      ASSERT_TRUE(communicator.barrier());
      Floats data(8, 1);
      const RunRequest request{.count = 8, .input = bytes(data), .output = bytes(data)};
      std::string said;
      if (rank.value == 0) {
        said = message_of(communicator.run(**reduces, request));
      } else {
        const Result<Operation> begun = communicator.start(**gathers, request);
        said = begun ? message_of(begun->wait()) : begun.error().message;
      }
      EXPECT_EQ(said,
                "operation 2: rank 1 runs all_gather of 8 float32, rank 0 all_reduce of 8 float32 "
                "sum");
      EXPECT_EQ(message_of(communicator.barrier()), said);
    });
  }
}

// A ring's all_reduce of ones, started with its buffers.
struct Started {
  Started(Communicator& communicator, const PreparedSchedule& prepared, int64_t count)
      : input(at(count), 1), output(at(count), 0) {
    Result<Operation> begun = communicator.start(
        prepared, {.count = count, .input = bytes(input), .output = bytes(output)});
    error = begun ? "" : begun.error().message;
    if (begun) {
      operation.emplace(std::move(*begun));
    }
  }
  Floats input, output;
  std::optional<Operation> operation;
  std::string error;
};

TEST(CommunicatorTest, OperationsInFlightEndInWhateverOrderTheyAreWaitedFor) {
  const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 3);
  for (const std::string transport : {"inproc", "tcp", "shm"}) {
    with_communicators({3, transport}, [&](Communicator& communicator, Rank rank) {
      const auto prepared = communicator.prepare(rank.value == 0 ? &ring : nullptr);
      ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
      Rng rng(static_cast<uint64_t>(rank.value));
      for (int round = 0; round < 20; ++round) {
        std::vector<std::unique_ptr<Started>> started;
        for (int64_t i = 0; i < 8; ++i) {
          started.push_back(std::make_unique<Started>(communicator, **prepared, i * i * 999));
          ASSERT_EQ(started.back()->error, "");
        }
        while (!started.empty()) {
          const std::size_t next = rng.below(started.size());
          const Status status = started[next]->operation->wait();
          ASSERT_TRUE(status.has_value()) << status.error().message;
          ASSERT_EQ(started[next]->output, Floats(started[next]->output.size(), 3));
          ASSERT_TRUE(started[next]->operation->test());
          started.erase(started.begin() + static_cast<int64_t>(next));
        }
      }
    });
  }
}

// Rank by rank the other one first; with one place, so that neither could do with the other's.
TEST(CommunicatorTest, CommunicatorsOfOneEndpointMayBeWaitedForInAnyOrder) {
  const Schedule exchange =
      support::make_schedule({}, {{0, 1, 1, 0}, {0, 1, 0, 1, support::kCopy, 1}});
  const auto store = make_local_store();
  support::on_every_rank(2, [&](Rank rank) {
    auto endpoint =
        Endpoint::create({.rank = rank, .rank_count = 2, .transport = "inproc", .store = store});
    ASSERT_TRUE(endpoint.has_value()) << endpoint.error().message;
    std::vector<std::unique_ptr<Communicator>> communicators;
    for (int i = 0; i < 2; ++i) {  // of one name: their order tells them apart
      auto made = Communicator::create(*endpoint, {.name = "a", .landing_places = 1});
      ASSERT_TRUE(made.has_value()) << made.error().message;
      communicators.push_back(std::move(*made));
    }
    std::vector<std::shared_ptr<const PreparedSchedule>> prepared;
    for (const auto& communicator : communicators) {
      auto made = communicator->prepare(rank.value == 0 ? &exchange : nullptr);
      ASSERT_TRUE(made.has_value()) << made.error().message;
      prepared.push_back(*made);
    }
    for (int round = 0; round < 100; ++round) {
      const std::size_t first = rank.value == 0 ? 0 : 1;
      Started one(*communicators[first], *prepared[first], 1000);
      ASSERT_TRUE(rank.value != 0 || round % 3 == 0 || one.operation->wait().has_value());
      Started other(*communicators[1 - first], *prepared[1 - first], 1000);
      ASSERT_TRUE(other.operation->wait().has_value());
      ASSERT_TRUE(one.operation->wait().has_value());
      ASSERT_EQ(one.output, Floats(1000, 2));
      ASSERT_EQ(other.output, Floats(1000, 2));
    }
    for (const auto& communicator : communicators) {
      EXPECT_EQ(message_of(communicator->close()), "");
    }
  });
}

TEST(CommunicatorTest, AnOperationMovesOnWhileNobodyWaits) {
  const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 2);
  with_communicators({2, "tcp"}, [&](Communicator& communicator, Rank rank) {
    const auto prepared = communicator.prepare(rank.value == 0 ? &ring : nullptr);
    ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
    Started started(communicator, **prepared, 1'000'000);
    std::atomic<bool> is_called = false;
    started.operation->on_done([&](const Status& status) { is_called = status.has_value(); });
    const TimePoint last = SteadyClock().now() + seconds(10);
    while (!is_called && SteadyClock().now() < last) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    ASSERT_TRUE(is_called);
    EXPECT_EQ(started.output, Floats(1'000'000, 2));
    EXPECT_GT(started.operation->finished(), started.operation->started());
    bool is_called_at_once = false;
    started.operation->on_done([&](const Status& /*status*/) { is_called_at_once = true; });
    EXPECT_TRUE(is_called_at_once);
    ASSERT_TRUE(communicator.barrier().has_value());
  });
}

TEST(CommunicatorTest, NobodyLeavesABarrierBeforeAllHaveEntered) {
  for (const int32_t ranks : {1, 2, 3, 5, 6}) {
    std::atomic<int32_t> entered = 0;
    with_communicators({ranks, ranks == 3 ? "tcp" : "inproc"},
                       [&](Communicator& communicator, Rank rank) {
                         Rng rng(static_cast<uint64_t>(rank.value));
                         for (int32_t round = 1; round <= 50; ++round) {
                           if (rng.below(4) == 0) {
                             std::this_thread::sleep_for(std::chrono::microseconds(rng.below(500)));
                           }
                           ++entered;
                           ASSERT_EQ(message_of(communicator.barrier()), "");
                           ASSERT_GE(entered, ranks * round);
                         }
                       });
  }
}

TEST(CommunicatorTest, BarrierThatWasStartedIsDoneWhenAllHaveStartedIt) {
  const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 3);
  std::atomic<int32_t> entered = 0;
  with_communicators({3, "tcp"}, [&](Communicator& communicator, Rank rank) {
    const auto prepared = communicator.prepare(rank.value == 0 ? &ring : nullptr);
    ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
    std::this_thread::sleep_for(milliseconds(20 * rank.value));
    ++entered;
    const Result<Operation> barrier = communicator.start_barrier();
    ASSERT_TRUE(barrier.has_value()) << barrier.error().message;
    if (rank.value == 0 && entered < 3) {
      EXPECT_FALSE(barrier->test() && entered < 3);
    }
    // Numbered with the others.
    Floats data(1000, 1);
    ASSERT_EQ(message_of(communicator.run(
                  **prepared, {.count = 1000, .input = bytes(data), .output = bytes(data)})),
              "");
    ASSERT_EQ(message_of(barrier->wait()), "");
    EXPECT_EQ(entered, 3);
  });
}

TEST(CommunicatorTest, AWaitThatIsTooShortHarmsNothing) {
  const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 2);
  with_communicators({2, "inproc"}, [&](Communicator& communicator, Rank rank) {
    const auto prepared = communicator.prepare(rank.value == 0 ? &ring : nullptr);
    ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
    if (rank.value == 1) {
      std::this_thread::sleep_for(milliseconds(100));
    }
    Started started(communicator, **prepared, 1000);
    if (rank.value == 0) {
      const Status early = started.operation->wait(milliseconds(5));
      ASSERT_FALSE(early.has_value());
      EXPECT_EQ(early.error().code, ErrorCode::kTimeout);
      EXPECT_FALSE(started.operation->test());
      EXPECT_TRUE(contains(message_of(communicator.close()), "1 operations in flight"));
    }
    EXPECT_EQ(message_of(started.operation->wait()), "");
    EXPECT_EQ(started.output, Floats(1000, 2));
  });
}

TEST(CommunicatorTest, ThreadsOfARankMayWaitAtOnce) {
  const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 2);
  constexpr int32_t kThreads = 4;
  const auto store = make_local_store();
  support::on_every_rank(2, [&](Rank rank) {
    auto endpoint =
        Endpoint::create({.rank = rank, .rank_count = 2, .transport = "tcp", .store = store});
    ASSERT_TRUE(endpoint.has_value()) << endpoint.error().message;
    // A communicator for each, so that their orders need not agree.
    support::on_every_rank(kThreads, [&](Rank thread) {
      auto made = Communicator::create(*endpoint, {.name = std::to_string(thread.value)});
      ASSERT_TRUE(made.has_value()) << made.error().message;
      auto prepared = (*made)->prepare(rank.value == 0 ? &ring : nullptr);
      ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
      for (int round = 0; round < 200; ++round) {
        Started started(**made, **prepared, 100 * (1 + round % 7));
        if (round % 3 == 0) {
          std::this_thread::yield();
        }
        ASSERT_EQ(message_of(started.operation->wait()), "");
        ASSERT_EQ(started.output, Floats(started.output.size(), 2));
      }
      EXPECT_EQ(message_of((*made)->close()), "");
    });
  });
}

TEST(CommunicatorTest, DestructionEndsWhatIsInFlight) {
  const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 2);
  const auto store = make_local_store();
  support::on_every_rank(2, [&](Rank rank) {
    auto endpoint =
        Endpoint::create({.rank = rank, .rank_count = 2, .transport = "inproc", .store = store});
    ASSERT_TRUE(endpoint.has_value()) << endpoint.error().message;
    auto made = Communicator::create(*endpoint);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    auto prepared = (*made)->prepare(rank.value == 0 ? &ring : nullptr);
    ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
    if (rank.value == 0) {
      Started started(**made, **prepared, 1000);
      std::string said = "nothing";
      started.operation->on_done([&](const Status& status) { said = message_of(status); });
      made->reset();
      EXPECT_TRUE(said == "rank 0 left without closing communicator 'world'" ||
                  (said.empty() && started.output == Floats(1000, 2)))
          << said;
    } else {
      Started started(**made, **prepared, 1000);
      const std::string said =
          started.operation ? message_of(started.operation->wait()) : started.error;
      EXPECT_TRUE(contains(said, "rank 0 left without closing") ||
                  started.output == Floats(1000, 2))
          << said;
    }
  });
}

TEST(CommunicatorTest, WhoLeavesWithoutClosingIsNamed) {
  with_communicators({.rank_count = 2}, [&](Communicator& /*unused*/, Rank /*rank*/) {});
  const auto store = make_local_store();
  support::on_every_rank(2, [&](Rank rank) {
    auto made =
        make_communicator({.rank = rank, .rank_count = 2, .transport = "inproc", .store = store});
    ASSERT_TRUE(made.has_value()) << made.error().message;
    if (rank.value == 0) {
      EXPECT_TRUE(contains(message_of((*made)->barrier()), "rank 1 left without closing"));
    }
  });
}

// Whoever gives up first: rank 1 waits for rank 0's word, which waits for rank 2.
TEST(CommunicatorTest, RankThatNeverComesIsNamed) {
  for (const int32_t first : {0, 1}) {
    SCOPED_TRACE(first);
    const auto store = make_local_store();
    support::on_every_rank(2, [&](Rank rank) {
      const auto create = [&](Duration deadline) {
        const auto made = make_communicator({.rank = rank,
                                             .rank_count = 3,
                                             .transport = "inproc",
                                             .store = store,
                                             .deadline = deadline});
        return made ? "" : made.error().message;
      };
      std::string said = create(rank.value == first ? milliseconds(200) : seconds(20));
      // Where the other had not come by then, it is named too.
      EXPECT_TRUE(contains(said, "rank 2 did not come") || contains(said, ", 2 did not come"))
          << said;
      EXPECT_TRUE(said.starts_with("rank " + std::to_string(first) + ", create: ")) << said;
    });
  }
}

TEST(CommunicatorTest, WhoDoesNotComeToASplitIsNamed) {
  const auto store = make_local_store();
  support::on_every_rank(3, [&](Rank rank) {
    auto made = make_communicator({.rank = rank,
                                   .rank_count = 3,
                                   .transport = "inproc",
                                   .store = store,
                                   .deadline = seconds(rank.value == 1 ? 3 : 20)});
    ASSERT_TRUE(made.has_value()) << made.error().message;
    if (rank.value == 2) {
      EXPECT_FALSE(store->get("nothing", seconds(20)));
      return;
    }
    const auto part = (*made)->split(0, 0);
    ASSERT_FALSE(part);
    const std::string& said = part.error().message;
    EXPECT_TRUE(said == "rank 1, split: rank 2 did not come within 3 s" ||
                said == "rank 1, split: ranks 0, 2 did not come within 3 s")
        << said;
  });
}

TEST(CommunicatorTest, RankThatDoesNotRunIsNamedByRankAndOperation) {
  const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 3);
  const auto store = make_local_store();
  support::on_every_rank(3, [&](Rank rank) {
    auto made = make_communicator({.rank = rank,
                                   .rank_count = 3,
                                   .transport = "inproc",
                                   .store = store,
                                   .deadline = seconds(2)});
    ASSERT_TRUE(made.has_value()) << made.error().message;
    const auto prepared = (*made)->prepare(rank.value == 0 ? &ring : nullptr);
    ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
    Floats data(9, 1);
    while (rank.value == 2 && !store->failure()) {
      std::this_thread::sleep_for(milliseconds(10));
    }
    const std::string said = message_of(
        (*made)->run(**prepared, {.count = 9, .input = bytes(data), .output = bytes(data)}));
    EXPECT_TRUE(contains(said, ", operation 1 (all_reduce): rank 2 did not begin")) << said;
    EXPECT_TRUE(said.starts_with("rank 0, ") || said.starts_with("rank 1, ")) << said;
    EXPECT_EQ(store->failure()->message, said);
    EXPECT_EQ(store->failure()->rank, Rank{2});
  });
}

// One rank of a job over TCP: all_reduces for ever, until something fails; one rank may stop
// calling after a while.
std::string run_for_ever(const TcpStoreOptions& options, int32_t idle_rank,
                         support::Arrivals& begun) {
  auto store = make_tcp_store(options);
  if (!store) {
    return "store: " + store.error().message;
  }
  auto made = make_communicator({.rank = options.rank,
                                 .rank_count = options.rank_count,
                                 .store = std::move(store).value(),
                                 .deadline = options.deadline});
  if (!made) {
    return "create: " + made.error().message;
  }
  const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, options.rank_count);
  auto prepared = (*made)->prepare(options.rank.value == 0 ? &ring : nullptr);
  if (!prepared) {
    return "prepare: " + prepared.error().message;
  }
  Floats input(10'000, 1), output(10'000);
  for (int round = 0;; ++round) {
    if (options.rank.value == idle_rank && round == 50) {
      std::this_thread::sleep_for(seconds(60));
    }
    const Status status =
        (*made)->run(**prepared, {.count = 10'000, .input = bytes(input), .output = bytes(output)});
    if (!status) {
      return status.error().message;
    }
    if (round == 0) {
      begun.note();
    }
    if (output[9'999] != static_cast<float>(options.rank_count)) {
      return "wrong result";
    }
  }
}

TEST(CommunicatorTest, LostRankIsNamedOnAllOthersWithinTheDeadline) {
  struct Case {
    std::string name;
    int32_t rank;
    int signal;  // 0: it goes idle by itself
  };
  constexpr Duration kDeadline = seconds(8);
  for (const Case& row : std::vector<Case>{{"killed", 2, SIGKILL},
                                           {"stopped", 1, SIGSTOP},
                                           {"rank 0 killed", 0, SIGKILL},
                                           {"rank 0 stopped", 0, SIGSTOP},
                                           {"idle", 3, 0}}) {
    SCOPED_TRACE(row.name);
    support::Arrivals begun;
    support::RankProcesses ranks(4, kDeadline, [&](const TcpStoreOptions& options) {
      return run_for_ever(options, row.signal == 0 ? row.rank : -1, begun);
    });
    ASSERT_TRUE(begun.reach(4));
    if (row.signal != 0) {
      ranks.signal(row.rank, row.signal);
    }
    const TimePoint until = SteadyClock().now() + 3 * kDeadline;
    for (int32_t rank = 0; rank < 4; ++rank) {
      if (rank != row.rank) {
        const std::string said = ranks.wait(rank, until - SteadyClock().now());
        const std::string culprit = "rank " + std::to_string(row.rank);
        EXPECT_TRUE(contains(said, culprit + " was lost") ||
                    contains(said, culprit + " did not begin"))
            << "rank " << rank << ": " << said;
      }
    }
  }
}

}  // namespace
}  // namespace pleach
