// What holds for every policy on random models: legal, complete, repeatable, no faster than bounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "pleach/base/rng.h"
#include "pleach/policy/alpha_beta.h"
#include "pleach/policy/bound.h"
#include "pleach/policy/policy.h"
#include "pleach/policy/rehearsal.h"
#include "tests/support/random_profiles.h"

namespace pleach {
namespace {

constexpr int64_t kUs = 1'000'000;
constexpr uint64_t kProfiles = 50;

int64_t log_uniform(Rng& rng, double least, double most) {
  return static_cast<int64_t>(least * std::pow(most / least, rng.unit()));
}

// 0 now and then, else up to 20 ms.
int64_t random_time_ps(Rng& rng) {
  return rng.below(6) == 0 ? 0 : log_uniform(rng, 1.0, 20e3 * kUs);
}

struct Scene {
  TrainingProfile profile;
  AlphaBeta costs{1, 0, 1e9};
};

constexpr uint64_t kHardProfiles = 12;

Scene random_scene(uint64_t seed) {
  Rng rng(seed);
  Scene scene;
  if (seed >= kProfiles) {
    scene.profile = support::draw_hard_profile(rng);
    scene.costs = AlphaBeta(scene.profile.rank_count, seed % 2 == 0 ? 0 : 15 * kUs,
                            static_cast<double>(log_uniform(rng, 1e9, 1e11)));
    return scene;
  }
  const auto layers = 1 + static_cast<int64_t>(rng.below(60));
  for (int64_t index = 0; index < layers; ++index) {
    PolicyLayer& layer = scene.profile.layers.emplace_back();
    const uint64_t tensors = seed == 0 ? 0 : rng.below(4);  // one model has no parameters
    for (uint64_t tensor = 0; tensor < tensors; ++tensor) {
      layer.tensor_bytes.push_back(log_uniform(rng, 1.0, 1e8));
    }
    layer.forward_ps = random_time_ps(rng);
    layer.backward_ps = random_time_ps(rng);
    layer.weight_gradient_ps = layer.backward_ps / 2;
    layer.exchange_bytes = rng.below(4) == 0 ? log_uniform(rng, 1.0, 1e7) : 0;
  }
  constexpr int32_t kRanks[] = {1, 2, 64};
  scene.profile.rank_count = kRanks[seed % 3];
  const int64_t alpha_ps = seed % 2 == 0 ? 0 : 15 * kUs;
  scene.costs = AlphaBeta(scene.profile.rank_count, alpha_ps,
                          static_cast<double>(log_uniform(rng, 1e9, 1e11)));
  return scene;
}

// Whether every byte is reduced once by the collectives of `iteration`, and what a reduce_scatter
// has reduced is gathered `gathers` times.
testing::AssertionResult carries_all(const Rehearsal& rehearsal, int32_t iteration,
                                     int64_t total_bytes, int64_t gathers) {
  struct Edge {
    int64_t at = 0;
    CollectiveKind kind = CollectiveKind::kAllReduce;
    int64_t change = 0;
  };
  std::vector<Edge> edges = {{.at = 0}, {.at = total_bytes}};
  for (const HostedCollective& one : rehearsal.log) {
    if (one.iteration == iteration) {
      edges.push_back({one.what.range.begin, one.what.kind, 1});
      edges.push_back({one.what.range.end, one.what.kind, -1});
    }
  }
  std::ranges::stable_sort(edges, {}, &Edge::at);
  std::map<CollectiveKind, int64_t> depth;
  for (std::size_t edge = 0; edge + 1 < edges.size(); ++edge) {
    depth[edges[edge].kind] += edges[edge].change;
    const int64_t whole = depth[CollectiveKind::kAllReduce];
    const int64_t half = depth[CollectiveKind::kReduceScatter] + depth[CollectiveKind::kReduce];
    const int64_t gathered = depth[CollectiveKind::kAllGather] + depth[CollectiveKind::kBroadcast];
    if (edges[edge].at < edges[edge + 1].at && (whole + half != 1 || gathered != gathers * half)) {
      return testing::AssertionFailure() << "byte " << edges[edge].at << ": " << whole << " "
                                         << half << " " << gathered << " times";
    }
  }
  return testing::AssertionSuccess();
}

// Every policy as it comes, and with options that make it another.
std::vector<std::string> specs() {
  std::vector<std::string> result = {"sequential,bucket=1MB",
                                     "ddp,first_bucket=0,bucket=100MB",
                                     "horovod,cycle=7ms,fusion=1MB,negotiation=50us",
                                     "mg_wfbp,merge=optimal",
                                     "p3,slice=1GB",
                                     "byte_scheduler,partition=10MB,credit=0,negotiation=1us",
                                     "dear,bucket=0",
                                     "dear,halves=reduce_broadcast",
                                     "work_conserving,gathers=after_step,collectives=scatter",
                                     "zero1,bucket=0",
                                     "fsdp,bucket=0",
                                     "fsdp,reshard_after_forward=0",
                                     "lancet,parts=1"};
  for (const PolicyDescriptor* policy : policies()) {
    result.push_back(policy->name);
  }
  return result;
}

class EveryPolicy : public testing::TestWithParam<std::string> {};

Result<std::unique_ptr<Policy>> create_for(const Scene& scene, const std::string& spec) {
  return create_policy(spec, {.profile = scene.profile, .costs = scene.costs, .seed = 1});
}

Result<Rehearsal> rehearse_fresh(const Scene& scene, const std::string& spec) {
  PLEACH_ASSIGN(policy, create_for(scene, spec));
  return rehearse(scene.profile, scene.costs, *policy, {.keep_log = true});
}

std::string test_name(std::string spec) {
  std::ranges::replace_if(
      spec, [](char letter) { return letter == ',' || letter == '='; }, '_');
  return spec;
}

TEST_P(EveryPolicy, TrainsSynchronouslyAndNoFasterThanTheBound) {
  for (uint64_t seed = 0; seed < kProfiles + kHardProfiles; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Scene scene = random_scene(seed);
    const auto policy = create_for(scene, GetParam());
    ASSERT_TRUE(policy) << policy.error().message;
    const auto result = rehearse(scene.profile, scene.costs, **policy, {.keep_log = true});
    ASSERT_TRUE(result) << result.error().message;
    const IterationBound bound = iteration_bound(scene.profile, scene.costs);
    // Where iterations do not repeat, their mean may miss a part of the last one's.
    const int64_t slack_ps = result->steady ? 1000 : 4 * bound.iteration_ps / result->iterations;
    EXPECT_GE(result->iteration_ps, bound.iteration_ps - slack_ps);
    EXPECT_GE(result->iteration_ps, result->compute_ps);

    ASSERT_GE(result->iterations, 2);
    EXPECT_TRUE(carries_all(*result, result->iterations - 2,
                            ParameterSpace(scene.profile).total_bytes(),
                            (*policy)->needs().frees_parameters ? 2 : 1));

    // Legal on wider channels, too, where collectives end in other orders.
    for (int32_t width = 2; seed % 6 == 0 && width < 6; width += 3) {
      const auto fresh = create_for(scene, GetParam());
      const auto wide =
          rehearse(scene.profile, scene.costs, **fresh, {.channel_width = width, .keep_log = true});
      ASSERT_TRUE(wide) << wide.error().message;
      EXPECT_TRUE(carries_all(*wide, wide->iterations - 2,
                              ParameterSpace(scene.profile).total_bytes(),
                              (*fresh)->needs().frees_parameters ? 2 : 1));
    }

    const Result<Rehearsal> again = rehearse_fresh(scene, GetParam());
    ASSERT_TRUE(again);
    EXPECT_EQ(again->iteration_ps, result->iteration_ps);
    EXPECT_EQ(again->iterations, result->iterations);
    ASSERT_EQ(again->log.size(), result->log.size());
    for (std::size_t index = 0; index < result->log.size(); ++index) {
      EXPECT_EQ(again->log[index].what.range, result->log[index].what.range);
      EXPECT_EQ(again->log[index].started_ps, result->log[index].started_ps);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryPolicy, testing::ValuesIn(specs()),
                         [](const auto& one) { return test_name(one.param); });

struct BadSpec {
  const char* spec;
  const char* message;
};

TEST(Policies, RefuseWhatMakesNoSense) {
  const BadSpec cases[] = {
      {"nothing", "unknown policy 'nothing'"},
      {"ddp:25", "policy ddp takes options after a comma, not ':25'"},
      {"ddp,cap=1", "cap"},
      {"ddp,bucket=-1", "bucket"},
      {"p3,slice=0", "policy p3: slice of 0 must be more than 0"},
      {"byte_scheduler,partition=0", "policy byte_scheduler: partition of 0 must be more than 0"},
      {"horovod,cycle=0", "policy horovod: cycle of 0 must be more than 0"},
      {"mg_wfbp,merge=best", "best"},
      {"fsdp,reshard_after_forward=2", "reshard_after_forward"},
      {"lancet,parts=0", "parts"},
      {"dear,halves=rb", "rb"},
      {"work_conserving,gathers=late", "late"},
      {"work_conserving,collectives=all", "all"},
  };
  const Scene scene = random_scene(1);
  for (const BadSpec& bad : cases) {
    const auto policy = create_for(scene, bad.spec);
    ASSERT_FALSE(policy) << bad.spec;
    EXPECT_EQ(policy.error().code, ErrorCode::kInvalidArgument) << bad.spec;
    EXPECT_NE(policy.error().message.find(bad.message), std::string::npos)
        << policy.error().message;
  }
}

class OnlyAllReduce : public CostModel {
 public:
  bool has(CollectiveKind kind) const override { return kind == CollectiveKind::kAllReduce; }
  int64_t time_ps(CollectiveKind /*kind*/, int64_t size_bytes) const override { return size_bytes; }
};

TEST(Policies, RefuseCostsThatLackACollective) {
  TrainingProfile profile;
  profile.layers = {{.tensor_bytes = {1}}, {.tensor_bytes = {}, .exchange_bytes = 1}};
  const OnlyAllReduce costs;
  for (const auto& [spec, message] :
       {std::pair{"dear", "policy dear needs reduce_scatter"},
        std::pair{"lancet", "policy lancet needs all_to_all for layer 1"}}) {
    const auto policy = create_policy(spec, {.profile = profile, .costs = costs});
    ASSERT_FALSE(policy) << spec;
    EXPECT_EQ(policy.error().code, ErrorCode::kUnsupported);
    EXPECT_EQ(policy.error().message.find(message), 0U) << policy.error().message;
  }
  profile.layers[1].exchange_bytes = 0;
  EXPECT_TRUE(create_policy("lancet", {.profile = profile, .costs = costs}));
}

TEST(Policies, RefuseCostsThatAddUpToOverTheLongestTime) {
  const TrainingProfile profile{.layers = {{.tensor_bytes = {1000}}}, .rank_count = 2};
  for (const double seconds : {500.0, 600.0}) {  // of a piece, and of 4097 of them
    const AlphaBeta costs(2, static_cast<int64_t>(seconds / 2 * 1e12), 1e9);
    const auto policy = create_policy("wfbp", {.profile = profile, .costs = costs});
    EXPECT_EQ(policy.has_value(), seconds < 550);
    if (!policy) {
      EXPECT_EQ(policy.error().message,
                "all_reduce of 1000 bytes of gradients, piece by piece, takes over 26 days");
    }
  }
}

}  // namespace
}  // namespace pleach
