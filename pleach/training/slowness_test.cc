// Slow ranks: everybody waits for them, however few they are.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pleach/topology/shapes.h"
#include "pleach/training/training.h"
#include "tests/support/trainings.h"

namespace pleach {
namespace {

TEST(Slowness, OneSlowRankSlowsAllOfThem) {
  const Workload workload = small_workload();
  const Strategy strategy = strategy_of("", 4);
  TrainingRequest request = compute_bound(workload, strategy);
  request.policies = all_policies();
  const auto even = train(request);
  ASSERT_TRUE(even) << even.error().message;
  for (const std::size_t slow : {std::size_t{0}, std::size_t{3}}) {
    for (const double factor : {1.2, 2.0, 10.0}) {
      request.slowness.assign(4, 1);
      request.slowness[slow] = factor;
      const auto uneven = train(request);
      ASSERT_TRUE(uneven) << uneven.error().message;
      for (std::size_t row = 0; row < even->size(); ++row) {
        if ((*even)[row].policy == "horovod") {
          continue;  // most of its iteration is a cycle's wait, which is not slowed
        }
        EXPECT_NEAR(ratio((*uneven)[row].run.iteration_ps, (*even)[row].run.iteration_ps), factor,
                    0.01 * factor)
            << (*even)[row].policy << ", rank " << slow;
        EXPECT_GE((*uneven)[row].run.iteration_ps, (*uneven)[row].bound_ps - 1);
      }
    }
  }
}

// Layers of three units of bytes, whose forward and backward take 0 or 1 ms as the bits of `mask`
// say, and then as a generator says.
Workload masked_workload(uint32_t mask, int32_t layers) {
  Workload workload = plain_workload(layers, 0, 0);
  auto& times = std::get<MeasuredTimes>(workload.times).layers;
  for (int32_t index = 0; index < layers; ++index) {
    const std::size_t layer = at(index);
    workload.model.layers[layer].tensors = {{"weight", 50'000 * (1 + index % 3)},
                                            {"bias", 250'000}};
    times[layer].forward_ps = (mask >> (2 * index) & 1) * kMs;
    times[layer].backward_ps = (mask >> (2 * index + 1) & 1) * kMs;
  }
  return workload;
}

// A collective needs every rank, so that it does not matter how many of them are slow: all 64
// combinations of layers that take no time, and larger models at random, in which whole runs of
// layers end at one instant.
TEST(Slowness, OneSlowRankIsAllSlowRanks) {
  constexpr int32_t kRanks = 4;
  int compared = 0;
  for (uint32_t seed = 0; seed < 84; ++seed) {
    const Workload workload =
        seed < 64 ? masked_workload(seed, 3) : masked_workload(seed * 2654435761U, 12);
    TrainingRequest request{.workload = workload,
                            .strategy = strategy_of("", kRanks),
                            .network = alpha_beta(10 * kUs, 1e9),
                            .policies = all_policies(),
                            .slowness = std::vector<double>(kRanks, 3),
                            .iteration = {.most_iterations = 100}};
    request.policies.insert(request.policies.end(),
                            {"p3,slice=100kB", "byte_scheduler,partition=100kB,credit=300kB",
                             "horovod,cycle=3ms,negotiation=1ms", "fsdp,reshard_after_forward=0"});
    const auto all = train(request);
    ASSERT_TRUE(all) << all.error().message;
    for (const std::size_t slow : {std::size_t{0}, std::size_t{2}}) {
      request.slowness.assign(kRanks, 1);
      request.slowness[slow] = 3;
      const auto one = train(request);
      ASSERT_TRUE(one) << one.error().message;
      for (std::size_t row = 0; row < all->size(); ++row) {
        EXPECT_EQ((*one)[row].run.iteration_ps, (*all)[row].run.iteration_ps)
            << (*all)[row].policy << ", rank " << slow << ", seed " << seed;
        EXPECT_EQ((*one)[row].bound_ps, (*all)[row].bound_ps);
        ++compared;
      }
    }
  }
  EXPECT_EQ(compared, 84 * 2 * (count_of(all_policies()) + 4));
}

// So it is with a slow replica of a pipeline.
TEST(Slowness, OneSlowReplicaIsAllSlowReplicas) {
  const Workload workload = small_workload();
  TrainingRequest request{.workload = workload,
                          .strategy = strategy_of("pp=2,micro_batches=4", 8),
                          .network = alpha_beta(10 * kUs, 1e9),
                          .policies = all_policies(),
                          .slowness = std::vector<double>(8, 2),
                          .iteration = {.most_iterations = 100}};
  const auto all = train(request);
  request.slowness = {1, 1, 1, 1, 1, 1, 2, 2};
  const auto one = train(request);
  ASSERT_TRUE(all && one);
  for (std::size_t row = 0; row < all->size(); ++row) {
    EXPECT_EQ((*one)[row].run.iteration_ps, (*all)[row].run.iteration_ps) << (*all)[row].policy;
  }
}

// Nor where weights stream, and replicas do not communicate at all.
TEST(Slowness, ReplicasThatStreamWaitForTheSlowest) {
  const Workload workload = small_workload();
  for (const std::size_t slow : {std::size_t{0}, std::size_t{3}}) {
    TrainingRequest request{.workload = workload,
                            .strategy = strategy_of("stream=10GB/s", 4),
                            .network = alpha_beta(0, 1e15),
                            .policies = {"wfbp"},
                            .slowness = {1, 1, 1, 1}};
    request.slowness[slow] = 3;
    const TrainingRow row = only_row(request);
    EXPECT_TRUE(row.run.steady);
    EXPECT_GE(row.run.iteration_ps, row.bound_ps - 1);
    EXPECT_GE(row.run.iteration_ps, row.compute_ps);
  }
}

// A fast stage of one replica comes to its next iteration while the slow replica still computes
// this one: it waits for the slow one's gradients, though its own parameters are in place.
TEST(Slowness, NobodyStartsAnIterationBeforeAllGradientsOfTheLastAreThere) {
  const Workload workload = small_workload();
  int32_t steady = 0, trained = 0;
  for (const std::string& policy : all_policies()) {
    TrainingRequest request{.workload = workload,
                            .strategy = strategy_of("pp=2,micro_batches=4", 4),
                            .network = alpha_beta(10 * kUs, 2e9),
                            .policies = {policy},
                            .slowness = {1, 1, 5, 5},
                            .iteration = {.most_iterations = 100, .keep_spans = true}};
    const auto rows = train(request);
    ASSERT_TRUE(rows) << policy << ": " << rows.error().message;
    const TrainingRow& row = rows->front();
    EXPECT_GE(row.run.iteration_ps, row.bound_ps - 1) << policy;
    ++trained;
    steady += row.run.steady ? 1 : 0;
    // Each computation runs once an iteration on each worker: nobody gets ahead.
    for (std::size_t worker = 0; worker < row.run.workers.size(); ++worker) {
      int64_t expected_ps = 0;
      for (const TraceNode& node : row.trace->workers[worker].nodes) {
        expected_ps += node.kind == TraceNodeKind::kCompute ? node.duration_ps : 0;
      }
      if (row.run.steady) {
        EXPECT_EQ(row.run.workers[worker].compute_ps, expected_ps) << policy << " " << worker;
      }
    }
  }
  EXPECT_GE(10 * steady, 9 * trained);
}

}  // namespace
}  // namespace pleach
