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

// Link 0 (12, crowding 1) carries a to c, link 1 (2) c alone.
//   of three: 12 / (1 + 2/3) = 7.2;  c = 2;  a = b = 5.2 / 2;  without a and b: c = 2
TEST(FairShares, CrowdsLoseCapacity) {
  const Links links = {{{0}}, {{0}}, {{0}, {1}}};
  FairShares shares({{12, 1}, {2, 1}}, spans(links));
  for (int32_t flow = 0; flow < 3; ++flow) {
    shares.start(flow);
  }
  std::map<int32_t, double> rates;
  for (const auto& [flow, rate] : shares.solve()) {
    rates[flow] = rate;
  }
  EXPECT_DOUBLE_EQ(rates[0], 2.6);
  EXPECT_DOUBLE_EQ(rates[1], 2.6);
  EXPECT_DOUBLE_EQ(rates[2], 2);
  shares.stop(0);
  shares.stop(2);
  ASSERT_EQ(shares.solve().size(), 1U);
  EXPECT_EQ(shares.solve().size(), 0U);
  shares.start(0);
  for (const auto& [flow, rate] : shares.solve()) {
    EXPECT_DOUBLE_EQ(rate, 12 / 1.5 / 2) << flow;
  }
}

// Max-min: no link is overfull, and every flow has a full link on which nobody is faster.
void expect_max_min(const std::vector<double>& capacities, const Links& links,
                    const std::map<int32_t, double>& rates) {
  std::vector<double> load(capacities.size()), fastest(capacities.size());
  for (const auto& [flow, rate] : rates) {
    for (const LinkId link : links[at(flow)]) {
      load[link.index()] += rate;
      fastest[link.index()] = std::max(fastest[link.index()], rate);
    }
  }
  for (std::size_t link = 0; link < load.size(); ++link) {
    ASSERT_LE(load[link], capacities[link] * (1 + 1e-9));
  }
  for (const auto& [flow, rate] : rates) {
    const auto& own = links[at(flow)];
    const double speed = rate;
    ASSERT_TRUE(std::any_of(own.begin(), own.end(),
                            [&](LinkId link) {
                              return load[link.index()] >= capacities[link.index()] * (1 - 1e-9) &&
                                     fastest[link.index()] <= speed * (1 + 1e-9);
                            }))
        << "flow " << flow << " has no bottleneck";
  }
}

TEST(FairShares, IsMaxMinAfterEveryChange) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    std::vector<double> capacities;
    for (int link = 0; link < 6; ++link) {
      capacities.push_back(static_cast<double>(1 + rng.below(20)));
    }
    Links links(10);
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
    std::map<int32_t, double> rates;
    for (int change = 0; change < 30; ++change) {
      const auto flow = static_cast<int32_t>(rng.below(links.size()));
      if (rates.erase(flow) > 0) {
        shares.stop(flow);
      } else {
        shares.start(flow);
        rates[flow] = 0;
      }
      for (const auto& [changed, rate] : shares.solve()) {
        rates[changed] = rate;
      }
      expect_max_min(capacities, links, rates);
    }
  }
}

}  // namespace
}  // namespace pleach
