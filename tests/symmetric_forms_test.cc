// A symmetric schedule and what expand() makes of it are one schedule: they have the same verdict,
// give the same bits, and take the same time in every network model.
#include <gtest/gtest.h>

#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "pleach/collective/verify.h"
#include "pleach/network/model.h"
#include "pleach/synthesis/algorithm.h"
#include "tests/support/random_schedules.h"
#include "tests/support/random_symmetric.h"
#include "tests/support/small_schedules.h"
#include "tests/support/topologies.h"
#include "tests/support/two_phase_run.h"

namespace pleach {
namespace {

using support::pick;
using support::topology_of;

struct Place {
  std::string spec;
  std::vector<int32_t> dimensions;
};

const std::vector<Place>& places() {
  static const std::vector<Place> all = {{"ring:2", {2}},       {"ring:3", {3}},
                                         {"ring:4", {4}},       {"torus:2x2", {2, 2}},
                                         {"torus:2x3", {2, 3}}, {"fully_connected:4", {4}}};
  return all;
}

// One in three has a transfer spoilt, or a grid that does not fit.
Schedule draw(const std::vector<int32_t>& dimensions, Rng& rng) {
  Schedule schedule = support::random_symmetric_schedule(dimensions, rng);
  if (rng.below(3) == 0 && !schedule.transfers.empty()) {
    support::mutate(schedule, rng.below(support::kMutations.size()), rng);
  }
  return schedule;
}

TEST(SymmetricForms, HaveTheSameVerdict) {
  constexpr uint64_t kSeed = 20260601;
  Rng rng(kSeed);
  int32_t correct = 0, wrong = 0, malformed = 0;
  for (int32_t round = 0; round < support::repeated(10'000); ++round) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", round " + std::to_string(round));
    const Schedule schedule = draw(places()[rng.below(places().size())].dimensions, rng);
    if (!check_form(schedule, nullptr).empty()) {
      ++malformed;
      continue;
    }
    const Result<Schedule> expanded = expand(schedule, nullptr);
    ASSERT_TRUE(expanded) << expanded.error().message;
    const Verification one = verify(schedule, nullptr), all = verify(*expanded, nullptr);
    ASSERT_EQ(one.correct, all.correct) << to_text(schedule.collective);
    if (one.correct) {  // else the pass ends after some violations
      ASSERT_EQ(one.bitwise_replicated, all.bitwise_replicated) << to_text(schedule.collective);
    }
    ++(one.correct ? correct : wrong);
  }
  EXPECT_GT(correct, 4'000);
  EXPECT_GT(wrong, 1'000);
  EXPECT_GT(malformed, 200);
}

TEST(SymmetricForms, GiveTheSameBits) {
  constexpr uint64_t kSeed = 20260602;
  Rng rng(kSeed);
  int32_t ran = 0;
  for (int32_t round = 0; round < support::repeated(150); ++round) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", round " + std::to_string(round));
    const Schedule schedule = draw(places()[rng.below(places().size())].dimensions, rng);
    if (!verify(schedule, nullptr).correct) {
      continue;
    }
    ++ran;
    const bool is_exchange = schedule.collective == CollectiveKind::kAllToAll;
    support::expect_two_phase_bits(
        schedule,
        {.count = pick(rng, 20) * (is_exchange ? schedule.rank_count() : 1),
         .segment_count = 1 + pick(rng, 3),
         .landing_places = 1 + pick(rng, 2),
         .in_place = rng.below(3) == 0,
         .delay_seed = rng.below(3)},
        rng);
  }
  EXPECT_GT(ran, 60);
}

SimulationOptions draw_options(Rng& rng) {
  return {.segment_count = 1 + pick(rng, 3),
          .gate = rng.below(3) == 0 ? Gate::kLockstep : Gate::kDataflow,
          .flow_control = rng.below(2) == 0 ? FlowControl::kPacket : FlowControl::kMessage,
          .landing_places = pick(rng, 3),
          .reduce_bandwidth_bytes_per_s = rng.below(3) == 0 ? 0 : 1'000'000'000 << pick(rng, 5)};
}

std::string draw_spec(const std::string& shape, Rng& rng) {
  const char* const latencies[] = {"0", "150ns", "1us"};
  const char* const overheads[] = {"0", "0", "70ns"};
  const char* const headers[] = {"", "", ",header=16,packet=64"};
  const std::string spec = shape + ",latency=" + latencies[rng.below(3)] +
                           ",overhead=" + overheads[rng.below(3)] + headers[rng.below(3)];
  return rng.below(3) != 0 ? spec
                           : spec + ",latency_spread=20%,seed=" + std::to_string(rng.below(9));
}

// What happened, without how it was represented.
std::string told(const std::string& model, const Topology& topology, const Schedule& schedule,
                 int64_t size_bytes, const SimulationOptions& options) {
  const Job job{borrowed(schedule), size_bytes, 0};
  const auto result = simulate(model, topology, std::span(&job, 1), options);
  if (!result) {
    return result.error().message;
  }
  std::string text = std::to_string(result->finish_ps) + " ps, " +
                     std::to_string(result->use.event_count) + " events:";
  for (const LinkUse& link : result->use.links) {
    text += " " + std::to_string(link.wire_bytes) + "/" + std::to_string(link.busy_ps);
  }
  return text;
}

TEST(SymmetricForms, TakeTheSameTime) {
  constexpr uint64_t kSeed = 20260603;
  Rng rng(kSeed);
  int32_t timed = 0;
  for (int32_t round = 0; round < support::repeated(1'500); ++round) {
    const auto& [shape, dimensions] = places()[rng.below(places().size())];
    const std::string spec = draw_spec(shape, rng);
    const Topology topology = topology_of(spec);
    Schedule schedule = draw(dimensions, rng);
    SimulationOptions options = draw_options(rng);
    const bool is_exchange = schedule.collective == CollectiveKind::kAllToAll;
    const int64_t size_bytes = pick(rng, 5'000) * (is_exchange ? schedule.rank_count() : 1);
    if (!check_form(schedule, &topology).empty()) {
      continue;
    }
    ASSERT_TRUE(fill_routes(schedule, topology));
    const Result<Schedule> expanded = expand(schedule, &topology);
    ASSERT_TRUE(expanded) << expanded.error().message;
    for (const std::string model : {"flow", "analytic"}) {
      if (model == "analytic") {
        options.landing_places = 0;
      }
      SCOPED_TRACE("seed " + std::to_string(kSeed) + ", round " + std::to_string(round) + ", " +
                   model + " on " + spec + ", " + to_text(schedule.collective).data());
      const std::string whole = told(model, topology, *expanded, size_bytes, options);
      options.fold = true;
      ASSERT_EQ(told(model, topology, schedule, size_bytes, options), whole);
      options.fold = false;
      ASSERT_EQ(told(model, topology, schedule, size_bytes, options), whole);
      ++timed;
    }
  }
  EXPECT_GT(timed, 1'500);
}

// Chunks that nobody tells apart cost no time, whether they are merged or not.
TEST(SymmetricForms, TakeTheSameTimeOnAFinerGrid) {
  constexpr uint64_t kSeed = 20260604;
  Rng rng(kSeed);
  int32_t timed = 0;
  for (int32_t round = 0; round < support::repeated(500); ++round) {
    const auto& [shape, dimensions] = places()[rng.below(places().size())];
    const Topology topology = topology_of(draw_spec(shape, rng));
    Schedule schedule = support::random_symmetric_schedule(dimensions, rng);
    SimulationOptions options = draw_options(rng);
    options.segment_count = 1;
    options.reduce_bandwidth_bytes_per_s = 0;
    const bool is_exchange = schedule.collective == CollectiveKind::kAllToAll;
    const int64_t size_bytes = pick(rng, 5'000) * (is_exchange ? schedule.rank_count() : 1);
    const std::vector<int64_t> cut = support::random_parts(9, 2 + pick(rng, 3), rng);
    if (!check_form(schedule, &topology).empty()) {
      continue;
    }
    const Result<Schedule> expanded = expand(schedule, &topology);
    ASSERT_TRUE(expanded) << expanded.error().message;
    for (const Schedule& coarse : {schedule, *expanded}) {
      const Schedule fine = support::refine(coarse, cut);
      for (const std::string model : {"flow", "analytic"}) {
        options.landing_places = model == "flow" ? options.landing_places : 0;
        SCOPED_TRACE("seed " + std::to_string(kSeed) + ", round " + std::to_string(round) + ", " +
                     model + " on " + topology.name());
        const std::string told_of = told(model, topology, coarse, size_bytes, options);
        ASSERT_EQ(told(model, topology, fine, size_bytes, options), told_of);
        // Those whose chunks are cut, reduced or recorded one by one are not merged.
        options.keep_records = model == "flow";
        ASSERT_EQ(told(model, topology, fine, size_bytes, options), told_of);
        options.keep_records = false;
        ++timed;
      }
    }
  }
  EXPECT_GT(timed, 1'000);
}

// bidirectional_ring on ring:3, 48,000 bytes, 5 GB/s, is where this first showed.
TEST(SymmetricForms, TakeTheSameTimeWhoeverWroteThem) {
  int32_t timed = 0;
  for (const std::string spec : {"ring:3", "ring:4", "torus:3x3", "torus:2x4", "torus:4x4"}) {
    const Topology topology = topology_of(spec);
    for (const Algorithm* algorithm : algorithms()) {
      for (const CollectiveKind collective : algorithm->collectives) {
        const SynthesisRequest request{topology, {}, collective};
        const Result<Schedule> schedule = synthesize(request, algorithm->name);
        if (!schedule || !schedule->symmetry) {
          continue;
        }
        const Result<Schedule> expanded = expand(*schedule, &topology);
        ASSERT_TRUE(expanded) << expanded.error().message;
        for (const int64_t size_bytes : {int64_t{48'000}, int64_t{14'400'000}}) {
          for (const int64_t reduce_bandwidth : {5, 20, 100}) {
            for (const int32_t segments : {1, 3}) {
              const SimulationOptions options{
                  .segment_count = segments,
                  .reduce_bandwidth_bytes_per_s = reduce_bandwidth * 1'000'000'000};
              SCOPED_TRACE(spec + " " + algorithm->name + " " + to_text(collective).data());
              const std::string whole = told("flow", topology, *expanded, size_bytes, options);
              ASSERT_EQ(told("flow", topology, *schedule, size_bytes, options), whole);
              ++timed;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(timed, 100);
}

// Names of chunks decide nothing where no connection has two messages of one step: not the order in
// which a rank reduces what arrives at one time, either.
TEST(Chunks, MayBeRenamed) {
  constexpr uint64_t kSeed = 20260604;
  Rng rng(kSeed);
  int32_t timed = 0;
  for (int32_t round = 0; round < support::repeated(600); ++round) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", round " + std::to_string(round));
    const int32_t ranks = 3 + pick(rng, 3), chunks = 2 + pick(rng, 3);
    const Schedule schedule =
        support::random_tree_schedule(CollectiveKind::kAllReduce, ranks, chunks, rng);
    std::set<std::tuple<NodeId, NodeId, int32_t>> sends;
    for (const Transfer& transfer : schedule.transfers) {
      sends.emplace(transfer.source, transfer.target, transfer.step);
    }
    if (sends.size() < schedule.transfers.size()) {
      continue;
    }
    Schedule renamed = schedule;
    for (Transfer& transfer : renamed.transfers) {
      transfer.first_chunk = chunks - 1 - transfer.first_chunk;
    }
    sort_transfers(renamed);
    const Topology topology = topology_of("fully_connected:" + std::to_string(ranks));
    SimulationOptions options = draw_options(rng);
    const int64_t size_bytes = chunks * 1'200;
    ASSERT_EQ(told("flow", topology, renamed, size_bytes, options),
              told("flow", topology, schedule, size_bytes, options));
    ++timed;
  }
  EXPECT_GT(timed, 100);
}

}  // namespace
}  // namespace pleach
