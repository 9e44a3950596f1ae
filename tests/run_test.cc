// Every algorithm's schedules on real ranks: the bits of the two-phase pass, under delays.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/collective/reference.h"
#include "pleach/collective/verify.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/topology/shapes.h"
#include "tests/support/rank_threads.h"
#include "tests/support/two_phase.h"

namespace pleach {
namespace {

using support::Floats;

std::vector<Floats> random_inputs(const Schedule& schedule, int64_t count, Rng& rng) {
  const Result<Placement> placement = Placement::create(schedule, count);
  std::vector<Floats> inputs;
  for (int32_t rank = 0; rank < schedule.rank_count(); ++rank) {
    Floats& input = inputs.emplace_back(at(placement->sizes(Rank{rank}).input));
    for (float& value : input) {
      value = static_cast<float>(rng.unit() * static_cast<double>(1 << rng.below(20)));
    }
  }
  return inputs;
}

void expect_runs(const Schedule& schedule, const support::RunSetup& setup, Rng& rng) {
  // The oracle knows plain schedules only.
  const Result<Schedule> plain = expand(schedule, nullptr);
  ASSERT_TRUE(plain.has_value()) << plain.error().message;
  const std::vector<Floats> inputs = random_inputs(schedule, setup.count, rng);
  const auto expected = support::two_phase_outputs(*plain, setup.count, inputs, 0);
  ASSERT_TRUE(expected.has_value());
  const support::RunOutcome outcome = support::run_schedule(
      schedule, setup,
      [&](Rank rank, std::span<std::byte> input) {
        if (!input.empty()) {
          std::memcpy(input.data(), inputs[rank.index()].data(), input.size());
        }
      },
      std::byte{0});
  const bool keeps_inputs = setup.in_place && schedule.collective == CollectiveKind::kReduce;
  for (int32_t rank = 0; rank < schedule.rank_count(); ++rank) {
    const auto index = at(rank);
    ASSERT_EQ(outcome.errors[index], "") << "rank " << rank;
    const Floats& wanted =
        keeps_inputs && Rank{rank} != schedule.root ? inputs[index] : (*expected)[index];
    const auto bytes = std::as_bytes(std::span(wanted));
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), outcome.outputs[index].begin(),
                           outcome.outputs[index].end()))
        << "rank " << rank;
  }
  const Status replayed = replay(Order::build(schedule), outcome.records, setup.segment_count,
                                 schedule.symmetry ? schedule.rank_count() : 1);
  EXPECT_TRUE(replayed.has_value()) << replayed.error().message;
}

TEST(RunTest, EverySynthesisedScheduleGivesTheBitsOfItsProof) {
  constexpr uint64_t kSeed = 20240610;
  Rng rng(kSeed);
  int32_t executed = 0;
  for (const std::string spec :
       {"fully_connected:2", "ring:5", "fully_connected:8", "torus:2x4", "mesh:3x3", "torus:3x3"}) {
    const Result<Topology> topology = parse_topology(spec);
    ASSERT_TRUE(topology.has_value()) << topology.error().message;
    for (const Algorithm* algorithm : algorithms()) {
      for (const CollectiveKind collective : algorithm->collectives) {
        const SynthesisRequest request{*topology, {}, collective};
        const Result<Schedule> schedule = synthesize(request, algorithm->name);
        if (!schedule) {
          continue;  // not on this topology
        }
        SCOPED_TRACE(spec + " " + algorithm->name + " " + std::string(to_text(collective)) +
                     ", seed " + std::to_string(kSeed));
        ++executed;
        const auto ranks = static_cast<int64_t>(schedule->rank_count());
        const int64_t per_rank = static_cast<int64_t>(rng.below(60));
        const bool is_exchange = collective == CollectiveKind::kAllToAll;
        const int64_t odd = is_exchange ? 0 : static_cast<int64_t>(rng.below(8));
        expect_runs(*schedule,
                    {.count = per_rank * ranks + odd,
                     .segment_count = static_cast<int32_t>(1 + rng.below(4)),
                     .landing_places = static_cast<int32_t>(1 + rng.below(2)),
                     .in_place = rng.below(2) == 0,
                     .delay_seed = rng.below(1000)},
                    rng);
      }
    }
  }
  EXPECT_GT(executed, 40);
}

TEST(RunTest, TcpRunsATorusOfSixteen) {
  const Result<Topology> topology = parse_topology("torus:4x4");
  ASSERT_TRUE(topology.has_value()) << topology.error().message;
  const SynthesisRequest request{*topology, {}, CollectiveKind::kAllReduce};
  const Result<Schedule> schedule = synthesize(request, "multitree");
  ASSERT_TRUE(schedule.has_value()) << schedule.error().message;
  Rng rng(4);
  expect_runs(*schedule, {.count = 100'003, .segment_count = 4, .transport = "tcp"}, rng);
}

}  // namespace
}  // namespace pleach
