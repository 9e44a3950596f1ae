#include "pleach/network/step_gate.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pleach/network/schedule_forms.h"
#include "pleach/topology/shapes.h"
#include "tests/support/counterexamples.h"
#include "tests/support/small_schedules.h"

namespace pleach {
namespace {

using support::kCopy;

constexpr NopTimes kNops = {.first_ps = 200, .later_ps = 100};

std::shared_ptr<const LoweredSchedule> lowered(const std::string& spec, const Schedule& schedule,
                                               int32_t segments) {
  auto topology = parse_topology(spec);
  EXPECT_TRUE(topology);
  const SimulationOptions options{.segment_count = segments};
  const auto forms = ScheduleForms::create(*topology, borrowed(schedule), options);
  EXPECT_TRUE(forms) << (forms ? "" : forms.error().message);
  const auto job = (*forms)->whole(1'000);
  EXPECT_TRUE(job);
  return job->shared_schedule();
}

// Rank 0 sends in steps 0 and 3 only.
const Schedule kPauses =
    support::make_schedule({.collective = CollectiveKind::kBroadcast, .rank_count = 3},
                           {{0, 1, 0, 1, kCopy, 0}, {0, 1, 0, 2, kCopy, 3}});

TEST(StepGate, OpensTheNextSlotWhenAllSendsAreOver) {
  const auto schedule = lowered("fully_connected:3", kPauses, 1);
  StepGate gate(*schedule, kNops, StepGate::Ranks::kApart);
  EXPECT_FALSE(gate.is_open(0, 0));
  EXPECT_EQ(gate.advance(0, false), std::nullopt);
  EXPECT_TRUE(gate.is_open(0, 0));
  EXPECT_FALSE(gate.is_open(0, 1));
  EXPECT_EQ(gate.advance(0, false), std::nullopt) << "its send is not over";
  EXPECT_FALSE(gate.is_open(0, 1));
  gate.over(0);
  EXPECT_EQ(gate.advance(0, false), kNops.first_ps);
  EXPECT_TRUE(gate.is_open(0, 1));
  EXPECT_EQ(gate.advance(0, false), std::nullopt) << "a NOP is over by its time alone";
  EXPECT_FALSE(gate.is_open(0, 2));
  EXPECT_EQ(gate.advance(0, true), kNops.later_ps) << "the second of a row";
  EXPECT_EQ(gate.advance(0, true), std::nullopt);
  EXPECT_TRUE(gate.is_open(0, 3));
  gate.over(0);
  EXPECT_EQ(gate.advance(0, false), std::nullopt) << "there is no slot 4";
  EXPECT_FALSE(gate.is_open(0, 4));
}

// With a period of 2, step 3 of segment 0 and step 1 of segment 1 are one slot: rank 0 sends in
// slots 0 (0), 2 (1), 3 (0) and 5 (1).
TEST(StepGate, SegmentsFollowAtThePeriod) {
  Schedule pauses = kPauses;
  pauses.period = 2;
  const auto schedule = lowered("fully_connected:3", pauses, 2);
  StepGate gate(*schedule, kNops, StepGate::Ranks::kApart);
  std::vector<bool> has_sends;
  bool after_nop = false;
  for (int64_t slot = 0; slot < 6; ++slot) {
    const bool is_nop = gate.advance(0, after_nop).has_value();
    ASSERT_TRUE(gate.is_open(0, slot));
    has_sends.push_back(!is_nop);
    after_nop = is_nop;
    if (!is_nop) {
      gate.over(0);
    }
  }
  EXPECT_EQ(has_sends, (std::vector<bool>{true, false, true, true, false, true}));
  EXPECT_EQ(gate.advance(0, after_nop), std::nullopt);
  EXPECT_FALSE(gate.is_open(0, 6));
}

// Rank 0 sends in step 0, which is a phase, and then in the next one, before which it awaits what
// rank 1 sends to it. A NOP that ends meanwhile opens nothing either.
TEST(StepGate, APhaseOpensWhenTheOneBeforeHasCommitted) {
  Schedule exchange =
      support::make_schedule({.collective = CollectiveKind::kAllReduce, .rank_count = 2},
                             {{0, 1, 1, 0, support::kReduce, 1}, {0, 1, 0, 1, kCopy, 2}});
  exchange.phase_steps = {2, 1};
  const auto schedule = lowered("ring:2", exchange, 1);
  StepGate gate(*schedule, kNops, StepGate::Ranks::kApart, StepGate::Phases::kApart);
  EXPECT_EQ(gate.advance(0, false), kNops.first_ps);
  EXPECT_EQ(gate.advance(0, true), kNops.later_ps);
  EXPECT_EQ(gate.advance(0, true), std::nullopt) << "rank 1's message is not there";
  EXPECT_FALSE(gate.is_open(0, 2));
  gate.committed(0, 1, 0);
  EXPECT_EQ(gate.advance(0, false), std::nullopt);
  EXPECT_TRUE(gate.is_open(0, 2)) << "the NOP was over before";

  StepGate free(*schedule, kNops, StepGate::Ranks::kApart);
  free.advance(0, false);
  free.advance(0, true);
  free.advance(0, true);
  EXPECT_TRUE(free.is_open(0, 2));
}

TEST(StepGate, RanksOfASymmetricScheduleAreApart) {
  const auto schedule = lowered("ring:4", support::symmetric_ring_schedule(4), 1);
  StepGate gate(*schedule, kNops, StepGate::Ranks::kApart);
  for (int32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(gate.advance(rank, false), std::nullopt);
    EXPECT_EQ(gate.connections(rank).size(), 1U);
  }
  gate.over(2);
  gate.advance(2, false);
  for (int32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(gate.is_open(rank, 1), rank == 2);
  }
}

// Rank 0 sends in steps 0 and 3, rank 1 twice in step 1, and nobody in step 2.
TEST(StepGate, RanksTogetherOpenASlotWhenAllSendsOfTheLastAreOver) {
  const Schedule uneven = support::make_schedule(
      {.collective = CollectiveKind::kBroadcast, .rank_count = 4}, {{0, 1, 0, 1, kCopy, 0},
                                                                    {0, 1, 1, 2, kCopy, 1},
                                                                    {0, 1, 1, 3, kCopy, 1},
                                                                    {0, 1, 0, 2, kCopy, 3}});
  const auto schedule = lowered("fully_connected:4", uneven, 1);
  StepGate gate(*schedule, NopTimes(), StepGate::Ranks::kTogether);
  ASSERT_EQ(gate.line_count(), 1);
  EXPECT_EQ(gate.connections(0).size(), 4U);
  EXPECT_EQ(gate.advance(0, false), std::nullopt);
  EXPECT_TRUE(gate.is_open(1, 0));
  EXPECT_FALSE(gate.is_open(1, 1)) << "rank 1 has nothing in slot 0, and waits for rank 0";
  gate.over(0);
  EXPECT_EQ(gate.advance(0, false), std::nullopt);
  EXPECT_TRUE(gate.is_open(1, 1));
  gate.over(1);
  EXPECT_EQ(gate.advance(0, false), std::nullopt);
  EXPECT_FALSE(gate.is_open(0, 2)) << "rank 1 sends once more";
  gate.over(1);
  EXPECT_EQ(gate.advance(0, false), std::nullopt);
  EXPECT_TRUE(gate.is_open(3, 3)) << "what nobody sends in costs nothing";
}

TEST(StepGate, TranslatesTogetherAreOneSlot) {
  const auto schedule = lowered("ring:4", support::symmetric_ring_schedule(4), 1);
  StepGate gate(*schedule, NopTimes(), StepGate::Ranks::kTogether);
  EXPECT_EQ(gate.advance(0, false), std::nullopt);
  EXPECT_EQ(gate.connections(0).size(), 4U);
  for (const int32_t rank : {2, 0, 1}) {
    gate.over(rank);
    EXPECT_EQ(gate.advance(0, false), std::nullopt);
    EXPECT_FALSE(gate.is_open(2, 1));
  }
  gate.over(3);
  gate.advance(0, false);
  EXPECT_TRUE(gate.is_open(2, 1));
}

}  // namespace
}  // namespace pleach
