// Which nodes run at which times, on streams of several workers.
#include "pleach/training/trace_streams.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

namespace pleach {
namespace {

// One worker of four ranks with two computations, a load and a store, and one of one rank with one.
Trace two_workers() {
  Trace trace{.name = "two", .rank_count = 5};
  WorkerTrace& first = trace.workers.emplace_back();
  first.ranks = {0, 1, 2, 3};
  first.add({.kind = TraceNodeKind::kCompute, .duration_ps = 10}, {});
  first.add({.kind = TraceNodeKind::kCompute, .duration_ps = 5}, {});
  first.add({.kind = TraceNodeKind::kLoad, .duration_ps = 10}, {});
  first.add({.kind = TraceNodeKind::kStore, .duration_ps = 3}, {});
  WorkerTrace& second = trace.workers.emplace_back();
  second.ranks = {4};
  second.add({.kind = TraceNodeKind::kCompute, .duration_ps = 10}, {});
  return trace;
}

using Nodes = std::vector<WorkerNode>;

Nodes nodes_of(std::span<const WorkerNode> nodes) {
  return {nodes.begin(), nodes.end()};
}

Nodes nodes_of(std::span<const StreamRun> runs) {
  Nodes nodes;
  for (const StreamRun& run : runs) {
    nodes.push_back(run.node);
  }
  return nodes;
}

TEST(TraceStreams, RunOneNodeEachInTheOrderOfTheTrace) {
  const Trace trace = two_workers();
  const TraceIndex index(trace);
  TraceStreams streams(index, 0, 0);
  EXPECT_EQ(streams.next_ps(), INT64_MAX);
  EXPECT_TRUE(streams.start(0).empty());
  for (const WorkerNode node : {WorkerNode{1, 0}, {0, 3}, {0, 1}, {0, 0}, {0, 2}}) {
    streams.ready(node);
  }
  EXPECT_EQ(nodes_of(streams.start(2)), (Nodes{{1, 0}, {0, 0}, {0, 2}, {0, 3}}));
  EXPECT_TRUE(streams.start(2).empty());
  EXPECT_EQ(streams.next_ps(), 5);
  EXPECT_EQ(nodes_of(streams.finish(4)), Nodes{});
  EXPECT_EQ(nodes_of(streams.finish(5)), (Nodes{{0, 3}}));
  EXPECT_TRUE(streams.start(5).empty());
  EXPECT_EQ(nodes_of(streams.finish(12)), (Nodes{{0, 0}, {0, 2}, {1, 0}}));
  EXPECT_EQ(nodes_of(streams.start(12)), (Nodes{{0, 1}}));
  EXPECT_EQ(nodes_of(streams.finish(17)), (Nodes{{0, 1}}));
  EXPECT_EQ(streams.next_ps(), INT64_MAX);
}

TEST(TraceStreams, TellHowLongComputationStoodStill) {
  const Trace trace = two_workers();
  const TraceIndex index(trace);
  TraceStreams streams(index, 0, 0);
  streams.ready({0, 0});
  streams.ready({0, 2});
  const auto first = streams.start(4);
  ASSERT_EQ(first.size(), 2U);
  EXPECT_TRUE(first[0].computes);
  EXPECT_EQ(first[0].waited_ps, 4);
  EXPECT_EQ(first[0].duration_ps, 10);
  EXPECT_FALSE(first[1].computes);
  EXPECT_EQ(first[1].waited_ps, 0);
  streams.finish(14);
  streams.ready({0, 1});
  EXPECT_EQ(streams.start(20).front().waited_ps, 6);
}

// The mean of the greatest of four exponential noises is 1 + 1/2 + 1/3 + 1/4, of one it is 1.
TEST(TraceStreams, WaitForTheSlowestRankOfNoisyWorkers) {
  Trace trace = two_workers();
  for (WorkerTrace& worker : trace.workers) {
    worker.nodes.front().duration_ps = 1'000'000;
  }
  const TraceIndex index(trace);
  for (const uint64_t seed : {1U, 2U}) {
    TraceStreams streams(index, 0.1, seed);
    TraceStreams same(index, 0.1, seed);
    double sums_ps[2] = {0, 0};
    int64_t now_ps = 0;
    constexpr int kRounds = 4000;
    for (int round = 0; round < kRounds; ++round) {
      for (TraceStreams* one : {&streams, &same}) {
        one->ready({0, 0});
        one->ready({1, 0});
      }
      const auto runs = streams.start(now_ps);
      const auto again = same.start(now_ps);
      ASSERT_EQ(runs.size(), 2U);
      for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_GE(runs[i].duration_ps, 1'000'000);
        EXPECT_EQ(runs[i].duration_ps, again[i].duration_ps);
        sums_ps[runs[i].node.worker] += static_cast<double>(runs[i].duration_ps);
      }
      while (streams.next_ps() < INT64_MAX) {
        now_ps = streams.next_ps();
        streams.finish(now_ps);
        same.finish(now_ps);
      }
    }
    EXPECT_NEAR(sums_ps[0] / kRounds, 1'208'333, 8'000);
    EXPECT_NEAR(sums_ps[1] / kRounds, 1'100'000, 8'000);
  }
}

}  // namespace
}  // namespace pleach
