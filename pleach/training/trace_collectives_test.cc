// Which collectives start when their workers come to them.
#include "pleach/training/trace_collectives.h"

#include <gtest/gtest.h>

#include <vector>

namespace pleach {
namespace {

using Channels = std::vector<int32_t>;
using Nodes = std::vector<WorkerNode>;

// Three workers of one rank each. Family 0 joins workers 0 and 1, family 1 all of them; each worker
// does two collectives of every family that it is in.
Trace three_workers() {
  Trace trace{.name = "three", .rank_count = 3};
  trace.families = {{.name = "pair", .groups = {{0, 1}}}, {.name = "all", .groups = {{0, 1, 2}}}};
  for (int32_t rank = 0; rank < 3; ++rank) {
    WorkerTrace& worker = trace.workers.emplace_back();
    worker.ranks = {rank};
    for (const int32_t family : {0, 1, 0, 1}) {
      worker.add({.kind = TraceNodeKind::kCollective, .family = rank < 2 ? family : 1}, {});
    }
  }
  return trace;
}

TEST(TraceCollectives, WaitForAllWorkersAndForTheOneBefore) {
  const Trace trace = three_workers();
  const TraceIndex index(trace);
  TraceCollectives collectives(index);
  EXPECT_EQ(collectives.start(), Channels{});
  collectives.come({1, 0});
  EXPECT_EQ(collectives.start(), Channels{});
  collectives.come({0, 0});
  collectives.come({0, 2});
  collectives.come({1, 2});
  EXPECT_EQ(collectives.start(), Channels{0});
  EXPECT_EQ(Nodes(collectives.running(0).begin(), collectives.running(0).end()),
            (Nodes{{0, 0}, {1, 0}}));
  EXPECT_EQ(collectives.start(), Channels{});
  EXPECT_EQ(collectives.finish(0), (Nodes{{0, 0}, {1, 0}}));
  EXPECT_EQ(collectives.start(), Channels{0});
  EXPECT_EQ(collectives.finish(0), (Nodes{{0, 2}, {1, 2}}));
  EXPECT_EQ(collectives.start(), Channels{});
}

TEST(TraceCollectives, OfDifferentChannelsRunBesideEachOther) {
  const Trace trace = three_workers();
  const TraceIndex index(trace);
  TraceCollectives collectives(index);
  for (const WorkerNode node : {WorkerNode{2, 1}, {0, 1}, {1, 1}, {1, 0}, {0, 0}}) {
    collectives.come(node);
  }
  EXPECT_EQ(collectives.start(), (Channels{0, 1}));
  EXPECT_EQ(collectives.finish(1), (Nodes{{0, 1}, {1, 1}, {2, 1}}));
  EXPECT_EQ(collectives.finish(0), (Nodes{{0, 0}, {1, 0}}));
}

}  // namespace
}  // namespace pleach
