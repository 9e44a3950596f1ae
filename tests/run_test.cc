// Every algorithm's schedules on real ranks: the bits of the two-phase pass, under delays.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "pleach/synthesis/algorithm.h"
#include "pleach/topology/shapes.h"
#include "tests/support/two_phase_run.h"

namespace pleach {
namespace {

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
        support::expect_two_phase_bits(*schedule,
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
  support::expect_two_phase_bits(*schedule,
                                 {.count = 100'003, .segment_count = 4, .transport = "tcp"}, rng);
}

}  // namespace
}  // namespace pleach
