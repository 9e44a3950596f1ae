#include "pleach/synthesis/shares.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"

namespace pleach {
namespace {

using Loads = std::vector<std::vector<double>>;

double most_loaded(const Loads& loads, const std::vector<double>& shares) {
  double most = 0;
  for (const std::vector<double>& link : loads) {
    double load = 0;
    for (std::size_t part = 0; part < link.size(); ++part) {
      load += link[part] * shares[part];
    }
    most = std::max(most, load);
  }
  return most;
}

TEST(Shares, AreThoseThatLoadLinksTheLeast) {
  const struct {
    Loads loads;
    std::vector<int64_t> shares;
  } cases[] = {
      {{{1}}, {1}},
      {{{2, 1}}, {0, 1}},
      {{{1, 0}, {0, 1}}, {1, 1}},
      {{{3, 0}, {0, 1}}, {1, 3}},
      // A 5x4 mesh, whose rows are of 5 and columns of 4.
      {{{1.6, 0.4}, {0.3, 1.5}}, {229, 271}},
      {{{1e-15, 0}, {0, 3e-15}}, {3, 1}},
      {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0.1, 0.1, 0.1}}, {1, 1, 1}},
  };
  for (const auto& [loads, shares] : cases) {
    EXPECT_EQ(best_shares(loads), shares);
  }
}

// No other shares on a grid of them are better, but for what rounding to thousandths costs.
TEST(Shares, AreTheBestOfAll) {
  Rng rng(5);
  for (int32_t round = 0; round < 300; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const std::size_t parts = 2 + rng.below(2);
    Loads loads(1 + rng.below(6));
    double largest = 0;
    for (std::vector<double>& link : loads) {
      for (std::size_t part = 0; part < parts; ++part) {
        link.push_back(static_cast<double>(rng.below(5)));
        largest = std::max(largest, link.back());
      }
    }
    loads.emplace_back(parts, 1);  // every part takes something
    largest = std::max(largest, 1.0);
    const std::vector<int64_t> found = best_shares(loads);
    double sum = 0;
    std::vector<double> shares(found.begin(), found.end());
    for (const double share : shares) {
      sum += share;
    }
    for (double& share : shares) {
      share /= sum;
    }
    constexpr int32_t kGrid = 60;
    double least = largest;
    for (int32_t first = 0; first <= kGrid; ++first) {
      for (int32_t second = 0; first + second <= kGrid; ++second) {
        std::vector<double> other = {first / double{kGrid}, second / double{kGrid}};
        if (parts == 3) {
          other.push_back((kGrid - first - second) / double{kGrid});
        } else if (first + second < kGrid) {
          continue;
        }
        least = std::min(least, most_loaded(loads, other));
      }
    }
    EXPECT_LE(most_loaded(loads, shares), least + 0.003 * largest);
  }
}

TEST(Shares, AreReadAsWritten) {
  EXPECT_EQ(*parse_shares("11+13", 2), (std::vector<int64_t>{11, 13}));
  EXPECT_EQ(*parse_shares("500+0+1500", 3), (std::vector<int64_t>{1, 0, 3}));
  const struct {
    std::string text, message;
  } cases[] = {
      {"1", "shares=1 for 2 parts"},
      {"1+2+3", "shares=1+2+3 for 2 parts"},
      {"0+0", "shares=0+0: all are 0"},
      {"1+-1", "share '-1' is outside 0 to 1000000"},
      {"1+x", "share 'x' is not a whole number"},
      {"", "share '' is not a whole number"},
  };
  for (const auto& [text, message] : cases) {
    const auto refused = parse_shares(text, 2);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().message, message);
  }
}

}  // namespace
}  // namespace pleach
