// The exact model, by hand: iteration times of small cases in whole milliseconds.
#include "pleach/policy/rehearsal.h"

#include <gtest/gtest.h>

#include "pleach/base/units.h"
#include "pleach/policy/alpha_beta.h"
#include "pleach/policy/bound.h"

namespace pleach {
namespace {

constexpr int64_t kMs = 1'000'000'000;

// all_reduce of a layer of 1000 bytes takes `all_reduce_ms`; no startup.
class PerByte : public CostModel {
 public:
  explicit PerByte(int64_t all_reduce_ms) : all_reduce_ms_(all_reduce_ms) {}
  bool has(CollectiveKind /*kind*/) const override { return true; }
  int64_t time_ps(CollectiveKind kind, int64_t bytes) const override {
    const int64_t both = all_reduce_ms_ * kMs / 1000 * bytes;
    return kind == CollectiveKind::kAllReduce ? both : both / 2;
  }

 private:
  int64_t all_reduce_ms_;
};

TrainingProfile four_layers() {
  TrainingProfile profile;
  profile.rank_count = 8;
  profile.atom_bytes.assign(32, 125);
  for (int layer = 0; layer < 4; ++layer) {
    profile.layers.push_back(
        {.tensor_bytes = {1000}, .forward_ps = 10 * kMs, .backward_ps = 20 * kMs});
  }
  return profile;
}

struct Case {
  const char* policy;
  int64_t all_reduce_ms;
  int64_t iteration_us;
};

// NOLINTNEXTLINE(readability-identifier-naming): the name that GoogleTest looks for
void PrintTo(const Case& one, std::ostream* out) {
  *out << one.policy << " at " << one.all_reduce_ms << " ms";
}

class ExactModel : public testing::TestWithParam<Case> {};

TEST_P(ExactModel, IterationTime) {
  const TrainingProfile profile = four_layers();
  const PerByte costs(GetParam().all_reduce_ms);
  auto policy = create_policy(GetParam().policy, {.profile = profile, .costs = costs});
  ASSERT_TRUE(policy) << policy.error().message;
  const auto result = rehearse(profile, costs, **policy);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->steady);
  EXPECT_EQ(result->iteration_ps, GetParam().iteration_us * (kMs / 1000));
  EXPECT_EQ(result->compute_ps, 120 * kMs);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, ExactModel,
    testing::Values(Case{"wfbp", 10, 130'000}, Case{"wfbp", 30, 180'000}, Case{"wfbp", 40, 220'000},
                    Case{"wfbp", 60, 300'000}, Case{"dear,bucket=0", 10, 130'000},
                    Case{"dear,bucket=0", 30, 165'000}, Case{"dear,bucket=0", 40, 190'000},
                    Case{"dear,bucket=0", 60, 270'000},
                    Case{"dear,bucket=0,halves=reduce_broadcast", 30, 165'000},
                    Case{"p3,slice=1000", 30, 170'000}, Case{"p3,slice=1000", 40, 200'000},
                    Case{"p3,slice=1000", 60, 280'000}, Case{"p3,slice=125", 30, 152'500},
                    Case{"p3,slice=125", 40, 190'000}, Case{"p3,slice=125", 60, 270'000}));

// The others at 30 ms per layer, where every gradient waits for the channel.
//   sequential     compute 120, then 4 × 30
//   ddp            one bucket per layer: as wfbp; all in one: as sequential
//   horovod        at ticks of 50: {3,2,1} {0}, then for ever {3,2} {1,0}; with 5 for negotiation
//                  {3} {2,1,0} takes 215 and {3,2,1} {0} takes 235, in turn
//   mg_wfbp        no startup: nothing is worth waiting for
//   byte_scheduler credit for all is FIFO, but forward waits for its own layer only; negotiations
//                  overlap with what is on the wire as far as credit goes
//   prophet        every wait for the next gradient is shorter than an all_reduce: as p3
//   zero1          reduce_scatters end 15 after backward, then 60 of all_gather, then forward
//   fsdp           as dear; with resharding, all_gathers delay reduce_scatters in backward by 35
INSTANTIATE_TEST_SUITE_P(
    Others, ExactModel,
    testing::Values(Case{"sequential", 30, 240'000}, Case{"sequential,bucket=700", 30, 240'000},
                    Case{"ddp,first_bucket=0,bucket=0", 30, 180'000}, Case{"ddp", 30, 240'000},
                    Case{"horovod", 30, 180'000}, Case{"horovod,cycle=50ms", 30, 200'000},
                    Case{"horovod,cycle=50ms,negotiation=5ms", 30, 225'000},
                    Case{"horovod,cycle=50ms,fusion=1", 30, 200'000}, Case{"mg_wfbp", 30, 180'000},
                    Case{"mg_wfbp,merge=optimal", 30, 180'000}, Case{"byte_scheduler", 30, 180'000},
                    Case{"byte_scheduler,credit=0", 30, 170'000},
                    Case{"byte_scheduler,credit=0,negotiation=5ms", 30, 190'000},
                    Case{"byte_scheduler,negotiation=5ms", 30, 185'000},
                    Case{"prophet", 30, 170'000}, Case{"zero1,bucket=0", 30, 195'000},
                    Case{"fsdp,bucket=0,reshard_after_forward=0", 30, 165'000},
                    Case{"fsdp,bucket=0", 30, 200'000}, Case{"lancet", 30, 240'000}));

// The clock ends where all times end, whatever makes the iterations so long.
TEST(Rehearse, RefusesIterationsOfOverTheLongestTime) {
  const PerByte costs(30);
  TrainingProfile slow = four_layers();
  slow.layers[0].forward_ps = kLongestPs / 2;
  const struct {
    const char* what;
    TrainingProfile profile;
    const char* policy;
  } cases[] = {{"three iterations", slow, "wfbp"},
               {"a cycle", four_layers(), "horovod,cycle=9000000s"},
               {"a negotiation", four_layers(), "horovod,negotiation=9000000s"},
               {"another", four_layers(), "byte_scheduler,negotiation=9000000s"}};
  for (const auto& one : cases) {
    SCOPED_TRACE(one.what);
    const auto policy = create_policy(one.policy, {.profile = one.profile, .costs = costs});
    ASSERT_TRUE(policy) << policy.error().message;
    const auto result = rehearse(one.profile, costs, **policy);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().message, "100 iterations take longer than 26 days");
  }
}

// T* of A2: compute 120, communication 120, layer 0's edge 120 + 30.
TEST(Bound, CountsTheEdgeOfTheFirstLayer) {
  const IterationBound bound = iteration_bound(four_layers(), PerByte(30));
  EXPECT_EQ(bound.iteration_ps, 150 * kMs);
  EXPECT_EQ(bound.layer, 0);
}

// 64 ranks, 15 us per hop, 1.18 GB/s: 0.945 ms of startup and 21.868 ms of bytes for 25 MiB.
TEST(AlphaBetaCosts, OfALargeBucket) {
  const AlphaBeta costs(64, 15'000'000, 1.18e9);
  const int64_t bytes = int64_t{25} << 20;
  const int64_t startup_ps = 945'000'000;
  for (const CollectiveKind half : {CollectiveKind::kReduceScatter, CollectiveKind::kAllGather}) {
    EXPECT_NEAR(static_cast<double>(costs.time_ps(half, bytes) - startup_ps), 21.868e9, 0.5e6);
    EXPECT_EQ(2 * costs.time_ps(half, bytes), costs.time_ps(CollectiveKind::kAllReduce, bytes));
  }
  EXPECT_EQ(costs.time_ps(CollectiveKind::kAllReduce, 1) / 1'000'000, 1890);
  EXPECT_EQ(AlphaBeta(1, 15'000'000, 1.18e9).time_ps(CollectiveKind::kAllReduce, bytes), 0);
  // All bytes pass every link of a chain: 22.2156 ms.
  for (const CollectiveKind half : {CollectiveKind::kReduce, CollectiveKind::kBroadcast}) {
    EXPECT_NEAR(static_cast<double>(costs.time_ps(half, bytes) - startup_ps), 22.2156e9, 0.5e6);
    EXPECT_EQ(AlphaBeta(1, 15'000'000, 1.18e9).time_ps(half, bytes), 0);
  }
}

TEST(AlphaBetaCosts, EndAtJustMoreThanTheLongestTime) {
  const struct {
    AlphaBeta costs;
    bool is_longer;
  } cases[] = {{AlphaBeta(2, 0, 1.0), true},  // 2^30 bytes at 1 B/s, twice a half of them
               {AlphaBeta(2, 0, 1000.0), false},
               {AlphaBeta(2, kLongestPs, 1e12), true},
               {AlphaBeta(2, 0, 1e12, kLongestPs), true},
               {AlphaBeta(2, INT64_MAX, 1e12, INT64_MAX), true}};
  for (const auto& one : cases) {
    const int64_t time_ps = one.costs.time_ps(CollectiveKind::kAllReduce, int64_t{1} << 30);
    EXPECT_EQ(time_ps == kLongestPs + 1, one.is_longer) << time_ps;
    EXPECT_EQ(time_ps > kLongestPs, one.is_longer) << time_ps;
  }
}

// The overhead comes once, to the two halves of an all_reduce as to the whole; to one rank never.
TEST(AlphaBetaCosts, PayTheirOverheadOnce) {
  const int64_t bytes = int64_t{25} << 20;
  for (const CollectiveKind kind : {CollectiveKind::kReduceScatter, CollectiveKind::kAllGather,
                                    CollectiveKind::kAllReduce, CollectiveKind::kAllToAll}) {
    EXPECT_EQ(AlphaBeta(8, 15'000'000, 1.18e9, 200).time_ps(kind, bytes),
              AlphaBeta(8, 15'000'000, 1.18e9).time_ps(kind, bytes) + 200);
    EXPECT_EQ(AlphaBeta(1, 15'000'000, 1.18e9, 200).time_ps(kind, bytes), 0);
  }
}

}  // namespace
}  // namespace pleach
