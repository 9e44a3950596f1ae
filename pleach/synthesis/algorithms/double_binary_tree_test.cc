// The two trees and their colours.
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/synthesis/algorithm.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

Schedule trees_of(int32_t rank_count) {
  const Topology topology = support::topology_of("switch:" + std::to_string(rank_count));
  Result<Schedule> schedule =
      synthesize({topology, {}, CollectiveKind::kAllReduce}, "double_binary_tree");
  EXPECT_TRUE(schedule) << schedule.error().message;
  return std::move(schedule).value();
}

// By tree and rank, how many children it sends to on the way down.
std::array<std::vector<int32_t>, 2> children_of(const Schedule& schedule) {
  std::array<std::vector<int32_t>, 2> children;
  children.fill(std::vector<int32_t>(at(schedule.rank_count())));
  for (const Transfer& transfer : schedule.transfers) {
    if (transfer.op == TransferOp::kCopy) {
      ++children[at(transfer.first_chunk)][transfer.source.index()];
    }
  }
  return children;
}

TEST(DoubleBinaryTree, WhoeverIsInsideOneTreeIsALeafOfTheOther) {
  for (int32_t rank_count = 2; rank_count <= 40; ++rank_count) {
    SCOPED_TRACE(rank_count);
    const auto children = children_of(trees_of(rank_count));
    int32_t leaves_of_both = 0;
    for (int32_t rank = 0; rank < rank_count; ++rank) {
      const int32_t first = children[0][at(rank)], second = children[1][at(rank)];
      EXPECT_LE(std::max(first, second), 2);
      EXPECT_EQ(std::min(first, second), 0);
      leaves_of_both += first + second == 0 ? 1 : 0;
    }
    EXPECT_EQ(leaves_of_both, rank_count % 2);
  }
}

// Both trees together, in every step of one segment.
TEST(DoubleBinaryTree, NobodySendsOrReceivesTwiceInAStep) {
  for (int32_t rank_count = 2; rank_count <= 40; ++rank_count) {
    SCOPED_TRACE(rank_count);
    const Schedule schedule = trees_of(rank_count);
    std::set<std::pair<int32_t, int32_t>> sent, received;
    for (const Transfer& transfer : schedule.transfers) {
      EXPECT_TRUE(sent.emplace(transfer.step, transfer.source.value).second);
      EXPECT_TRUE(received.emplace(transfer.step, transfer.target.value).second);
    }
  }
}

TEST(DoubleBinaryTree, TakesStepsAsTheLogarithm) {
  for (const int32_t rank_count : {4, 16, 64, 256}) {
    const auto levels = static_cast<int32_t>(std::bit_width(static_cast<uint32_t>(rank_count)));
    EXPECT_LE(trees_of(rank_count).step_count(), 4 * levels) << rank_count;
  }
}

}  // namespace
}  // namespace pleach
