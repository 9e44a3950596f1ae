// Which policies fit which ZeRO stage, what costs they see, and how misfits are refused.
#include "pleach/policy/setup.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pleach/policy/alpha_beta.h"

namespace pleach {
namespace {

using Kind = CollectiveKind;

const TrainingProfile kProfile = {
    .layers = {{.tensor_bytes = {1000}, .forward_ps = 1'000'000, .backward_ps = 2'000'000}},
    .rank_count = 4};

// What refuses a spec at a stage; empty where it fits.
std::string refusal(const std::string& spec, int32_t zero_stage) {
  const AlphaBeta costs(4, 1000, 1e9);
  const auto setup = PolicySetup::create(spec, zero_stage);
  if (!setup) {
    return setup.error().message;
  }
  const auto fitted = setup->fit({.profile = kProfile, .costs = costs});
  return fitted ? "" : fitted.error().message;
}

TEST(PolicySetup, RefusesWhatDoesNotFitTheStage) {
  struct Case {
    std::string spec;
    int32_t zero_stage;
    std::string refusal;
  };
  const std::string all_reduces = "it needs all_reduce; use ";
  for (const Case& one : std::vector<Case>{
           {"ddp", 0, ""},
           {"ddp", 1,
            "policy ddp does not fit zero=1: " + all_reduces + "zero1, dear or work_conserving"},
           {"ddp,bucket=1MiB", 3, "policy ddp does not fit zero=3: " + all_reduces + "fsdp"},
           {"dear", 2, ""},
           {"dear,halves=reduce_broadcast", 1, ""},
           {"work_conserving,effort=1", 2, ""},
           {"dear", 3,
            "policy dear does not fit zero=3: it keeps all parameters on every rank; use fsdp"},
           {"fsdp", 3, ""},
           {"fsdp,reshard_after_forward=0", 2, ""},
           {"fsdp,reshard_after_forward=0", 3,
            "policy fsdp does not fit zero=3: it keeps all parameters on every rank; use fsdp"},
       }) {
    EXPECT_EQ(refusal(one.spec, one.zero_stage), one.refusal) << one.spec << " " << one.zero_stage;
  }
  EXPECT_NE(refusal("dearest", 0).find("unknown policy 'dearest'"), std::string::npos)
      << refusal("dearest", 0);
  EXPECT_NE(refusal("dear,buckets=1", 0).find("buckets"), std::string::npos);
}

TEST(PolicySetup, TellsWhatAPolicyAsksFor) {
  const AlphaBeta costs(4, 1000, 1e9);
  const auto fsdp = PolicySetup::create("fsdp", 3);
  ASSERT_TRUE(fsdp);
  EXPECT_EQ(fsdp->collectives().size(), 2U);
  const auto fitted = fsdp->fit({.profile = kProfile, .costs = costs});
  ASSERT_TRUE(fitted) << fitted.error().message;
  EXPECT_TRUE(fitted->needs.frees_parameters);
  EXPECT_FALSE(fitted->costs->has(Kind::kAllReduce));
  const auto best = PolicySetup::create("work_conserving", 0);
  ASSERT_TRUE(best);
  EXPECT_EQ(best->collectives().size(), gradient_collectives().size());
  const auto owned = PolicySetup::create("dear,halves=reduce_broadcast", 0);
  ASSERT_TRUE(owned);
  EXPECT_EQ(std::vector<Kind>(owned->collectives().begin(), owned->collectives().end()),
            (std::vector<Kind>{Kind::kReduce, Kind::kBroadcast}));
}

// What a policy decides as things happen becomes a plan.
TEST(PolicySetup, SettlesPolicies) {
  const AlphaBeta costs(4, 1000, 1e9);
  for (const bool settles : {false, true}) {
    const auto setup = PolicySetup::create("p3,slice=500", 0, settles);
    ASSERT_TRUE(setup);
    EXPECT_EQ(setup->plans_by_costs(), settles);
    const auto fitted = setup->fit({.profile = kProfile, .costs = costs});
    ASSERT_TRUE(fitted) << fitted.error().message;
    EXPECT_EQ(fitted->policy->plan().size(), settles ? 2U : 0U);
    EXPECT_FALSE(fitted->needs.step_at_once);
  }
  const auto sequential = PolicySetup::create("sequential", 0, true);
  EXPECT_TRUE(sequential->fit({.profile = kProfile, .costs = costs})->needs.step_at_once);
  const auto refused =
      PolicySetup::create("horovod", 0, true)->fit({.profile = kProfile, .costs = costs});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "policy horovod never settles: it follows a clock that knows of no iterations");
}

TEST(StageCosts, HaveNoAllReduceWhereGradientsStayScattered) {
  const AlphaBeta costs(4, 1000, 1e9);
  for (const int32_t stage : {0, 1, 2, 3}) {
    const StageCosts seen(costs, stage);
    EXPECT_EQ(seen.has(Kind::kAllReduce), stage == 0);
    EXPECT_TRUE(seen.has(Kind::kReduceScatter));
    EXPECT_EQ(seen.time_ps(Kind::kAllGather, 100), costs.time_ps(Kind::kAllGather, 100));
    EXPECT_EQ(seen.breakpoints(Kind::kAllGather), costs.breakpoints(Kind::kAllGather));
  }
}

}  // namespace
}  // namespace pleach
