// Plans that policies settle on: by hand, and for every policy on random models.
#include "pleach/policy/settle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "pleach/base/rng.h"
#include "pleach/policy/alpha_beta.h"
#include "pleach/policy/plan_policy.h"
#include "pleach/policy/rehearsal.h"
#include "pleach/policy/replay.h"
#include "tests/support/random_profiles.h"

namespace pleach {
namespace {

using Kind = CollectiveKind;

// 1 ps a byte, twice that for an all_reduce.
class PerByte : public CostModel {
 public:
  bool has(CollectiveKind /*kind*/) const override { return true; }
  int64_t time_ps(CollectiveKind kind, int64_t bytes) const override {
    return kind == Kind::kAllReduce ? 2 * bytes : bytes;
  }
};

// Three layers of two atoms each.
TrainingProfile six_atoms() {
  TrainingProfile profile;
  profile.rank_count = 2;
  profile.atom_bytes.assign(6, 10);
  profile.layers.assign(3, {.tensor_bytes = {20}, .forward_ps = 10, .backward_ps = 30});
  return profile;
}

SettledPlan settle(const std::string& spec, const TrainingProfile& profile) {
  const auto plan = settle_plan(spec, profile, PerByte());
  EXPECT_TRUE(plan) << spec << ": " << plan.error().message;
  return plan ? *plan : SettledPlan();
}

TEST(SettlePlan, KeepsAPlansOrder) {
  const SettledPlan dear = settle("dear,bucket=41", six_atoms());
  EXPECT_EQ(dear.collectives, (std::vector<AtomCollective>{{Kind::kReduceScatter, 4, 6},
                                                           {Kind::kReduceScatter, 0, 4},
                                                           {Kind::kAllGather, 0, 4},
                                                           {Kind::kAllGather, 4, 6}}));
  EXPECT_FALSE(dear.step_at_once);
  const SettledPlan ddp = settle("ddp,first_bucket=0,bucket=40", six_atoms());
  EXPECT_EQ(ddp.collectives,
            (std::vector<AtomCollective>{{Kind::kAllReduce, 4, 6}, {Kind::kAllReduce, 0, 4}}));
  EXPECT_TRUE(ddp.step_at_once);
}

// Gradients come at 15, 30 and 45, and an atom takes 20: the second atom of layer 2 is overtaken by
// layer 1, and that by layer 0.
TEST(SettlePlan, MakesPrioritiesAStaticOrder) {
  TrainingProfile profile = six_atoms();
  for (PolicyLayer& layer : profile.layers) {
    layer.backward_ps = 15;
  }
  EXPECT_EQ(settle("p3,slice=10", profile).collectives,
            (std::vector<AtomCollective>{{Kind::kAllReduce, 4, 5},
                                         {Kind::kAllReduce, 2, 3},
                                         {Kind::kAllReduce, 0, 1},
                                         {Kind::kAllReduce, 1, 2},
                                         {Kind::kAllReduce, 3, 4},
                                         {Kind::kAllReduce, 5, 6}}));
}

TEST(SettlePlan, RefusesByNameWhatNoPlanCanBe) {
  const TrainingProfile profile = six_atoms();
  const struct {
    const char* spec;
    const char* message;
  } cases[] = {
      {"horovod", "policy horovod never settles: it follows a clock that knows of no iterations"},
      {"fsdp", "policy fsdp frees parameters, which a settled plan cannot"},
      {"lancet", "policy lancet cuts exchanges and moves computation, which a settled plan cannot"},
  };
  for (const auto& one : cases) {
    const auto plan = settle_plan(one.spec, profile, PerByte());
    ASSERT_FALSE(plan) << one.spec;
    EXPECT_EQ(plan.error().code, ErrorCode::kUnsupported);
    EXPECT_EQ(plan.error().message, one.message);
  }
  const auto early = settle_plan("dear_bo,first=1MiB", profile, PerByte(), {.most_iterations = 20});
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().message, "policy dear_bo has not settled within 20 iterations");
  for (const int32_t none : {0, -1}) {
    const auto plan = settle_plan("dear", profile, PerByte(), {.most_iterations = none});
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_TRUE(settle_plan("dear_bo", profile, PerByte()));
  EXPECT_TRUE(settle_plan("fsdp,reshard_after_forward=0", profile, PerByte()));
  EXPECT_FALSE(settle_plan("nothing", profile, PerByte()));
}

TEST(SettlePlan, HashesWhatRanksMustAgreeOn) {
  const TrainingProfile profile = six_atoms();
  const uint64_t hash = settle("dear,bucket=0", profile).hash;
  TrainingProfile other = profile;
  other.layers[0].forward_ps = 11;  // times differ between ranks
  EXPECT_EQ(settle("dear,bucket=0", other).hash, hash);
  EXPECT_NE(settle("dear", profile).hash, hash);
  EXPECT_NE(settle("zero1,bucket=0", profile).hash, hash);  // the same collectives
  other.layers[0].tensor_bytes = {10, 10};
  EXPECT_NE(settle("dear,bucket=0", other).hash, hash);
  other = profile;
  other.atom_bytes = {20, 10, 10, 10, 10};
  EXPECT_NE(settle("dear,bucket=0", other).hash, hash);
}

std::vector<std::string> settling_specs() {
  std::vector<std::string> specs = {"sequential,bucket=1MB",
                                    "p3,slice=2MB",
                                    "dear,bucket=0",
                                    "byte_scheduler,credit=0,negotiation=1us",
                                    "mg_wfbp,merge=optimal",
                                    "fsdp,reshard_after_forward=0",
                                    "dear,halves=reduce_broadcast",
                                    "work_conserving,gathers=after_step,collectives=scatter"};
  for (const PolicyDescriptor* policy : policies()) {
    if (policy->name != "horovod" && policy->name != "fsdp" && policy->name != "lancet") {
      specs.push_back(policy->name);
    }
  }
  return specs;
}

// Three ranks that replay a plan, with random luck: gradients come in orders of their own, forward
// as soon as it may, collectives end in any order after all ranks have started them, and updates
// take their time.
class LuckyRanks {
 public:
  LuckyRanks(const TrainingProfile& profile, const SettledPlan& plan, int32_t width, uint64_t seed)
      : layers_(count_of(profile.layers)), plan_(plan), rng_(seed) {
    for (Rank& rank : ranks_) {
      auto replay = PlanReplay::create(profile, plan.collectives,
                                       {.channel_width = width, .step_at_once = plan.step_at_once});
      EXPECT_TRUE(replay) << replay.error().message;
      rank.replay = std::move(*replay);
    }
  }

  void train(int32_t iterations) {
    const int32_t all = iterations * count_of(plan_.collectives);
    for (bool moves = true; moves;) {
      moves = false;
      for (Rank& rank : ranks_) {
        moves |= compute(rank, iterations) | land_one(rank) | update_one(rank);
        start(rank);
      }
    }
    for (const Rank& rank : ranks_) {
      EXPECT_EQ(rank.iteration, iterations);
      EXPECT_EQ(rank.started, all);
      EXPECT_TRUE(rank.wire.empty() && rank.reduced.empty());
    }
  }

 private:
  struct Rank {
    std::unique_ptr<PlanReplay> replay;
    std::vector<int32_t> backward = {};  // layers whose gradients are to come
    int32_t forward = 0;                 // the next layer
    int32_t iteration = 0;
    int32_t started = 0;
    std::vector<int32_t> wire = {};
    std::vector<int32_t> reduced = {};  // landed, to be used
  };

  bool compute(Rank& rank, int32_t iterations) {
    if (rank.iteration == iterations) {
      return false;
    }
    if (rank.forward < layers_) {
      const bool may = rank.replay->may_run_forward(rank.forward);
      rank.forward += may ? 1 : 0;
      for (int32_t layer = 0; rank.forward == layers_ && may && layer < layers_; ++layer) {
        rank.backward.push_back(layer);
      }
      return may;
    }
    EXPECT_TRUE(rank.replay->gradient_ready(take(rank.backward), 0));
    if (rank.backward.empty()) {
      rank.forward = 0;
      ++rank.iteration;
    }
    return true;
  }

  bool land_one(Rank& rank) {
    std::vector<int32_t> may;
    for (const int32_t number : rank.wire) {
      if (std::ranges::all_of(ranks_, [&](const Rank& one) { return one.started > number; })) {
        may.push_back(number);
      }
    }
    if (may.empty()) {
      return false;
    }
    const int32_t number = take(may);
    std::erase(rank.wire, number);
    EXPECT_TRUE(rank.replay->land(number, 0));
    if (reduces(plan_.collectives[at(*rank.replay->index_of(number))].kind)) {
      rank.reduced.push_back(number);
    }
    return true;
  }

  bool update_one(Rank& rank) {
    if (rank.reduced.empty()) {
      return false;
    }
    if (rng_.below(2) == 0) {
      EXPECT_TRUE(rank.replay->update(take(rank.reduced), 0));
    }
    return true;
  }

  void start(Rank& rank) {
    for (const int32_t number : rank.replay->next(0)) {
      EXPECT_EQ(number, rank.started++);
      EXPECT_EQ(*rank.replay->index_of(number), number % count_of(plan_.collectives));
      rank.wire.push_back(number);
    }
    rank.replay->forget_before(rank.iteration - 2);
  }

  int32_t take(std::vector<int32_t>& from) {
    const auto place = from.begin() + static_cast<std::ptrdiff_t>(rng_.below(from.size()));
    const int32_t value = *place;
    from.erase(place);
    return value;
  }

  const int32_t layers_;
  const SettledPlan& plan_;
  Rng rng_;
  std::array<Rank, 3> ranks_;
};

TEST(SettlePlan, SettlesEveryPolicyOnHardModels) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Rng rng(seed);
    const TrainingProfile profile = support::draw_hard_profile(rng);
    const AlphaBeta costs(profile.rank_count, seed % 2 == 0 ? 0 : 15'000'000, 1e9);
    for (const std::string& spec : settling_specs()) {
      SCOPED_TRACE(testing::Message() << spec << ", seed " << seed);
      const auto plan = settle_plan(spec, profile, costs, {.seed = 1});
      ASSERT_TRUE(plan) << plan.error().message;
      EXPECT_EQ(settle_plan(spec, profile, costs, {.seed = 1})->hash, plan->hash);
      // Where all goes as foreseen, a static order costs what the policy does.
      const ParameterSpace space(profile);
      PlanPolicy replayed(profile, plan_of_bytes(space, plan->collectives),
                          {.step_at_once = plan->step_at_once});
      const auto rehearsal = rehearse(profile, costs, replayed);
      ASSERT_TRUE(rehearsal) << rehearsal.error().message;
      EXPECT_LE(rehearsal->iteration_ps, plan->iteration_ps + plan->iteration_ps / 1000);
      if (space.total_bytes() > 0) {
        for (const int32_t width : {1, 2, 3}) {
          LuckyRanks(profile, *plan, width, seed).train(2);
        }
      }
    }
  }
}

}  // namespace
}  // namespace pleach
