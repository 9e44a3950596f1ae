#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "pleach/topology/shapes.h"
#include "pleach/training/trace_network.h"

namespace pleach {
namespace {

using Kind = CollectiveKind;

// What finishes when, by operation; times never go back.
std::map<int32_t, int64_t> run(TraceNetwork& network, int64_t now_ps) {
  std::map<int32_t, int64_t> finish_ps;
  while (const auto next_ps = network.next_ps()) {
    const auto finished = network.advance(std::max(now_ps, *next_ps));
    EXPECT_TRUE(finished) << (finished ? "" : finished.error().message);
    for (const auto& [operation, time_ps] : *finished) {
      EXPECT_GE(time_ps, now_ps) << operation;
      now_ps = std::max(now_ps, time_ps);
      finish_ps[operation] = time_ps;
    }
  }
  return finish_ps;
}

// An operation that nothing travels for ends when it starts, also where company makes the session
// look at an earlier job again.
TEST(SharedNetwork, WhatNeedsNothingEndsAtOnce) {
  const auto topology = parse_topology("ring:4");
  ASSERT_TRUE(topology);
  Trace trace;
  trace.rank_count = 4;
  trace.families = {{.name = "data", .groups = {{0, 1, 2, 3}}},
                    {.name = "tensor", .groups = {{0}, {1}, {2}, {3}}}};
  const auto network = shared_network(*topology, trace, {});
  ASSERT_TRUE(network) << network.error().message;
  const std::vector<int32_t> first = {0}, all = {0, 1, 2, 3};
  const GroupCollective large{0, &first, Kind::kAllReduce, 64 << 20};
  const GroupCollective nothing{1, &all, Kind::kAllReduce, 64 << 20};
  ASSERT_TRUE((*network)->start(large, 0));
  const int64_t later_ps = 1'000'000;
  const auto early = (*network)->advance(later_ps);
  ASSERT_TRUE(early);
  ASSERT_TRUE(early->empty());
  ASSERT_TRUE((*network)->start(large, later_ps));
  ASSERT_TRUE((*network)->start(nothing, later_ps));
  EXPECT_EQ((*network)->next_ps(), later_ps);
  const std::map<int32_t, int64_t> finish_ps = run(**network, later_ps);
  ASSERT_EQ(finish_ps.size(), 3U);
  EXPECT_EQ(finish_ps.at(2), later_ps);
  EXPECT_GT(finish_ps.at(0), later_ps);
  EXPECT_GE(finish_ps.at(1), finish_ps.at(0));
}

}  // namespace
}  // namespace pleach
