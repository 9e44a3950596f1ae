#include "pleach/fabric/online_unicast.h"

#include <gtest/gtest.h>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/fabric/configuration.h"

namespace pleach {
namespace {

using Policy = OnlineUnicast::Policy;

constexpr int32_t kCalls = 20'000;

struct Outcome {
  int32_t connected = 0;
  int32_t blocked = 0;
  int32_t moved = 0;
};

// Calls between random ports that come and go; now and then what runs is held to the checker.
Outcome call_at_random(const FredSize& size, Policy policy, uint64_t seed) {
  const FredSwitch fred = FredSwitch::create(size).value();
  OnlineUnicast unicasts(size, policy);
  Rng rng(seed);
  const auto any_port = [&] { return static_cast<int32_t>(rng.below(at(size.ports))); };
  Outcome outcome;
  while (outcome.connected + outcome.blocked < kCalls) {
    if (rng.below(3) == 0) {
      unicasts.disconnect(any_port());
      continue;
    }
    const int32_t input = any_port();
    const int32_t output = any_port();
    if (!unicasts.is_idle(input, output)) {
      unicasts.disconnect(rng.below(8) == 0 ? input : any_port());
      continue;
    }
    const auto moved = unicasts.connect(input, output);
    ++(moved.has_value() ? outcome.connected : outcome.blocked);
    outcome.moved += moved.value_or(0);
    if (rng.below(50) == 0) {
      std::vector<PortFlow> flows;
      std::vector<int32_t> choices;
      for (int32_t port = 0; port < size.ports; ++port) {
        if (unicasts.output_of(port) >= 0) {
          flows.push_back({{port}, {unicasts.output_of(port)}});
          choices.insert(choices.end(), unicasts.choices(port).begin(),
                         unicasts.choices(port).end());
        }
      }
      const Status status = check_configuration(fred, flows, configure(fred, flows, choices));
      EXPECT_TRUE(status) << flows_text(flows) << ": " << status.error().message;
    }
  }
  return outcome;
}

TEST(OnlineUnicast, NeverBlocksWithThreeInTheMiddle) {
  for (const int32_t ports : {5, 8, 12, 20}) {
    const Outcome outcome = call_at_random({ports, 3}, Policy::kFirstFit, 1);
    EXPECT_EQ(outcome.connected, kCalls) << ports;
    EXPECT_EQ(outcome.blocked + outcome.moved, 0) << ports;
  }
}

TEST(OnlineUnicast, BlocksWithTwoUnlessItMayMoveWhatRuns) {
  const Outcome first = call_at_random({8, 2}, Policy::kFirstFit, 1);
  EXPECT_GT(first.blocked, 100);
  EXPECT_EQ(first.moved, 0);
  for (const int32_t ports : {7, 8}) {
    const Outcome moving = call_at_random({ports, 2}, Policy::kRearrange, 1);
    EXPECT_EQ(moving.blocked, 0);
    EXPECT_GT(moving.moved, 100);
  }
}

TEST(OnlineUnicast, TakesTheFirstWayThatIsFree) {
  OnlineUnicast unicasts({4, 3}, Policy::kFirstFit);
  EXPECT_EQ(unicasts.connect(0, 3), 0);
  EXPECT_EQ(unicasts.connect(1, 0), 0);
  EXPECT_EQ(unicasts.connect(2, 2), 0);
  EXPECT_EQ(unicasts.choices(0)[0], 0);
  EXPECT_EQ(unicasts.choices(1)[0], 1);
  EXPECT_EQ(unicasts.choices(2)[0], 1);
  EXPECT_FALSE(unicasts.is_idle(0, 1));
  EXPECT_FALSE(unicasts.is_idle(3, 0));
  unicasts.disconnect(1);
  EXPECT_TRUE(unicasts.is_idle(1, 0));
  EXPECT_EQ(unicasts.output_of(1), -1);
}

}  // namespace
}  // namespace pleach
