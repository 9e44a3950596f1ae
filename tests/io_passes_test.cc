// What all I/O nodes of a wafer stream in at once, or collect, takes; and the wafer's all_reduces.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "pleach/api/schedule_source.h"
#include "pleach/base/rng.h"
#include "pleach/collective/verify.h"
#include "pleach/fabric/switch_cores.h"
#include "pleach/network/model.h"
#include "pleach/planning/planner.h"
#include "pleach/synthesis/algorithm.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

using support::topology_of;
using Kind = CollectiveKind;

// All groups at once, each on so many bytes [s].
double time_s(const std::string& shape, const std::string& algorithm, Kind collective,
              const std::string& groups, int64_t size_bytes, int32_t segment_count) {
  const Topology topology = topology_of(shape);
  const auto requests = parse_groups(topology, groups, collective);
  EXPECT_TRUE(requests) << requests.error().message;
  const auto planner = make_planner(topology, algorithm);
  EXPECT_TRUE(planner) << planner.error().message;
  const auto choice = (*planner)->choose_together(*requests, size_bytes);
  EXPECT_TRUE(choice) << choice.error().message;
  std::vector<Job> jobs;
  for (const auto& schedule : choice->schedules) {
    jobs.push_back({schedule, size_bytes, 0});
  }
  const auto result = simulate("flow", topology, jobs, {.segment_count = segment_count});
  EXPECT_TRUE(result) << result.error().message;
  return static_cast<double>(result->finish_ps) * 1e-12;
}

// A pass of 175e9 parameters of 16 bits, a share from each of 18 I/O nodes of 128 GB/s: 0.152 s.
TEST(IoPasses, TakeWhatTheHottestLinkAllows) {
  constexpr int64_t kShare = int64_t{175'000'000'000} * 2 / 18;
  constexpr double kLine = static_cast<double>(kShare) / 128e9;
  const struct {
    std::string shape, algorithm;
    double fraction;  // of line rate
  } cases[] = {
      {"wafer_mesh:5x4", "io_tree", 750.0 / (9 * 128)},
      {"fred:A", "io_tree", 1500.0 / (15 * 128)},
      {"fred:B", "in_switch", 1500.0 / (15 * 128)},
      {"fred:C", "io_tree", 1},
      {"fred:D", "in_switch", 1},
  };
  for (const auto& [shape, algorithm, fraction] : cases) {
    for (const Kind collective : {Kind::kBroadcast, Kind::kReduce}) {
      const double time = time_s(shape, algorithm, collective, "io:0-19", kShare, 1024);
      EXPECT_NEAR(kLine / time, fraction, 0.01 * fraction)
          << shape << " " << to_text(collective) << " " << time << " s";
    }
  }
}

// Chains on switches with room for all: the last segment comes as it does from an I/O node, and
// then takes 19 hops, each at what the NPU's link has beside its own I/O node. No two chains are at
// one NPU at a time.
TEST(IoPasses, FillChainsInAsManyHopsAsThereAre) {
  constexpr int64_t kShare = 1'000'000'000;
  for (const int32_t segment_count : {1, 4, 16, 64}) {
    const double line = static_cast<double>(kShare) / 128e9;
    const double hops = 19 * 128e9 / (3e12 - 128e9) / segment_count;
    const double time =
        time_s("fred:C", "io_tree", Kind::kBroadcast, "io:0-19", kShare, segment_count);
    EXPECT_GE(time, line * (1 + 19 * 128.0 / 3000 / segment_count));
    EXPECT_LE(time, 1.001 * line * (1 + hops)) << segment_count;
  }
}

// Any group of a wafer whose switches reduce and multicast, from any I/O node or rank: one copy on
// each link of a stream, and no more in a step than the switches carry at once.
TEST(Wafers, ServeAnyGroupInSwitch) {
  Rng rng(29);
  for (const std::string shape : {"fred:B", "fred:D", "fred:D,npus=12,radix=3"}) {
    const Topology topology = topology_of(shape);
    const std::span<const NodeId> ranks = topology.rank_nodes();
    const SwitchJudge judge = switch_judge(topology);
    for (int32_t round = 0; round < 30; ++round) {
      std::vector<NodeId> group(ranks.begin(), ranks.end());
      for (std::size_t k = group.size(); k > 1; --k) {
        std::swap(group[k - 1], group[rng.below(k)]);
      }
      group.resize(2 + rng.below(group.size() - 1));
      for (const Kind collective : {Kind::kBroadcast, Kind::kReduce, Kind::kAllReduce,
                                    Kind::kReduceScatter, Kind::kAllGather, Kind::kAllToAll}) {
        SCOPED_TRACE(
            fmt::format("{} round {} {} of {}", shape, round, to_text(collective), group.size()));
        SynthesisRequest request{
            .topology = topology, .participants = group, .collective = collective};
        if (has_root(collective)) {
          const bool is_io = rng.below(2) == 0;
          if (is_io) {  // behind all ranks and switches
            request.participants.push_back(
                NodeId{count_of(topology.nodes()) - 1 - static_cast<int32_t>(rng.below(6))});
          }
          request.root =
              Rank{is_io ? count_of(group) : static_cast<int32_t>(rng.below(group.size()))};
        }
        const auto schedule = synthesize(request, "in_switch");
        ASSERT_TRUE(schedule) << schedule.error().message;
        const Verification verification = verify(*schedule, &topology, judge);
        ASSERT_TRUE(verification.correct) << verification.violations.front();
        EXPECT_TRUE(verification.switch_conflicts.empty()) << verification.switch_conflicts.front();
        // The messages of a permutation share the ways between leaves.
        EXPECT_TRUE(verification.contention_free || collective == Kind::kAllToAll);
      }
    }
  }
}

// Closed forms of 100 MB, some groups at once.
TEST(Wafers, ReduceInTheirClosedForms) {
  const std::string all = "0-19";
  // DP of MP2-DP5-PP2: a row of the mesh each, or one NPU of every leaf. MP: two neighbours.
  const std::string rows = "0-4;5-9;10-14;15-19";
  const std::string across = "0,4,8,12,16;1,5,9,13,17;2,6,10,14,18;3,7,11,15,19";
  const std::string columns = "0,5;1,6;2,7;3,8;4,9;10,15;11,16;12,17;13,18;14,19";
  const std::string pairs = "0-1;2-3;4-5;6-7;8-9;10-11;12-13;14-15;16-17;18-19";
  const struct {
    std::string shape, algorithm, groups;
    double microseconds;
  } cases[] = {
      {"wafer_mesh:5x4", "hierarchical", all, 133.3},
      {"wafer_mesh:5x4", "hierarchical,shares=best", all, 126.7},
      {"wafer_mesh:5x4", "hierarchical", rows, 213.3},
      {"wafer_mesh:5x4", "hierarchical", columns, 133.3},
      {"fred:A", "hierarchical", all, 106.7},
      {"fred:A", "hierarchical", across, 426.7},
      {"fred:A", "hierarchical", pairs, 33.3},
      {"fred:B", "in_switch", all, 66.7},
      {"fred:B", "in_switch", across, 266.7},
      {"fred:B", "in_switch", pairs, 33.3},
      {"fred:C", "hierarchical", all, 63.3},
      {"fred:C", "hierarchical", across, 53.3},
      {"fred:C", "hierarchical", pairs, 33.3},
      {"fred:D", "in_switch", all, 33.3},
      {"fred:D", "in_switch", across, 33.3},
      {"fred:D", "in_switch", pairs, 33.3},
  };
  for (const auto& [shape, algorithm, groups, microseconds] : cases) {
    const double time = time_s(shape, algorithm, Kind::kAllReduce, groups, 100'000'000, 64) * 1e6;
    EXPECT_NEAR(time, microseconds, 0.03 * microseconds)
        << shape << " " << algorithm << " " << groups;
  }
}

}  // namespace
}  // namespace pleach
