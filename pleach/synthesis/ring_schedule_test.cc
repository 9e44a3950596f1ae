#include "pleach/synthesis/ring_schedule.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "pleach/collective/verify.h"
#include "pleach/topology/shapes.h"

namespace pleach {
namespace {

Schedule schedule_of(const Topology& topology, CollectiveKind collective, const std::string& spec) {
  Result<Schedule> schedule = synthesize({topology, {}, collective}, spec);
  EXPECT_TRUE(schedule) << schedule.error().message;
  return std::move(schedule).value();
}

TEST(RingSchedule, SymmetricFormStandsForTheExplicitOne) {
  for (const char* algorithm : {"ring", "bidirectional_ring"}) {
    for (const int32_t rank_count : {2, 3, 4, 5, 8}) {
      const auto topology = parse_topology("ring:" + std::to_string(rank_count));
      ASSERT_TRUE(topology) << topology.error().message;
      for (const CollectiveKind collective :
           {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter,
            CollectiveKind::kAllGather}) {
        SCOPED_TRACE(std::string(algorithm) + " " + std::string(to_text(collective)) + " on " +
                     topology->name());
        const Schedule symmetric = schedule_of(*topology, collective, algorithm);
        ASSERT_TRUE(symmetric.symmetry);
        EXPECT_EQ(symmetric.symmetry->dimensions, std::vector<int32_t>{rank_count});
        const Schedule written =
            schedule_of(*topology, collective, algorithm + std::string(",form=explicit"));
        EXPECT_FALSE(written.symmetry);
        EXPECT_EQ(written.provenance.options, "form=explicit");
        const auto expanded = expand(symmetric, &*topology);
        ASSERT_TRUE(expanded) << expanded.error().message;
        ASSERT_EQ(expanded->transfers.size(), written.transfers.size());
        for (std::size_t k = 0; k < written.transfers.size(); ++k) {
          Transfer transfer = expanded->transfers[k];
          const auto route = expanded->routes[transfer.route];
          const auto expected_route = written.routes[written.transfers[k].route];
          EXPECT_TRUE(
              std::equal(route.begin(), route.end(), expected_route.begin(), expected_route.end()));
          transfer.route = written.transfers[k].route;
          EXPECT_EQ(transfer, written.transfers[k]);
        }
        EXPECT_EQ(expanded->chunks, written.chunks);
        EXPECT_EQ(expanded->phase_steps, written.phase_steps);
        EXPECT_EQ(expanded->period, written.period);
      }
    }
  }
}

struct FormCase {
  std::string topology;
  std::vector<NodeId> participants;
  CollectiveKind collective;
  bool is_symmetric;
};

TEST(RingSchedule, IsSymmetricOnWholeRingsInTheirOrderOnly) {
  const FormCase cases[] = {
      {"ring:6", {}, CollectiveKind::kAllReduce, true},
      {"ring:4", {{1}, {2}, {3}, {0}}, CollectiveKind::kAllReduce, true},
      {"ring:4", {{3}, {2}, {1}, {0}}, CollectiveKind::kAllReduce, true},
      {"ring:4", {{0}, {2}, {1}, {3}}, CollectiveKind::kAllReduce, false},
      {"ring:6", {{0}, {1}, {2}}, CollectiveKind::kAllReduce, false},
      {"ring:6", {}, CollectiveKind::kBroadcast, false},
      {"ring:6,without_link=2-3", {}, CollectiveKind::kAllReduce, false},
      {"ring:6,without_link=2>3", {}, CollectiveKind::kAllReduce, false},
      {"torus:3x3", {}, CollectiveKind::kAllReduce, false},
      {"mesh:6", {}, CollectiveKind::kAllReduce, false},
      {"fully_connected:4", {}, CollectiveKind::kAllReduce, false},
  };
  for (const FormCase& expected : cases) {
    SCOPED_TRACE(expected.topology);
    const auto topology = parse_topology(expected.topology);
    ASSERT_TRUE(topology) << topology.error().message;
    const auto schedule =
        synthesize({*topology, expected.participants, expected.collective}, "ring");
    ASSERT_TRUE(schedule) << schedule.error().message;
    EXPECT_EQ(schedule->symmetry.has_value(), expected.is_symmetric);
    EXPECT_TRUE(verify(*schedule, &*topology).correct);
  }
}

TEST(RingSchedule, StaysSmallOnThousandsOfRanks) {
  const auto topology = parse_topology("ring:4096");
  ASSERT_TRUE(topology) << topology.error().message;
  const Schedule schedule = schedule_of(*topology, CollectiveKind::kAllReduce, "ring");
  EXPECT_EQ(schedule.transfers.size(), 8190U);
  EXPECT_EQ(schedule.transfer_count(), int64_t{8190} * 4096);
  const Verification verification = verify(schedule, &*topology);
  EXPECT_TRUE(verification.correct);
  EXPECT_TRUE(verification.contention_free);
}

TEST(RingSchedule, LoadsBothDirectionsOfItsCablesAlike) {
  const auto topology = parse_topology("torus:4x4");
  ASSERT_TRUE(topology) << topology.error().message;
  const Schedule schedule =
      schedule_of(*topology, CollectiveKind::kAllReduce, "bidirectional_ring");
  std::map<std::pair<NodeId, NodeId>, int32_t> load;
  for (const Transfer& transfer : schedule.transfers) {
    ++load[{transfer.source, transfer.target}];
  }
  EXPECT_EQ(load.size(), 32U);
  for (const auto& [ends, count] : load) {
    EXPECT_EQ(count, 30) << ends.first.value << " -> " << ends.second.value;
  }
}

}  // namespace
}  // namespace pleach
