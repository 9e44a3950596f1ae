// fill_routes: whose bytes are balanced over what. The routes themselves: topology/spread_routes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "pleach/collective/bounds.h"
#include "pleach/collective/schedule.h"
#include "pleach/collective/verify.h"
#include "pleach/topology/shapes.h"

namespace pleach {
namespace {

Topology topology_of(const std::string& spec) {
  return parse_topology(spec).value();
}

// Every rank sends each other rank its block, in one step, by routes still to be found.
Schedule all_to_all(const Topology& topology) {
  Schedule schedule;
  schedule.collective = CollectiveKind::kAllToAll;
  schedule.participants.assign(topology.rank_nodes().begin(), topology.rank_nodes().end());
  const int32_t count = schedule.rank_count();
  schedule.chunks = ChunkGrid::uniform(count * count);
  schedule.phase_steps = {1};
  for (int32_t source = 0; source < count; ++source) {
    for (int32_t target = 0; target < count; ++target) {
      if (source != target) {
        schedule.transfers.push_back(
            {source * count + target, 1, NodeId{source}, NodeId{target}, 0, kNoRoute});
      }
    }
  }
  return schedule;
}

// The same in the symmetric form: what rank 0 sends.
Schedule symmetric_all_to_all(const Topology& topology, std::vector<int32_t> dimensions) {
  Schedule schedule = all_to_all(topology);
  std::erase_if(schedule.transfers,
                [](const Transfer& transfer) { return transfer.source != NodeId{0}; });
  schedule.symmetry = Symmetry{std::move(dimensions)};
  return schedule;
}

double fraction(Schedule schedule, const Topology& topology) {
  EXPECT_TRUE(certify(schedule, topology));
  return schedule.provenance.certificate.fraction;
}

TEST(FillRoutes, BalancesASymmetricScheduleByItsTranslates) {
  const Topology plain = topology_of("torus:4x4");
  const Topology spread = topology_of("torus:4x4,routing=spread");
  EXPECT_NEAR(fraction(symmetric_all_to_all(plain, {4, 4}), plain), 2.0 / 3, 1e-9);
  EXPECT_NEAR(fraction(symmetric_all_to_all(spread, {4, 4}), spread), 1, 1e-9);
  Schedule schedule = symmetric_all_to_all(spread, {4, 4});
  ASSERT_TRUE(fill_routes(schedule, spread));
  EXPECT_TRUE(verify(schedule, &spread).correct);
  const Result<Schedule> written_out = expand(schedule, &spread);
  ASSERT_TRUE(written_out);
  EXPECT_EQ(written_out->transfers.size(), 240U);
  EXPECT_NEAR(fraction(*written_out, spread), 1, 1e-9);
}

TEST(FillRoutes, WeighsTransfersByTheirBytes) {
  // One block is as large as all others of its step together: it gets a spine for itself.
  const Topology topology = topology_of("leaf_spine:2x2,routing=spread");
  Schedule schedule;
  schedule.collective = CollectiveKind::kAllGather;
  schedule.participants = {NodeId{0}, NodeId{1}, NodeId{2}, NodeId{3}};
  schedule.chunks = ChunkGrid::uniform(4);
  schedule.phase_steps = {2};
  schedule.transfers = {{0, 3, NodeId{0}, NodeId{2}, 0},
                        {0, 1, NodeId{1}, NodeId{2}, 0},
                        {0, 1, NodeId{1}, NodeId{3}, 0},
                        {1, 1, NodeId{1}, NodeId{3}, 0},
                        {2, 2, NodeId{2}, NodeId{0}, 0}};
  ASSERT_TRUE(fill_routes(schedule, topology));
  std::map<LinkId, int32_t> load;
  for (const Transfer& transfer : schedule.transfers) {
    ASSERT_NE(transfer.route, kNoRoute);
    if (transfer.source.value < 2) {
      load[schedule.routes[transfer.route][1]] += transfer.chunk_count;
    }
  }
  ASSERT_EQ(load.size(), 2U);
  EXPECT_EQ(load.begin()->second, 3);
  EXPECT_EQ(load.rbegin()->second, 3);
}

TEST(FillRoutes, GivesStepsOfTheSameTrafficTheSameRoutes) {
  const Topology topology = topology_of("leaf_spine:2x4,routing=spread");
  Schedule schedule = all_to_all(topology);
  const std::vector<Transfer> first = schedule.transfers;
  for (Transfer transfer : first) {
    transfer.step = 1;
    schedule.transfers.push_back(transfer);
  }
  schedule.phase_steps = {2};
  ASSERT_TRUE(fill_routes(schedule, topology));
  std::map<std::pair<NodeId, NodeId>, std::set<int32_t>> routes;
  for (const Transfer& transfer : schedule.transfers) {
    routes[{transfer.source, transfer.target}].insert(transfer.route);
  }
  ASSERT_EQ(routes.size(), 56U);
  for (const auto& [ends, taken] : routes) {
    EXPECT_EQ(taken.size(), 1U);
  }
}

// What one pair sends in a step goes several ways where it is several transfers.
TEST(FillRoutes, SpreadsTheTransfersOfOnePair) {
  const Topology topology = topology_of("leaf_spine:2x1,spines=4,routing=spread");
  Schedule schedule;
  schedule.collective = CollectiveKind::kBroadcast;
  schedule.participants = {NodeId{0}, NodeId{1}};
  schedule.chunks = ChunkGrid::uniform(16);
  schedule.phase_steps = {1};
  for (const int32_t chunk : {5, 0, 2, 1, 3, 4, 12, 6, 7, 8, 9, 11, 10, 13}) {
    schedule.transfers.push_back({chunk, chunk == 13 ? 3 : 1, NodeId{0}, NodeId{1}, 0});
  }
  ASSERT_TRUE(fill_routes(schedule, topology));
  std::map<LinkId, int32_t> load;
  for (const Transfer& transfer : schedule.transfers) {
    load[schedule.routes[transfer.route][1]] += transfer.chunk_count;
  }
  ASSERT_EQ(load.size(), 4U);
  for (const auto& [link, chunks] : load) {
    EXPECT_GE(chunks, 3);
    EXPECT_LE(chunks, 5);
  }
}

TEST(FillRoutes, KeepsRoutesThatAreGivenAndCountsThem) {
  const Topology topology = topology_of("leaf_spine:2x2,routing=spread");
  Schedule schedule = all_to_all(topology);
  // What leaves rank 0 goes over spine 0, by the file's word.
  Schedule by_default = schedule;
  ASSERT_TRUE(fill_routes(by_default, topology_of("leaf_spine:2x2")));
  std::set<int32_t> given;
  for (std::size_t index = 0; index < schedule.transfers.size(); ++index) {
    if (schedule.transfers[index].source == NodeId{0}) {
      schedule.transfers[index].route =
          schedule.routes.add(by_default.routes[by_default.transfers[index].route]);
      given.insert(schedule.transfers[index].route);
    }
  }
  EXPECT_EQ(given.size(), 3U);
  ASSERT_TRUE(fill_routes(schedule, topology));
  std::map<LinkId, int32_t> ups;
  for (const Transfer& transfer : schedule.transfers) {
    EXPECT_EQ(given.contains(transfer.route), transfer.source == NodeId{0});
    if (transfer.source.value < 2 && transfer.target.value >= 2) {
      ++ups[schedule.routes[transfer.route][1]];
    }
  }
  ASSERT_EQ(ups.size(), 2U);  // rank 1 is left the other spine
  EXPECT_EQ(ups.begin()->second, 2);
}

TEST(FillRoutes, NamesNodesThatTheTopologyLacks) {
  for (const std::string routing : {"shortest", "spread", "ecmp"}) {
    const Topology topology = topology_of("ring:4,routing=" + routing);
    Schedule schedule = all_to_all(topology);
    schedule.transfers[3].target = NodeId{9};
    EXPECT_EQ(fill_routes(schedule, topology).error().message,
              "transfers[3]: the topology ring:4" +
                  std::string(routing == "shortest" ? "" : ",routing=" + routing) +
                  " has 4 nodes, not node 9");
  }
}

}  // namespace
}  // namespace pleach
