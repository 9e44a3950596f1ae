#include "pleach/training/training_phases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "pleach/base/index.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

using support::topology_of;

std::vector<TrainingPhase> phases_of(const std::string& spec, const std::string& text) {
  const Topology topology = topology_of(spec);
  const auto strategy = parse_strategy(text, count_of(topology.rank_nodes()));
  PLEACH_CHECK(strategy, strategy ? "" : strategy.error().message.c_str());
  auto phases = training_phases(topology, *strategy);
  PLEACH_CHECK(phases, "");
  return std::move(*phases);
}

std::vector<std::vector<int32_t>> ranks_of(const std::vector<NodeGroup>& groups) {
  std::vector<std::vector<int32_t>> ranks;
  for (const NodeGroup& group : groups) {
    ranks.emplace_back();
    for (const NodeId node : group) {
      ranks.back().push_back(node.value);
    }
  }
  return ranks;
}

TEST(TrainingPhases, AreWhatRanksCommunicate) {
  using Ranks = std::vector<std::vector<int32_t>>;
  const struct {
    std::string strategy;
    std::vector<std::pair<std::string, Ranks>> phases;
  } cases[] = {
      {"dp=2,tp=2,pp=2",
       {{"tensor", {{0, 1}, {2, 3}, {4, 5}, {6, 7}}},
        {"pipeline forward", {{0, 2}, {1, 3}, {4, 6}, {5, 7}}},
        {"pipeline backward", {{2, 0}, {3, 1}, {6, 4}, {7, 5}}},
        {"data", {{0, 4}, {1, 5}, {2, 6}, {3, 7}}}}},
      {"dp=2,tp=2,pp=2,outputs=multicast",
       {{"tensor", {{0, 1}, {2, 3}, {4, 5}, {6, 7}}},
        {"pipeline forward", {{0, 2, 3}, {4, 6, 7}}},
        {"pipeline backward", {{2, 0, 1}, {6, 4, 5}}},
        {"data", {{0, 4}, {1, 5}, {2, 6}, {3, 7}}}}},
      {"dp=4,ep=2,sp=2",
       {{"sequence", {{0, 1}, {2, 3}, {4, 5}, {6, 7}}},
        {"expert", {{0, 2}, {1, 3}, {4, 6}, {5, 7}}},
        {"data", {{0, 1, 2, 3, 4, 5, 6, 7}}},
        {"expert data", {{0, 1, 4, 5}, {2, 3, 6, 7}}}}},
      {"pp=4,dp=1,tp=2,stream=1GB/s,outputs=multicast",
       {{"tensor", {{0, 1}, {2, 3}, {4, 5}, {6, 7}}},
        {"pipeline forward", {{0, 2, 3}, {2, 4, 5}, {4, 6, 7}, {6, 0, 1}}},
        {"pipeline backward", {{0, 6, 7}, {2, 0, 1}, {4, 2, 3}, {6, 4, 5}}}}},
      {"dp=2,pp=1,placement=7-3,idle=6", {{"data", {{3, 7}}}}},
      {"dp=1,idle=7", {}},
  };
  for (const auto& [text, wanted] : cases) {
    std::vector<std::pair<std::string, Ranks>> found;
    for (const TrainingPhase& phase : phases_of("switch:8", text)) {
      ASSERT_EQ(phase.rounds.size(), 1U);
      found.emplace_back(phase.name, ranks_of(phase.rounds.front()));
    }
    EXPECT_EQ(found, wanted) << text;
  }
}

// Each I/O node is with each group of ranks that share weights once, and nobody twice in a round;
// more groups than I/O nodes, as many, and fewer.
TEST(TrainingPhases, StreamsMeetEachGroupOnce) {
  const struct {
    std::string spec;
    std::string strategy;
    std::size_t io, groups;
  } cases[] = {
      {"wafer_mesh:5x4", "dp=5,tp=2,pp=2", 18, 4}, {"wafer_mesh:5x4", "dp=20", 18, 1},
      {"wafer_mesh:5x4", "dp=1,tp=20", 18, 20},    {"wafer_mesh:2x2", "dp=1,tp=4", 8, 4},
      {"wafer_mesh:3x3", "dp=1,tp=9", 12, 9},
  };
  for (const auto& [spec, strategy, io, groups] : cases) {
    const std::vector<TrainingPhase> phases = phases_of(spec, strategy);
    const TrainingPhase& in = phases[phases.size() - 2];
    EXPECT_EQ(in.name, "stream in");
    EXPECT_EQ(in.rounds, phases.back().rounds);
    EXPECT_EQ(in.rounds.size(), std::max(io, groups)) << strategy;
    std::set<std::pair<NodeId, NodeGroup>> met;
    for (const std::vector<NodeGroup>& round : in.rounds) {
      EXPECT_EQ(round.size(), std::min(io, groups));
      std::set<NodeId> busy;
      for (const NodeGroup& group : round) {
        for (const NodeId node : group) {
          EXPECT_TRUE(busy.insert(node).second);
        }
        met.emplace(group.front(), NodeGroup(group.begin() + 1, group.end()));
      }
    }
    EXPECT_EQ(met.size(), io * groups);
  }
}

}  // namespace
}  // namespace pleach
