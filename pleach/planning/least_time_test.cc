// The least time: what rings take, and never more than any schedule takes, alone or in company.
#include "pleach/planning/least_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "pleach/network/model.h"
#include "pleach/planning/padding.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/topology/shapes.h"

namespace pleach {
namespace {

using Schedules = std::vector<std::shared_ptr<const Schedule>>;

Schedules planned(const Topology& topology, const std::string& algorithm, CollectiveKind kind) {
  auto schedule =
      synthesize({.topology = topology, .participants = {}, .collective = kind}, algorithm);
  EXPECT_TRUE(schedule) << schedule.error().message;
  return {std::make_shared<const Schedule>(std::move(*schedule))};
}

TEST(LeastTime, OfARingIsWhatItTakes) {
  const auto topology = parse_topology("ring:8,bandwidth=1GB/s,latency=1us");
  ASSERT_TRUE(topology);
  const Schedules ring = planned(*topology, "ring", CollectiveKind::kAllReduce);
  const auto least = LeastTime::of(*topology, ring, 1);
  ASSERT_TRUE(least) << least.error().message;
  for (const int64_t bytes : {8, 8000, 8'000'000}) {  // 14 messages of an eighth, 1000 ps a byte
    const int64_t exact_ps = 14 * (1'000'000 + bytes / 8 * 1000);
    EXPECT_LE(least->time_ps(bytes), exact_ps);
    EXPECT_GE(least->time_ps(bytes), exact_ps - 1000);
  }
  EXPECT_EQ(least->time_ps(0), 0);
  EXPECT_NEAR(least->ps_per_byte(), 1750, 1e-6);
  // Two at once put twice the bytes on every link.
  const auto both = LeastTime::of(*topology, Schedules{ring[0], ring[0]}, 1);
  ASSERT_TRUE(both);
  EXPECT_NEAR(both->ps_per_byte(), 3500, 1e-6);
}

// In the flow model, by itself and beside others that start at any time.
TEST(LeastTime, IsNoMoreThanAnySchedulesTime) {
  int checked = 0;
  for (const char* spec : {"ring:6", "mesh:2x4", "torus:3x3", "switch:8", "fully_connected:5"}) {
    const auto topology = parse_topology(std::string(spec) + ",bandwidth=2GB/s,overhead=100ns");
    ASSERT_TRUE(topology);
    const auto other = planned(*topology, "direct", CollectiveKind::kAllToAll).front();
    for (const Algorithm* algorithm : algorithms()) {
      for (const CollectiveKind kind : kAllCollectives) {
        auto schedule = synthesize({.topology = *topology, .participants = {}, .collective = kind},
                                   algorithm->name);
        if (!schedule) {
          continue;  // not on this topology
        }
        const auto whole = std::make_shared<const Schedule>(std::move(*schedule));
        for (const int32_t segments : {1, 3}) {
          const auto least = LeastTime::of(*topology, Schedules{whole}, segments);
          ASSERT_TRUE(least) << least.error().message;
          for (const int64_t asked : {1, 100, 4097, 1'000'000}) {
            const int64_t bytes = padded_bytes(asked, padding_unit_bytes(*whole, segments));
            for (const int32_t others : {0, 1, 2}) {
              std::vector<Job> jobs = {{whole, bytes, 1'000'000}};
              for (int32_t beside = 0; beside < others; ++beside) {
                jobs.push_back({other, 9000, 1'500'000 * beside});
              }
              const auto run =
                  simulate(kDefaultNetworkModel, *topology, jobs, {.segment_count = segments});
              ASSERT_TRUE(run) << run.error().message;
              const int64_t took_ps = run->job_finish_ps.front() - 1'000'000;
              ASSERT_LE(least->time_ps(asked), took_ps)
                  << algorithm->name << " " << to_text(kind) << " on " << spec << ", " << bytes
                  << " bytes in " << segments << " segments beside " << others;
              ASSERT_LE(least->ps_per_byte() * static_cast<double>(asked),
                        static_cast<double>(took_ps));
              ++checked;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(checked, 1000);
}

// Also of one that no padding made even; two at once, in models in which they share the links.
TEST(LeastTime, HoldsForBuffersOfAnySize) {
  int checked = 0;
  for (const char* spec :
       {"torus:2x3", "switch:6", "switch:4,reduce,multicast", "leaf_spine:2x2"}) {
    const auto topology = parse_topology(std::string(spec) + ",bandwidth=2GB/s,overhead=100ns");
    ASSERT_TRUE(topology) << topology.error().message;
    for (const Algorithm* algorithm : algorithms()) {
      for (const CollectiveKind kind : kAllCollectives) {
        auto made = synthesize({.topology = *topology, .participants = {}, .collective = kind},
                               algorithm->name);
        if (!made) {
          continue;
        }
        const auto whole = std::make_shared<const Schedule>(std::move(*made));
        const int64_t unit_bytes = kind == CollectiveKind::kAllToAll ? whole->rank_count() : 1;
        for (const int32_t segments : {1, 4}) {
          for (const int32_t count : {1, 2}) {
            const auto least =
                LeastTime::of(*topology, Schedules(at(count), whole), segments, false);
            ASSERT_TRUE(least) << least.error().message;
            for (const int64_t asked : {1, 61, 4099, 1'000'003}) {
              const int64_t bytes = padded_bytes(asked, unit_bytes);
              const std::vector<Job> jobs(at(count), Job{whole, bytes, 0});
              for (const NetworkModel* model : network_models()) {
                // flit goes cycle by cycle, and no switch reduces there.
                const bool is_flit_small = bytes < 5000 && algorithm->name != "in_switch";
                if (!model->obeys_links || (count > 1 && !model->shares_links) ||
                    (model->name == "flit" && !is_flit_small)) {
                  continue;
                }
                const auto run =
                    simulate(model->name, *topology, jobs, {.segment_count = segments});
                ASSERT_TRUE(run) << run.error().message;
                ASSERT_LE(least->time_ps(bytes), run->finish_ps)
                    << model->name << ": " << count << " " << algorithm->name << " "
                    << to_text(kind) << " on " << spec << ", " << bytes << " bytes in " << segments
                    << " segments";
                ++checked;
              }
            }
          }
        }
      }
    }
  }
  EXPECT_GT(checked, 1000);
}

}  // namespace
}  // namespace pleach
