#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "pleach/topology/shapes.h"
#include "pleach/training/trace_network.h"
#include "pleach/training/traffic_classes.h"

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

// A collective of a class that goes first takes what it takes alone; the other one waits for it.
TEST(SharedNetwork, ClassesSayWhoGoesFirst) {
  const auto topology = parse_topology("ring:4");
  ASSERT_TRUE(topology);
  Trace trace;
  trace.rank_count = 4;
  trace.families = {{.name = "data", .groups = {{0, 1, 2, 3}}},
                    {.name = "tensor", .groups = {{0, 1, 2, 3}}}};
  const std::vector<int32_t> first = {0}, sources = {0}, targets = {1};
  const auto finishes = [&](int32_t tensor_class, bool with_data) {
    const auto network = shared_network(*topology, trace, {});
    EXPECT_TRUE(network) << network.error().message;
    if (with_data) {
      EXPECT_TRUE((*network)->start(GroupCollective{0, &first, Kind::kAllReduce, 64 << 20, 2}, 0));
    }
    EXPECT_TRUE((*network)->start(
        GroupCollective{1, &first, Kind::kAllReduce, 1 << 20, tensor_class}, 5'000'000));
    EXPECT_TRUE(
        (*network)->start(WorkerSend{&sources, &targets, 1 << 16, tensor_class}, 900'000'000));
    return run(**network, 5'000'000);
  };
  const auto alone = finishes(0, false), before = finishes(0, true), alike = finishes(2, true);
  EXPECT_EQ(before.at(1), alone.at(0));
  EXPECT_EQ(before.at(2), alone.at(1));
  EXPECT_GT(alike.at(1), before.at(1));
  EXPECT_GT(alike.at(2), before.at(2));
}

TEST(TrafficClasses, AreByRoleOrInOrder) {
  const Family tensor{.name = "tensor", .groups = {}, .role = FamilyRole::kTensor};
  const Family data{.name = "data", .groups = {}, .role = FamilyRole::kData};
  struct Case {
    const char* text;
    int32_t tensor, messages, data;
  };
  for (const auto& [text, of_tensor, of_messages, of_data] : {Case{"one", 0, 0, 0},
                                                              {"role", 0, 1, 2},
                                                              {"data,pipeline", 2, 1, 0},
                                                              {"pipeline", 1, 0, 1}}) {
    const auto classes = TrafficClasses::parse(text);
    ASSERT_TRUE(classes) << classes.error().message;
    EXPECT_EQ(classes->is_one(), std::string(text) == "one");
    EXPECT_EQ(classes->of(tensor), of_tensor) << text;
    EXPECT_EQ(classes->of_messages(), of_messages) << text;
    EXPECT_EQ(classes->of(data), of_data) << text;
  }
  for (const auto& [text, error] : {std::pair("data,,tensor", "an empty name"),
                                    {"", "an empty name"},
                                    {"data,data", "'data' is there twice"},
                                    {"a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p", "16 names: at most 15"}}) {
    const auto refused = TrafficClasses::parse(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().message, error);
  }
}

}  // namespace
}  // namespace pleach
