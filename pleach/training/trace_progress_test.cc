// What is ready when, and when workers begin again.
#include "pleach/training/trace_progress.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pleach {
namespace {

using Nodes = std::vector<int32_t>;

// Each worker: load 0 and computation 1 wait for nothing, computation 2 for both, the last node for
// that.
Trace diamonds(int32_t workers, TraceNodeKind last) {
  Trace trace;
  for (int32_t number = 0; number < workers; ++number) {
    WorkerTrace& worker = trace.workers.emplace_back();
    worker.add({.kind = TraceNodeKind::kLoad}, {});
    worker.add({.kind = TraceNodeKind::kCompute}, {});
    worker.add({.kind = TraceNodeKind::kCompute}, {0, 1});
    worker.add({.kind = last}, {2});
  }
  return trace;
}

Nodes begin(TraceProgress& progress, int32_t worker) {
  const auto ready = progress.begin(worker);
  return {ready.begin(), ready.end()};
}

// Finishes the nodes one by one; whether the last one ended an iteration.
bool run(TraceProgress& progress, int32_t worker, const Nodes& nodes) {
  bool ended = false;
  for (const int32_t node : nodes) {
    ended = progress.complete({worker, node}).ends_iteration;
  }
  return ended;
}

TEST(TraceProgress, ReleasesWhatWaitedForTheLastNode) {
  const Trace trace = diamonds(1, TraceNodeKind::kCompute);
  const TraceIndex index(trace);
  TraceProgress progress(index);
  EXPECT_EQ(progress.take_beginning(), Nodes{0});
  EXPECT_FALSE(progress.has_beginning());
  EXPECT_EQ(begin(progress, 0), (Nodes{0, 1}));
  EXPECT_EQ(progress.woken_by({0, 1}), -1);
  EXPECT_TRUE(progress.complete({0, 1}).ready.empty());
  const auto follows = progress.complete({0, 0});
  EXPECT_EQ(Nodes(follows.ready.begin(), follows.ready.end()), Nodes{2});
  EXPECT_FALSE(follows.ends_iteration);
  EXPECT_EQ(progress.woken_by({0, 2}), 0);
  EXPECT_EQ(progress.iteration(0), 0);
  EXPECT_TRUE(run(progress, 0, {2, 3}));
  EXPECT_EQ(progress.iteration(0), 1);
  EXPECT_EQ(progress.take_beginning(), Nodes{0});
  EXPECT_EQ(begin(progress, 0), (Nodes{0, 1}));  // all waits anew
}

TEST(TraceProgress, HandsOutWhatHasFinishedOnce) {
  const Trace trace = diamonds(2, TraceNodeKind::kCompute);
  const TraceIndex index(trace);
  TraceProgress progress(index);
  EXPECT_EQ(progress.take_finished(), std::nullopt);
  progress.finish({0, 1});
  progress.finish({1, 0});
  EXPECT_EQ(progress.take_finished(), (WorkerNode{1, 0}));
  EXPECT_EQ(progress.take_finished(), (WorkerNode{0, 1}));
  EXPECT_EQ(progress.take_finished(), std::nullopt);
}

// Workers wait for each other where no gradients keep them together.
TEST(TraceProgress, BeginsTogetherWithoutGradientsOnly) {
  for (const bool has_gradients : {false, true}) {
    SCOPED_TRACE(has_gradients);
    const Trace trace =
        diamonds(2, has_gradients ? TraceNodeKind::kGradient : TraceNodeKind::kCompute);
    const TraceIndex index(trace);
    TraceProgress progress(index);
    EXPECT_EQ(progress.take_beginning(), (Nodes{0, 1}));
    begin(progress, 0);
    begin(progress, 1);
    EXPECT_EQ(run(progress, 0, {0, 1, 2, 3}), has_gradients);
    EXPECT_EQ(progress.take_beginning(), has_gradients ? Nodes{0} : Nodes{});
    EXPECT_EQ(run(progress, 1, {0, 1, 2, 3}), !has_gradients);  // worker 0's are counted
    EXPECT_EQ(progress.take_beginning(), has_gradients ? Nodes{1} : (Nodes{0, 1}));
  }
}

}  // namespace
}  // namespace pleach
