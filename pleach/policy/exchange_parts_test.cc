// The closed form against the pipeline that it stands for, part by part.
#include "pleach/policy/exchange_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "pleach/base/rng.h"
#include "pleach/base/units.h"

namespace pleach {
namespace {

// An all_to_all of n bytes takes startup + n.
class Startup : public CostModel {
 public:
  explicit Startup(int64_t startup_ps) : startup_ps_(startup_ps) {}
  bool has(CollectiveKind kind) const override { return kind == CollectiveKind::kAllToAll; }
  int64_t time_ps(CollectiveKind /*kind*/, int64_t bytes) const override {
    return startup_ps_ + bytes;
  }

 private:
  int64_t startup_ps_;
};

int64_t played_ps(int64_t exchange_ps, int64_t compute_ps, int32_t parts) {
  int64_t channel_ps = 0;
  std::vector<int64_t> computed_ps;
  int64_t computer_ps = 0;
  for (int32_t part = 0; part < parts; ++part) {
    channel_ps += exchange_ps;
    computer_ps = std::max(computer_ps, channel_ps) + compute_ps;
    computed_ps.push_back(computer_ps);
  }
  for (const int64_t ready_ps : computed_ps) {
    channel_ps = std::max(channel_ps, ready_ps) + exchange_ps;
  }
  return channel_ps;
}

TEST(ExchangeParts, ClosedFormIsThePipeline) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const auto parts = static_cast<int32_t>(1 + rng.below(8));
    const auto share = [&] { return parts * (1 + static_cast<int64_t>(rng.below(1000))); };
    const PolicyLayer layer = {
        .tensor_bytes = {}, .forward_ps = share(), .exchange_bytes = share()};
    const Startup costs(static_cast<int64_t>(rng.below(300)));
    const int64_t exchange_ps =
        costs.time_ps(CollectiveKind::kAllToAll, layer.exchange_bytes / parts);
    EXPECT_EQ(pipelined_forward_ps(layer, costs, parts),
              played_ps(exchange_ps, layer.forward_ps / parts, parts));
  }
}

TEST(ExchangeParts, TakeJustMoreThanTheLongestTimeAtMost) {
  const PolicyLayer layer = {.tensor_bytes = {}, .forward_ps = kLongestPs, .exchange_bytes = 1};
  for (const int64_t startup_ps : {kLongestPs / 2, kLongestPs}) {
    EXPECT_EQ(pipelined_forward_ps(layer, Startup(startup_ps), 1024), kLongestPs + 1);
    EXPECT_EQ(best_exchange_parts(layer, Startup(startup_ps), 1024), 1);
  }
}

TEST(ExchangeParts, AreAsManyAsPay) {
  const struct {
    int64_t exchange_bytes, forward_ps, startup_ps;
    int32_t most_parts, parts;
  } cases[] = {
      {0, 8000, 0, 8, 1},    // nothing to overlap
      {800, 0, 0, 8, 1},     // nothing to overlap with
      {800, 8000, 0, 8, 8},  // no startup: as many as allowed
      {800, 8000, 0, 4, 4},
      {800, 8000, 100'000, 8, 1},  // no overlap is worth a startup
      // 1: 1800 + 800; 2: max(2000, 1500 + 400, 1000 + 800); 3: 6 · 367 already
      {800, 800, 100, 8, 2},
  };
  for (const auto& one : cases) {
    const PolicyLayer layer = {
        .tensor_bytes = {}, .forward_ps = one.forward_ps, .exchange_bytes = one.exchange_bytes};
    EXPECT_EQ(best_exchange_parts(layer, Startup(one.startup_ps), one.most_parts), one.parts)
        << one.exchange_bytes << " " << one.forward_ps << " " << one.startup_ps;
  }
}

}  // namespace
}  // namespace pleach
