// Plans: what they cost equals the exact model, they are never worse than the other policies, and
// in small cases no order and no partition is better.
#include "pleach/policy/search/plan_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/policy/alpha_beta.h"
#include "pleach/policy/bound.h"
#include "pleach/policy/plan_policy.h"
#include "pleach/policy/rehearsal.h"
#include "pleach/policy/search/plan_annealing.h"
#include "pleach/policy/search/plan_order.h"

namespace pleach {
namespace {

using Kind = CollectiveKind;

constexpr int64_t kMs = 1'000'000'000;
constexpr int32_t kRanks = 8;
constexpr PlanOrder kOrders[] = {PlanOrder::kForwardPriority, PlanOrder::kReduceFirst,
                                 PlanOrder::kGatherLast};

// Per byte of each half, plus a startup; all_reduce at a price of its own. Some may be missing.
class Priced : public CostModel {
 public:
  int64_t startup_ps = 0;
  int64_t half_ps_per_byte = 0;
  int64_t whole_ps_per_byte = 0;
  bool has_halves = true;
  bool has_whole = true;

  bool has(Kind kind) const override { return kind == Kind::kAllReduce ? has_whole : has_halves; }
  int64_t time_ps(Kind kind, int64_t bytes) const override {
    return startup_ps + bytes * (kind == Kind::kAllReduce ? whole_ps_per_byte : half_ps_per_byte);
  }
};

TrainingProfile random_profile(Rng& rng, uint64_t most_layers) {
  TrainingProfile profile{.layers = std::vector<PolicyLayer>(1 + rng.below(most_layers)),
                          .rank_count = kRanks};
  for (PolicyLayer& layer : profile.layers) {
    for (uint64_t tensors = rng.below(3); tensors > 0; --tensors) {
      layer.tensor_bytes.push_back(static_cast<int64_t>(std::pow(10.0, 2.0 + 5.0 * rng.unit())));
    }
    layer.forward_ps = static_cast<int64_t>(rng.below(4) * rng.below(kMs));
    layer.backward_ps = static_cast<int64_t>(rng.below(4) * rng.below(2 * kMs));
  }
  return profile;
}

AlphaBeta random_costs(Rng& rng) {
  const auto alpha_ps = static_cast<int64_t>(rng.below(2) * rng.below(kMs / 20));
  return {kRanks, alpha_ps, std::pow(10.0, 9.0 + rng.unit())};
}

int64_t rehearsed_ps(const TrainingProfile& profile, const CostModel& costs, const Plan& plan) {
  PlanPolicy policy(profile, plan);
  const auto result = rehearse(profile, costs, policy);
  EXPECT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result && result->steady);
  return result ? result->iteration_ps : -1;
}

int64_t rehearsed_ps(const TrainingProfile& profile, const CostModel& costs,
                     const std::string& spec) {
  const auto policy = create_policy(spec, {.profile = profile, .costs = costs});
  EXPECT_TRUE(policy) << policy.error().message;
  const auto result = rehearse(profile, costs, **policy);
  EXPECT_TRUE(result) << result.error().message;
  return result->iteration_ps;
}

TEST(PlanTime, IsWhatTheExactModelFinds) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const TrainingProfile profile = random_profile(rng, 30);
    const AlphaBeta costs = random_costs(rng);
    const PlanGrid grid(profile, costs, 100'000);
    const auto piece_bytes = static_cast<int64_t>(1 + rng.below(3'000'000));
    for (const PlanOrder order : kOrders) {
      PlanPieces pieces =
          order_pieces(grid, cut_backward(grid, Kind::kReduceScatter, piece_bytes, 1),
                       cut_forward(grid, Kind::kAllGather, 2 * piece_bytes, 1), order);
      pieces = anneal(grid, pieces, {.effort = 300, .may_convert = true, .seed = seed});
      const Plan plan = grid.plan(pieces);
      const int64_t time_ps = plan_time_ps(profile, costs, plan);
      EXPECT_EQ(time_ps, score_pieces(grid, pieces).time_ps);
      EXPECT_EQ(time_ps, rehearsed_ps(profile, costs, plan));
    }
  }
}

TEST(Anneal, IsNeverWorseThanItsStartAndMostlyBetter) {
  constexpr int kSeeds = 100;
  int better = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const TrainingProfile profile = random_profile(rng, 20);
    const AlphaBeta costs(kRanks, kMs / 20, 1e9);
    const PlanGrid grid(profile, costs, 10'000);
    const PlanPieces start = order_pieces(
        grid, cut_backward(grid, Kind::kReduceScatter, 1'000'000, 1),
        cut_forward(grid, Kind::kAllGather, 1'000'000, 1), PlanOrder::kForwardPriority);
    const int64_t start_ps = score_pieces(grid, start).time_ps;
    for (const int64_t effort : {0, 100, 10'000}) {
      const PlanPieces found = anneal(grid, start, {.effort = effort, .seed = seed});
      const int64_t found_ps = score_pieces(grid, found).time_ps;
      EXPECT_LE(found_ps, start_ps);
      EXPECT_TRUE(effort > 0 || found_ps == start_ps);
      better += effort == 10'000 && found_ps < start_ps ? 1 : 0;
    }
  }
  EXPECT_GT(better, kSeeds / 2);
}

TEST(SearchPlan, IsNeverWorseThanOtherPoliciesOnTheSameCosts) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const TrainingProfile profile = random_profile(rng, 30);
    const AlphaBeta costs = random_costs(rng);
    // Hardly any effort: what holds by construction holds without it.
    const int64_t ours_ps = rehearsed_ps(profile, costs, "work_conserving,effort=1");
    for (const char* other : {"dear", "ddp", "mg_wfbp"}) {
      EXPECT_LE(ours_ps, rehearsed_ps(profile, costs, other)) << other;
    }
    EXPECT_GE(ours_ps + 2000, iteration_bound(profile, costs).iteration_ps);
  }
}

TrainingProfile equal_layers(int layers, int64_t bytes, int64_t forward_ps, int64_t backward_ps) {
  const PolicyLayer layer{
      .tensor_bytes = {bytes}, .forward_ps = forward_ps, .backward_ps = backward_ps};
  return {.layers = std::vector<PolicyLayer>(at(layers), layer), .rank_count = kRanks};
}

// Four layers, forward 10 ms, backward 20 ms, all_reduce 30 ms each: DeAR takes 165 ms, wait-free
// back-propagation 180 ms, and the bound is 150 ms.
// Whether no all_gather comes before a reduction.
bool gathers_last(std::span<const PolicyCollective> plan) {
  return std::ranges::is_partitioned(plan,
                                     [](const PolicyCollective& one) { return reduces(one.kind); });
}

// Whatever annealing moves, cuts, joins and converts, and without it.
TEST(SearchPlan, GathersAfterTheStepWhereThatIsAsked) {
  int mixed = 0;
  int slower = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const TrainingProfile profile = random_profile(rng, 30);
    Priced costs;
    costs.startup_ps = static_cast<int64_t>(rng.below(kMs / 10));
    costs.half_ps_per_byte = static_cast<int64_t>(1 + rng.below(1000));
    costs.whole_ps_per_byte = 2 * costs.half_ps_per_byte - static_cast<int64_t>(rng.below(2));
    for (const int64_t effort : {0, 100'000}) {
      PlanSearchOptions options{.effort = effort, .gathers_last = true, .seed = seed};
      const Plan last = search_plan(profile, costs, options);
      EXPECT_TRUE(gathers_last(last));
      const int64_t last_ps = plan_time_ps(profile, costs, last);
      EXPECT_EQ(last_ps, rehearsed_ps(profile, costs, last));  // legal
      options.gathers_last = false;
      options.known = {last};
      const Plan early = search_plan(profile, costs, options);
      EXPECT_LE(plan_time_ps(profile, costs, early), last_ps);
      slower += plan_time_ps(profile, costs, early) < last_ps ? 1 : 0;
      mixed += std::ranges::count(last, Kind::kAllReduce, &PolicyCollective::kind) > 0 &&
                       std::ranges::count(last, Kind::kAllGather, &PolicyCollective::kind) > 0
                   ? 1
                   : 0;
    }
  }
  EXPECT_GT(slower, 10);
  EXPECT_GT(mixed, 5);
}

// A plan that is best on exact costs gathers as much at first as forward may just wait for, if
// forward cannot hide all all_gathers. It waits in vain where they take less time.
TEST(SearchPlan, WithAMarginLosesLittleWhereCostsAreOff) {
  const TrainingProfile profile{
      .layers = std::vector<PolicyLayer>(12, {.tensor_bytes = std::vector<int64_t>(6, 68'000),
                                              .forward_ps = 17 * kMs / 2,
                                              .backward_ps = 17 * kMs}),
      .rank_count = 4};
  const auto costs_times = [](int64_t percent) {
    Priced costs;
    costs.has_whole = false;
    costs.startup_ps = kMs / 1000 * percent;
    costs.half_ps_per_byte = 315 * percent;
    return costs;
  };
  for (uint64_t seed = 0; seed < 5; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    PlanSearchOptions options{
        .least_bytes = 150'000, .effort = 200'000, .gathers_last = true, .seed = seed};
    const Plan exact = search_plan(profile, costs_times(100), options);
    options.margin_percent = 10;
    options.known = {exact};
    const Plan wide = search_plan(profile, costs_times(100), options);
    const auto longer = [&](int64_t percent) {
      const Priced costs = costs_times(percent);
      return static_cast<double>(plan_time_ps(profile, costs, wide)) /
             static_cast<double>(plan_time_ps(profile, costs, exact));
    };
    EXPECT_LT(longer(90), 0.995);
    EXPECT_LT(longer(97), 0.9995);
    EXPECT_LT(longer(100), 1.004);
    EXPECT_LT(longer(110), 1.002);
  }
}

// The mean decides about known plans, too.
TEST(SearchPlan, WithAMarginIsNeverWorseThanKnownPlansOnTheMean) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const TrainingProfile profile = random_profile(rng, 30);
    const auto startup_ps = static_cast<int64_t>(rng.below(kMs / 1000));
    const auto half_ps_per_byte = static_cast<int64_t>(1 + rng.below(10));
    const auto mean_ps = [&](const Plan& plan) {
      int64_t sum = 0;
      for (const int64_t percent : {90, 100, 110}) {
        Priced costs;
        costs.startup_ps = startup_ps * percent;
        costs.half_ps_per_byte = half_ps_per_byte * percent;
        sum += plan_time_ps(profile, costs, plan);
      }
      return sum / 3;
    };
    Priced costs;
    costs.has_whole = false;
    costs.startup_ps = startup_ps * 100;
    costs.half_ps_per_byte = half_ps_per_byte * 100;
    PlanSearchOptions options{.effort = 10'000, .seed = seed};
    options.known = {search_plan(profile, costs, options)};
    options.margin_percent = 10;
    const Plan wide = search_plan(profile, costs, options);
    EXPECT_LE(mean_ps(wide), mean_ps(options.known.front()) + 100);  // rounded a piece
  }
}

TEST(WorkConserving, ScattersWhereStateIsSharded) {
  Rng rng(5);
  const TrainingProfile profile = random_profile(rng, 30);
  Priced costs;
  costs.startup_ps = kMs;
  costs.half_ps_per_byte = 100;
  costs.whole_ps_per_byte = 100;  // an all_reduce is cheaper by far
  for (const char* spec : {"work_conserving", "work_conserving,collectives=scatter",
                           "work_conserving,collectives=scatter,gathers=after_step"}) {
    const auto policy = create_policy(spec, {.profile = profile, .costs = costs});
    ASSERT_TRUE(policy) << policy.error().message;
    const bool has_whole =
        std::ranges::count((*policy)->plan(), Kind::kAllReduce, &PolicyCollective::kind) > 0;
    EXPECT_EQ(has_whole, std::string(spec) == "work_conserving") << spec;
    EXPECT_TRUE(std::string(spec).find("after_step") == std::string::npos ||
                gathers_last((*policy)->plan()));
  }
  costs.has_halves = false;
  const auto policy =
      create_policy("work_conserving,collectives=scatter", {.profile = profile, .costs = costs});
  ASSERT_FALSE(policy);
  EXPECT_EQ(policy.error().message,
            "policy work_conserving needs reduce_scatter and all_gather, which the algorithm does "
            "not do");
}

TEST(SearchPlan, FillsIdleSlots) {
  const TrainingProfile profile = equal_layers(4, 1000, 10 * kMs, 20 * kMs);
  Priced costs;
  costs.half_ps_per_byte = 15 * kMs / 1000;
  costs.whole_ps_per_byte = 30 * kMs / 1000;
  EXPECT_LE(rehearsed_ps(profile, costs, "work_conserving"), 151 * kMs);
  EXPECT_LE(rehearsed_ps(profile, costs, "work_conserving,piece=1000"), 160 * kMs);
  EXPECT_EQ(iteration_bound(profile, costs).iteration_ps, 150 * kMs);
}

// Each case: what the costs allow, and which kinds a plan has.
TEST(SearchPlan, UsesTheKindsThatTheCostsFavour) {
  const TrainingProfile profile = equal_layers(6, 1000, kMs, 2 * kMs);
  struct Case {
    const char* name;
    int64_t whole_ps_per_byte;
    bool has_halves;
    bool has_whole;
    bool reduces_whole;
    bool gathers;
  };
  const Case cases[] = {
      {"halves only", 0, false, true, true, false},
      {"all_reduce only", 4'000'000, true, false, false, true},
      {"all_reduce for half the price", 1'000'000, true, true, true, false},
      {"all_reduce for twice the price", 4'000'000, true, true, false, true},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    Priced costs;
    costs.startup_ps = kMs / 10;
    costs.half_ps_per_byte = 1'000'000;
    costs.whole_ps_per_byte = one.whole_ps_per_byte;
    costs.has_halves = one.has_halves;
    costs.has_whole = one.has_whole;
    const Plan plan = search_plan(profile, costs, {.effort = 100'000});
    const auto has = [&](Kind kind) {
      return std::ranges::count(plan, kind, &PolicyCollective::kind) > 0;
    };
    EXPECT_EQ(has(Kind::kAllReduce), one.reduces_whole);
    EXPECT_EQ(has(Kind::kReduceScatter), one.gathers);
    EXPECT_EQ(has(Kind::kAllGather), one.gathers);
    EXPECT_EQ(plan_time_ps(profile, costs, plan), rehearsed_ps(profile, costs, plan));
  }
}

TEST(SearchPlan, KeepsPiecesAboveTheLeast) {
  Rng rng(3);
  for (int round = 0; round < 20; ++round) {
    const TrainingProfile profile = random_profile(rng, 20);
    const int64_t total_bytes = ParameterSpace(profile).total_bytes();
    const int64_t least_bytes = 1 + total_bytes / static_cast<int64_t>(1 + rng.below(40));
    const Plan plan = search_plan(profile, AlphaBeta(kRanks, 0, 1e9),
                                  {.least_bytes = least_bytes, .effort = 20'000});
    EXPECT_EQ(plan.empty(), total_bytes == 0);
    for (const PolicyCollective& one : plan) {
      EXPECT_GE(one.range.size(), std::min(total_bytes, least_bytes));
    }
  }
}

TEST(SearchPlan, IsTheSameForTheSameSeed) {
  Rng rng(5);
  const TrainingProfile profile = random_profile(rng, 30);
  const AlphaBeta costs(kRanks, kMs / 50, 1e9);
  const auto ranges = [&](uint64_t seed) {
    std::vector<std::pair<Kind, int64_t>> result;
    for (const PolicyCollective& one :
         search_plan(profile, costs, {.effort = 100'000, .seed = seed})) {
      result.emplace_back(one.kind, one.range.begin);
    }
    return result;
  };
  EXPECT_EQ(ranges(1), ranges(1));
}

TEST(WorkConserving, RefusesBadOptionsAndPoorCosts) {
  const TrainingProfile profile = equal_layers(2, 1000, kMs, kMs);
  Priced rich;
  Priced poor;
  poor.has_halves = poor.has_whole = false;
  struct Case {
    const char* spec;
    const CostModel& costs;
    const char* message;
  };
  const Case cases[] = {
      {"work_conserving,piece=-1", rich, "-1"},
      {"work_conserving,effort=-1", rich, "-1"},
      {"work_conserving,effort=some", rich, "some"},
      {"work_conserving,order=dear", rich, "order"},
      {"work_conserving", poor, "needs all_reduce, or reduce_scatter and all_gather"},
  };
  for (const Case& one : cases) {
    const auto policy = create_policy(one.spec, {.profile = profile, .costs = one.costs});
    ASSERT_FALSE(policy) << one.spec;
    EXPECT_NE(policy.error().message.find(one.message), std::string::npos)
        << policy.error().message;
  }
}

// The least time over all legal orders of these pieces, by trying them all.
int64_t best_order_ps(const PlanGrid& grid, PlanPieces pieces) {
  int64_t best_ps = INT64_MAX;
  std::vector<int32_t> order(pieces.size());
  std::iota(order.begin(), order.end(), 0);
  do {
    PlanPieces tried;
    uint64_t reduced = 0;  // cells, as bits
    bool is_legal = true;
    for (const int32_t index : order) {
      const PlanPiece& one = tried.emplace_back(pieces[at(index)]);
      const uint64_t cells = (uint64_t{1} << one.end) - (uint64_t{1} << one.first);
      is_legal = is_legal && (one.kind == Kind::kReduceScatter || (cells & ~reduced) == 0);
      reduced |= one.kind == Kind::kReduceScatter ? cells : 0;
    }
    if (is_legal) {
      best_ps = std::min(best_ps, score_pieces(grid, tried).time_ps);
    }
  } while (std::ranges::next_permutation(order).found);
  return best_ps;
}

// Cells cut where a bit of `mask` says so.
PlanPieces masked_pieces(const PlanGrid& grid, Kind kind, uint32_t mask) {
  PlanPieces pieces;
  int32_t first = 0;
  for (int32_t end = 1; end <= grid.cell_count(); ++end) {
    if (end == grid.cell_count() || (mask >> (end - 1) & 1) != 0) {
      pieces.push_back(grid.piece(kind, first, end));
      first = end;
    }
  }
  return pieces;
}

// All partitions of both halves of a few layers in all orders: the search finds the best.
TEST(SearchPlan, IsOptimalForFourLayers) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const int layers = 3 + static_cast<int>(seed % 4 == 0);
    TrainingProfile profile = equal_layers(layers, 1000, 0, 0);
    for (PolicyLayer& layer : profile.layers) {
      layer.forward_ps = static_cast<int64_t>(rng.below(10)) * kMs;
      layer.backward_ps = static_cast<int64_t>(rng.below(20)) * kMs;
    }
    Priced costs;
    costs.has_whole = false;
    costs.startup_ps = static_cast<int64_t>(rng.below(4)) * kMs;
    costs.half_ps_per_byte = static_cast<int64_t>(1 + rng.below(20)) * kMs / 1000;
    const PlanGrid grid(profile, costs, 1000);
    ASSERT_EQ(grid.cell_count(), layers);
    int64_t best_ps = INT64_MAX;
    const uint32_t masks = uint32_t{1} << (layers - 1);
    for (uint32_t reduce_mask = 0; reduce_mask < masks; ++reduce_mask) {
      for (uint32_t gather_mask = 0; gather_mask < masks; ++gather_mask) {
        PlanPieces pieces = masked_pieces(grid, Kind::kReduceScatter, reduce_mask);
        const PlanPieces gathers = masked_pieces(grid, Kind::kAllGather, gather_mask);
        pieces.insert(pieces.end(), gathers.begin(), gathers.end());
        best_ps = std::min(best_ps, best_order_ps(grid, pieces));
      }
    }
    const Plan plan = search_plan(profile, costs, {.least_bytes = 1000, .effort = 500'000});
    EXPECT_EQ(plan_time_ps(profile, costs, plan), best_ps);
  }
}

}  // namespace
}  // namespace pleach
