#include "pleach/network/flow/fair_shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"

namespace pleach {
namespace {

using Links = std::vector<std::vector<LinkId>>;

std::vector<std::span<const LinkId>> spans(const Links& links) {
  return {links.begin(), links.end()};
}

// Link 0 (10) carries flows a, b; link 1 (4) carries b, c; link 2 (100) carries c, d.
//   b = c = 4/2 = 2;  a = 10 - 2 = 8;  d = 100 - 2 = 98
TEST(FairShares, FillsProgressively) {
  const Links links = {{{0}}, {{0}, {1}}, {{1}, {2}}, {{2}}};
  FairShares shares({{10}, {4}, {100}}, spans(links));
  for (int32_t flow = 0; flow < 4; ++flow) {
    shares.start(flow);
  }
  std::map<int32_t, double> rates;
  for (const auto& [flow, rate] : shares.solve()) {
    rates[flow] = rate;
  }
  EXPECT_EQ(rates, (std::map<int32_t, double>{{0, 8}, {1, 2}, {2, 2}, {3, 98}}));

  // Without b:  a = 10, c = 4, d = 96. Only what changes is reported.
  shares.stop(1);
  rates.clear();
  for (const auto& [flow, rate] : shares.solve()) {
    rates[flow] = rate;
  }
  EXPECT_EQ(rates, (std::map<int32_t, double>{{0, 10}, {2, 4}, {3, 96}}));
  EXPECT_TRUE(shares.solve().empty());
}

// Links 0 to 2 (100) lead to node 9, by which all flows go on by link 3 (12, crowding 1), and c by
// link 4 (2) then.
TEST(FairShares, WhatComesByManyLinksLosesCapacity) {
  const Links links = {{{0}, {3}}, {{1}, {3}}, {{2}, {3}, {4}}, {{0}, {3}}};
  const NodeId hub = {9};
  FairShares shares({{100, 0, NodeId{0}, hub},
                     {100, 0, NodeId{1}, hub},
                     {100, 0, NodeId{2}, hub},
                     {12, 1, hub, NodeId{3}},
                     {2, 0, NodeId{3}, NodeId{4}}},
                    spans(links));
  std::map<int32_t, double> rates;
  const auto change = [&](const std::vector<int32_t>& stopped, const std::vector<int32_t>& begun) {
    for (const int32_t flow : stopped) {
      shares.stop(flow);
      rates.erase(flow);
    }
    for (const int32_t flow : begun) {
      shares.start(flow);
    }
    for (const auto& [flow, rate] : shares.solve()) {
      rates[flow] = rate;
    }
  };
  const auto expect = [&](const std::map<int32_t, double>& expected) {
    ASSERT_EQ(rates.size(), expected.size());
    for (const auto& [flow, rate] : expected) {
      EXPECT_DOUBLE_EQ(rates.at(flow), rate) << flow;
    }
  };
  change({}, {0, 1, 2});  // by three links: 12 / (1 + 2/3) = 7.2
  expect({{0, 2.6}, {1, 2.6}, {2, 2}});
  change({0, 2}, {});
  expect({{1, 12}});
  change({}, {0});  // by two: 12 / 1.5
  expect({{0, 4}, {1, 4}});
  change({1}, {3});  // both by link 0
  expect({{0, 6}, {3, 6}});
  change({}, {1});
  expect({{0, 8.0 / 3}, {1, 8.0 / 3}, {3, 8.0 / 3}});
}

// What a flow has, and its class.
struct Rate {
  double bytes_per_s = 0;
  int32_t flow_class = 0;
};

// Max-min, class after class: no link is overfull; every flow has a link that its class and those
// before it fill, on which nobody of its class is faster. There is one such allocation only.
void expect_max_min(const std::vector<double>& capacities, const Links& links,
                    const std::map<int32_t, Rate>& rates) {
  for (const auto& [flow, rate] : rates) {
    std::vector<double> load(capacities.size()), fastest(capacities.size());
    for (const auto& [other, other_rate] : rates) {
      for (const LinkId link : links[at(other)]) {
        if (other_rate.flow_class <= rate.flow_class) {
          load[link.index()] += other_rate.bytes_per_s;
        }
        if (other_rate.flow_class == rate.flow_class) {
          fastest[link.index()] = std::max(fastest[link.index()], other_rate.bytes_per_s);
        }
      }
    }
    for (std::size_t link = 0; link < load.size(); ++link) {
      ASSERT_LE(load[link], capacities[link] * (1 + 1e-9));
    }
    const auto& own = links[at(flow)];
    const double speed = rate.bytes_per_s;
    ASSERT_TRUE(std::any_of(own.begin(), own.end(),
                            [&](LinkId link) {
                              return load[link.index()] >= capacities[link.index()] * (1 - 1e-9) &&
                                     fastest[link.index()] <= speed * (1 + 1e-9);
                            }))
        << "flow " << flow << " has no bottleneck";
  }
}

// Flows of so many classes start and stop, one or several at a time, some of them to start again.
void expect_max_min_after_every_change(uint64_t seed, uint64_t class_count) {
  Rng rng(seed);
  std::vector<double> capacities;
  for (int link = 0; link < 6; ++link) {
    capacities.push_back(static_cast<double>(1 + rng.below(20)));
  }
  Links links(12);
  for (auto& own : links) {
    for (int32_t link = 0; link < 6; ++link) {
      if (rng.below(3) == 0) {
        own.push_back({link});
      }
    }
    if (own.empty()) {
      own.push_back({0});
    }
  }
  std::vector<FairShares::Capacity> given;
  for (const double capacity : capacities) {
    given.push_back({capacity});
  }
  FairShares shares(given, spans(links));
  std::map<int32_t, Rate> rates;
  const auto change = [&](int32_t flow) {
    if (rates.erase(flow) > 0) {
      shares.stop(flow);
    } else {
      rates[flow].flow_class = static_cast<int32_t>(3 * rng.below(class_count));
      rates[flow].bytes_per_s = -1;  // it has to be told
      shares.start(flow, rates[flow].flow_class);
    }
  };
  for (int instant = 0; instant < 40; ++instant) {
    for (uint64_t left = 1 + rng.below(1 + seed % 4); left > 0; --left) {
      const auto flow = static_cast<int32_t>(rng.below(links.size()));
      for (uint64_t times = 1 + rng.below(1 + seed % 3); times > 0; --times) {
        change(flow);
      }
    }
    for (const auto& [changed, rate] : shares.solve()) {
      rates[changed].bytes_per_s = rate;
    }
    ASSERT_TRUE(std::ranges::all_of(rates, [](auto& one) { return one.second.bytes_per_s >= 0; }));
    expect_max_min(capacities, links, rates);
  }
}

TEST(FairShares, IsMaxMinAfterEveryChange) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    expect_max_min_after_every_change(seed, 1);
  }
}

TEST(FairShares, IsMaxMinClassAfterClass) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    expect_max_min_after_every_change(seed, 2 + seed % 3);
  }
}

// What has been solved change by change is what is solved at once, whichever flows were left alone;
// but for rounding, where two links are full at rates that hardly differ.
TEST(FairShares, DoNotDependOnWhatWasBefore) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const uint64_t link_count = 4 + rng.below(20);
    std::vector<FairShares::Capacity> capacities;
    for (uint64_t link = 0; link < link_count; ++link) {
      capacities.push_back({1e9 * static_cast<double>(1 + rng.below(7))});
    }
    Links links(60);
    for (auto& own : links) {
      const auto length = 1 + rng.below(4);
      for (uint64_t hop = 0; hop < length; ++hop) {
        const LinkId link{static_cast<int32_t>(rng.below(link_count))};
        if (std::ranges::find(own, link) == own.end()) {
          own.push_back(link);
        }
      }
    }
    FairShares shares(capacities, spans(links));
    std::map<int32_t, double> rates;
    for (int change = 0; change < 200; ++change) {
      for (uint64_t several = rng.below(3); several-- > 0;) {
        const auto flow = static_cast<int32_t>(rng.below(links.size()));
        if (rates.erase(flow) > 0) {
          shares.stop(flow);
        } else {
          rates[flow] = -1;
          shares.start(flow);
        }
      }
      for (const auto& [flow, rate] : shares.solve()) {
        rates[flow] = rate;
      }
      FairShares at_once(capacities, spans(links));
      for (const auto& [flow, rate] : rates) {
        at_once.start(flow);
      }
      std::map<int32_t, double> expected;
      for (const auto& [flow, rate] : at_once.solve()) {
        expected[flow] = rate;
      }
      ASSERT_EQ(rates.size(), expected.size());
      for (const auto& [flow, rate] : rates) {
        ASSERT_NEAR(rate, expected[flow], 1e-12 * rate) << "change " << change << " flow " << flow;
      }
    }
  }
}

// Link 0 (10) carries a, b; link 1 (4) b, c. Class 0: b = 4. Class 1: a = 10 - 4, c has nothing.
TEST(FairShares, LeaveLaterClassesWhatIsLeft) {
  const Links links = {{{0}}, {{0}, {1}}, {{1}}};
  FairShares shares({{10}, {4}}, spans(links));
  shares.start(0, 1);
  shares.start(1, 0);
  shares.start(2, 1);
  std::map<int32_t, double> rates;
  for (const auto& [flow, rate] : shares.solve()) {
    rates[flow] = rate;
  }
  EXPECT_EQ(rates, (std::map<int32_t, double>{{0, 6}, {1, 4}, {2, 0}}));
  shares.stop(1);
  rates.clear();
  for (const auto& [flow, rate] : shares.solve()) {
    rates[flow] = rate;
  }
  EXPECT_EQ(rates, (std::map<int32_t, double>{{0, 10}, {2, 4}}));
}

// 7 / 3 three times is not 7 to the last bit: what that leaves is nothing, and no rate.
TEST(FairShares, TakeRoundingForNothing) {
  for (int32_t count = 1; count < 40; ++count) {
    const Links links(at(count) + 1, {{0}});
    FairShares shares({{12e12 / 7}}, spans(links));
    for (int32_t flow = 0; flow <= count; ++flow) {
      shares.start(flow, flow < count ? 0 : 1);
    }
    EXPECT_EQ(shares.solve().back().rate_bytes_per_s, 0) << count;
  }
}

}  // namespace
}  // namespace pleach
