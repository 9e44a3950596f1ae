// Gradients, gates and collectives of two groups, each with a policy of its own.
#include "pleach/training/trace_gradients.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "pleach/training/simulator.h"

namespace pleach {
namespace {

using Kind = TraceNodeKind;
using Nodes = std::vector<WorkerNode>;
using Started = std::vector<GradientCollective>;

// Two workers, two groups of one layer of two tensors, 4 bytes each. Every worker: of each group in
// turn a forward gate, a computation behind it, a gradient.
Trace two_groups() {
  Trace trace{.name = "two", .rank_count = 2, .families = {{.name = "data", .groups = {{0, 1}}}}};
  for (const char* name : {"first", "second"}) {
    trace.gradient_groups.push_back(
        {.name = name, .workers = {0, 1}, .layers = {{.name = "layer", .tensor_bytes = {4, 4}}}});
  }
  for (int32_t rank = 0; rank < 2; ++rank) {
    WorkerTrace& worker = trace.workers.emplace_back();
    worker.ranks = {rank};
    for (int32_t group = 0; group < 2; ++group) {
      const int32_t gate =
          worker.add({.kind = Kind::kForwardGate, .gradient_group = group, .layer = 0}, {});
      const int32_t forward = worker.add({.kind = Kind::kCompute}, {gate});
      worker.add({.kind = Kind::kGradient, .gradient_group = group, .layer = 0}, {forward});
    }
  }
  return trace;
}

// Starts what it is told to.
class Told : public Policy {
 public:
  explicit Told(bool frees_parameters = false) : frees_parameters_(frees_parameters) {}
  PolicyNeeds needs() const override { return {.frees_parameters = frees_parameters_}; }
  void observe(const PolicyEvent& /*event*/) override {}
  void decide(int64_t /*now_ps*/, PolicyActions& actions) override {
    actions.start = std::exchange(next, {});
    actions.wake_ps = std::exchange(wake_ps, -1);
  }
  bool settled() const override { return is_settled; }

  std::vector<PolicyCollective> next;
  int64_t wake_ps = -1;
  bool is_settled = true;

 private:
  bool frees_parameters_;
};

Started start(TraceGradients& gradients, int64_t now_ps) {
  const auto started = gradients.start(now_ps);
  EXPECT_TRUE(started) << started.error().message;
  return started ? *started : Started{};
}

class TwoGroups : public testing::Test {
 protected:
  void report(int32_t group, int64_t now_ps) {
    for (const int32_t worker : {0, 1}) {
      gradients_.gradient_ready({worker, 3 * group + 2}, now_ps);
    }
  }

  Nodes opened(int64_t now_ps) {
    const auto open = gradients_.open_gates(now_ps);
    return {open.begin(), open.end()};
  }

  const Trace trace_ = two_groups();
  const TraceIndex index_{trace_};
  Told first_;
  Told second_;
  std::vector<Policy*> policies_ = {&first_, &second_};
  TraceGradients gradients_{index_, policies_, 1};
};

TEST_F(TwoGroups, LetOutOneCollectiveEachAtATime) {
  EXPECT_EQ(gradients_.next_ps(), INT64_MAX);
  report(0, 4);
  report(1, 4);
  first_.next = {{CollectiveKind::kAllReduce, {0, 8}}};
  second_.next = {{CollectiveKind::kReduceScatter, {0, 4}},
                  {CollectiveKind::kReduceScatter, {4, 8}}};
  EXPECT_EQ(start(gradients_, 4), (Started{{0, 0}, {1, 0}}));
  const GroupCollective carried = gradients_.carried({1, 0});
  EXPECT_EQ(carried.family, 0);
  EXPECT_EQ(*carried.groups, std::vector<int32_t>{0});
  EXPECT_EQ(carried.kind, CollectiveKind::kReduceScatter);
  EXPECT_EQ(carried.size_bytes, 4);
  gradients_.finish({1, 0}, 5);
  EXPECT_EQ(start(gradients_, 5), (Started{{1, 1}}));
  EXPECT_EQ(gradients_.hosted({0, 0}).started_ps, 4);
  EXPECT_EQ(gradients_.logs().at(1).size(), 2U);
}

TEST_F(TwoGroups, OpenTheGatesOfTheirOwnGroup) {
  report(0, 0);
  report(1, 0);
  for (const int32_t worker : {1, 0}) {
    gradients_.come_to_gate({worker, 0}, 1, 1);
    gradients_.come_to_gate({worker, 3}, 1, 1);
  }
  EXPECT_EQ(opened(1), Nodes{});
  EXPECT_EQ(gradients_.first_waiting(), (WorkerNode{1, 0}));
  second_.next = {{CollectiveKind::kAllReduce, {0, 8}}};
  EXPECT_EQ(start(gradients_, 1), (Started{{1, 0}}));
  gradients_.finish({1, 0}, 2);
  EXPECT_EQ(opened(2), (Nodes{{1, 3}, {0, 3}}));
  EXPECT_EQ(opened(2), Nodes{});
  EXPECT_EQ(gradients_.first_waiting(), (WorkerNode{1, 0}));
}

TEST_F(TwoGroups, WakeAndSettleWhenTheirPoliciesDo) {
  EXPECT_TRUE(gradients_.are_settled());
  second_.is_settled = false;
  EXPECT_FALSE(gradients_.are_settled());
  first_.wake_ps = 9;
  second_.wake_ps = 7;
  EXPECT_EQ(start(gradients_, 1), Started{});
  EXPECT_EQ(gradients_.next_ps(), 7);
  EXPECT_EQ(gradients_.first_waiting(), std::nullopt);
}

// The computation behind the gate ends the forward: only then may parameters be gathered again.
TEST(TraceGradients, EndForwardsWithTheComputationBehindTheGate) {
  const Trace trace = two_groups();
  const TraceIndex index(trace);
  for (const int32_t ended : {0, 1}) {  // the gate, or the computation
    SCOPED_TRACE(ended);
    Told first(true);
    Told second;
    const std::vector<Policy*> policies = {&first, &second};
    TraceGradients gradients(index, policies, 1);
    first.next = {{CollectiveKind::kAllGather, {0, 8}}};
    EXPECT_EQ(start(gradients, 0), (Started{{0, 0}}));
    gradients.finish({0, 0}, 1);
    gradients.node_finished({0, ended});
    gradients.node_finished({1, 1});  // the other worker's
    first.next = {{CollectiveKind::kAllGather, {0, 8}}};
    const auto again = gradients.start(2);
    EXPECT_EQ(again.has_value(), ended == 1);
    if (!again) {
      EXPECT_EQ(again.error().message,
                "the policy started all_gather of bytes 0 to 8, but layer 0 still holds them for "
                "forward");
    }
  }
}

}  // namespace
}  // namespace pleach
