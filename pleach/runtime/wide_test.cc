// float16 and bfloat16 that travel as float32: partial sums stay wide, and are rounded once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pleach/base/element.h"
#include "pleach/base/index.h"
#include "pleach/collective/placement.h"
#include "tests/support/communicators.h"
#include "tests/support/halves.h"
#include "tests/support/random_schedules.h"
#include "tests/support/small_schedules.h"
#include "tests/support/two_phase_run.h"

namespace pleach {
namespace {

using support::Floats;
using support::Halves;
using support::kType;
using support::rounded;

template <typename T>
class WideTest : public testing::Test {};
TYPED_TEST_SUITE(WideTest, Halves);

struct WideRun {
  const Schedule& schedule;
  int64_t count = 0;
  ReduceOp op = ReduceOp::kSum;
  bool in_place = false;
  int32_t segment_count = 1;
  std::string transport = "inproc";
};

constexpr uint16_t kBlank = 0x3c3c;

template <typename T>
std::vector<T> narrowed(const Floats& values) {
  std::vector<T> halves(values.size());
  std::ranges::transform(values, halves.begin(), [](float value) { return narrow<T>(value); });
  return halves;
}

// What every rank's output holds after two operations in flight at once, of the same inputs.
template <typename T>
std::vector<Floats> run_wide(const WideRun& run, const std::vector<Floats>& inputs) {
  const int32_t ranks = run.schedule.rank_count();
  std::vector<Floats> outputs(at(ranks));
  const auto body = [&](std::unique_ptr<Communicator> communicator) {
    const Rank rank = communicator->rank();
    const Placement placement = Placement::create(run.schedule, run.count).value();
    const BufferSizes sizes = placement.sizes(rank);
    const auto prepared = communicator->prepare(rank.value == 0 ? &run.schedule : nullptr);
    ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
    // In place a shard lies at its place in the whole.
    const auto shard = run.in_place && ends_with_shards(run.schedule.collective)
                           ? placement.part_begin(rank.value)
                           : 0;
    std::deque<std::vector<T>> held;  // inputs and outputs
    std::vector<Operation> operations;
    for (int turn = 0; turn < 2; ++turn) {
      const std::vector<T>& input = held.emplace_back(narrowed<T>(inputs[rank.index()]));
      std::vector<T>& output =
          held.emplace_back(run.in_place ? input : std::vector<T>(at(sizes.output), T{kBlank}));
      auto* const written = reinterpret_cast<std::byte*>(output.data());
      const auto* const read = reinterpret_cast<const std::byte*>(input.data());
      const auto started = communicator->start(
          **prepared, {.type = kType<T>,
                       .op = run.op,
                       .wire = ElementType::kFloat32,
                       .count = run.count,
                       .segment_count = run.segment_count,
                       .input = run.in_place ? written : read,
                       .output = written + shard * static_cast<int64_t>(sizeof(T))});
      ASSERT_TRUE(started.has_value()) << started.error().message;
      operations.push_back(*started);
    }
    for (std::size_t turn = 0; turn < 2; ++turn) {
      const Status status = operations[turn].wait();
      ASSERT_TRUE(status.has_value()) << status.error().message;
      const std::span<const T> output =
          std::span(held[2 * turn + 1]).subspan(at(shard), at(sizes.output));
      Floats values(output.size());
      std::ranges::transform(output, values.begin(), [](T value) { return widen(value); });
      EXPECT_TRUE(turn == 0 || values == outputs[rank.index()]);
      outputs[rank.index()] = values;
    }
    EXPECT_TRUE(communicator->close().has_value());
  };
  support::with_communicators(ranks, body, run.transport);
  return outputs;
}

// By rank: values of the type that its sums can hold.
template <typename T>
std::vector<Floats> half_inputs(const Schedule& schedule, int64_t count, Rng& rng) {
  std::vector<Floats> inputs = support::rounding_inputs(schedule, count, rng);
  for (Floats& input : inputs) {
    for (float& value : input) {
      value = rounded<T>(value / 4096);
    }
  }
  return inputs;
}

std::vector<Schedule> reducing_schedules(int32_t ranks, Rng& rng) {
  return {support::ring_schedule(CollectiveKind::kAllReduce, ranks),
          support::direct_schedule(CollectiveKind::kAllReduce, ranks),
          support::ring_schedule(CollectiveKind::kReduceScatter, ranks),
          support::direct_schedule(CollectiveKind::kReduceScatter, ranks),
          support::random_tree_schedule(CollectiveKind::kReduce, ranks, 2, rng),
          support::random_tree_schedule(CollectiveKind::kAllReduce, ranks, 3, rng)};
}

// The float32 sums in the schedule's order, rounded once, to the bit.
template <typename T>
void expect_rounded_once(const WideRun& run, Rng& rng) {
  const std::vector<Floats> inputs = half_inputs<T>(run.schedule, run.count, rng);
  auto expected = support::two_phase_outputs(run.schedule, run.count, inputs, widen(T{kBlank}));
  ASSERT_TRUE(expected.has_value());
  for (std::size_t rank = 0; rank < expected->size(); ++rank) {
    std::ranges::transform((*expected)[rank], (*expected)[rank].begin(), rounded<T>);
    if (run.in_place && is_to_root(run.schedule.collective) &&
        Rank{static_cast<int32_t>(rank)} != run.schedule.root) {
      (*expected)[rank] = inputs[rank];
    }
  }
  EXPECT_EQ(run_wide<T>(run, inputs), *expected);
}

TYPED_TEST(WideTest, SumsAreRoundedOnceWhateverTheSchedule) {
  Rng rng(20261124);
  for (int32_t ranks = 2; ranks <= 5; ++ranks) {
    for (const Schedule& schedule : reducing_schedules(ranks, rng)) {
      for (const int64_t count : {0, 1, 37}) {
        for (const bool in_place : {false, true}) {
          SCOPED_TRACE(std::string(to_text(schedule.collective)) + " on " + std::to_string(ranks) +
                       " ranks, " + std::to_string(count) + (in_place ? " in place" : ""));
          expect_rounded_once<TypeParam>({.schedule = schedule,
                                          .count = count,
                                          .in_place = in_place,
                                          .segment_count = 1 + support::pick(rng, 3)},
                                         rng);
        }
      }
    }
  }
}

TYPED_TEST(WideTest, BitsAreThoseOfTheScheduleOverEveryTransport) {
  Rng rng(5);
  const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 3);
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    for (const int32_t segments : {1, 3}) {
      for (const int64_t count : {25, 300'001}) {  // the latter exceeds places
        SCOPED_TRACE(std::string(transport) + ", " + std::to_string(segments) + " segments of " +
                     std::to_string(count));
        expect_rounded_once<TypeParam>(
            {.schedule = ring, .count = count, .segment_count = segments, .transport = transport},
            rng);
      }
    }
  }
}

// A serial reference in double: values whose results are exact in it.
double serial(ReduceOp op, const std::vector<Floats>& inputs, std::size_t index) {
  double result = inputs.front()[index];
  for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
    const double value = inputs[rank][index];
    result = op == ReduceOp::kMin       ? std::min(result, value)
             : op == ReduceOp::kMax     ? std::max(result, value)
             : op == ReduceOp::kProduct ? result * value
                                        : result + value;
  }
  return op == ReduceOp::kAverage ? result / static_cast<double>(inputs.size()) : result;
}

TYPED_TEST(WideTest, EveryReductionIsTheSerialOneRoundedOnce) {
  constexpr int64_t kCount = 41;
  Rng rng(6);
  for (const ReduceOp op :
       {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kAverage}) {
    for (int32_t ranks = 2; ranks <= 5; ++ranks) {
      for (const bool in_place : {false, true}) {
        SCOPED_TRACE(std::string(to_text(op)) + " on " + std::to_string(ranks));
        const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, ranks);
        std::vector<Floats> inputs(at(ranks), Floats(kCount));
        for (Floats& input : inputs) {
          std::ranges::generate(input, [&] { return static_cast<float>(rng.below(17)) - 8; });
        }
        Floats expected(kCount);
        for (std::size_t i = 0; i < kCount; ++i) {
          expected[i] = rounded<TypeParam>(static_cast<float>(serial(op, inputs, i)));
        }
        EXPECT_EQ(run_wide<TypeParam>(
                      {.schedule = ring, .count = kCount, .op = op, .in_place = in_place}, inputs),
                  std::vector<Floats>(at(ranks), expected));
      }
    }
  }
}

// A sum beyond the type is none of its average.
TEST(WireTest, AveragesOfLargeValuesDoNotOverflow) {
  const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 3);
  const std::vector<Floats> inputs(3, Floats(5, 60'000));
  EXPECT_EQ(run_wide<Float16>({.schedule = ring, .count = 5, .op = ReduceOp::kAverage}, inputs),
            std::vector<Floats>(3, Floats(5, rounded<Float16>(60'000))));
}

// |error| ≤ ((1 + u)(1 + 2^-24)^(ranks - 1) - 1) · sum of magnitudes, whatever the depth.
TYPED_TEST(WideTest, TheErrorIsThatOfOneRounding) {
  constexpr int32_t kRanks = 16;
  constexpr int64_t kCount = 1600;
  const double unit = std::ldexp(1, std::is_same_v<TypeParam, Float16> ? -11 : -8);
  const double bound = (1 + unit) * std::pow(1 + std::ldexp(1, -24), kRanks - 1) - 1;
  Rng rng(8);
  for (const auto& [name, schedule] :
       {std::pair("direct", support::direct_schedule(CollectiveKind::kAllReduce, kRanks)),
        std::pair("halving", support::halving_schedule(kRanks)),
        std::pair("ring", support::ring_schedule(CollectiveKind::kAllReduce, kRanks))}) {
    std::vector<Floats> inputs(kRanks, Floats(kCount));
    for (Floats& input : inputs) {
      std::ranges::generate(
          input, [&] { return rounded<TypeParam>(static_cast<float>(rng.unit() + 0.5)); });
    }
    const std::vector<Floats> outputs =
        run_wide<TypeParam>({.schedule = schedule, .count = kCount}, inputs);
    double worst = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      const double exact = serial(ReduceOp::kSum, inputs, i);  // all are positive
      worst = std::max(worst, std::abs(outputs.front()[i] - exact) / exact);
    }
    this->RecordProperty(name, std::to_string(worst / unit));
    EXPECT_LE(worst, bound) << name;
    EXPECT_EQ(outputs, std::vector<Floats>(kRanks, outputs.front())) << name;
  }
}

struct WireCase {
  CollectiveKind collective;
  ElementType type;
  ElementType wire;
  const char* says;  // empty: it runs
};

TEST(WireTest, OnlyHalvesThatAreReducedTravelWide) {
  const std::vector<WireCase> cases = {
      {CollectiveKind::kAllReduce, ElementType::kFloat16, ElementType::kFloat16, ""},
      {CollectiveKind::kAllReduce, ElementType::kFloat32, ElementType::kFloat32, ""},
      {CollectiveKind::kAllGather, ElementType::kFloat16, ElementType::kFloat32,
       "all_gather of float16 cannot travel as float32"},
      {CollectiveKind::kAllReduce, ElementType::kFloat64, ElementType::kFloat32,
       "all_reduce of float64 cannot travel as float32"},
      {CollectiveKind::kAllReduce, ElementType::kFloat32, ElementType::kBFloat16,
       "all_reduce of float32 cannot travel as bfloat16"}};
  for (const WireCase& row : cases) {
    support::with_communicators(2, [&](std::unique_ptr<Communicator> communicator) {
      const Schedule schedule = support::direct_schedule(row.collective, 2);
      const auto prepared =
          communicator->prepare(communicator->rank().value == 0 ? &schedule : nullptr);
      std::vector<double> data(8);
      auto* const bytes = std::as_writable_bytes(std::span(data)).data();
      const Status status = communicator->run(
          **prepared,
          {.type = row.type, .wire = row.wire, .count = 8, .input = bytes, .output = bytes});
      const std::string said = status ? "" : status.error().message;
      EXPECT_EQ(said.empty(), *row.says == '\0') << said;
      EXPECT_NE(said.find(row.says), std::string::npos) << said;
      if (status) {
        EXPECT_TRUE(communicator->close().has_value());
      }
    });
  }
}

TEST(WireTest, RanksThatDisagreeAreToldBothSides) {
  for (const int32_t wide_rank : {0, 1}) {
    support::with_communicators(2, [&](std::unique_ptr<Communicator> communicator) {
      const Rank rank = communicator->rank();
      const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 2);
      const auto prepared = communicator->prepare(rank.value == 0 ? &ring : nullptr);
      std::vector<BFloat16> data(8);
      auto* const bytes = std::as_writable_bytes(std::span(data)).data();
      RunRequest request{.type = ElementType::kBFloat16,
                         .count = std::ssize(data),
                         .input = bytes,
                         .output = bytes};
      if (rank.value == wide_rank) {
        request.wire = ElementType::kFloat32;
      }
      const Status status = communicator->run(**prepared, request);
      ASSERT_FALSE(status.has_value());
      const std::string wide = "8 bfloat16 sum (wire float32)", narrow = "8 bfloat16 sum";
      EXPECT_EQ(status.error().message, "operation 1: rank 1 runs all_reduce of " +
                                            (wide_rank == 1 ? wide : narrow) + ", rank 0 of " +
                                            (wide_rank == 1 ? narrow : wide));
    });
  }
}

}  // namespace
}  // namespace pleach
