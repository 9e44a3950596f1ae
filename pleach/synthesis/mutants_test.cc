// Every algorithm's schedules on 2 to 4 ranks, and thousands of mutants of them: the verifier says
// what every interleaving shows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/topology/shapes.h"
#include "tests/support/random_schedules.h"
#include "tests/support/verdicts.h"

namespace pleach {
namespace {

constexpr int32_t kMutantsPerSchedule = 40;

struct Base {
  std::string name;
  Schedule schedule;
};

// Explicit and without routes, so that mutants need no route of their own.
void add_base(const std::string& algorithm, const SynthesisRequest& request,
              std::vector<Base>& bases) {
  const Result<Schedule> made = synthesize(request, algorithm);
  if (!made) {
    EXPECT_EQ(made.error().code, ErrorCode::kInfeasible) << made.error().message;
    return;
  }
  Result<Schedule> schedule = expand(*made, &request.topology);
  ASSERT_TRUE(schedule) << schedule.error().message;
  for (Transfer& transfer : schedule->transfers) {
    transfer.route = kNoRoute;
  }
  schedule->routes = {};
  bases.push_back({algorithm + " " + std::string(to_text(request.collective)) + " on " +
                       request.topology.name() + " root " + std::to_string(request.root.value),
                   std::move(schedule).value()});
}

// What every algorithm does on small topologies, its variants included.
std::vector<Base> all_bases() {
  const std::vector<std::string> specs = {"fully_connected:2",
                                          "fully_connected:3",
                                          "fully_connected:4",
                                          "ring:3",
                                          "ring:4",
                                          "mesh:2x2",
                                          "mesh:3",
                                          "switch:2,reduce,multicast",
                                          "switch:3,reduce,multicast",
                                          "switch:4,reduce,multicast"};
  const std::vector<std::string> variants = {
      "direct,mode=one_shot", "multitree,step_rule=published", "multitree,interfaces=1"};
  std::vector<Base> bases;
  for (const std::string& spec : specs) {
    const Result<Topology> topology = parse_topology(spec);
    EXPECT_TRUE(topology);
    const auto rank_count = count_of(topology->rank_nodes());
    for (const Algorithm* algorithm : algorithms()) {
      for (const CollectiveKind collective : algorithm->collectives) {
        SynthesisRequest request = {*topology, {}, collective, Rank{0}};
        request.root.value = has_root(collective) ? rank_count - 1 : 0;
        std::reverse_copy(topology->rank_nodes().begin(), topology->rank_nodes().end(),
                          std::back_inserter(request.participants));
        add_base(algorithm->name, request, bases);
        for (const std::string& variant : variants) {
          if (variant.starts_with(algorithm->name + ",") &&
              (collective == CollectiveKind::kAllReduce || algorithm->name == "multitree")) {
            add_base(variant, request, bases);
          }
        }
      }
    }
  }
  return bases;
}

TEST(Mutants, VerifierAndOracleAgree) {
  support::VerdictCounts originals, mutants;
  const std::vector<Base> bases = all_bases();
  const auto repeats = static_cast<uint64_t>(support::repeated(kMutantsPerSchedule));
  for (std::size_t base = 0; base < bases.size() && !HasFatalFailure(); ++base) {
    Rng rng(base);
    SCOPED_TRACE(bases[base].name);
    compare_verdicts(bases[base].schedule, originals, rng);
    for (uint64_t repeat = 0; repeat < repeats && !HasFatalFailure(); ++repeat) {
      SCOPED_TRACE("base " + std::to_string(base) + ", mutant " + std::to_string(repeat));
      Schedule mutant = bases[base].schedule;
      Rng seeded(base << 32 | repeat);
      for (uint64_t count = 1 + seeded.below(2); count > 0 && !mutant.transfers.empty(); --count) {
        support::mutate(mutant, seeded.below(support::kMutations.size()), seeded);
      }
      compare_verdicts(mutant, mutants, seeded);
    }
  }
  std::cout << "originals: " << originals.text() << "\nmutants: " << mutants.text() << "\n";
  EXPECT_EQ(originals.incorrect, 0);
  EXPECT_EQ(originals.refused_by_form, 0);
  EXPECT_GE(originals.correct, 100);
  EXPECT_GT(mutants.correct, 100);
  EXPECT_GT(mutants.incorrect, 1'000);
  EXPECT_LT(mutants.undecided * 100, mutants.schedules);
}

}  // namespace
}  // namespace pleach
