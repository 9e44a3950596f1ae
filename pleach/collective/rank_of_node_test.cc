#include "pleach/collective/rank_of_node.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pleach {
namespace {

TEST(RankOfNode, NumbersParticipants) {
  struct Case {
    std::string name;
    std::vector<NodeId> participants;
    std::size_t node_count;
    std::vector<int32_t> ranks;  // of nodes 0, 1, ...
  };
  const std::vector<Case> cases = {
      {"none", {}, 4, {kNoRank, kNoRank}},
      {"all", {NodeId{0}, NodeId{1}}, 2, {0, 1, kNoRank}},
      {"some, in their order",
       {NodeId{5}, NodeId{0}, NodeId{3}},
       6,
       {1, kNoRank, kNoRank, 2, kNoRank, 0, kNoRank}},
      {"twice", {NodeId{1}, NodeId{0}, NodeId{1}}, 2, {1, 0}},
      {"outside", {NodeId{-1}, NodeId{2}, NodeId{INT32_MAX}, NodeId{1}}, 2, {kNoRank, 3, kNoRank}},
  };
  for (const Case& row : cases) {
    const RankOfNode rank_of(row.participants, row.node_count);
    for (int32_t node = 0; node < count_of(row.ranks); ++node) {
      EXPECT_EQ(rank_of(NodeId{node}), row.ranks[at(node)]) << row.name << ", node " << node;
    }
    EXPECT_EQ(rank_of(NodeId{}), kNoRank) << row.name;
    EXPECT_EQ(rank_of(NodeId{INT32_MAX}), kNoRank) << row.name;
  }
  EXPECT_EQ(RankOfNode()(NodeId{0}), kNoRank);
}

}  // namespace
}  // namespace pleach
