// One rank's replay of a plan, fact by fact, and what it refuses.
#include "pleach/policy/replay.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pleach {
namespace {

using Kind = CollectiveKind;
using Numbers = std::vector<int32_t>;

// Layers of 4, 0 and 6 bytes, and atoms of 4, 2 and 4.
TrainingProfile three_layers() {
  return {.layers = {{.tensor_bytes = {4}}, {.tensor_bytes = {}}, {.tensor_bytes = {6}}},
          .rank_count = 2,
          .atom_bytes = {4, 2, 4}};
}

// What layer 2 has is reduced in two, and gathered with layer 0's first part.
const std::vector<AtomCollective> kPlan = {{Kind::kReduceScatter, 2, 3},
                                           {Kind::kReduceScatter, 0, 2},
                                           {Kind::kAllGather, 0, 1},
                                           {Kind::kAllGather, 1, 3}};

std::unique_ptr<PlanReplay> replay_of(const std::vector<AtomCollective>& plan,
                                      const ReplayOptions& options) {
  auto replay = PlanReplay::create(three_layers(), plan, options);
  EXPECT_TRUE(replay) << replay.error().message;
  return std::move(*replay);
}

Numbers started(PlanReplay& replay, int64_t now_ps) {
  const auto numbers = replay.next(now_ps);
  return {numbers.begin(), numbers.end()};
}

std::string message_of(const Status& status) {
  return status ? "" : status.error().message;
}

TEST(PlanReplay, StartsEachAsSoonAsThisRankCan) {
  for (int32_t iteration = 0; iteration < 3; ++iteration) {
    static const auto replay = replay_of(kPlan, {.channel_width = 2});
    const int32_t first = 4 * iteration;
    const int64_t now_ps = 100 * iteration;
    EXPECT_TRUE(replay->may_run_forward(0));
    EXPECT_TRUE(replay->may_run_forward(2));
    EXPECT_TRUE(replay->gradient_ready(2, now_ps));
    EXPECT_EQ(started(*replay, now_ps), Numbers{first});
    EXPECT_FALSE(replay->may_run_forward(2));
    EXPECT_TRUE(replay->may_run_forward(0));
    EXPECT_TRUE(replay->may_run_forward(1));
    EXPECT_TRUE(replay->gradient_ready(1, now_ps + 1));
    EXPECT_EQ(started(*replay, now_ps + 1), Numbers{});
    EXPECT_TRUE(replay->gradient_ready(0, now_ps + 2));
    EXPECT_EQ(started(*replay, now_ps + 2), Numbers{first + 1});  // two on the wire
    EXPECT_TRUE(replay->land(first + 1, now_ps + 3));
    EXPECT_EQ(started(*replay, now_ps + 3), Numbers{});  // not updated
    EXPECT_TRUE(replay->update(first + 1, now_ps + 4));
    EXPECT_EQ(started(*replay, now_ps + 4), Numbers{first + 2});  // beside the first
    EXPECT_TRUE(replay->land(first, now_ps + 5));
    EXPECT_EQ(started(*replay, now_ps + 5), Numbers{});
    EXPECT_TRUE(replay->land(first + 2, now_ps + 6));
    EXPECT_TRUE(replay->may_run_forward(0));
    EXPECT_FALSE(replay->may_run_forward(2));
    EXPECT_TRUE(replay->update(first, now_ps + 7));
    EXPECT_EQ(started(*replay, now_ps + 7), Numbers{first + 3});
    EXPECT_EQ(*replay->index_of(first + 3), 3);
    EXPECT_FALSE(replay->may_run_forward(2));
    EXPECT_TRUE(replay->land(first + 3, now_ps + 8));
    EXPECT_TRUE(replay->may_run_forward(2));
    const HostedCollective& last = replay->log().back();
    EXPECT_EQ(last.iteration, iteration);
    EXPECT_EQ(last.ready_ps, now_ps + 7);
    EXPECT_EQ(last.finished_ps, now_ps + 8);
    replay->forget_before(iteration);
    EXPECT_EQ(replay->log().size(), 4U);
  }
}

TEST(PlanReplay, KeepsToTheChannelsWidth) {
  const auto replay = replay_of(kPlan, {.channel_width = 1});
  EXPECT_TRUE(replay->gradient_ready(0, 0));
  EXPECT_EQ(started(*replay, 0), Numbers{});  // not first in the plan
  EXPECT_TRUE(replay->gradient_ready(2, 0));
  EXPECT_EQ(started(*replay, 0), Numbers{0});
  EXPECT_TRUE(replay->land(0, 1));
  EXPECT_EQ(started(*replay, 1), Numbers{1});
}

TEST(PlanReplay, WaitsForAllWhereParametersStepAtOnce) {
  const auto replay = replay_of({{Kind::kAllReduce, 1, 3}, {Kind::kAllReduce, 0, 1}},
                                {.channel_width = 2, .step_at_once = true});
  EXPECT_TRUE(replay->gradient_ready(2, 0));
  EXPECT_FALSE(replay->may_run_forward(0));
  EXPECT_TRUE(replay->gradient_ready(0, 0));
  EXPECT_EQ(started(*replay, 0), (Numbers{0, 1}));
  EXPECT_TRUE(replay->land(1, 1));
  EXPECT_TRUE(replay->update(1, 1));
  EXPECT_FALSE(replay->may_run_forward(0));
  EXPECT_TRUE(replay->land(0, 2));
  EXPECT_FALSE(replay->may_run_forward(0));  // not updated
  EXPECT_TRUE(replay->update(0, 3));
  EXPECT_TRUE(replay->may_run_forward(0));
}

TEST(PlanReplay, BroadcastsWhatOwnersHave) {
  const auto replay = replay_of({{Kind::kReduce, 0, 3}, {Kind::kBroadcast, 0, 3}}, {});
  EXPECT_TRUE(replay->gradient_ready(2, 0));
  EXPECT_TRUE(replay->gradient_ready(0, 0));
  EXPECT_EQ(started(*replay, 0), Numbers{0});
  EXPECT_TRUE(replay->land(0, 1));
  EXPECT_TRUE(replay->update(0, 2));
  EXPECT_EQ(started(*replay, 2), Numbers{1});
  EXPECT_TRUE(replay->land(1, 3));
  EXPECT_TRUE(replay->may_run_forward(0));
}

// Gradients are dropped before, amid and after the reductions.
TEST(PlanReplay, RepeatsAnIterationThatHasUpdatedNothing) {
  const auto replay = replay_of(kPlan, {});
  EXPECT_TRUE(replay->repeat());  // nothing has come
  EXPECT_TRUE(replay->gradient_ready(0, 0));
  EXPECT_TRUE(replay->repeat());
  EXPECT_TRUE(replay->may_run_forward(0));
  EXPECT_TRUE(replay->gradient_ready(2, 1));
  EXPECT_EQ(started(*replay, 1), Numbers{0});
  EXPECT_EQ(message_of(replay->repeat()),
            "an iteration cannot be repeated while it has something on the wire");
  EXPECT_TRUE(replay->land(0, 2));
  EXPECT_TRUE(replay->repeat());
  EXPECT_EQ(message_of(replay->update(0, 2)),
            "collective 0, reduce_scatter, has nothing to update with");
  EXPECT_TRUE(replay->gradient_ready(2, 3));
  EXPECT_TRUE(replay->gradient_ready(0, 3));
  EXPECT_EQ(started(*replay, 3), (Numbers{1, 2}));
  EXPECT_TRUE(replay->land(1, 4));
  EXPECT_TRUE(replay->land(2, 4));
  EXPECT_EQ(started(*replay, 4), Numbers{});
  EXPECT_TRUE(replay->repeat());
  EXPECT_TRUE(replay->gradient_ready(0, 5));
  EXPECT_TRUE(replay->gradient_ready(2, 5));
  EXPECT_EQ(started(*replay, 5), (Numbers{3, 4}));
  EXPECT_TRUE(replay->land(3, 6));
  EXPECT_TRUE(replay->land(4, 6));
  EXPECT_TRUE(replay->update(4, 6));
  EXPECT_EQ(message_of(replay->repeat()),
            "an iteration that has updated parameters cannot be repeated");
  EXPECT_TRUE(replay->update(3, 6));
  EXPECT_EQ(started(*replay, 6), (Numbers{5, 6}));
  EXPECT_TRUE(replay->land(6, 7));
  EXPECT_TRUE(replay->land(5, 7));
  EXPECT_EQ(replay->log().back().iteration, 0);  // those dropped do not count
}

// All reductions of a plan without gathers have been taken when it is dropped.
TEST(PlanReplay, RepeatsAllReduces) {
  const auto replay = replay_of({{Kind::kAllReduce, 1, 3}, {Kind::kAllReduce, 0, 1}}, {});
  for (int32_t first = 0; first < 8; first += 2) {
    EXPECT_TRUE(replay->gradient_ready(2, first));
    EXPECT_TRUE(replay->gradient_ready(0, first));
    EXPECT_EQ(started(*replay, first), (Numbers{first, first + 1}));
    EXPECT_TRUE(replay->land(first, first));
    EXPECT_TRUE(replay->land(first + 1, first));
    EXPECT_FALSE(replay->may_run_forward(0));
    if (first == 2) {
      EXPECT_TRUE(replay->update(first, first));
      EXPECT_TRUE(replay->update(first + 1, first));
    } else {
      EXPECT_TRUE(replay->repeat());
    }
    EXPECT_TRUE(replay->may_run_forward(0));
  }
}

TEST(PlanReplay, RefusesFactsThatCannotBe) {
  const auto replay = replay_of(kPlan, {});
  EXPECT_EQ(message_of(replay->gradient_ready(3, 0)), "gradients of layer 3, of 3");
  EXPECT_EQ(message_of(replay->gradient_ready(-1, 0)), "gradients of layer -1, of 3");
  EXPECT_EQ(message_of(replay->land(0, 0)), "collective 0 is not on the wire");
  EXPECT_TRUE(replay->gradient_ready(2, 0));
  EXPECT_EQ(message_of(replay->gradient_ready(2, 0)),
            "layer 2 has its gradients already, and not all parameters are in place yet");
  EXPECT_EQ(started(*replay, 0), Numbers{0});
  EXPECT_EQ(message_of(replay->update(0, 0)), "collective 0 has not landed");
  EXPECT_EQ(message_of(replay->land(1, 0)), "collective 1 is not on the wire");
  EXPECT_TRUE(replay->land(0, 1));
  EXPECT_EQ(message_of(replay->land(0, 1)), "collective 0 is not on the wire");
  EXPECT_TRUE(replay->update(0, 1));
  EXPECT_EQ(message_of(replay->update(0, 1)),
            "collective 0, reduce_scatter, has nothing to update with");
  EXPECT_EQ(replay->index_of(1).error().message, "collective 1 has not started, or is forgotten");
}

TEST(PlanReplay, RefusesWhatIsNoPlan) {
  const struct {
    std::vector<AtomCollective> plan;
    ReplayOptions options;
    const char* message;
  } cases[] = {
      {{}, {}, "the plan leaves atom 0 unreduced"},
      {{{Kind::kReduceScatter, 0, 3}}, {}, "the plan leaves atom 0 undistributed"},
      {{{Kind::kAllReduce, 0, 4}}, {}, "all_reduce of atoms 0 to 4, of 3"},
      {{{Kind::kAllReduce, 1, 1}}, {}, "all_reduce of atoms 1 to 1, of 3"},
      {{{Kind::kAllReduce, -1, 1}}, {}, "all_reduce of atoms -1 to 1, of 3"},
      {{{Kind::kAllToAll, 0, 3}}, {}, "all_to_all in a plan of gradients"},
      {{{Kind::kAllReduce, 0, 2}, {Kind::kReduceScatter, 1, 3}},
       {},
       "reduce_scatter of atoms 1 to 3: atom 1 is reduced already"},
      {{{Kind::kReduceScatter, 0, 2}, {Kind::kAllGather, 0, 3}, {Kind::kReduceScatter, 2, 3}},
       {},
       "all_gather of atoms 0 to 3: atom 2 is not reduced before"},
      {{{Kind::kReduce, 0, 3}, {Kind::kAllGather, 0, 3}},
       {},
       "all_gather of atoms 0 to 3: atom 0 has been in reduce"},
      {{{Kind::kAllReduce, 0, 3}, {Kind::kAllGather, 2, 3}},
       {},
       "all_gather of atoms 2 to 3: atom 2 has been in all_reduce"},
      {{{Kind::kReduceScatter, 0, 3}, {Kind::kAllGather, 0, 3}, {Kind::kAllGather, 1, 2}},
       {},
       "all_gather of atoms 1 to 2: atom 1 is distributed already"},
      {kPlan, {.channel_width = 0}, "a channel for 0 collectives"},
  };
  for (const auto& one : cases) {
    const auto replay = PlanReplay::create(three_layers(), one.plan, one.options);
    ASSERT_FALSE(replay) << one.message;
    EXPECT_EQ(replay.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(replay.error().message, one.message);
  }
}

}  // namespace
}  // namespace pleach
