#include "pleach/network/schedule_forms.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "pleach/network/model.h"
#include "tests/support/counterexamples.h"
#include "tests/support/small_schedules.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

using support::topology_of;

TEST(ScheduleForms, FoldsWhereAllRanksAreAlike) {
  const Schedule symmetric = support::symmetric_ring_schedule(4);
  const Schedule plain = support::ring_schedule(CollectiveKind::kAllReduce, 4);
  const SimulationOptions usual, unfolded{.fold = false}, recorded{.keep_records = true};
  const struct {
    std::string spec;
    const Schedule& schedule;
    const SimulationOptions& options;
    int64_t size_bytes;
    bool folds;
  } cases[] = {
      {"ring:4", symmetric, usual, 4'000, true},
      {"ring:4", symmetric, usual, 4'001, false},  // chunks differ
      {"ring:4", symmetric, unfolded, 4'000, false},
      {"ring:4", symmetric, recorded, 4'000, false},
      {"ring:4,latency_spread=20%", symmetric, usual, 4'000, false},
      {"ring:4", plain, usual, 4'000, false},
  };
  for (const auto& [spec, schedule, options, size_bytes, folds] : cases) {
    SCOPED_TRACE(spec + " " + std::to_string(size_bytes));
    const Topology topology = topology_of(spec);
    const auto forms = ScheduleForms::create(topology, borrowed(schedule), options);
    ASSERT_TRUE(forms) << forms.error().message;
    const auto folded = (*forms)->folded(size_bytes);
    ASSERT_TRUE(folded) << folded.error().message;
    ASSERT_EQ(folded->has_value(), folds);
    if (folds) {
      EXPECT_EQ((*folded)->schedule().rank_count(), 1);
      EXPECT_EQ((*folded)->schedule().translate_count(), 1);
    }
    const auto whole = (*forms)->whole(size_bytes);
    ASSERT_TRUE(whole);
    EXPECT_EQ(whole->schedule().rank_count(), 4);
    EXPECT_EQ(whole->schedule().connections().size(), 4U);
  }
}

// What would take minutes is refused at once; one rank for all may have as many times more.
TEST(ScheduleForms, RefusesMoreFineSegmentsThanAreWorthIt) {
  const Topology topology = topology_of("ring:64");
  const Schedule symmetric = support::symmetric_ring_schedule(64);  // 126 chunks a rank
  const struct {
    int32_t segments;
    bool is_whole;
  } cases[] = {{1'024, true}, {1'040, true}, {1'041, false}, {65'536, false}};
  for (const auto& [segments, is_whole] : cases) {
    SCOPED_TRACE(segments);
    const SimulationOptions options{.segment_count = segments};
    const auto forms = ScheduleForms::create(topology, borrowed(symmetric), options);
    ASSERT_TRUE(forms);
    const auto folded = (*forms)->folded(int64_t{1} << 26);
    EXPECT_TRUE(folded.has_value() && folded->has_value());
    const auto whole = (*forms)->whole(int64_t{1} << 26);
    ASSERT_EQ(whole.has_value(), is_whole);
    if (!is_whole) {
      EXPECT_EQ(whole.error().message,
                "segments " + std::to_string(segments) +
                    ": too many for 8064 chunks that are moved; 1040 will do");
    }
  }
}

// A grid finer than what the transfers tell apart costs nothing where chunks do not count.
TEST(ScheduleForms, MergesChunksThatTakeTheSameTime) {
  const Topology topology = topology_of("ring:2");
  const int32_t most = kMaxScheduleChunks;
  const Schedule wide = support::make_schedule(
      {.chunk_count = most},
      {{0, most, 0, 1, support::kReduce, 0}, {0, most, 1, 0, support::kCopy, 1}});
  const struct {
    SimulationOptions options;
    bool merges;
  } cases[] = {{{}, true},
               {{.landing_places = 1}, true},
               {{.segment_count = 2}, false},
               {{.reduce_bandwidth_bytes_per_s = 1'000}, false},
               {{.keep_records = true}, false}};
  for (const auto& [options, merges] : cases) {
    const auto forms = ScheduleForms::create(topology, borrowed(wide), options);
    ASSERT_TRUE(forms) << forms.error().message;
    EXPECT_EQ((*forms)->schedule().chunks.count(), merges ? 1 : most);
  }
}

// What one rank's links carried is spread over all links of the class, and back.
TEST(ScheduleForms, ClassesOfLinksAddUp) {
  const Topology topology = topology_of("ring:4");
  const Schedule ring = support::symmetric_ring_schedule(4);
  const SimulationOptions options;
  const auto forms = ScheduleForms::create(topology, borrowed(ring), options);
  ASSERT_TRUE(forms);
  std::vector<LinkUse> links(topology.links().size());
  links[0] = {.busy_ps = 5, .wire_bytes = 7};
  const std::vector<LinkUse> classes = (*forms)->sum_classes(links);
  std::vector<LinkUse> spread(topology.links().size());
  (*forms)->spread_classes(classes, 3, spread);
  int32_t alike = 0;
  for (const LinkUse& use : spread) {
    EXPECT_TRUE(use.busy_ps == 0 || (use.busy_ps == 15 && use.wire_bytes == 21));
    alike += use.busy_ps == 15 ? 1 : 0;
  }
  EXPECT_EQ(alike, 4);
}

TEST(KnownSchedules, DerivesOnceForEachPointer) {
  const Topology topology = topology_of("ring:4");
  const SimulationOptions options;
  KnownSchedules known(topology, options);
  const auto ring = std::make_shared<const Schedule>(support::symmetric_ring_schedule(4));
  const auto equal = std::make_shared<const Schedule>(*ring);
  const auto first = known.find(ring);
  ASSERT_TRUE(first);
  EXPECT_EQ(*first, *known.find(ring));
  EXPECT_NE(*first, *known.find(equal)) << "identity, not equality";
  const auto small = (*first)->whole(400), large = (*first)->whole(8'000);
  ASSERT_TRUE(small && large);
  EXPECT_EQ(small->shared_schedule(), large->shared_schedule()) << "sizes share what is derived";
}

TEST(KnownSchedules, KeepsNothingOfWhatDoesNotFit) {
  const Topology topology = topology_of("ring:4");
  const SimulationOptions options;
  KnownSchedules known(topology, options);
  Schedule schedule(
      support::make_schedule({.participants = {0, 9}}, {{0, 1, 0, 1, support::kCopy}}));
  EXPECT_FALSE(known.find(borrowed(schedule)));
  schedule = support::symmetric_ring_schedule(4);
  EXPECT_TRUE(known.find(borrowed(schedule))) << "another schedule in its place";
}

// A rank's message to the one after the next meets that of its neighbour: one rank alone would not
// see it.
TEST(ScheduleForms, FoldsNoWaysOfSeveralLinks) {
  const Topology topology = topology_of("ring:5,bandwidth=1GB/s,latency=100ns");
  Schedule far = support::symmetric_ring_schedule(5);
  std::erase_if(far.transfers, [](const Transfer& one) { return one.step > 0; });
  far.transfers.front().target = NodeId{(far.transfers.front().source.value + 2) % 5};
  far.phase_steps = {1};
  far.period = 1;
  for (const char* model : {"flow", "analytic"}) {
    const Job job{borrowed(far), 5'000, 0};
    const auto folding = simulate(model, topology, std::span(&job, 1), {});
    ASSERT_TRUE(folding) << folding.error().message;
    EXPECT_FALSE(folding->use.folded);
    EXPECT_EQ(folding->finish_ps, 2'000'000 + 200'000) << model;  // each link carries two messages
  }
}

}  // namespace
}  // namespace pleach
