// One gradient group, fact by fact: who reports, who passes, what travels, on channels of one and
// of several collectives.
#include "pleach/policy/group_driver.h"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace pleach {
namespace {

using Kind = CollectiveKind;

// Layers of 4, 0 and 6 bytes.
TrainingProfile three_layers() {
  return {.layers = {{.tensor_bytes = {4}}, {.tensor_bytes = {}}, {.tensor_bytes = {6}}}};
}

LayerGate forward(int32_t layer, int32_t iteration, int32_t worker = 0) {
  return {.layer = layer, .worker = worker, .iteration = iteration};
}
LayerGate backward(int32_t layer, int32_t iteration, int32_t worker = 0) {
  return {.is_forward = false, .layer = layer, .worker = worker, .iteration = iteration};
}

// Reduces every layer by itself as soon as it may, and writes down what it is told.
class Scribe : public Policy {
 public:
  explicit Scribe(PolicyNeeds needs = {}) : needs_(std::move(needs)) {}
  PolicyNeeds needs() const override { return needs_; }
  void observe(const PolicyEvent& event) override {
    constexpr const char* kNames[] = {"gradient", "forward", "backward", "finished", "wake"};
    heard += heard.empty() ? "" : ", ";
    heard += kNames[at(event.kind)] + (" " + std::to_string(event.index)) + "@" +
             std::to_string(event.time_ps);
    if (event.kind == EventKind::kGradientReady) {
      next.push_back({Kind::kAllReduce, space_.layer(event.index)});
    }
  }
  void decide(int64_t /*now_ps*/, PolicyActions& actions) override {
    actions.start = std::exchange(next, {});
    actions.wake_ps = std::exchange(wake_ps, -1);
  }

  std::string heard;
  std::vector<PolicyCollective> next;
  int64_t wake_ps = -1;

 private:
  ParameterSpace space_{three_layers()};
  PolicyNeeds needs_;
};

// The numbers of all that start now.
std::vector<int32_t> started(GroupDriver& driver, int64_t now_ps) {
  std::vector<int32_t> numbers;
  const auto next = driver.next(now_ps);
  EXPECT_TRUE(next) << next.error().message;
  for (const HostedCollective& one : next ? *next : std::span<const HostedCollective>{}) {
    numbers.push_back(one.number);
  }
  return numbers;
}

using Numbers = std::vector<int32_t>;

// A worker comes to a gate: whether it may go on at once.
bool passes(GroupDriver& driver, const LayerGate& gate, int64_t now_ps) {
  driver.come(gate, now_ps);
  return driver.pass(gate, now_ps);
}

TEST(GroupDriver, TellsThePolicyWhatHoldsForTheWholeGroup) {
  Scribe policy;
  GroupDriver driver(three_layers(), policy, {.workers = 2});
  EXPECT_TRUE(passes(driver, forward(0, 0, 1), 3));
  EXPECT_EQ(policy.heard, "");
  EXPECT_TRUE(passes(driver, forward(0, 0, 0), 5));  // the last need is the group's
  for (const int32_t worker : {0, 1}) {
    EXPECT_TRUE(passes(driver, forward(1, 0, worker), 6));  // without bytes: no policy's business
    EXPECT_TRUE(passes(driver, backward(2, 0, worker), 7 + worker));
  }
  driver.gradient_ready(2, 8);
  EXPECT_EQ(policy.heard, "forward 0@5, backward 2@8");
  driver.gradient_ready(1, 8);
  driver.gradient_ready(1, 9);
  driver.gradient_ready(2, 9);
  EXPECT_EQ(started(driver, 9), Numbers{0});
  driver.finish(0, 12);
  EXPECT_EQ(policy.heard, "forward 0@5, backward 2@8, gradient 2@9, finished 0@12");
}

// A worker that is ahead comes to the next iteration's gate before the last one has come to this
// one's: needs are told iteration by iteration, and each once.
TEST(GroupDriver, CountsWhoComesByIteration) {
  Scribe policy;
  GroupDriver driver(three_layers(), policy, {.workers = 3});
  driver.come(forward(0, 0, 0), 1);
  driver.come(forward(0, 1, 0), 2);
  driver.come(forward(0, 0, 1), 3);
  driver.come(forward(0, 1, 1), 4);
  EXPECT_EQ(policy.heard, "");
  driver.come(forward(0, 0, 2), 5);
  EXPECT_EQ(policy.heard, "forward 0@5");
  driver.come(forward(0, 2, 0), 6);
  driver.come(forward(0, 1, 2), 7);
  EXPECT_EQ(policy.heard, "forward 0@5, forward 0@7");
}

// Worker 1 has its gradients late: worker 0 stands at its next iteration's gates, though the
// parameters of its last one are in place.
TEST(GroupDriver, LetsNobodyIntoAnIterationBeforeAllGradientsOfTheLastAreThere) {
  for (const bool step_at_once : {false, true}) {
    SCOPED_TRACE(step_at_once);
    Scribe policy({.step_at_once = step_at_once});
    GroupDriver driver(three_layers(), policy, {.workers = 2});
    EXPECT_TRUE(driver.pass(forward(2, 0), 0));
    for (const int32_t layer : {2, 1, 0}) {
      driver.gradient_ready(layer, 1);
    }
    EXPECT_FALSE(driver.pass(forward(2, 1), 1));
    EXPECT_EQ(driver.pass(forward(1, 1), 1), !step_at_once);  // it has no parameters
    driver.gradient_ready(2, 4);
    EXPECT_EQ(started(driver, 4), Numbers{0});
    EXPECT_FALSE(driver.pass(forward(2, 1), 4));
    driver.finish(0, 6);
    EXPECT_EQ(driver.pass(forward(2, 1), 6), !step_at_once);
    driver.gradient_ready(0, 7);
    EXPECT_EQ(started(driver, 7), Numbers{1});
    driver.finish(1, 8);
    EXPECT_TRUE(driver.pass(forward(2, 1), 8));
  }
}

TEST(GroupDriver, CarriesAsManyCollectivesAsTheChannelIsWide) {
  for (const int32_t width : {1, 2}) {
    SCOPED_TRACE(width);
    Scribe policy;
    GroupDriver driver(three_layers(), policy, {.channel_width = width});
    driver.gradient_ready(2, 1);
    driver.gradient_ready(0, 1);
    EXPECT_EQ(started(driver, 1), width == 1 ? Numbers{0} : (Numbers{0, 1}));
    EXPECT_FALSE(driver.pass(forward(0, 1), 2));
    if (width == 2) {  // the second ends first
      driver.finish(1, 4);
      EXPECT_TRUE(driver.pass(forward(0, 1), 4));
      EXPECT_FALSE(driver.pass(forward(2, 1), 5));
      driver.finish(0, 7);
    } else {
      driver.finish(0, 4);
      EXPECT_EQ(started(driver, 4), Numbers{1});
      EXPECT_FALSE(driver.pass(forward(0, 1), 5));
      driver.finish(1, 7);
    }
    EXPECT_TRUE(driver.pass(forward(2, 1), 7));
    // The worker stood at gates from 2 to 4 and 5 to 7, or from 2 on.
    const auto log = driver.host().log();
    EXPECT_EQ(log[0].exposed_ps, width == 2 ? 4 : 2);
    EXPECT_EQ(log[1].exposed_ps, width == 2 ? 2 : 3);
  }
}

TEST(GroupDriver, ExposesWhatTheWatchedWorkerWaitsForOnly) {
  Scribe policy;
  GroupDriver driver(three_layers(), policy, {.workers = 2, .watched_worker = 1});
  driver.gradient_ready(0, 0);
  driver.gradient_ready(0, 0);
  EXPECT_EQ(started(driver, 0), Numbers{0});
  EXPECT_FALSE(driver.pass(forward(0, 1, 0), 1));
  EXPECT_FALSE(driver.pass(forward(0, 1, 1), 3));
  EXPECT_FALSE(driver.pass(forward(0, 1, 0), 5));
  driver.finish(0, 7);
  EXPECT_EQ(driver.host().log().front().exposed_ps, 4);
}

TEST(GroupDriver, WakesThePolicyWhenItAskedForIt) {
  Scribe policy;
  GroupDriver driver(three_layers(), policy);
  EXPECT_EQ(driver.wake_ps(), -1);
  policy.wake_ps = 5;
  EXPECT_EQ(started(driver, 1), Numbers{});
  EXPECT_EQ(driver.wake_ps(), 5);
  driver.gradient_ready(0, 2);  // no news of waking yet
  EXPECT_EQ(started(driver, 2), Numbers{0});
  EXPECT_EQ(driver.wake_ps(), 5);
  EXPECT_EQ(started(driver, 6), Numbers{});  // a real timer may be late
  EXPECT_EQ(policy.heard, "gradient 0@2, wake 0@6");
  EXPECT_EQ(driver.wake_ps(), -1);
}

// To be woken now, or before, would be at this instant for ever.
TEST(GroupDriver, RefusesAWakeThatNeverComes) {
  for (const int64_t wake_ps : {3, 4}) {
    Scribe policy;
    GroupDriver driver(three_layers(), policy);
    policy.wake_ps = wake_ps;
    const auto refused = driver.next(4);
    ASSERT_FALSE(refused) << wake_ps;
    EXPECT_EQ(refused.error().message, "the policy asks at 4 ps to be woken at " +
                                           std::to_string(wake_ps) + " ps, which never comes");
  }
}

TEST(GroupDriver, RefusesWhatIsNotSynchronousTraining) {
  Scribe policy;
  GroupDriver driver(three_layers(), policy);
  policy.next = {{Kind::kAllReduce, {0, 4}}};
  const auto next = driver.next(0);
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().message,
            "the policy started all_reduce of bytes 0 to 4, some of which is reduced already, or "
            "not computed yet");
}

// A real iteration's hooks: parameters are freed after forward and gathered again for backward.
TEST(GroupDriver, GathersForBackwardWhenForwardHasEnded) {
  Scribe policy({.frees_parameters = true});
  GroupDriver driver(three_layers(), policy, {.channel_width = 2});
  EXPECT_FALSE(driver.pass(forward(0, 0), 0));
  policy.next = {{Kind::kAllGather, {0, 10}}};
  EXPECT_EQ(started(driver, 0), Numbers{0});
  driver.finish(0, 1);
  EXPECT_TRUE(driver.pass(forward(0, 0), 1));
  EXPECT_TRUE(driver.pass(forward(2, 0), 1));
  driver.forward_finished(0);
  driver.forward_finished(2);
  EXPECT_FALSE(driver.pass(backward(2, 0), 2));
  policy.next = {{Kind::kAllGather, {4, 10}}, {Kind::kAllGather, {0, 4}}};
  EXPECT_EQ(started(driver, 2), (Numbers{1, 2}));
  driver.finish(2, 3);
  EXPECT_FALSE(driver.pass(backward(2, 0), 3));
  EXPECT_TRUE(driver.pass(backward(0, 0), 3));
  driver.finish(1, 4);
  EXPECT_TRUE(driver.pass(backward(2, 0), 4));
}

}  // namespace
}  // namespace pleach
