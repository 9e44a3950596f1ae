#include "pleach/collective/schedule.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <vector>

namespace pleach {
namespace {

Schedule make() {
  Schedule schedule;
  schedule.participants = {NodeId{0}, NodeId{1}, NodeId{2}};
  schedule.chunks = ChunkGrid::weighted({1, 2});
  schedule.period = 2;
  schedule.phase_steps = {1, 1};
  schedule.transfers = {{0, 1, NodeId{0}, NodeId{1}, 0, 0, TransferOp::kReduce},
                        {0, 2, NodeId{1}, NodeId{2}, 1, kNoRoute, TransferOp::kCopy}};
  const std::vector<LinkId> route = {LinkId{0}, LinkId{3}};
  schedule.routes.add(route);
  return schedule;
}

TEST(Schedule, CountsStepsAndTransfers) {
  Schedule schedule = make();
  EXPECT_EQ(schedule.step_count(), 2);
  EXPECT_EQ(schedule.transfer_count(), 2);
  schedule.symmetry = Symmetry{{3}};
  EXPECT_EQ(schedule.transfer_count(), 6);
  schedule.phase_steps = {INT32_MAX, INT32_MAX};
  EXPECT_EQ(schedule.step_count(), INT32_MAX);
  schedule.phase_steps = {};
  EXPECT_EQ(schedule.step_count(), 0);
}

TEST(Schedule, SortsTransfers) {
  Schedule schedule = make();
  const Schedule sorted = schedule;
  std::swap(schedule.transfers[0], schedule.transfers[1]);
  EXPECT_NE(schedule, sorted);
  sort_transfers(schedule);
  EXPECT_EQ(schedule, sorted);
}

TEST(RouteTable, KeepsRoutes) {
  RouteTable routes;
  EXPECT_EQ(routes.size(), 0);
  const std::vector<LinkId> links = {LinkId{4}, LinkId{1}};
  EXPECT_EQ(routes.add(links), 0);
  EXPECT_EQ(routes.add({}), 1);
  EXPECT_EQ(routes.size(), 2);
  EXPECT_EQ(std::vector<LinkId>(routes[0].begin(), routes[0].end()), links);
  EXPECT_TRUE(routes[1].empty());
}

TEST(ScheduleHash, DependsOnAllButTheProvenance) {
  const std::vector<std::function<void(Schedule&)>> changes = {
      [](Schedule&) {},
      [](Schedule& s) { s.collective = CollectiveKind::kReduce; },
      [](Schedule& s) { s.root = Rank{1}; },
      [](Schedule& s) { s.participants[2] = NodeId{3}; },
      [](Schedule& s) {
        s.chunks = ChunkGrid::weighted({2, 1});
      },
      [](Schedule& s) { s.chunks = ChunkGrid::uniform(2); },
      [](Schedule& s) { s.period = 1; },
      [](Schedule& s) { s.phase_steps = {2}; },
      [](Schedule& s) { s.transfers[0].first_chunk = 1; },
      [](Schedule& s) { s.transfers[0].chunk_count = 2; },
      [](Schedule& s) { s.transfers[0].source = NodeId{2}; },
      [](Schedule& s) { s.transfers[0].target = NodeId{2}; },
      [](Schedule& s) { s.transfers[0].step = 1; },
      [](Schedule& s) { s.transfers[0].route = kNoRoute; },
      [](Schedule& s) { s.transfers[0].op = TransferOp::kCopy; },
      [](Schedule& s) { s.transfers.pop_back(); },
      [](Schedule& s) { s.routes.add({}); },
      [](Schedule& s) { s.symmetry = Symmetry{}; },
      [](Schedule& s) { s.symmetry = Symmetry{{3}}; },
  };
  std::set<uint64_t> hashes;
  for (const auto& change : changes) {
    Schedule schedule = make();
    change(schedule);
    hashes.insert(schedule_hash(schedule));
  }
  EXPECT_EQ(hashes.size(), changes.size());
  Schedule other = make();
  other.provenance.algorithm = "ring";
  EXPECT_EQ(schedule_hash(other), schedule_hash(make()));
}

// What follows equal chunks must not be read as weights: the numbers of both are the same but for
// whether the grid has weights.
TEST(ScheduleHash, TellsEqualChunksFromWeights) {
  Schedule equal;
  equal.participants = {NodeId{0}, NodeId{1}};
  equal.chunks = ChunkGrid::uniform(3);
  equal.period = 1;
  equal.phase_steps = {1};
  equal.transfers = {{0, 1, NodeId{0}, NodeId{1}, 0, 0, TransferOp::kReduce}};
  equal.routes.add(std::vector<LinkId>{LinkId{2}});
  equal.symmetry = Symmetry{};
  Schedule weighted;
  weighted.participants = equal.participants;
  weighted.chunks = ChunkGrid::weighted({1, 1, 1});
  weighted.period = 1;
  weighted.phase_steps = {1};
  weighted.routes.add(std::vector<LinkId>{LinkId{1}});
  weighted.symmetry = Symmetry{{1}};
  EXPECT_NE(schedule_hash(equal), schedule_hash(weighted));
}

}  // namespace
}  // namespace pleach
