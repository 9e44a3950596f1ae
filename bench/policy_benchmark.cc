// Policies on random profiles, each beside its limit, as one JSON object.
//   policy_benchmark [--check] [--profiles N] [--seed N] [--threads N]
// Times are those of the exact model (policy/rehearsal.h). --check: exit 1 when a limit is missed.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "pleach/base/rng.h"
#include "pleach/policy/alpha_beta.h"
#include "pleach/policy/bound.h"
#include "pleach/policy/rehearsal.h"
#include "pleach/policy/search/plan_order.h"
#include "tests/support/random_profiles.h"

namespace pleach {
namespace {

using support::kProfileRanks;

constexpr int64_t kHopPs = 15'000'000;  // 63 hops: 0.945 ms
constexpr std::array kBaselines = {"dear", "ddp", "mg_wfbp"};
constexpr double kLeastPiece = 256;  // the model is this much larger
constexpr std::array<int64_t, 5> kUniformParts = {4, 8, 16, 32, 64};

struct Arguments {
  bool check = false;
  uint64_t profiles = 1000;
  uint64_t seed = 1;
  uint64_t threads = 2;
};

// all_reduce of everything takes, without startups, this many times forward: uniform.
struct Regime {
  const char* name;
  int64_t hop_ps;
  bool fixes_piece;  // no collective below 1/256 of the model, whatever other policies do
  double least_ratio;
  double most_ratio;
  // Limits on the distance from the bound that charges no startup.
  double median_limit;
  double p95_limit;
};
constexpr std::array kRegimes = {
    Regime{"no_startup", 0, false, 0.5, 6.0, 0.02, 0.05},
    Regime{"no_startup_fixed_piece", 0, true, 0.5, 6.0, 0.02, 0.05},
    Regime{"startup", kHopPs, false, 0.5, 6.0, INFINITY, INFINITY},
    Regime{"startup_ratio_2_to_4", kHopPs, false, 2.0, 4.0, 0.10, 0.16},
};

struct Outcome {
  std::array<double, kBaselines.size()> speedups = {};  // baseline / ours
  double excess = 0.0;                                  // over the bound
  double uniform_excess = 0.0;                          // of the best of five uniform partitions
  double annealing_gain = 0.0;                          // part of the iteration without annealing
  double least_piece = 1.0;                             // part of the model
  double create_s = 0.0;
  int32_t collectives = 0;
};

[[noreturn]] void fail(const std::string& message) {
  fmt::print(stderr, "policy_benchmark: {}\n", message);
  std::exit(1);
}

Rehearsal rehearse_policy(const std::string& spec, const TrainingProfile& profile,
                          const CostModel& costs, double& create_s) {
  const auto started = std::chrono::steady_clock::now();
  const auto policy = create_policy(spec, {.profile = profile, .costs = costs});
  create_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  if (!policy) {
    fail(policy.error().message);
  }
  auto rehearsal = rehearse(profile, costs, **policy, {.keep_log = true});
  if (!rehearsal) {
    fail(fmt::format("{}: {}", spec, rehearsal.error().message));
  }
  if (!rehearsal->steady) {
    fail(fmt::format("{}: no steady state", spec));
  }
  return std::move(*rehearsal);
}

// Both halves cut into equal parts and served by forward priority: the best of five cuts.
int64_t best_uniform_ps(const TrainingProfile& profile, const CostModel& costs) {
  const int64_t total_bytes = ParameterSpace(profile).total_bytes();
  const PlanGrid grid(profile, costs, total_bytes / 256);
  int64_t best_ps = INT64_MAX;
  for (const int64_t parts : kUniformParts) {
    const auto pieces = order_pieces(
        grid, cut_backward(grid, CollectiveKind::kReduceScatter, total_bytes / parts, 1),
        cut_forward(grid, CollectiveKind::kAllGather, total_bytes / parts, 1),
        PlanOrder::kForwardPriority);
    best_ps = std::min(best_ps, score_pieces(grid, pieces).time_ps);
  }
  return best_ps;
}

Outcome measure(const Regime& regime, uint64_t seed) {
  Rng rng(seed);
  const TrainingProfile profile = support::draw_profile(rng);
  const double bandwidth =
      support::draw_bandwidth(rng, profile, regime.least_ratio, regime.most_ratio);
  const auto total_bytes = static_cast<double>(ParameterSpace(profile).total_bytes());
  const AlphaBeta costs(kProfileRanks, regime.hop_ps, bandwidth);
  const auto bound_ps = static_cast<double>(
      iteration_bound(profile, AlphaBeta(kProfileRanks, 0, bandwidth)).iteration_ps);

  Outcome outcome;
  const auto piece_bytes = static_cast<int64_t>(std::ceil(total_bytes / kLeastPiece));
  const std::string spec =
      fmt::format("work_conserving,piece={}", regime.fixes_piece ? piece_bytes : 0);
  const Rehearsal ours = rehearse_policy(spec, profile, costs, outcome.create_s);
  const auto ours_ps = static_cast<double>(ours.iteration_ps);
  double unused_s = 0.0;
  const Rehearsal start = rehearse_policy(spec + ",effort=0", profile, costs, unused_s);
  outcome.annealing_gain = 1.0 - ours_ps / static_cast<double>(start.iteration_ps);
  outcome.excess = ours_ps / bound_ps - 1.0;
  outcome.uniform_excess = static_cast<double>(best_uniform_ps(profile, costs)) / bound_ps - 1.0;
  for (std::size_t index = 0; index < kBaselines.size(); ++index) {
    const Rehearsal other = rehearse_policy(kBaselines[index], profile, costs, unused_s);
    outcome.speedups[index] = static_cast<double>(other.iteration_ps) / ours_ps;
  }
  for (const HostedCollective& one : ours.log) {
    outcome.least_piece =
        std::min(outcome.least_piece, static_cast<double>(one.what.range.size()) / total_bytes);
    outcome.collectives = std::max(outcome.collectives, one.number + 1);
  }
  outcome.collectives /= ours.iterations;
  return outcome;
}

struct Summary {
  double least = 0.0;
  double median = 0.0;
  double p95 = 0.0;
  double most = 0.0;
};

template <class Get>
Summary summarize(const std::vector<Outcome>& outcomes, Get get) {
  std::vector<double> values;
  for (const Outcome& outcome : outcomes) {
    values.push_back(static_cast<double>(get(outcome)));
  }
  std::ranges::sort(values);
  const auto at = [&](double part) {
    return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
  };
  return {values.front(), at(0.5), at(0.95), values.back()};
}

std::string to_json(const Summary& summary) {
  return fmt::format(R"({{"least": {:.4f}, "median": {:.4f}, "p95": {:.4f}, "most": {:.4f}}})",
                     summary.least, summary.median, summary.p95, summary.most);
}

std::vector<Outcome> measure_all(const Regime& regime, const Arguments& arguments) {
  std::vector<Outcome> outcomes(arguments.profiles);
  std::atomic<uint64_t> next = 0;
  const auto work = [&] {
    for (uint64_t index = next++; index < outcomes.size(); index = next++) {
      outcomes[index] = measure(regime, arguments.seed * 1'000'003 + index);
    }
  };
  std::vector<std::jthread> threads;
  for (uint64_t thread = 1; thread < arguments.threads; ++thread) {
    threads.emplace_back(work);
  }
  work();
  threads.clear();
  return outcomes;
}

// One regime as JSON; what it misses goes to `missed`.
std::string report(const Regime& regime, const std::vector<Outcome>& outcomes,
                   std::vector<std::string>& missed) {
  const auto require = [&](bool holds, const std::string& what) {
    if (!holds) {
      missed.push_back(fmt::format("{}: {}", regime.name, what));
    }
  };
  std::string speedups;
  for (std::size_t index = 0; index < kBaselines.size(); ++index) {
    const Summary speedup =
        summarize(outcomes, [&](const Outcome& one) { return one.speedups[index]; });
    require(regime.fixes_piece || speedup.least >= 1.0,
            fmt::format("worse than {}", kBaselines[index]));
    speedups +=
        fmt::format("{}\"{}\": {}", index > 0 ? ", " : "", kBaselines[index], to_json(speedup));
  }
  const Summary excess = summarize(outcomes, [](const Outcome& one) { return one.excess; });
  const Summary uniform =
      summarize(outcomes, [](const Outcome& one) { return one.uniform_excess; });
  const Summary gain = summarize(outcomes, [](const Outcome& one) { return one.annealing_gain; });
  const auto gains =
      std::ranges::count_if(outcomes, [](const Outcome& one) { return one.annealing_gain > 0.0; });
  const Summary piece = summarize(outcomes, [](const Outcome& one) { return one.least_piece; });
  const Summary count = summarize(outcomes, [](const Outcome& one) { return one.collectives; });
  const Summary create = summarize(outcomes, [](const Outcome& one) { return one.create_s; });
  require(excess.least >= -1e-9, "below the bound");
  require(gain.least >= 0.0, "annealing loses the plan that it starts from");
  require(excess.median <= regime.median_limit, "median over its limit");
  require(excess.p95 <= regime.p95_limit, "p95 over its limit");
  require(!regime.fixes_piece || piece.least >= 1.0 / kLeastPiece,
          "a piece below 1/256 of the model");
  std::string text =
      fmt::format("{{\"name\": \"{}\",\n   \"speedup_over\": {{{}}},\n", regime.name, speedups);
  text += fmt::format("   \"excess_over_bound\": {},\n   \"excess_of_uniform\": {},\n",
                      to_json(excess), to_json(uniform));
  text +=
      fmt::format("   \"annealing_improves\": {}, \"annealing_gain\": {},\n", gains, to_json(gain));
  text += fmt::format("   \"least_piece\": {:.5f}, \"collectives\": {},\n   \"planning_s\": {}}}",
                      piece.least, to_json(count), to_json(create));
  return text;
}

int run(const Arguments& arguments) {
  const auto started = std::chrono::steady_clock::now();
  std::vector<std::string> missed;
  std::string rows;
  for (const Regime& regime : kRegimes) {
    rows += rows.empty() ? "\n  " : ",\n  ";
    rows += report(regime, measure_all(regime, arguments), missed);
  }
  std::string failed;
  for (const std::string& one : missed) {
    failed += fmt::format("{}\"{}\"", failed.empty() ? "" : ", ", one);
  }
  const double wall_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  fmt::print(
      "{{\"profiles\": {}, \"seed\": {}, \"wall_s\": {:.1f},\n \"rows\": [{}],\n \"failed\": "
      "[{}]}}\n",
      arguments.profiles, arguments.seed, wall_s, rows, failed);
  return arguments.check && !missed.empty() ? 1 : 0;
}

}  // namespace
}  // namespace pleach

int main(int argument_count, char** arguments) {
  pleach::Arguments parsed;
  for (int index = 1; index < argument_count; ++index) {
    const std::string_view name = arguments[index];
    uint64_t* const number = name == "--profiles"  ? &parsed.profiles
                             : name == "--seed"    ? &parsed.seed
                             : name == "--threads" ? &parsed.threads
                                                   : nullptr;
    if (name == "--check") {
      parsed.check = true;
    } else if (number != nullptr && index + 1 < argument_count) {
      *number = std::strtoull(arguments[++index], nullptr, 10);
    } else {
      pleach::fail(fmt::format("unknown argument '{}'", name));
    }
  }
  if (parsed.profiles == 0) {
    pleach::fail("--profiles must be more than 0");
  }
  return pleach::run(parsed);
}
