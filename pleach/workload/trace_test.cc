#include "pleach/workload/trace.h"

#include <gtest/gtest.h>

#include <functional>

#include "pleach/base/index.h"
#include "pleach/base/units.h"

namespace pleach {
namespace {

using Kind = TraceNodeKind;

// Two workers of two ranks each, which compute, pass a message, reduce and report a gradient.
Trace small_trace() {
  Trace trace;
  trace.rank_count = 4;
  trace.names = {"layer"};
  trace.families = {{"data", {{0, 2}, {1, 3}}}};
  trace.gradient_groups = {
      {.name = "data, stage 0",
       .family = 0,
       .workers = {0, 1},
       .rank_count = 2,
       .layers = {{.name = "one", .tensor_bytes = {8}}, {.name = "two", .tensor_bytes = {}}}}};
  trace.workers.resize(2);
  trace.workers[0].ranks = {0, 1};
  trace.workers[1].ranks = {2, 3};
  for (int32_t worker = 0; worker < 2; ++worker) {
    WorkerTrace& own = trace.workers[at(worker)];
    const int32_t compute = own.add({.kind = Kind::kCompute, .duration_ps = 5}, {});
    const Kind kind = worker == 0 ? Kind::kSend : Kind::kReceive;
    const int32_t message = own.add({.kind = kind, .peer = 1 - worker, .size_bytes = 3}, {compute});
    own.add({.kind = Kind::kCollective, .family = 0, .size_bytes = 16}, {compute, message});
    own.add({.kind = Kind::kGradient, .gradient_group = 0, .layer = 0}, {compute});
    own.add({.kind = Kind::kForwardGate, .gradient_group = 0, .layer = 1}, {});
  }
  return trace;
}

TEST(WorkerTrace, KeepsDependenciesOfEachNode) {
  WorkerTrace worker;
  EXPECT_EQ(worker.add({}, {}), 0);
  EXPECT_EQ(worker.add({}, {0}), 1);
  EXPECT_EQ(worker.add({}, {1, 0}), 2);
  EXPECT_EQ(worker.first_dependency, (std::vector<int32_t>{0, 0, 1, 3}));
  EXPECT_EQ(worker.dependencies, (std::vector<int32_t>{0, 1, 0}));
}

struct Case {
  std::string name;
  std::function<void(Trace&)> spoil;
  std::string message;
};

const Case kCases[] = {
    {"NoRanks", [](Trace& t) { t.rank_count = 0; }, "a trace of 0 ranks"},
    {"EmptyWorker", [](Trace& t) { t.workers[1].ranks.clear(); }, "worker 1 has no ranks"},
    {"RankTwice", [](Trace& t) { t.workers[1].ranks[0] = 1; },
     "rank 1 is in worker 0 and in worker 1"},
    {"RankBeyond", [](Trace& t) { t.workers[1].ranks[0] = 4; },
     "worker 1: rank 4 is not in [0, 4)"},
    {"FamilyRankTwice", [](Trace& t) { t.families[0].groups[1][0] = 2; },
     "family 'data': rank 2 is in group 0 and again in group 1"},
    {"FamilyRankBeyond", [](Trace& t) { t.families[0].groups[1][0] = -1; },
     "family 'data', group 1: rank -1 is not in [0, 4)"},
    {"FamilyIdleRank",
     [](Trace& t) {
       t.rank_count = 5;
       t.families[0].groups[1].push_back(4);
     },
     "family 'data', group 1: rank 4 is in no worker"},
    {"EmptyGroup", [](Trace& t) { t.families[0].groups[1].clear(); },
     "family 'data': group 1 is empty"},
    {"GroupFamily", [](Trace& t) { t.gradient_groups[0].family = 1; },
     "gradient group 'data, stage 0': there is no family 1"},
    {"GroupWorkers", [](Trace& t) { t.gradient_groups[0].workers.clear(); },
     "gradient group 'data, stage 0' has no workers"},
    {"GroupWorkerTwice",
     [](Trace& t) {
       t.gradient_groups[0].workers = {1, 1};
     },
     "gradient group 'data, stage 0': worker 1 is not there, or named twice"},
    {"EmptyTensor", [](Trace& t) { t.gradient_groups[0].layers[1].tensor_bytes = {0}; },
     "gradient group 'data, stage 0', layer 'two': a time or a size is negative, or a tensor "
     "empty"},
    {"Shape", [](Trace& t) { t.workers[0].first_dependency.pop_back(); },
     "worker 0: first_dependency does not partition the dependencies"},
    {"OwnDependency", [](Trace& t) { t.workers[0].dependencies[0] = 1; },
     "worker 0, node 1 ('layer'): waits for node 1, which is not before it"},
    {"NegativeDependency", [](Trace& t) { t.workers[0].dependencies[0] = -1; },
     "worker 0, node 1 ('layer'): waits for node -1, which is not before it"},
    {"Name", [](Trace& t) { t.workers[1].nodes[0].name = 1; },
     "worker 1, node 0: there is no name 1"},
    {"NegativeTime", [](Trace& t) { t.workers[1].nodes[0].duration_ps = -1; },
     "worker 1, node 0 ('layer'): a negative duration of -1 ps or size of 0 bytes"},
    {"NegativeSize", [](Trace& t) { t.workers[1].nodes[2].size_bytes = -5; },
     "worker 1, node 2 ('layer'): a negative duration of 0 ps or size of -5 bytes"},
    {"HugeSize", [](Trace& t) { t.workers[1].nodes[2].size_bytes = (int64_t{1} << 50) + 1; },
     "worker 1, node 2 ('layer'): a size of 1125899906842625 bytes is over 1 PiB"},
    {"LongTimes", [](Trace& t) { t.workers[1].nodes[0].duration_ps = kLongestPs + 1; },
     "worker 1, node 0 ('layer'): the worker's durations add up to more than 26 days"},
    {"Family", [](Trace& t) { t.workers[1].nodes[2].family = -1; },
     "worker 1, node 2 ('layer'): there is no family -1"},
    {"Peer", [](Trace& t) { t.workers[0].nodes[1].peer = 2; },
     "worker 0, node 1 ('layer'): worker 2 is no peer"},
    {"OwnPeer", [](Trace& t) { t.workers[0].nodes[1].peer = 0; },
     "worker 0, node 1 ('layer'): worker 0 is no peer"},
    {"UnequalPeer",
     [](Trace& t) {
       t.rank_count = 5;
       t.workers[1].ranks.push_back(4);
     },
     "worker 0, node 1 ('layer'): worker 0 stands for 2 ranks and its peer 1 for 3"},
    {"BroadcastFamily", [](Trace& t) { t.workers[0].nodes[1].family = 1; },
     "worker 0, node 1 ('layer'): there is no family 1"},
    {"BroadcastFromOthers",
     [](Trace& t) {
       t.families.push_back({"pipeline", {{0, 1, 3}}});
       t.workers[0].nodes[1].family = 1;
     },
     "worker 0, node 1 ('layer'): family 'pipeline': rank 0 and rank 1 are not one of worker 0 and "
     "one of worker 1, or neither"},
    {"BroadcastOfNobody",
     [](Trace& t) {
       t.families.push_back({"pipeline", {{2, 0, 1}}});
       t.workers[0].nodes[1].family = 1;
     },
     "worker 0, node 1 ('layer'): family 'pipeline' has no group from worker 0 to 1"},
    {"NoReceive", [](Trace& t) { t.workers[1].nodes[1] = {}; },
     "messages from worker 0 to worker 1 with tag 0: 1 sends and 0 receives"},
    {"NoSend", [](Trace& t) { t.workers[0].nodes[1].tag = 1; },
     "messages from worker 0 to worker 1 with tag 0: 0 sends and 1 receives"},
    {"MessageSize", [](Trace& t) { t.workers[1].nodes[1].size_bytes = 4; },
     "messages from worker 0 to worker 1 with tag 0: number 0 is sent with 3 bytes and received "
     "with 4"},
    {"GradientGroup", [](Trace& t) { t.workers[1].nodes[3].gradient_group = 1; },
     "worker 1, node 3 ('layer'): there is no gradient group 1"},
    {"GradientLayer", [](Trace& t) { t.workers[1].nodes[4].layer = 2; },
     "worker 1, node 4 ('layer'): gradient group 'data, stage 0' has no layer 2"},
    {"OthersGroup", [](Trace& t) { t.gradient_groups[0].workers = {0}; },
     "worker 1, node 3 ('layer'): gradient group 'data, stage 0' is of other workers"},
    {"GradientTwice",
     [](Trace& t) {
       t.workers[1].nodes[4] = {.kind = Kind::kGradient, .gradient_group = 0, .layer = 0};
     },
     "worker 1, node 4 ('layer'): says for the second time in an iteration what is said once"},
    {"NoGradient", [](Trace& t) { t.workers[1].nodes[3] = {}; },
     "gradient group 'data, stage 0': worker 1 has no gradient of layer 'one'"},
    {"CollectiveKind",
     [](Trace& t) { t.workers[1].nodes[2].collective = CollectiveKind::kAllGather; },
     "family 'data', group 0, collective 0: worker 0 issues all_reduce of 16 bytes and worker 1 "
     "all_gather of 16 bytes"},
    {"CollectiveMissing", [](Trace& t) { t.workers[1].nodes[2] = {}; },
     "family 'data', group 0, collective 0: worker 0 issues all_reduce of 16 bytes and worker 1 "
     "nothing"},
    {"OutsideGroups", [](Trace& t) { t.families[0].groups.pop_back(); },
     "worker 0: rank 1 is in no group of family 'data'"},
};

TEST(CheckTrace, AcceptsWhatFits) {
  Trace trace = small_trace();
  EXPECT_TRUE(check_trace(trace));
  trace.rank_count = 5;  // one of which does nothing
  EXPECT_TRUE(check_trace(trace));
}

TEST(CheckTrace, NamesWhatDoesNotFit) {
  for (const Case& one : kCases) {
    Trace trace = small_trace();
    one.spoil(trace);
    const Status status = check_trace(trace);
    ASSERT_FALSE(status) << one.name;
    EXPECT_EQ(status.error().message, one.message) << one.name;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument) << one.name;
  }
}

TEST(CheckTrace, LetsOneWorkerHoldAWholeGroup) {
  Trace trace = small_trace();
  trace.families[0].groups = {{0, 1}, {2, 3}};
  trace.workers[1].nodes[2].size_bytes = 99;  // groups apart may differ
  EXPECT_TRUE(check_trace(trace));
}

}  // namespace
}  // namespace pleach
