// HDRM's rank map, against the one that its authors' simulator gives.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "pleach/base/index.h"
#include "pleach/synthesis/algorithm.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

// Ranks 0, 1, 2, 3 of the exchange are nodes 0, 16, 20, 4: rank 0 exchanges halves with 1, then
// quarters with 2.
TEST(Hdrm, MapsRanksAsPublished) {
  const Topology topology = support::topology_of("bigraph:4x8");
  const auto schedule = synthesize({topology, {}, CollectiveKind::kAllReduce}, "hdrm");
  ASSERT_TRUE(schedule) << schedule.error().message;
  EXPECT_EQ(schedule->phase_steps, (std::vector<int32_t>{5, 5}));
  std::map<std::pair<int32_t, int32_t>, int32_t> partner;  // by step and node
  for (const Transfer& transfer : schedule->transfers) {
    partner[{transfer.step, transfer.source.value}] = transfer.target.value;
  }
  EXPECT_EQ((partner[{0, 0}]), 16);
  EXPECT_EQ((partner[{0, 20}]), 4);
  EXPECT_EQ((partner[{1, 0}]), 20);
  EXPECT_EQ((partner[{1, 16}]), 4);
  // The doubling goes back over the same exchanges.
  for (const auto& [place, target] : partner) {
    EXPECT_EQ((partner[{9 - place.first, place.second}]), target);
  }
}

// Half of the data first, between switches of different halves.
TEST(Hdrm, ExchangesHalvesAcrossTheGraph) {
  const Topology topology = support::topology_of("bigraph:2x8");
  const auto schedule = synthesize({topology, {}, CollectiveKind::kAllReduce}, "hdrm");
  ASSERT_TRUE(schedule) << schedule.error().message;
  for (const Transfer& transfer : schedule->transfers) {
    EXPECT_EQ(schedule->routes[transfer.route].size(), 3U) << "one cable between two switches";
    const int32_t bit = std::min(transfer.step, 7 - transfer.step);
    EXPECT_EQ(transfer.chunk_count, 16 >> (bit + 1));
  }
}

}  // namespace
}  // namespace pleach
