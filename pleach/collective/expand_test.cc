#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pleach/collective/schedule.h"
#include "pleach/collective/symmetry.h"
#include "pleach/collective/verify.h"
#include "tests/support/counterexamples.h"

namespace pleach {
namespace {

using support::kCopy;
using support::kReduce;
using support::make_schedule;

// Ring all_reduce, symmetric: block 0 travels once round to reduce and once to spread.
Schedule ring_all_reduce(int32_t rank_count, int32_t pieces) {
  std::vector<support::Move> moves;
  for (int32_t step = 0; step < 2 * (rank_count - 1); ++step) {
    const int32_t source = (step + 1) % rank_count;
    moves.push_back({0, pieces, source, (source + 1) % rank_count,
                     step < rank_count - 1 ? kReduce : kCopy, step});
  }
  Schedule schedule =
      make_schedule({.rank_count = rank_count, .chunk_count = rank_count * pieces}, moves);
  schedule.symmetry = Symmetry{{rank_count}};
  return schedule;
}

// Links 2i: i -> i+1, 2i+1: back.
Topology make_ring(int32_t rank_count) {
  TopologyBuilder builder("ring");
  for (int32_t i = 0; i < rank_count; ++i) {
    EXPECT_TRUE(builder.add_node({.name = "n" + std::to_string(i), .forwards = true}));
  }
  for (int32_t i = 0; i < rank_count; ++i) {
    EXPECT_TRUE(builder.add_cable({NodeId{i}, NodeId{(i + 1) % rank_count}, 1, 0}));
  }
  auto topology = std::move(builder).build();
  EXPECT_TRUE(topology);
  return *topology;
}

TEST(Expand, WritesEveryTranslateOut) {
  const Topology topology = make_ring(4);
  Schedule schedule = ring_all_reduce(4, 2);
  ASSERT_TRUE(fill_routes(schedule, topology));
  ASSERT_EQ(check_form(schedule, &topology), std::vector<std::string>{});
  const auto whole = expand(schedule, &topology);
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_FALSE(whole->symmetry);
  EXPECT_EQ(whole->transfer_count(), schedule.transfer_count());
  EXPECT_EQ(whole->routes.size(), 4) << "each link in the direction of the ring once";
  EXPECT_EQ(check_form(*whole, &topology), std::vector<std::string>{});
  const Verification proof = verify(*whole, &topology);
  EXPECT_TRUE(proof.correct) << testing::PrintToString(proof.violations);
  EXPECT_TRUE(proof.contention_free);
  // In step s rank r sends block r - s - 1.
  for (const Transfer& transfer : whole->transfers) {
    const int32_t rank = transfer.source.value;
    EXPECT_EQ(transfer.first_chunk, 2 * ((rank + 7 - transfer.step) % 4));
    EXPECT_EQ(transfer.chunk_count, 2);
    EXPECT_EQ(whole->routes[transfer.route].front(), LinkId{2 * rank});
  }
}

TEST(Expand, MovesExchanges) {
  Schedule schedule =
      make_schedule({.collective = CollectiveKind::kAllToAll, .rank_count = 6, .chunk_count = 36},
                    {{1, 1, 0, 1, kCopy, 0},
                     {2, 1, 0, 2, kCopy, 1},
                     {3, 1, 0, 3, kCopy, 2},
                     {4, 1, 0, 4, kCopy, 3},
                     {5, 1, 0, 5, kCopy, 4}});
  schedule.symmetry = Symmetry{{2, 3}};
  schedule.participants = {NodeId{7}, NodeId{3}, NodeId{0}, NodeId{1}, NodeId{9}, NodeId{4}};
  for (Transfer& transfer : schedule.transfers) {
    transfer.source = schedule.participants[transfer.source.index()];
    transfer.target = schedule.participants[transfer.target.index()];
  }
  const auto whole = expand(schedule, nullptr);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->transfers.size(), 30u);
  const Verification proof = verify(*whole, nullptr);
  EXPECT_TRUE(proof.correct) << testing::PrintToString(proof.violations);
}

TEST(Expand, WithoutATopologyDropsRoutes) {
  Schedule schedule = ring_all_reduce(3, 1);
  for (Transfer& transfer : schedule.transfers) {
    transfer.route = 0;
  }
  schedule.routes.add(std::vector<LinkId>{LinkId{0}});
  const auto whole = expand(schedule, nullptr);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->routes.size(), 0);
  EXPECT_EQ(whole->transfers.front().route, kNoRoute);
}

TEST(Expand, CopiesTheExplicitFormAndKeepsToTheLimit) {
  const Schedule plain = make_schedule({.rank_count = 2}, {{0, 1, 0, 1, kReduce, 0}});
  EXPECT_EQ(*expand(plain, nullptr), plain);
  EXPECT_FALSE(expand(plain, nullptr, 0));
  const Schedule schedule = ring_all_reduce(4, 1);
  EXPECT_TRUE(expand(schedule, nullptr, 24));
  const auto refused = expand(schedule, nullptr, 23);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("would move 24 chunks"), std::string::npos);
  const Topology other = make_ring(5);
  EXPECT_FALSE(expand(schedule, &other));
}

TEST(FillRoutes, TakesTheShortestAndKeepsTheGiven) {
  const Topology topology = make_ring(5);
  Schedule schedule = make_schedule({.rank_count = 5}, {{0, 1, 0, 1, kCopy, 0},
                                                        {0, 1, 0, 3, kCopy, 1},
                                                        {0, 1, 0, 1, kCopy, 2},
                                                        {0, 1, 1, 0, kCopy, 3}});
  const std::vector<LinkId> round = {LinkId{2}, LinkId{4}, LinkId{6}, LinkId{8}};
  schedule.transfers[3].route = schedule.routes.add(round);
  ASSERT_TRUE(fill_routes(schedule, topology));
  EXPECT_EQ(check_form(schedule, &topology), std::vector<std::string>{});
  EXPECT_EQ(schedule.routes.size(), 3);
  EXPECT_EQ(schedule.routes[schedule.transfers[0].route].front(), LinkId{0});
  EXPECT_EQ(schedule.routes[schedule.transfers[1].route].size(), 2u);
  EXPECT_EQ(schedule.transfers[2].route, schedule.transfers[0].route);
  EXPECT_EQ(schedule.transfers[3].route, 0);
  Schedule outside = make_schedule({.rank_count = 6}, {{0, 1, 0, 5, kCopy, 0}});
  const auto refused = fill_routes(outside, topology);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("transfers[0]: the topology ring has 5 nodes, not node 5"),
            std::string::npos);
}

}  // namespace
}  // namespace pleach
