#include "pleach/api/probe.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/rank_threads.h"

namespace pleach {
namespace {

// From the times that a model predicts comes that model.
TEST(FitHostModel, FindsTheModelAgain) {
  const HostModel model = {.rank_bandwidth_bytes_per_s = 3'000'000'000,
                           .host_bandwidth_bytes_per_s = 7'000'000'000,
                           .latency_ps = 4'000'000,
                           .message_bytes = 5000};
  for (const int64_t ranks : {2, 4, 9}) {
    const auto hops = static_cast<double>(2 * (ranks - 1));
    const auto messages = static_cast<double>(ranks * (ranks - 1));
    const auto chain = [&](int64_t size_bytes) {
      return hops * (4e-6 + static_cast<double>(5000 + size_bytes) / 3e9);
    };
    const auto exchange = [&](int64_t size_bytes, int32_t parts) {
      return messages * static_cast<double>(5000 * parts + size_bytes) / 7e9 + 4e-6;
    };
    const auto found =
        fit_host_model({.small_chain = chain(kProbeSmallBytes),
                        .large_chain = chain(kProbeLargeBytes),
                        .small_exchange = exchange(kProbeSmallBytes, 1),
                        .large_exchange = exchange(kProbeLargeBytes, 1),
                        .exchange_in_parts = exchange(kProbeSmallBytes, kProbeSegments)},
                       ranks);
    ASSERT_TRUE(found) << found.error().message;
    const auto near = [](int64_t got, int64_t wanted) {
      EXPECT_NEAR(static_cast<double>(got), static_cast<double>(wanted),
                  1e-3 * static_cast<double>(wanted));
    };
    near(found->rank_bandwidth_bytes_per_s, model.rank_bandwidth_bytes_per_s);
    near(found->host_bandwidth_bytes_per_s, model.host_bandwidth_bytes_per_s);
    near(found->latency_ps, model.latency_ps);
    near(found->message_bytes, model.message_bytes);
  }
}

TEST(FitHostModel, RefusesTimesThatDoNotGrow) {
  for (const ProbeTimes& times :
       {ProbeTimes{}, ProbeTimes{.small_chain = 2, .large_chain = 1, .large_exchange = 1},
        ProbeTimes{.large_chain = 1, .small_exchange = 2, .large_exchange = 1}}) {
    const auto refused = fit_host_model(times, 2);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message,
              "larger messages took no longer than small ones: the machine is too busy to measure");
  }
}

TEST(ProbeHost, MeasuresRanks) {
  for (const int32_t ranks : {2, 3}) {
    const auto store = make_local_store();
    support::on_every_rank(ranks, [&](Rank rank) {
      const auto model = probe_host({.rank = rank,
                                     .rank_count = ranks,
                                     .transport = "inproc",
                                     .store = store,
                                     .deadline = std::chrono::seconds(20)},
                                    3);
      ASSERT_TRUE(model) << model.error().message;
      if (rank.value == 0) {
        EXPECT_GT(model->rank_bandwidth_bytes_per_s, 1'000'000);
        EXPECT_GE(model->host_bandwidth_bytes_per_s, model->rank_bandwidth_bytes_per_s);
        EXPECT_GT(model->reduce_bandwidth_bytes_per_s, 1'000'000);
        EXPECT_TRUE(host_topology(*model, ranks, "probed"));
      }
    });
  }
}

}  // namespace
}  // namespace pleach
