// The iteration simulator against the exact model, and against hand-made graphs.
#include "pleach/training/simulator.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/base/units.h"
#include "pleach/policy/alpha_beta.h"
#include "pleach/policy/rehearsal.h"

namespace pleach {
namespace {

constexpr int64_t kMs = 1'000'000'000;
constexpr int64_t kAlphaPs = 15'000'000;
constexpr double kBandwidth = 1.18e9;

// One worker of `rank_count` ranks, with a data-parallel group of all of them.
Trace data_parallel(const TrainingProfile& profile, bool backward_gates) {
  Trace trace{.name = "test", .rank_count = profile.rank_count};
  Family family{.name = "data", .groups = {{}}};
  WorkerTrace worker;
  for (int32_t rank = 0; rank < profile.rank_count; ++rank) {
    worker.ranks.push_back(rank);
    family.groups.front().push_back(rank);
  }
  trace.names = {"node"};
  GradientGroup group{.name = "data", .family = 0, .workers = {0}};
  group.rank_count = profile.rank_count;
  int32_t last = -1;
  const auto after = [&] { return last < 0 ? std::vector<int32_t>{} : std::vector{last}; };
  const auto count = count_of(profile.layers);
  for (int32_t layer = 0; layer < count; ++layer) {
    const PolicyLayer& one = profile.layers[at(layer)];
    group.layers.push_back({.name = "layer",
                            .tensor_bytes = one.tensor_bytes,
                            .forward_ps = one.forward_ps,
                            .backward_ps = one.backward_ps});
    last = worker.add({.kind = TraceNodeKind::kForwardGate, .gradient_group = 0, .layer = layer},
                      after());
    last = worker.add({.kind = TraceNodeKind::kCompute, .duration_ps = one.forward_ps}, after());
  }
  for (int32_t layer = count - 1; layer >= 0; --layer) {
    const PolicyLayer& one = profile.layers[at(layer)];
    if (backward_gates) {
      last = worker.add({.kind = TraceNodeKind::kBackwardGate, .gradient_group = 0, .layer = layer},
                        after());
    }
    last = worker.add({.kind = TraceNodeKind::kCompute, .duration_ps = one.backward_ps}, after());
    worker.add({.kind = TraceNodeKind::kGradient, .gradient_group = 0, .layer = layer}, after());
  }
  trace.workers.push_back(std::move(worker));
  trace.families.push_back(std::move(family));
  trace.gradient_groups.push_back(std::move(group));
  return trace;
}

TrainingProfile random_profile(Rng& rng) {
  TrainingProfile profile;
  profile.rank_count = std::vector<int32_t>{1, 2, 8, 64}[rng.below(4)];
  const auto layers = 1 + rng.below(40);
  for (uint64_t layer = 0; layer < layers; ++layer) {
    PolicyLayer& one = profile.layers.emplace_back();
    for (uint64_t tensor = rng.below(3); tensor > 0; --tensor) {
      one.tensor_bytes.push_back(static_cast<int64_t>(1 + rng.below(uint64_t{1} << rng.below(27))));
    }
    one.forward_ps = static_cast<int64_t>(rng.below(10)) * kMs;
    one.backward_ps = static_cast<int64_t>(rng.below(20)) * kMs;
  }
  profile.layers.front().forward_ps += kMs;
  return profile;
}

class AgainstRehearsal : public testing::TestWithParam<const PolicyDescriptor*> {};

TEST_P(AgainstRehearsal, SameIterationTime) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Rng rng(seed);
    const TrainingProfile profile = random_profile(rng);
    const AlphaBeta costs(profile.rank_count, kAlphaPs, kBandwidth);
    const auto create = [&] {
      return create_policy(GetParam()->name, {.profile = profile, .costs = costs, .seed = seed});
    };
    auto policy = create();
    ASSERT_TRUE(policy) << policy.error().message;
    const auto expected = rehearse(profile, costs, **policy);
    ASSERT_TRUE(expected) << "seed " << seed << ": " << expected.error().message;
    policy = create();
    const Trace trace = data_parallel(profile, (*policy)->needs().frees_parameters);
    const auto trace_costs = alpha_beta_costs(trace, {kAlphaPs, kBandwidth});
    const auto network = independent_network(*trace_costs);
    Policy* const one = policy->get();
    const auto run = simulate_training(trace, {&one, 1}, *network, {.most_iterations = 100});
    ASSERT_TRUE(run) << "seed " << seed << ": " << run.error().message;
    EXPECT_EQ(run->iteration_ps, expected->iteration_ps) << "seed " << seed;
    EXPECT_EQ(run->steady, expected->steady) << "seed " << seed;
    EXPECT_EQ(run->workers.front().compute_ps, expected->compute_ps) << "seed " << seed;
    EXPECT_EQ(run->workers.front().compute_ps + run->workers.front().gradient_wait_ps,
              run->iteration_ps)
        << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, AgainstRehearsal,
                         testing::ValuesIn(policies().begin(), policies().end()),
                         [](const auto& one) { return one.param->name; });

struct TwoWorkers {
  Trace trace{.name = "two", .rank_count = 2};
  TwoWorkers() {
    trace.names = {"a", "b"};
    trace.workers.resize(2);
    trace.workers[0].ranks = {0};
    trace.workers[1].ranks = {1};
    trace.families.push_back({.name = "all", .groups = {{0, 1}}});
  }
  Result<TrainingRun> run(const IterationOptions& options = {}) {
    const auto costs = alpha_beta_costs(trace, {0, 1e12});  // 1 ps per byte
    const auto network = independent_network(*costs);
    return simulate_training(trace, {}, *network, options);
  }
};

// 0: computes 5, sends 7 bytes; 1: computes 3, receives at 12, computes 4: 16 in all.
TEST(Graph, ReceiveWaitsForTheMessage) {
  TwoWorkers two;
  const int32_t before = two.trace.workers[0].add({.duration_ps = 5}, {});
  const int32_t send = two.trace.workers[0].add(
      {.kind = TraceNodeKind::kSend, .peer = 1, .size_bytes = 7}, {before});
  const int32_t reply = two.trace.workers[0].add(
      {.kind = TraceNodeKind::kReceive, .peer = 1, .tag = 1, .size_bytes = 1}, {send});
  two.trace.workers[0].add({.duration_ps = 1}, {reply});
  const int32_t first = two.trace.workers[1].add({.duration_ps = 3}, {});
  const int32_t receive =
      two.trace.workers[1].add({.kind = TraceNodeKind::kReceive, .peer = 0, .size_bytes = 7}, {});
  const int32_t last = two.trace.workers[1].add({.duration_ps = 4}, {first, receive});
  two.trace.workers[1].add({.kind = TraceNodeKind::kSend, .peer = 0, .tag = 1, .size_bytes = 1},
                           {last});
  const auto run = two.run();
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_TRUE(run->steady);
  EXPECT_EQ(run->iteration_ps, 5 + 7 + 4 + 1 + 1);
  EXPECT_EQ(run->workers[0].compute_ps, 6);
  EXPECT_EQ(run->workers[0].receive_wait_ps, 12);
  EXPECT_EQ(run->workers[0].bubble_wait_ps, 7 + 4);
  EXPECT_EQ(run->workers[1].receive_wait_ps, 2 + 7 + 1 + 1);  // and for worker 0 at the end
  EXPECT_EQ(run->workers[1].bubble_wait_ps, 2 + 1);
}

// A collective starts when the last rank has come to it: max(5, 9) + 10 (half of 20 each way).
TEST(Graph, CollectiveWaitsForTheLastRank) {
  TwoWorkers two;
  for (const int32_t rank : {0, 1}) {
    WorkerTrace& worker = two.trace.workers[at(rank)];
    const int32_t compute = worker.add({.duration_ps = rank == 0 ? 5 : 9}, {});
    worker.add({.kind = TraceNodeKind::kCollective,
                .collective = CollectiveKind::kAllReduce,
                .family = 0,
                .size_bytes = 10},
               {compute});
  }
  const auto run = two.run();
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(run->iteration_ps, 19);
  EXPECT_EQ(run->workers[0].compute_ps, 5);
}

// Noise that would overflow ends the clock, too.
TEST(Graph, RefusesIterationsOfOverTheLongestTime) {
  for (const double jitter : {0.0, 1e9}) {
    TwoWorkers two;
    for (WorkerTrace& worker : two.trace.workers) {
      worker.add({.duration_ps = kLongestPs}, {});
    }
    const auto run = two.run({.jitter = jitter});
    ASSERT_FALSE(run);
    EXPECT_EQ(run.error().message, "60 iterations take longer than 26 days");
  }
}

// Loads run beside computation, one at a time.
TEST(Graph, LoadsOverlapComputation) {
  TwoWorkers two;
  for (WorkerTrace& worker : two.trace.workers) {
    const int32_t load = worker.add({.kind = TraceNodeKind::kLoad, .duration_ps = 10}, {});
    const int32_t other = worker.add({.kind = TraceNodeKind::kLoad, .duration_ps = 10}, {});
    const int32_t compute = worker.add({.duration_ps = 6}, {load});
    worker.add({.duration_ps = 6}, {compute, other});
  }
  const auto run = two.run();
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(run->iteration_ps, 26);
  EXPECT_EQ(run->workers[1].load_wait_ps, 14);
}

}  // namespace
}  // namespace pleach
