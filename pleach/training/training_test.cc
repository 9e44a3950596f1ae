// train(): policies × strategies × networks against what must hold, and against closed forms.
#include "pleach/training/training.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pleach/collective/formats.h"
#include "pleach/policy/alpha_beta.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/topology/shapes.h"
#include "tests/support/trainings.h"

namespace pleach {
namespace {

// --- every policy × strategy ---------------------------------------------------------------------

struct StrategyCase {
  std::string name;
  std::string strategy;
  int32_t ranks = 8;
  int32_t zero = 0;
};

class Strategies : public testing::TestWithParam<StrategyCase> {
 protected:
  // The line that refuses a policy at a ZeRO stage; empty where it fits.
  static std::string refusal(const PolicyDescriptor& policy, int32_t zero) {
    const bool reduces = std::ranges::find(policy.collectives, CollectiveKind::kAllReduce) !=
                         policy.collectives.end();
    const std::string line =
        "policy " + policy.name + " does not fit zero=" + std::to_string(zero) + ": ";
    if (zero > 0 && reduces) {
      return line + "it needs all_reduce; use " +
             (zero == 3 ? "fsdp" : "zero1, dear or work_conserving");
    }
    if (zero == 3 && policy.name != "fsdp") {
      return line + "it keeps all parameters on every rank; use fsdp";
    }
    return "";
  }
};

TEST_P(Strategies, EveryPolicyIsAboveTheBoundAndRepeats) {
  const Workload workload = small_workload();
  const Strategy strategy = strategy_of(GetParam().strategy, GetParam().ranks);
  for (const PolicyDescriptor* descriptor : policies()) {
    const std::string& policy = descriptor->name;
    SCOPED_TRACE(policy);
    const TrainingRequest request{.workload = workload,
                                  .strategy = strategy,
                                  .network = alpha_beta(10 * kUs, 2e9),
                                  .policies = {policy},
                                  .iteration = {.most_iterations = 100}};
    const auto rows = train(request);
    const std::string refused = refusal(*descriptor, GetParam().zero);
    if (!refused.empty()) {
      ASSERT_FALSE(rows);
      EXPECT_EQ(rows.error().message, refused);
      continue;
    }
    ASSERT_TRUE(rows) << rows.error().message;
    const TrainingRow& row = rows->front();
    EXPECT_GE(row.run.iteration_ps, row.bound_ps - 1);
    EXPECT_GE(row.bound_ps, row.compute_ps);
    EXPECT_EQ(row.exposed_ps, row.run.iteration_ps - row.compute_ps);
    if (policy != "horovod") {  // its cycle knows nothing of iterations
      EXPECT_TRUE(row.run.steady);
      EXPECT_EQ(row.run.deviation_ps, 0);
    }
    const TrainingRow again = only_row(request);
    EXPECT_EQ(again.run.iteration_ps, row.run.iteration_ps);
    EXPECT_EQ(again.run.iterations, row.run.iterations);
    EXPECT_EQ(again.run.event_count, row.run.event_count);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Small, Strategies,
    testing::Values(StrategyCase{"data", ""}, StrategyCase{"pipeline", "pp=2,micro_batches=4"},
                    StrategyCase{"gpipe", "pp=4,micro_batches=4,schedule=gpipe"},
                    StrategyCase{"tensor", "tp=2"},
                    StrategyCase{"tensor_sequence", "tp=4,tensor_sequence=on"},
                    StrategyCase{"three", "tp=2,pp=2,micro_batches=4"},
                    StrategyCase{"expert", "ep=4"},
                    StrategyCase{"expert_pipeline", "ep=2,pp=2,micro_batches=2"},
                    StrategyCase{"sequence", "sp=2"}, StrategyCase{"zero1", "zero=1", 8, 1},
                    StrategyCase{"zero2", "zero=2", 8, 2}, StrategyCase{"zero3", "zero=3", 8, 3},
                    StrategyCase{"zero3_pipeline", "zero=3,pp=2,micro_batches=2", 8, 3},
                    StrategyCase{"stream", "stream=10GB/s"}),
    [](const auto& one) { return one.param.name; });

// --- modules without parameters
// ---------------------------------------------------------------------

// At the ends, in a row, and a block of their own: they compute, and no policy hears of them. Where
// all parameters are updated together, no forward starts before that, not even of a module that has
// none; its backward, which nothing waits for, is left out here.
TEST(Modules, WithoutParametersOnlyCompute) {
  Workload workload = plain_workload(9, kMs, 2 * kMs, 1'000'000);
  for (const int32_t layer : {0, 3, 4, 8}) {
    workload.model.layers[at(layer)].tensors.clear();
  }
  std::get<MeasuredTimes>(workload.times).layers[0].backward_ps = 0;
  // The same, with the time of modules given to those before them, and the first's to the second.
  Workload joined = plain_workload(5, kMs, 2 * kMs, 1'000'000);
  auto& times = std::get<MeasuredTimes>(joined.times).layers;
  for (const auto& [layer, modules] : {std::pair<std::size_t, int64_t>{0, 2}, {1, 3}, {4, 2}}) {
    times[layer].forward_ps *= modules;
    times[layer].backward_ps *= layer == 0 ? 1 : modules;
  }
  int rows_seen = 0;
  for (const char* text : {"", "pp=2,micro_batches=2"}) {
    TrainingRequest request{.workload = workload,
                            .strategy = strategy_of(text, 4),
                            .network = alpha_beta(10 * kUs, 2e9),
                            .policies = all_policies(),
                            .slowness = {1, 1, 1, 1.5},
                            .iteration = {.most_iterations = 100}};
    const auto rows = train(request);
    ASSERT_TRUE(rows) << rows.error().message;
    for (const TrainingRow& row : *rows) {
      EXPECT_GE(row.run.iteration_ps, row.bound_ps) << row.policy;
      ++rows_seen;
    }
  }
  TrainingRequest request{.workload = joined,
                          .strategy = strategy_of("", 4),
                          .network = alpha_beta(10 * kUs, 2e9),
                          .policies = {"sequential", "wfbp", "ddp", "zero1"}};
  const auto whole = train(request);
  const auto modules = train({.workload = workload,
                              .strategy = request.strategy,
                              .network = request.network,
                              .policies = request.policies});
  ASSERT_TRUE(whole && modules);
  for (std::size_t row = 0; row < whole->size(); ++row) {
    EXPECT_EQ((*modules)[row].run.iteration_ps, (*whole)[row].run.iteration_ps)
        << (*whole)[row].policy;
  }
  EXPECT_EQ(rows_seen, 2 * count_of(all_policies()));
}

// What is trained in a second, what a rank holds, and how much of its peak it uses.
TEST(Rates, AreThoseOfAllReplicasAndOfThePolicysShards) {
  const auto accelerator = parse_accelerator("h100");
  ASSERT_TRUE(accelerator);
  const auto workload = load_workload("llama,layers=2,hidden=1024,sequence=512", *accelerator, 8);
  ASSERT_TRUE(workload) << workload.error().message;
  const auto rows = train({.workload = *workload,
                           .strategy = strategy_of("tp=2", 8),
                           .network = alpha_beta(0, 1e12),
                           .policies = {"ddp", "zero1", "fsdp"}});
  ASSERT_TRUE(rows) << rows.error().message;
  for (const TrainingRow& row : *rows) {
    const double iteration_s = static_cast<double>(row.run.iteration_ps) * 1e-12;
    EXPECT_DOUBLE_EQ(row.samples_per_s, 8 * 4 / iteration_s);
    EXPECT_DOUBLE_EQ(row.tokens_per_s, 512 * row.samples_per_s);
    const double operations = product_operations(workload->model) * 8 * 4;
    EXPECT_NEAR(row.peak_share, operations / (989e12 * 8 * iteration_s), 1e-9);
    EXPECT_LT(row.peak_share, 0.5);  // what products attain
    EXPECT_GT(row.peak_share, 0.01);
  }
  // Of 16 bytes a parameter four replicas share 12, or all.
  const auto held = [&](std::size_t row) {
    return static_cast<double>((*rows)[row].memory.state_bytes);
  };
  EXPECT_NEAR(held(1) / held(0), (4 + 12.0 / 4) / 16, 1e-6);
  EXPECT_NEAR(held(2) / held(0), 1.0 / 4, 1e-6);
  // Measured times know no peak, and these samples no tokens.
  const TrainingRow plain = only_row({.workload = plain_workload(2, kMs, kMs),
                                      .strategy = strategy_of("", 2),
                                      .network = alpha_beta(0, 1e12),
                                      .policies = {"ddp"}});
  EXPECT_GT(plain.samples_per_s, 0);
  EXPECT_EQ(plain.tokens_per_s, 0);
  EXPECT_EQ(plain.peak_share, 0);
}

// Layers of 4000 bytes: one at a time where the wire is faster than backward, all where it is
// slower; of three one is reduced, one gathered, and one computed with.
TEST(Rates, CountTheBucketsOnTheirWay) {
  const auto held = [](const std::string& policy, int64_t alpha_ps) {
    const TrainingRow row = only_row({.workload = plain_workload(4, kMs, kMs),
                                      .strategy = strategy_of("", 2),
                                      .network = alpha_beta(alpha_ps, 1e15),
                                      .policies = {policy}});
    EXPECT_EQ(row.memory.activation_bytes, 0);  // the model says nothing of them
    return row.memory.bucket_bytes;
  };
  EXPECT_EQ(held("wfbp", 0), 4000);
  EXPECT_EQ(held("wfbp", 100 * kMs), 16'000);
  EXPECT_EQ(held("sequential", 0), 16'000);
  EXPECT_EQ(held("fsdp", 0), 12'000);
}

// The second stage has fewer parameters and larger buckets; no rank holds the most of both.
TEST(Rates, AddTheMemoryOfOneRank) {
  Workload workload = plain_workload(3, kMs, 10 * kMs, 1'000'000);
  workload.model.layers[1].block = 0;
  workload.model.layers[2].block = 1;
  workload.model.layers[2].tensors[0].element_count = 1'900'000;
  std::get<MeasuredTimes>(workload.times).layers[2].backward_ps = 20 * kMs;
  const TrainingRow row = only_row({.workload = workload,
                                    .strategy = strategy_of("pp=2,dp=2", 4),
                                    .network = alpha_beta(0, 1e9),
                                    .policies = {"wfbp"}});
  EXPECT_EQ(row.memory.state_bytes, 1'900'000 * 20);
  EXPECT_EQ(row.memory.bucket_bytes, 1'900'000 * 4);
}

// Adam moves 28 bytes for a parameter of two: each rank all of them, or its share.
TEST(Optimizer, TakesWhatItsBytesNeedInMemory) {
  const auto accelerator = parse_accelerator("roofline,operations=1e15,memory=1GB/s,overhead=0us");
  ASSERT_TRUE(accelerator);
  const auto workload = load_workload("llama,layers=2,hidden=256,sequence=32", *accelerator, 4);
  ASSERT_TRUE(workload) << workload.error().message;
  const auto computes_ps = [&](const std::string& strategy, const std::string& policy) {
    return only_row({.workload = *workload,
                     .strategy = strategy_of(strategy, 4),
                     .network = alpha_beta(0, 1e15),
                     .policies = {policy}})
        .compute_ps;
  };
  const int64_t step_ps = 28 * 1000 * parameter_count(workload->model);
  for (const char* policy : {"ddp", "zero1", "fsdp"}) {
    const bool shares = std::string(policy) != "ddp";
    EXPECT_NEAR(
        static_cast<double>(computes_ps("", policy) - computes_ps("optimizer=none", policy)),
        static_cast<double>(step_ps) / (shares ? 4 : 1), 100)
        << policy;
  }
  EXPECT_EQ(computes_ps("zero=1", "dear"), computes_ps("", "zero1"));
}

// Forward once more for backward, with the sums of tensor parallelism.
TEST(Recompute, RepeatsForwardInBackward) {
  const Workload workload = small_workload();
  const auto row_of = [&](const std::string& strategy) {
    return only_row({.workload = workload,
                     .strategy = strategy_of(strategy, 4),
                     .network = alpha_beta(kUs, 1e10),
                     .policies = {"ddp"}});
  };
  const TrainingRow plain = row_of("dp=2,tp=2");
  const TrainingRow again = row_of("dp=2,tp=2,recompute=on");
  EXPECT_EQ(again.compute_ps * 3, plain.compute_ps * 4);  // backward is twice forward
  const auto sums = [](const TrainingRow& row) {
    return std::ranges::count(row.trace->workers[0].nodes, TraceNodeKind::kCollective,
                              &TraceNode::kind);
  };
  EXPECT_EQ(sums(plain), 2 * 16);
  EXPECT_EQ(sums(again), 3 * 16);
  EXPECT_GE(again.run.iteration_ps, again.bound_ps);
}

// The sum after the first layer's backward ends the iteration; no gradient travels.
TEST(Waits, OfTheIterationsEndAreForWhatEndsIt) {
  Workload workload = plain_workload(1, kMs, kMs);
  workload.model.layers[0].is_split = true;
  workload.model.layers[0].forward_sum_elements = 1000;
  workload.model.layers[0].backward_sum_elements = 100'000;
  const TrainingRow row = only_row({.workload = workload,
                                    .strategy = strategy_of("tp=2,dp=1", 2),
                                    .network = alpha_beta(0, 1e9),
                                    .policies = {"sequential"}});
  EXPECT_EQ(row.run.workers.front().gradient_wait_ps, 0);
  EXPECT_EQ(row.run.workers.front().collective_wait_ps, row.run.iteration_ps - row.compute_ps);
  EXPECT_GT(row.run.workers.front().collective_wait_ps, 0);
}

// What entered a block is all that was kept: its first layer computes again before its last one's
// backward, whose gradient comes so much later.
TEST(Recompute, GoesBlockByBlock) {
  Workload workload = plain_workload(2, 0, 0, 1'000'000);
  workload.model.layers[0].tensors[0].element_count = 1;
  workload.model.layers[1].block = 0;
  auto& times = std::get<MeasuredTimes>(workload.times).layers;
  times = {{.forward_ps = 10 * kMs, .backward_ps = kMs}, {.forward_ps = kMs, .backward_ps = kMs}};
  // The last layer's 4 MB take 10 ms, behind which the first layer's backward hides.
  const auto iteration_ms = [&](const std::string& strategy) {
    const TrainingRow row = only_row({.workload = workload,
                                      .strategy = strategy_of(strategy, 2),
                                      .network = alpha_beta(0, 4e8),
                                      .policies = {"wfbp"}});
    return static_cast<double>(row.run.iteration_ps) / kMs;
  };
  EXPECT_NEAR(iteration_ms(""), 10 + 1 + 1 + 10, 1e-3);
  EXPECT_NEAR(iteration_ms("recompute=on"), 10 + 1 + 10 + 1 + 1 + 10, 1e-3);
  workload.model.layers[1].block = 1;  // now hidden, but for a millisecond
  EXPECT_NEAR(iteration_ms("recompute=on"), 10 + 1 + 1 + 1 + 10 + 1, 1e-3);
}

// What planned by curves says so where families meet; what only follows gradients does not.
TEST(Plans, ByCurvesAreMarkedInFullRuns) {
  const Workload workload = small_workload();
  const auto topology = parse_topology("ring:4");
  ASSERT_TRUE(topology);
  for (const CostSource source : {CostSource::kCurves, CostSource::kFull}) {
    const auto rows = train({.workload = workload,
                             .strategy = strategy_of("", 4),
                             .network = {.source = source, .topology = &*topology},
                             .policies = {"ddp", "mg_wfbp", "work_conserving"}});
    ASSERT_TRUE(rows) << rows.error().message;
    EXPECT_FALSE((*rows)[0].planned_on_curves);
    EXPECT_EQ((*rows)[1].planned_on_curves, source == CostSource::kFull);
    EXPECT_EQ((*rows)[2].planned_on_curves, source == CostSource::kFull);
  }
}

// --- one network against another -----------------------------------------------------------------

// With one group and one collective at a time, what a collective takes alone is what it takes.
TEST(Networks, FullContentionIsTheCurvesWhereNothingMeets) {
  const Workload workload = small_workload();
  const auto topology = parse_topology("torus:4x4,bandwidth=1GB/s");
  ASSERT_TRUE(topology);
  for (const char* algorithm : {"ring", "bidirectional_ring", "halving_doubling", "multitree"}) {
    NetworkChoice network{.topology = &*topology, .fabric = {.algorithm = algorithm}};
    TrainingRequest request{.workload = workload,
                            .strategy = strategy_of("", 16),
                            .network = network,
                            .policies = all_policies()};
    const auto curves = train(request);
    ASSERT_TRUE(curves) << curves.error().message;
    request.network.source = CostSource::kFull;
    const auto full = train(request);
    ASSERT_TRUE(full) << full.error().message;
    for (std::size_t row = 0; row < curves->size(); ++row) {
      EXPECT_NEAR(ratio((*full)[row].run.iteration_ps, (*curves)[row].run.iteration_ps), 1, 0.01)
          << algorithm << " " << (*full)[row].policy;
    }
  }
}

// Links so slow that collectives queue from the first one on: each makes the others later by its
// overhead.
TEST(Networks, EveryCollectiveTakesTheOverhead) {
  const Workload workload = small_workload();
  const auto topology = parse_topology("ring:4,bandwidth=1MB/s");
  ASSERT_TRUE(topology);
  const int64_t overhead_ps = 10 * kMs;
  for (const CostSource source : {CostSource::kCurves, CostSource::kFull}) {
    for (const char* policy : {"ddp", "wfbp"}) {
      const auto row_with = [&](int64_t own_ps) {
        return only_row(
            {.workload = workload,
             .strategy = strategy_of("", 4),
             .network = {.source = source, .topology = &*topology, .overhead_ps = own_ps},
             .policies = {policy}});
      };
      const TrainingRow row = row_with(overhead_ps);
      const auto collectives = static_cast<int64_t>(explain(row).size());
      EXPECT_GE(collectives, 2) << policy;
      EXPECT_EQ(row.run.iteration_ps - row_with(0).run.iteration_ps, collectives * overhead_ps)
          << policy;
      EXPECT_GE(row.run.iteration_ps, row.bound_ps);
    }
  }
}

// A file that no group of the training would use is not passed over.
TEST(Networks, EveryScheduleFileIsOfAGroup) {
  const Workload workload = small_workload();
  const auto topology = parse_topology("ring:8");
  ASSERT_TRUE(topology);
  const std::string path = testing::TempDir() + "training_pair.json";
  const auto made = synthesize({.topology = *topology, .participants = {{0}, {1}}}, "ring");
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_TRUE(write_schedule(*made, path));
  for (const auto& [strategy, fits] : {std::pair("dp=4,tp=2", true), std::pair("dp=8", false)}) {
    const auto rows =
        train({.workload = workload,
               .strategy = strategy_of(strategy, 8),
               .network = {.topology = &*topology, .fabric = {.algorithm = path + ",ring"}},
               .policies = {"ddp"}});
    EXPECT_EQ(rows.has_value(), fits) << strategy;
    EXPECT_TRUE(fits || rows.error().message.starts_with(path)) << rows.error().message;
  }
}

// Each family, and the messages between stages, at what is theirs: as much faster as the numbers
// say.
TEST(Networks, FamiliesMayHaveLinksOfTheirOwn) {
  const Workload workload = small_workload();
  const auto time_ps = [&](const std::string& strategy,
                           const std::map<std::string, RingLink>& links) {
    NetworkChoice network = alpha_beta(10 * kUs, 1e9);
    network.family_links = links;
    return only_row({.workload = workload,
                     .strategy = strategy_of(strategy, 4),
                     .network = network,
                     .policies = {"ddp"}})
        .run.iteration_ps;
  };
  const RingLink fast{0, 1e15};
  for (const std::string strategy : {"dp=2,tp=2", "dp=2,pp=2,micro_batches=2"}) {
    const std::string inner = strategy.find("tp") != std::string::npos ? "tensor" : "pipeline";
    const int64_t plain_ps = time_ps(strategy, {});
    const int64_t data_ps = time_ps(strategy, {{"data", fast}});
    const int64_t inner_ps = time_ps(strategy, {{inner, fast}});
    EXPECT_LT(data_ps, plain_ps) << strategy;
    EXPECT_LT(inner_ps, plain_ps) << strategy;
    EXPECT_LT(time_ps(strategy, {{"data", fast}, {inner, fast}}), std::min(data_ps, inner_ps));
    EXPECT_EQ(time_ps(strategy, {{"data", {10 * kUs, std::nullopt}}, {inner, {std::nullopt, 1e9}}}),
              plain_ps);
  }
  NetworkChoice network = alpha_beta(10 * kUs, 1e9);
  network.family_links["tensr"] = fast;
  const auto rows = train({.workload = workload,
                           .strategy = strategy_of("dp=2,tp=2", 4),
                           .network = network,
                           .policies = {"ddp"}});
  ASSERT_FALSE(rows);
  EXPECT_EQ(rows.error().message,
            "links by family: unknown family 'tensr'; did you mean 'tensor'? known: data, tensor");
}

TEST(Networks, AFamilyMayHaveAnAlgorithmOfItsOwn) {
  const Workload workload = small_workload();
  const auto topology = parse_topology("torus:2x4,bandwidth=1GB/s");
  ASSERT_TRUE(topology);
  const auto time_ps = [&](const FabricOptions& fabric) {
    return only_row({.workload = workload,
                     .strategy = strategy_of("", 8),
                     .network = {.topology = &*topology, .fabric = fabric},
                     .policies = {"ddp"}})
        .run.iteration_ps;
  };
  const int64_t multitree_ps = time_ps({.algorithm = "multitree"});
  EXPECT_NE(time_ps({.algorithm = "ring"}), multitree_ps);
  EXPECT_EQ(time_ps({.algorithm = "ring", .family_algorithms = {{"data", "multitree"}}}),
            multitree_ps);
}

// The planner is told of the replica that everybody waits for.
TEST(WorkConserving, PlansForTheSlowestReplica) {
  const auto accelerator = parse_accelerator("a100");
  ASSERT_TRUE(accelerator);
  const auto workload = load_workload("alexnet", *accelerator, 0);
  const auto topology = parse_topology("ring:8");
  ASSERT_TRUE(workload);
  ASSERT_TRUE(topology);
  for (const double slowness : {0.1, 2.0, 5.0}) {
    std::vector<double> ranks(8, 1);
    ranks[3] = slowness;
    const auto rows = train({.workload = *workload,
                             .strategy = strategy_of("", 8),
                             .network = {.topology = &*topology},
                             .policies = {"dear", "ddp", "mg_wfbp", "work_conserving"},
                             .slowness = ranks});
    ASSERT_TRUE(rows) << rows.error().message;
    for (const TrainingRow& row : *rows) {
      EXPECT_LE(rows->back().run.iteration_ps, row.run.iteration_ps)
          << row.policy << " with a rank of slowness " << slowness;
    }
  }
}

// Tensor groups and data groups share the torus: neither gains from the other, and nothing is
// faster than gradients in no time.
TEST(Networks, FamiliesThatMeetAreNoFaster) {
  const Workload workload = small_workload();
  const auto topology = parse_topology("torus:4x4,bandwidth=1GB/s");
  ASSERT_TRUE(topology);
  TrainingRequest request{.workload = workload,
                          .strategy = strategy_of("tp=4", 16),
                          .network = {.source = CostSource::kFull, .topology = &*topology},
                          .policies = {"wfbp", "ddp", "dear", "work_conserving"}};
  const auto full = train(request);
  ASSERT_TRUE(full) << full.error().message;
  constexpr double kTolerance = 0.005;  // of the curves
  for (const TrainingRow& row : *full) {
    EXPECT_GE(row.run.iteration_ps, row.bound_ps) << row.policy;
    EXPECT_GT(row.run.workers.front().collective_wait_ps, 0) << row.policy;
  }
  request.network.source = CostSource::kCurves;
  const TrainingRow curves = only_row(request);
  EXPECT_GE(static_cast<double>(full->front().run.iteration_ps),
            static_cast<double>(curves.run.iteration_ps) * (1 - 2 * kTolerance));
}

// Blocks of a transformer are gathered whole: on two boxes of eight with a card of 25 GB/s each,
// all of llama's but the first and last hide behind computation.
TEST(Fsdp, HidesWholeBlocks) {
  const auto accelerator = parse_accelerator("h100");
  ASSERT_TRUE(accelerator);
  const auto workload = load_workload("llama,layers=4,hidden=4096", *accelerator, 0);
  ASSERT_TRUE(workload) << workload.error().message;
  const TrainingRow row = only_row({.workload = *workload,
                                    .strategy = strategy_of("zero=3", 16),
                                    .network = alpha_beta(2 * kUs, 25e9),
                                    .policies = {"fsdp"}});
  EXPECT_EQ(row.trace->gradient_groups.front().layers.size(), workload->model.layers.size());
  const int32_t blocks = 1 + workload->model.layers.back().block;
  EXPECT_EQ(count_of(row.run.logs.front()), 3 * blocks);
}

// --- noisy ranks ---------------------------------------------------------------------------------

TEST(Jitter, IsReproducibleAndSlower) {
  const Workload workload = small_workload();
  TrainingRequest request{.workload = workload,
                          .strategy = strategy_of("", 8),
                          .network = alpha_beta(10 * kUs, 2e9),
                          .policies = {"wfbp", "dear", "work_conserving"}};
  const auto even = train(request);
  ASSERT_TRUE(even) << even.error().message;
  request.iteration.jitter = 0.1;
  request.iteration.seed = 7;
  const auto noisy = train(request);
  const auto again = train(request);
  request.iteration.seed = 8;
  const auto other = train(request);
  ASSERT_TRUE(noisy && again && other);
  for (std::size_t row = 0; row < even->size(); ++row) {
    const TrainingRun& run = (*noisy)[row].run;
    EXPECT_FALSE(run.steady);
    EXPECT_EQ(run.iterations, request.iteration.most_iterations);
    EXPECT_GT(run.deviation_ps, 0);
    EXPECT_GT(run.iteration_ps, (*even)[row].run.iteration_ps);
    EXPECT_EQ(run.iteration_ps, (*again)[row].run.iteration_ps);
    EXPECT_EQ(run.deviation_ps, (*again)[row].run.deviation_ps);
    EXPECT_NE(run.iteration_ps, (*other)[row].run.iteration_ps);
  }
}

// Replicas that are alike may be one worker.
TEST(Merging, AlikeReplicasAreOneWorkerOrMany) {
  const Workload workload = small_workload();
  for (const char* text : {"", "tp=2", "pp=2,micro_batches=4", "sp=2", "ep=4"}) {
    const Strategy strategy = strategy_of(text, 8);
    for (const std::string& policy : all_policies()) {
      std::vector<int64_t> iteration_ps;
      for (const bool merge : {true, false}) {
        TraceRequest request{.workload = workload, .strategy = strategy};
        request.merge_alike = merge;
        request.backward_gates = policy == "fsdp";
        const auto trace = build_trace(request);
        ASSERT_TRUE(trace) << trace.error().message;
        const auto costs = alpha_beta_costs(*trace, {10 * kUs, 2e9});
        const auto network = independent_network(*costs);
        std::vector<TrainingProfile> profiles;
        for (const GradientGroup& group : trace->gradient_groups) {
          profiles.push_back(profile_of(group));
        }
        std::vector<AlphaBeta> models;
        models.reserve(profiles.size());
        std::vector<std::unique_ptr<Policy>> owned;
        std::vector<Policy*> borrowed;
        for (const TrainingProfile& profile : profiles) {
          models.emplace_back(profile.rank_count, 10 * kUs, 2e9);
          auto one = create_policy(policy, {.profile = profile, .costs = models.back()});
          ASSERT_TRUE(one) << one.error().message;
          borrowed.push_back(one->get());
          owned.push_back(std::move(*one));
        }
        const auto run = simulate_training(*trace, borrowed, *network, {.most_iterations = 100});
        ASSERT_TRUE(run) << run.error().message;
        iteration_ps.push_back(run->iteration_ps);
      }
      EXPECT_EQ(iteration_ps[0], iteration_ps[1]) << text << " " << policy;
    }
  }
}

// --- closed forms --------------------------------------------------------------------------------

// m micro-batches through p equal stages: (m + p − 1) / m of a stage's computation (Huang et al.,
// GPipe, sec. 2.3), in either order.
TEST(Pipeline, BubbleIsTheClosedForm) {
  const Workload workload = plain_workload(8, 16 * kMs, 32 * kMs);
  for (const char* schedule : {"gpipe", "1f1b"}) {
    for (const int32_t stages : {1, 2, 4, 8}) {
      for (const int32_t micro_batches : {1, 2, 8, 16}) {
        const std::string text = "pp=" + std::to_string(stages) +
                                 ",micro_batches=" + std::to_string(micro_batches) +
                                 ",schedule=" + schedule;
        const Strategy strategy = strategy_of(text, stages);
        const TrainingRow row = only_row(compute_bound(workload, strategy));
        const int64_t stage_ps = 8 * 48 * kMs / stages;
        EXPECT_EQ(row.compute_ps, stage_ps) << text;
        EXPECT_EQ(row.run.iteration_ps, stage_ps / micro_batches * (micro_batches + stages - 1))
            << text;
        EXPECT_TRUE(row.run.steady) << text;
        if (stages > 1) {
          EXPECT_EQ(row.run.workers.front().compute_ps + row.run.workers.front().receive_wait_ps,
                    row.run.iteration_ps)
              << text;
        }
      }
    }
  }
}

// GPipe with messages of s: they delay the first micro-batch on its way down and the last on its
// way up, (m + p − 1)(f + b) + 2 (p − 1) s, as long as s hides behind the next micro-batch.
TEST(Pipeline, GpipeMessagesDelayTheEndsOnly) {
  Workload workload = plain_workload(4, 16 * kMs, 32 * kMs);
  for (ModelLayer& layer : workload.model.layers) {
    layer.output_elements = 1'000'000;  // 4 MB a sample
  }
  TrainingRequest request{.workload = workload,
                          .strategy = strategy_of("pp=4,micro_batches=8,schedule=gpipe", 4),
                          .network = alpha_beta(100 * kUs, 1e10),
                          .policies = {"wfbp"}};
  const TrainingRow row = only_row(request);
  const int64_t send_ps = 100 * kUs + 800 * kUs;  // two samples of 4 MB at 10 GB/s
  EXPECT_EQ(row.run.iteration_ps, (8 + 4 - 1) * 6 * kMs + 2 * 3 * send_ps);
}

// Tensor parallelism: four all_reduces of batch × sequence × hidden a transformer block (Shoeybi et
// al., Megatron-LM, sec. 3), in which computation stands still.
TEST(Tensor, FourAllReducesABlock) {
  const auto accelerator = parse_accelerator("a100");
  ASSERT_TRUE(accelerator);
  constexpr int64_t kBlockBytes = int64_t{2} * 2048 * 12288 * 2;  // batch 2, 2 bytes an element
  std::vector<int64_t> counts;
  for (const char* spec : {"gpt3,layers=2", "gpt3,layers=5"}) {
    const auto workload = load_workload(spec, *accelerator, 2);
    ASSERT_TRUE(workload) << workload.error().message;
    const Strategy strategy = strategy_of("tp=4", 4);
    TrainingRequest request{.workload = *workload,
                            .strategy = strategy,
                            .network = alpha_beta(5 * kUs, 100e9),
                            .policies = {"wfbp"}};
    const TrainingRow row = only_row(request);
    const AlphaBeta costs(4, 5 * kUs, 100e9);
    int64_t in_blocks = 0;
    int64_t expected_ps = row.compute_ps;
    for (const TraceNode& node : row.trace->workers.front().nodes) {
      if (node.kind == TraceNodeKind::kCollective) {
        EXPECT_EQ(node.collective, CollectiveKind::kAllReduce);
        in_blocks += node.size_bytes == kBlockBytes ? 1 : 0;
        expected_ps += costs.time_ps(node.collective, node.size_bytes);
      }
    }
    EXPECT_EQ(row.run.iteration_ps, expected_ps);
    EXPECT_EQ(row.run.workers.front().collective_wait_ps, row.exposed_ps);
    counts.push_back(in_blocks);
  }
  EXPECT_EQ(counts[1] - counts[0], (5 - 2) * 4);
  // Outside the blocks at most the embedding, after forward, and the output, before and after.
  EXPECT_LE(counts[0], 2 * 4 + 3);
}

// --- explain -------------------------------------------------------------------------------------

struct ExpectedBucket {
  std::string layer;
  std::string waited_for;
  int64_t ready, started, finished, exposed;  // ms from the start of forward
};

void expect_buckets(const std::vector<BucketReport>& buckets,
                    const std::vector<ExpectedBucket>& expected) {
  ASSERT_EQ(buckets.size(), expected.size());
  for (std::size_t index = 0; index < buckets.size(); ++index) {
    const BucketReport& bucket = buckets[index];
    SCOPED_TRACE(bucket.first_layer);
    EXPECT_EQ(bucket.first_layer, expected[index].layer);
    EXPECT_EQ(bucket.last_layer, expected[index].layer);
    EXPECT_EQ(bucket.waited_for, expected[index].waited_for);
    EXPECT_EQ(bucket.ready_ps, expected[index].ready * kMs);
    EXPECT_EQ(bucket.started_ps, expected[index].started * kMs);
    EXPECT_EQ(bucket.finished_ps, expected[index].finished * kMs);
    EXPECT_EQ(bucket.exposed_ps, expected[index].exposed * kMs);
  }
}

// Three layers of 1 ms forward and 2 ms backward; an all_reduce takes 4 ms. In wfbp the one of
// layer 2 goes at 5 ms, when its gradients are there; that of layer 1 (ready at 7) when the channel
// is free, at 9, the next iteration's start; that of layer 0 at 13. Forward starts at 17.
TEST(Explain, SaysWhatEachBucketWaitedFor) {
  const Workload workload = plain_workload(3, kMs, 2 * kMs, 1'000'000);  // 4 MB a layer
  TrainingRequest request{.workload = workload,
                          .strategy = strategy_of("", 2),
                          .network = alpha_beta(0, 1e9),  // 4 MB: 2·(1/2)·4 ms
                          .policies = {"wfbp", "p3,slice=4MB"}};
  const auto rows = train(request);
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_EQ(rows->front().run.iteration_ps, 17 * kMs);
  // Worker 0's iteration ends with its backward; so the next one starts at 9, and forward 8 later.
  expect_buckets(explain(rows->front()), {{"layer1", "channel", -2, 0, 4, 4},
                                          {"layer0", "channel", 0, 4, 8, 4},
                                          {"layer2", "gradients", 13, 13, 17, 0}});
  // By priority, one at a time: at 9 the policy holds layer 1 back for layer 0, and forward of
  // layer 0 runs in the meantime.
  EXPECT_EQ(rows->back().run.iteration_ps, 16 * kMs);
  expect_buckets(explain(rows->back()), {{"layer0", "gradients", 0, 0, 4, 4},
                                         {"layer1", "policy", -2, 4, 8, 3},
                                         {"layer2", "gradients", 12, 12, 16, 0}});
}

// What computation waits for is on the wire, except where the policy lets the channel idle.
TEST(Explain, ExposedTimesSumUpToTheWait) {
  const Workload workload = small_workload();
  std::size_t compared = 0, waits = 0;
  for (const double bandwidth : {2e9, 3e8}) {
    TrainingRequest request{.workload = workload,
                            .strategy = strategy_of("", 8),
                            .network = alpha_beta(10 * kUs, bandwidth),
                            .policies = all_policies(),
                            .iteration = {.most_iterations = 100}};
    const auto rows = train(request);
    ASSERT_TRUE(rows) << rows.error().message;
    for (const TrainingRow& row : *rows) {
      int64_t exposed_ps = 0;
      for (const BucketReport& bucket : explain(row)) {
        EXPECT_LE(bucket.ready_ps, bucket.issued_ps);
        EXPECT_LE(bucket.issued_ps, bucket.started_ps);
        EXPECT_LT(bucket.started_ps, bucket.finished_ps);
        EXPECT_LE(bucket.exposed_ps, bucket.finished_ps - bucket.started_ps);
        exposed_ps += bucket.exposed_ps;
      }
      if (row.run.steady && row.run.period == 1) {
        ++compared;
        waits += exposed_ps > 0 ? 1 : 0;
        EXPECT_EQ(exposed_ps, row.run.workers.front().gradient_wait_ps)
            << row.policy << " at " << bandwidth;
      }
    }
  }
  EXPECT_GE(4 * compared, 3 * 2 * policies().size());
  EXPECT_GE(4 * waits, 3 * compared);
}

// --- bad input -----------------------------------------------------------------------------------

TEST(Errors, AreOneLine) {
  const Workload workload = small_workload();
  const auto topology = parse_topology("torus:2x2");
  ASSERT_TRUE(topology);
  const Strategy strategy = strategy_of("", 8);
  const TrainingRequest good{.workload = workload,
                             .strategy = strategy,
                             .network = alpha_beta(0, 1e9),
                             .policies = {"ddp"}};
  struct Case {
    std::string part;  // of the message
    TrainingRequest request;
  };
  std::vector<Case> cases;
  const auto add = [&](const std::string& part, const auto& change) {
    cases.push_back({part, good});
    change(cases.back().request);
  };
  add("unknown policy 'dere'", [](auto& request) { request.policies = {"dere"}; });
  add("unknown option 'x'", [](auto& request) { request.policies = {"ddp,x=1"}; });
  add("slowness is given for 2 ranks of 8", [](auto& request) { request.slowness = {1, 1}; });
  add("slowness of rank 1 is 0",
      [](auto& request) { request.slowness = {1, 0, 1, 1, 1, 1, 1, 1}; });
  add("bandwidth above 0", [](auto& request) { request.network.bandwidth_bytes_per_s = 0; });
  add("has 4 ranks, and 8 are needed",
      [&](auto& request) { request.network = {.topology = &*topology}; });
  add("algorithms by family: unknown family 'dat'; did you mean 'data'? known: data",
      [](auto& request) {
        request.network.fabric.family_algorithms = {{"dat", "ring"}};
      });
  for (const Case& one : cases) {
    const auto rows = train(one.request);
    ASSERT_FALSE(rows) << one.part;
    EXPECT_NE(rows.error().message.find(one.part), std::string::npos) << rows.error().message;
    EXPECT_EQ(rows.error().message.find('\n'), std::string::npos) << rows.error().message;
  }
}

}  // namespace
}  // namespace pleach
