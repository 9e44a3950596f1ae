#include "pleach/training/trace_stop.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pleach {
namespace {

// Workers of one rank each, ten times their number, with a collective 'c0' and a receive 'r1'.
Trace trace_of(int32_t workers) {
  Trace trace;
  trace.names = {"c0", "r1"};
  trace.families = {{"tensor", {}}};
  for (int32_t worker = 0; worker < workers; ++worker) {
    WorkerTrace& one = trace.workers.emplace_back();
    one.ranks = {10 * worker};
    one.add({.kind = TraceNodeKind::kCollective, .name = 0, .family = 0}, {});
    one.add({.kind = TraceNodeKind::kReceive, .name = 1}, {});
  }
  return trace;
}

TEST(TraceStop, NamesTheCycleItsNodesAndItsFiles) {
  Trace trace = trace_of(5);
  trace.workers[1].file = "t.10.et";
  const struct {
    std::vector<TraceWait> waits;
    std::string message;
  } cases[] = {
      {{}, "the trace stops: no node can run"},
      {{{{3, 1}, 1}, {{1, 0}, 3}},
       "the trace stops, as 2 ranks wait for each other: rank 10 ('t.10.et') waits in collective "
       "'c0' of 'tensor' for rank 30; rank 30 waits in receive 'r1' for rank 10"},
      // Others wait for those of the cycle.
      {{{{0, 0}, 4}, {{2, 0}, 0}, {{3, 0}, 2}, {{4, 0}, 3}, {{1, 0}, 0}},
       "the trace stops, as 4 ranks wait for each other: rank 0 waits in collective 'c0' of "
       "'tensor' for rank 40; rank 40 waits in collective 'c0' of 'tensor' for rank 30; rank 30 "
       "waits in collective 'c0' of 'tensor' for rank 20; rank 20 waits in collective 'c0' of "
       "'tensor' for rank 0"},
      {{{{0, 0}, 1}, {{1, 1}, 2}, {{2, 1}, 1}},
       "the trace stops, as 2 ranks wait for each other: rank 10 ('t.10.et') waits in receive 'r1' "
       "for rank 20; rank 20 waits in receive 'r1' for rank 10"},
      // Of a worker's waits its first.
      {{{{0, 1}, 2}, {{0, 0}, 1}, {{1, 0}, 0}, {{2, 0}, 0}},
       "the trace stops, as 2 ranks wait for each other: rank 0 waits in collective 'c0' of "
       "'tensor' for rank 10; rank 10 ('t.10.et') waits in collective 'c0' of 'tensor' for rank 0"},
      {{{{2, 1}, 3}}, "the trace stops: rank 20 waits in receive 'r1' for rank 30"},
      {{{{2, 1}, 2}},
       "the trace stops, as 1 ranks wait for each other: rank 20 waits in receive 'r1' for rank "
       "20"},
  };
  for (const auto& [waits, message] : cases) {
    EXPECT_EQ(trace_stop(trace, waits).message, message);
  }
}

TEST(TraceStop, NamesNoMoreThanAFewOfALongCycle) {
  const Trace trace = trace_of(40);
  std::vector<TraceWait> waits;
  for (int32_t worker = 0; worker < 40; ++worker) {
    waits.push_back({{worker, 0}, (worker + 1) % 40});
  }
  const std::string message = trace_stop(trace, waits).message;
  EXPECT_TRUE(message.starts_with("the trace stops, as 40 ranks wait for each other: rank 0 waits"))
      << message;
  EXPECT_TRUE(message.ends_with("rank 150 waits in collective 'c0' of 'tensor' for rank 160; ..."))
      << message;
}

}  // namespace
}  // namespace pleach
