// What every algorithm must keep: correct schedules, the documented steps and messages, and one
// clear line for what it cannot do.
#include "tests/support/algorithms.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <optional>

#include "pleach/base/rng.h"
#include "pleach/collective/verify.h"
#include "pleach/synthesis/algorithm.h"
#include "tests/support/random_schedules.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

using support::specs_of;
using support::topology_of;
using Kind = CollectiveKind;

std::vector<NodeId> nodes_of(std::span<const int32_t> numbers) {
  std::vector<NodeId> nodes;
  for (const int32_t number : numbers) {
    nodes.push_back(NodeId{number});
  }
  return nodes;
}

void expect_correct(const Schedule& schedule, const Topology& topology) {
  const std::vector<std::string> faults = check_form(schedule, &topology);
  ASSERT_TRUE(faults.empty()) << faults.front();
  const Verification verification = verify(schedule, &topology);
  ASSERT_TRUE(verification.correct) << verification.violations.front();
  EXPECT_TRUE(verification.bitwise_replicated);
  for (const Transfer& transfer : schedule.transfers) {
    ASSERT_NE(transfer.route, kNoRoute);
  }
}

// Everything the algorithm does on the topology, with every root: correct, or infeasible.
//   returns  how many schedules were made
int32_t sweep(const Algorithm& algorithm, const Topology& topology,
              const std::vector<NodeId>& participants) {
  int32_t count = 0;
  const auto rank_count = static_cast<int32_t>(participants.empty() ? topology.rank_nodes().size()
                                                                    : participants.size());
  for (const Kind collective : algorithm.collectives) {
    for (const std::string& spec : specs_of(algorithm)) {
      for (int32_t root = 0; root < (has_root(collective) ? rank_count : 1); ++root) {
        SCOPED_TRACE(spec + " " + std::string(to_text(collective)) + " root " +
                     std::to_string(root));
        const SynthesisRequest request{topology, participants, collective, Rank{root}};
        const auto schedule = synthesize(request, spec);
        if (!schedule) {
          EXPECT_TRUE(schedule.error().code == ErrorCode::kInfeasible ||
                      (spec == "direct,mode=one_shot" && collective != Kind::kAllReduce))
              << schedule.error().message;
          continue;
        }
        expect_correct(*schedule, topology);
        EXPECT_EQ(schedule->collective, collective);
        EXPECT_EQ(schedule->rank_count(), rank_count);
        EXPECT_EQ(schedule->provenance.algorithm, algorithm.name);
        EXPECT_EQ(schedule->provenance.topology_fingerprint, topology.fingerprint());
        EXPECT_GT(schedule->provenance.certificate.fraction, 0);
        EXPECT_LE(schedule->provenance.certificate.fraction, 1 + 1e-9)
            << schedule->provenance.certificate.witness;
        EXPECT_EQ(*synthesize(request, spec), *schedule) << "not the same twice";
        ++count;
      }
    }
  }
  return count;
}

struct Place {
  std::string topology;
  std::vector<int32_t> participants = {};  // empty: all
};

class Conformance : public testing::TestWithParam<Place> {};

TEST_P(Conformance, EveryAlgorithmIsCorrectOrInfeasible) {
  const Topology topology = topology_of(GetParam().topology);
  int32_t count = 0;
  for (const Algorithm* algorithm : algorithms()) {
    count += sweep(*algorithm, topology, nodes_of(GetParam().participants));
  }
  EXPECT_GT(count, 20);
}

INSTANTIATE_TEST_SUITE_P(
    Places, Conformance,
    testing::Values(
        Place{"ring:2"}, Place{"ring:3"}, Place{"ring:5"}, Place{"ring:6"}, Place{"ring:7"},
        Place{"ring:8"}, Place{"ring:9"}, Place{"mesh:5"}, Place{"mesh:2x2"}, Place{"mesh:3x3"},
        Place{"mesh:3x4"}, Place{"torus:3x3"}, Place{"torus:4x4"}, Place{"torus:2x2x3"},
        Place{"torus:3x5"}, Place{"fully_connected:2"}, Place{"fully_connected:3"},
        Place{"fully_connected:5"}, Place{"fully_connected:8"}, Place{"switch:2"},
        Place{"switch:7"}, Place{"switch:2,reduce=true,multicast=true"},
        Place{"switch:5,reduce=true,multicast=true"}, Place{"switch:8,reduce=true,multicast=true"},
        Place{"switch:6,multicast=true"}, Place{"ring:6,without_link=2-3"},
        Place{"torus:4x4,without_link=5-6"}, Place{"torus:4x4,without_link=5>6"},
        Place{"torus:4x4,without_node=5"}, Place{"ring:5", {3, 1, 4, 0, 2}},
        Place{"ring:8", {6, 5, 4}}, Place{"mesh:4x4", {10, 0, 5}},
        Place{"torus:4x4", {5, 1, 0, 4, 8, 9}}, Place{"fully_connected:9", {8, 2, 5, 1, 7}},
        Place{"switch:9,reduce=true,multicast=true", {7, 0, 3}}, Place{"torus:4x4,routing=spread"},
        Place{"torus:3x4,routing=ecmp,seed=5"},
        Place{"leaf_spine:3x3,routing=spread", {8, 1, 4, 0, 7, 3, 2}},
        Place{"leaf_spine:2x4,routing=ecmp,rails=2"}, Place{"fat_tree:16,radix=4,routing=spread"},
        Place{"hypercube:8,routing=spread"}, Place{"bigraph:2x4"},
        Place{"dragonfly:1x2x2,routing=spread"}, Place{"dgx_h100:2,sharp", {0, 1, 2, 8, 9, 10}},
        Place{"dgx_a100:2,fabric=rails,routing=spread", {0, 5, 8, 13}}),
    [](const testing::TestParamInfo<Place>& place) {
      return "Place" + std::to_string(place.index);
    });

TEST(Algorithms, AreCorrectOnRandomGroupsOfRandomGrids) {
  const uint64_t seed = 7;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  std::map<std::string, int32_t> made;  // schedules, by algorithm
  for (int32_t round = 0; round < 20; ++round) {
    const std::string name = std::string(rng.below(2) == 0 ? "mesh:" : "torus:") +
                             std::to_string(2 + rng.below(4)) + "x" +
                             std::to_string(1 + rng.below(5));
    const Topology topology = topology_of(name);
    std::vector<NodeId> group(topology.rank_nodes().begin(), topology.rank_nodes().end());
    for (std::size_t k = group.size(); k > 1; --k) {
      std::swap(group[k - 1], group[rng.below(k)]);
    }
    group.resize(2 + rng.below(group.size() - 1));
    SCOPED_TRACE(name + ", " + std::to_string(group.size()) + " ranks in round " +
                 std::to_string(round));
    for (const Algorithm* algorithm : algorithms()) {
      made[algorithm->name] += sweep(*algorithm, topology, group);
    }
  }
  for (const auto& [algorithm, count] : made) {
    // A group is seldom the whole of a torus that has disjoint cycles.
    EXPECT_EQ(count > 0,
              algorithm != "in_switch" && algorithm != "multi_ring" && algorithm != "hdrm")
        << algorithm << ": " << count;
  }
}

TEST(Algorithms, AreCorrectOnRandomGroupsOfSwitchedNetworks) {
  const uint64_t seed = 8;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  std::map<std::string, int32_t> made;  // schedules, by algorithm
  const std::vector<std::string> names = {"leaf_spine:3x4",
                                          "leaf_spine:2x4,rails=2,spines=3",
                                          "fat_tree:16,levels=3,radix=2",
                                          "bigraph:3x4",
                                          "dragonfly:2x2x1",
                                          "dgx_h100:2",
                                          "dgx_a100:3,fabric=rails"};
  for (int32_t round = 0; round < support::repeated(8); ++round) {
    const std::string routing[] = {"shortest", "spread", "ecmp"};
    const std::string name = names[rng.below(names.size())] + ",routing=" + routing[rng.below(3)];
    const Topology topology = topology_of(name);
    std::vector<NodeId> group(topology.rank_nodes().begin(), topology.rank_nodes().end());
    for (std::size_t k = group.size(); k > 1; --k) {
      std::swap(group[k - 1], group[rng.below(k)]);
    }
    group.resize(rng.below(2) == 0 ? group.size() : 2 + rng.below(group.size() - 1));
    SCOPED_TRACE(name + ", " + std::to_string(group.size()) + " ranks in round " +
                 std::to_string(round));
    for (const Algorithm* algorithm : algorithms()) {
      made[algorithm->name] += sweep(*algorithm, topology, group);
    }
  }
  for (const auto& [algorithm, count] : made) {
    const bool needs_another = algorithm == "ring_2d" || algorithm == "hdrm";
    EXPECT_EQ(count > 5, !needs_another) << algorithm << ": " << count;
  }
}

int32_t log2_of(int32_t value) {
  return static_cast<int32_t>(std::bit_width(static_cast<uint32_t>(value))) - 1;
}
int32_t ceiling_log2_of(int32_t value) {
  return static_cast<int32_t>(std::bit_width(static_cast<uint32_t>(value - 1)));
}
int32_t members_of(int32_t rank_count) {
  return static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(rank_count)));
}
int32_t extras_of(int32_t rank_count) {
  return rank_count - members_of(rank_count);
}

// docs/algorithms.md, "Steps and messages", line by line.
struct Documented {
  std::string spec;
  Kind collective;
  std::function<int32_t(int32_t)> steps;
  std::function<int64_t(int32_t)> transfers;
  bool powers_of_two_only = false;
};

std::vector<Documented> documented() {
  const auto fold_steps = [](int32_t n) { return extras_of(n) > 0 ? 2 : 0; };
  const auto exchanges = [](int32_t n) { return members_of(n) * log2_of(n); };
  return {
      {"ring", Kind::kAllReduce, [](int32_t n) { return 2 * n - 2; },
       [](int32_t n) { return 2 * n * (n - 1); }},
      {"ring", Kind::kReduceScatter, [](int32_t n) { return n - 1; },
       [](int32_t n) { return n * (n - 1); }},
      {"ring", Kind::kAllGather, [](int32_t n) { return n - 1; },
       [](int32_t n) { return n * (n - 1); }},
      {"ring", Kind::kBroadcast, [](int32_t n) { return 2 * n - 2; },
       [](int32_t n) { return n * (n - 1); }},
      {"ring", Kind::kReduce, [](int32_t n) { return 2 * n - 2; },
       [](int32_t n) { return n * (n - 1); }},
      {"bidirectional_ring", Kind::kAllReduce, [](int32_t n) { return 2 * n - 2; },
       [](int32_t n) { return (n > 2 ? 4 : 2) * n * (n - 1); }},
      {"bidirectional_ring", Kind::kAllGather, [](int32_t n) { return n - 1; },
       [](int32_t n) { return (n > 2 ? 2 : 1) * n * (n - 1); }},
      {"bidirectional_ring", Kind::kBroadcast,
       [](int32_t n) { return n == 2 ? 2 : n - 2 + (n + 1) / 2; },
       [](int32_t n) { return n == 2 ? 2 : (n + 1) / 2 * 2 * (n - 1); }},
      {"recursive_doubling", Kind::kAllReduce,
       [=](int32_t n) { return log2_of(n) + fold_steps(n); },
       [=](int32_t n) { return exchanges(n) + 2 * extras_of(n); }},
      {"recursive_doubling", Kind::kAllGather,
       [=](int32_t n) { return log2_of(n) + fold_steps(n); },
       [=](int32_t n) { return exchanges(n) + 3 * extras_of(n); }},
      {"halving_doubling", Kind::kAllReduce,
       [=](int32_t n) { return 2 * log2_of(n) + fold_steps(n); },
       [=](int32_t n) { return 2 * exchanges(n) + 2 * extras_of(n); }},
      {"halving_doubling", Kind::kReduceScatter, [](int32_t n) { return log2_of(n); }, exchanges,
       true},
      {"halving_doubling", Kind::kAllGather, [](int32_t n) { return log2_of(n); }, exchanges, true},
      {"direct", Kind::kAllReduce, [](int32_t) { return 2; },
       [](int32_t n) { return 2 * n * (n - 1); }},
      {"direct,mode=one_shot", Kind::kAllReduce, [](int32_t) { return 1; },
       [](int32_t n) { return n * (n - 1); }},
      {"direct", Kind::kAllToAll, [](int32_t) { return 1; }, [](int32_t n) { return n * (n - 1); }},
      {"direct", Kind::kBroadcast, [](int32_t) { return 1; }, [](int32_t n) { return n - 1; }},
      {"direct", Kind::kGather, [](int32_t) { return 1; }, [](int32_t n) { return n - 1; }},
      {"in_switch", Kind::kAllReduce, [](int32_t) { return 1; }, [](int32_t n) { return 2 * n; }},
      {"in_switch", Kind::kReduce, [](int32_t) { return 1; }, [](int32_t n) { return n + 1; }},
      {"in_switch", Kind::kBroadcast, [](int32_t) { return 1; }, [](int32_t n) { return n; }},
      {"in_switch", Kind::kReduceScatter, [](int32_t n) { return n; },
       [](int32_t n) { return n * (n + 1); }},
      {"in_switch", Kind::kAllGather, [](int32_t n) { return n; }, [](int32_t n) { return n * n; }},
      {"tree", Kind::kAllReduce, [](int32_t n) { return 2 * ceiling_log2_of(n); },
       [](int32_t n) { return 2 * (n - 1); }},
      {"tree", Kind::kBroadcast, ceiling_log2_of, [](int32_t n) { return n - 1; }},
      {"tree", Kind::kReduce, ceiling_log2_of, [](int32_t n) { return n - 1; }},
      {"tree", Kind::kGather, ceiling_log2_of, [](int32_t n) { return n - 1; }},
      {"tree", Kind::kScatter, ceiling_log2_of, [](int32_t n) { return n - 1; }},
      {"tree,arity=1", Kind::kReduce, [](int32_t n) { return n - 1; },
       [](int32_t n) { return n - 1; }},
      {"tree,arity=2", Kind::kBroadcast, log2_of, [](int32_t n) { return n - 1; }},
      {"tree,arity=2", Kind::kAllReduce, [](int32_t n) { return 2 * log2_of(n); },
       [](int32_t n) { return 2 * (n - 1); }},
      {"pairwise", Kind::kAllToAll, [](int32_t n) { return n - 1; },
       [](int32_t n) { return n * (n - 1); }},
      {"bruck", Kind::kAllToAll, ceiling_log2_of, nullptr},
      {"hierarchical", Kind::kAllReduce, [](int32_t) { return 2; },
       [](int32_t n) { return 2 * n * (n - 1); }},
      {"hierarchical", Kind::kAllGather, [](int32_t) { return 1; },
       [](int32_t n) { return n * (n - 1); }},
      {"multitree", Kind::kAllReduce, nullptr, [](int32_t n) { return 2 * n * (n - 1); }},
      {"multitree", Kind::kAllGather, nullptr, [](int32_t n) { return n * (n - 1); }},
  };
}

TEST(Algorithms, TakeTheDocumentedStepsAndMessages) {
  for (const Documented& line : documented()) {
    for (const int32_t rank_count : {2, 3, 4, 5, 6, 7, 8, 9, 12, 16}) {
      if (line.powers_of_two_only && extras_of(rank_count) > 0) {
        continue;
      }
      const bool is_switched = line.spec == "in_switch";
      const Topology topology =
          topology_of((is_switched ? "switch:" : "fully_connected:") + std::to_string(rank_count) +
                      (is_switched ? ",reduce=true,multicast=true" : ""));
      SCOPED_TRACE(line.spec + " " + std::string(to_text(line.collective)) + " on " +
                   topology.name());
      const auto schedule =
          synthesize({topology, {}, line.collective, Rank{rank_count - 1}}, line.spec);
      ASSERT_TRUE(schedule) << schedule.error().message;
      if (line.transfers) {
        EXPECT_EQ(schedule->transfer_count(), line.transfers(rank_count));
      }
      if (line.steps) {
        EXPECT_EQ(schedule->step_count(), line.steps(rank_count));
      }
    }
  }
}

struct Free {
  std::string spec, topology;
  Kind collective;
};

TEST(Algorithms, AreFreeOfContentionOnTheTopologiesTheyFit) {
  const Free cases[] = {
      {"ring", "ring:6", Kind::kAllReduce},
      {"ring", "ring:6", Kind::kBroadcast},
      {"ring", "torus:4x4", Kind::kAllReduce},
      {"ring", "mesh:3x3", Kind::kReduceScatter},
      {"bidirectional_ring", "ring:7", Kind::kAllReduce},
      {"bidirectional_ring", "ring:7", Kind::kReduce},
      {"bidirectional_ring", "torus:3x5", Kind::kAllGather},
      {"ring_2d", "torus:4x4", Kind::kAllReduce},
      {"ring_2d", "torus:5x5", Kind::kAllReduce},
      {"ring_2d,order=published", "torus:4x4", Kind::kAllReduce},
      {"recursive_doubling", "fully_connected:8", Kind::kAllReduce},
      {"halving_doubling", "fully_connected:8", Kind::kAllReduce},
      {"direct", "fully_connected:6", Kind::kAllToAll},
      {"direct", "fully_connected:6", Kind::kAllReduce},
      {"pairwise", "switch:8", Kind::kAllToAll},
      {"pairwise", "switch:7", Kind::kAllToAll},
      {"tree", "switch:8", Kind::kBroadcast},
      {"tree", "switch:7", Kind::kGather},
      {"tree", "switch:8", Kind::kScatter},
      {"in_switch", "switch:6,reduce=true,multicast=true", Kind::kAllReduce},
      {"in_switch", "switch:6,reduce=true,multicast=true", Kind::kReduceScatter},
      {"in_switch", "switch:6,reduce=true,multicast=true", Kind::kAllGather},
      {"ring,order=published", "bigraph:4x8", Kind::kAllReduce},
      {"ring,order=published", "bigraph:4x16", Kind::kAllReduce},
      {"ring,order=published", "fat_tree:64,routing=dmodk", Kind::kAllReduce},
      {"hdrm", "bigraph:1x2", Kind::kAllReduce},
      {"hdrm", "bigraph:2x4", Kind::kAllReduce},
      {"hdrm", "bigraph:4x8", Kind::kAllReduce},
      {"hdrm", "bigraph:4x16", Kind::kAllReduce},
      {"multitree", "fat_tree:64", Kind::kAllReduce},
      {"multitree", "bigraph:4x16", Kind::kAllReduce},
      {"multitree", "twin_switch:16", Kind::kAllReduce},
      {"multitree", "torus:4x4", Kind::kAllReduce},
      {"multitree", "mesh:3x5", Kind::kAllReduce},
      {"multitree,step_rule=published,interfaces=1", "mesh:4x4", Kind::kAllReduce},
  };
  for (const auto& [spec, name, collective] : cases) {
    const Topology topology = topology_of(name);
    const auto schedule = synthesize({topology, {}, collective}, spec);
    ASSERT_TRUE(schedule) << schedule.error().message;
    EXPECT_TRUE(verify(*schedule, &topology).contention_free)
        << spec << " " << to_text(collective) << " on " << name;
  }
}

TEST(Algorithms, AttainTheBoundOnTheTopologiesTheyFit) {
  const Free cases[] = {
      {"bidirectional_ring", "ring:8", Kind::kAllReduce},
      {"bidirectional_ring", "ring:8", Kind::kAllGather},
      {"direct", "switch:8", Kind::kGather},
      {"tree", "switch:7", Kind::kGather},
      {"tree", "switch:8", Kind::kScatter},
      {"bidirectional_ring", "ring:8", Kind::kBroadcast},
      {"bidirectional_ring", "ring:8", Kind::kReduce},
      {"direct", "fully_connected:6", Kind::kAllReduce},
      {"direct", "fully_connected:6", Kind::kAllGather},
      {"direct", "fully_connected:6", Kind::kAllToAll},
      {"halving_doubling", "switch:8", Kind::kAllReduce},
      {"ring", "switch:6", Kind::kAllReduce},
      {"in_switch", "switch:6,reduce=true,multicast=true", Kind::kAllReduce},
      {"in_switch", "switch:6,reduce=true,multicast=true", Kind::kBroadcast},
      {"multitree", "fully_connected:5", Kind::kReduceScatter},
      {"pairwise", "switch:8", Kind::kAllToAll},
      {"pairwise", "switch:6", Kind::kAllToAll},
      {"hierarchical", "torus:4x4", Kind::kAllReduce},
      {"multi_ring", "torus:4x4", Kind::kAllReduce},
      {"multi_ring", "torus:7x7", Kind::kAllReduce},
      {"multi_ring", "torus:16x4", Kind::kAllGather},
      {"multi_ring", "torus:5x5", Kind::kBroadcast},
      {"hierarchical", "torus:8x8", Kind::kAllReduce},
      {"hierarchical", "torus:4x4x4", Kind::kAllReduce},
      {"hierarchical", "torus:5x5", Kind::kAllGather},
      {"hierarchical", "dgx_a100:4", Kind::kAllReduce},
      {"hierarchical", "leaf_spine:4x8,oversubscription=4,routing=spread", Kind::kAllReduce},
      {"hierarchical,algorithms=in_switch+direct", "dgx_h100:2,sharp,nic_bandwidth=50GB/s",
       Kind::kAllReduce},
  };
  for (const auto& [spec, name, collective] : cases) {
    const Topology topology = topology_of(name);
    const auto schedule = synthesize({topology, {}, collective}, spec);
    ASSERT_TRUE(schedule) << schedule.error().message;
    EXPECT_NEAR(schedule->provenance.certificate.fraction, 1, 1e-9)
        << spec << " " << to_text(collective) << " on " << name << ": "
        << schedule->provenance.certificate.witness;
  }
}

// Every block moves once for each digit of its distance, in messages of consecutive blocks.
TEST(Algorithms, BruckMovesTheDigitsOfDistances) {
  for (const int32_t rank_count : {2, 3, 6, 8, 13, 16}) {
    const Topology topology = topology_of("switch:" + std::to_string(rank_count));
    const auto schedule = synthesize({topology, {}, Kind::kAllToAll}, "bruck");
    ASSERT_TRUE(schedule) << schedule.error().message;
    int64_t moved = 0, digits = 0;
    for (const Transfer& transfer : schedule->transfers) {
      moved += transfer.chunk_count;
    }
    for (int32_t distance = 1; distance < rank_count; ++distance) {
      digits += std::popcount(static_cast<uint32_t>(distance));
    }
    EXPECT_EQ(moved, rank_count * digits);
    EXPECT_GE(schedule->transfer_count(), rank_count * (rank_count - 1));
    EXPECT_LE(schedule->transfer_count(), 2 * rank_count * (rank_count - 1));
  }
}

// Chunks over each link, or of a class, that carries any.
std::map<LinkId, int64_t> chunks_over(const Schedule& schedule, const Topology& topology,
                                      const std::optional<std::string>& link_class = {}) {
  std::map<LinkId, int64_t> chunks;
  for (const Transfer& transfer : schedule.transfers) {
    for (const LinkId link : schedule.routes[transfer.route]) {
      if (!link_class || topology.given_class(link) == *link_class) {
        chunks[link] += transfer.chunk_count;
      }
    }
  }
  return chunks;
}

// Two boxes of eight with a network card for each GPU: all cards work, and the boxes' switches do
// next to all that the bound asks for.
TEST(Algorithms, HierarchicalUsesEveryRail) {
  const Topology topology = topology_of(
      "dgx_a100:2,bandwidth=300GB/s,latency=500ns,nic_bandwidth=25GB/s,nic_latency=1us,"
      "overhead=0,header=0");
  for (const Kind collective : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather}) {
    const auto schedule = synthesize({topology, {}, collective}, "hierarchical");
    ASSERT_TRUE(schedule) << schedule.error().message;
    expect_correct(*schedule, topology);
    EXPECT_GE(schedule->provenance.certificate.fraction, 0.98);
    const std::map<LinkId, int64_t> chunks = chunks_over(*schedule, topology, "nic");
    ASSERT_EQ(chunks.size(), 32U);
    for (const auto& [link, count] : chunks) {
      EXPECT_EQ(count, chunks.begin()->second);
    }
  }
}

// A ring for each card: every card sends, and receives, the same.
TEST(Algorithms, MultiRingHasARingForEachRail) {
  for (const std::string name : {"dgx_h100:2", "dgx_h100:4,fabric=rails", "leaf_spine:6x3"}) {
    const Topology topology = topology_of(name);
    const auto schedule = synthesize({topology, {}, Kind::kAllReduce}, "multi_ring");
    ASSERT_TRUE(schedule) << schedule.error().message;
    expect_correct(*schedule, topology);
    const auto ring = synthesize({topology, {}, Kind::kAllReduce}, "ring");
    ASSERT_TRUE(ring);
    const bool is_box = name.starts_with("dgx");
    if (!is_box) {
      continue;  // a leaf's ranks have one cable each, for either way
    }
    EXPECT_NEAR(schedule->provenance.certificate.algbw_bytes_per_s /
                    ring->provenance.certificate.algbw_bytes_per_s,
                8, 1e-9);
    EXPECT_TRUE(chunks_over(*schedule, topology, "spine").empty()) << "a ring leaves its rail";
    const std::map<LinkId, int64_t> chunks = chunks_over(*schedule, topology, "nic");
    EXPECT_EQ(chunks.size(), 2 * topology.rank_nodes().size());
    for (const auto& [link, count] : chunks) {
      EXPECT_EQ(count, chunks.begin()->second);
    }
  }
}

// Of several cards of a GPU each carries the same, whichever routes the topology takes for a pair,
// and for any number of boxes.
TEST(Algorithms, StripesUseEveryCardOfARank) {
  for (const std::string boxes : {"dgx_h100:2", "dgx_h100:3", "dgx_h100:4"}) {
    for (const std::string more : {",nics=2", ",nics=3,fabric=rails", ",nics=2,routing=spread",
                                   ",nics=4,fabric=rails,routing=spread"}) {
      const Topology topology = topology_of(boxes + ",nic_bandwidth=20GB/s" + more);
      const std::size_t cards = topology.rank_nodes().size() * at(more[6] - '0');
      for (const std::string algorithm : {"hierarchical", "multi_ring"}) {
        for (const Kind collective : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather}) {
          SCOPED_TRACE(algorithm + " " + topology.name() + " " + std::string(to_text(collective)));
          const auto schedule = synthesize({topology, {}, collective}, algorithm);
          ASSERT_TRUE(schedule) << schedule.error().message;
          expect_correct(*schedule, topology);
          const std::map<LinkId, int64_t> chunks = chunks_over(*schedule, topology, "nic");
          ASSERT_EQ(chunks.size(), 2 * cards);
          for (const auto& [link, count] : chunks) {
            EXPECT_EQ(count, chunks.begin()->second);
          }
        }
      }
    }
  }
}

TEST(Algorithms, StripesAreAsManyAsAsked) {
  const Topology topology = topology_of("dgx_h100:2,nics=3");
  for (const int32_t stripes : {1, 2, 3, 8}) {
    for (const std::string algorithm : {"hierarchical", "multi_ring"}) {
      const auto schedule = synthesize({topology, {}, Kind::kAllReduce},
                                       fmt::format("{},stripes={}", algorithm, stripes));
      ASSERT_TRUE(schedule) << schedule.error().message;
      expect_correct(*schedule, topology);
      EXPECT_EQ(chunks_over(*schedule, topology, "nic").size(), 32U * at(std::min(stripes, 3)))
          << algorithm << " " << stripes;
    }
  }
  const auto refused = synthesize({topology, {}, Kind::kAllReduce}, "multi_ring,stripes=9");
  EXPECT_NE(refused.error().message.find("'9'"), std::string::npos) << refused.error().message;
}

TEST(Algorithms, HierarchicalTakesAnyAlgorithmOnALevel) {
  const struct {
    std::string spec;
    std::string topology;
  } cases[] = {
      {"hierarchical,algorithms=ring+direct", "dgx_h100:3"},
      {"hierarchical,algorithms=halving_doubling+bidirectional_ring", "dgx_h100:4"},
      {"hierarchical,algorithms=direct+recursive_doubling", "leaf_spine:4x3"},
      {"hierarchical,algorithms=direct+ring+halving_doubling,levels=3x2x2", "switch:12"},
      {"hierarchical,algorithms=multitree,orders=all", "mesh:3x4"},
      {"hierarchical,algorithms=ring,orders=all,levels=2x3x2", "fully_connected:12"},
      {"hierarchical,levels=4x4,orders=all", "torus:4x4,without_link=5-6"},
      {"hierarchical,algorithms=in_switch+direct", "dgx_b200:2,sharp"},
      {"hierarchical,algorithms=hierarchical", "torus:3x3"},
  };
  for (const auto& [spec, name] : cases) {
    SCOPED_TRACE(spec + " on " + name);
    const Topology topology = topology_of(name);
    for (const Kind collective : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather}) {
      const auto schedule = synthesize({topology, {}, collective}, spec);
      const bool has_halves = spec.find("recursive_doubling") == std::string::npos;
      if (collective == Kind::kReduceScatter && !has_halves) {
        EXPECT_FALSE(schedule);
        continue;
      }
      ASSERT_TRUE(schedule) << schedule.error().message;
      expect_correct(*schedule, topology);
    }
  }
}

// A level alone is what its algorithm writes, through the same switches.
TEST(Algorithms, HierarchicalKeepsTheWaysThatALevelChose) {
  for (const std::string name : {"leaf_spine:2x4", "fat_tree:16,radix=4", "torus:2x3"}) {
    const Topology topology = topology_of(name);
    const auto spec = fmt::format("hierarchical,algorithms=multitree,orders=one,levels={}",
                                  topology.rank_nodes().size());
    for (const Kind collective : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather}) {
      SCOPED_TRACE(spec + " on " + name + " " + std::string(to_text(collective)));
      const auto level = synthesize({topology, {}, collective}, "multitree");
      const auto schedule = synthesize({topology, {}, collective}, spec);
      ASSERT_TRUE(level && schedule);
      expect_correct(*schedule, topology);
      EXPECT_EQ(chunks_over(*schedule, topology), chunks_over(*level, topology));
    }
  }
}

// One route for each pair, yet every link has its share.
TEST(Algorithms, AttainTheBoundOverManyRoutes) {
  struct Case {
    std::string topology;
    double most_by_default;
    double least_when_spread;
  };
  const Case cases[] = {
      {"torus:4x4", 0.67, 1},
      {"torus:8x8", 0.81, 0.98},
      {"torus:4x4x4", 0.75, 0.96},
      {"leaf_spine:2x4", 0.44, 1},
      {"fat_tree:16,radix=4", 0.34, 1},
      {"leaf_spine:4x4,rails=2", 0.6, 0.93},  // 15 messages over 2 cables: 8 on one
  };
  for (const Case& row : cases) {
    const auto fraction = [&row](const std::string& routing) {
      const Topology topology = topology_of(row.topology + ",routing=" + routing);
      const auto schedule = synthesize({topology, {}, Kind::kAllToAll}, "direct");
      EXPECT_TRUE(schedule) << schedule.error().message;
      expect_correct(*schedule, topology);
      return schedule->provenance.certificate.fraction;
    };
    EXPECT_LE(fraction("shortest"), row.most_by_default) << row.topology;
    EXPECT_GE(fraction("spread"), row.least_when_spread - 1e-9) << row.topology;
  }
}

TEST(Algorithms, CountTheSameUnderEveryNumberingOfRanks) {
  const uint64_t seed = 20240607;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  int32_t compared = 0;
  for (const std::string name : {"torus:3x4", "mesh:3x3", "torus:4x4,without_link=0-1",
                                 "fully_connected:6", "switch:6,reduce=true,multicast=true"}) {
    const Topology topology = topology_of(name);
    std::vector<NodeId> shuffled(topology.rank_nodes().begin(), topology.rank_nodes().end());
    for (std::size_t k = shuffled.size(); k > 1; --k) {
      std::swap(shuffled[k - 1], shuffled[rng.below(k)]);
    }
    for (const Algorithm* algorithm : algorithms()) {
      for (const Kind collective : algorithm->collectives) {
        SCOPED_TRACE(algorithm->name + " " + std::string(to_text(collective)) + " on " + name);
        const auto plain = synthesize({topology, {}, collective}, algorithm->name);
        const auto same_root = static_cast<int32_t>(
            std::ranges::find(shuffled, topology.rank_nodes()[0]) - shuffled.begin());
        const Rank root{has_root(collective) ? same_root : 0};
        const auto other = synthesize({topology, shuffled, collective, root}, algorithm->name);
        ASSERT_EQ(plain.has_value(), other.has_value());
        if (plain) {
          EXPECT_EQ(other->step_count(), plain->step_count());
          EXPECT_EQ(other->transfer_count(), plain->transfer_count());
          EXPECT_EQ(other->phase_steps, plain->phase_steps);
          EXPECT_EQ(other->period, plain->period);
          ++compared;
        }
      }
    }
  }
  EXPECT_GT(compared, 100);
}

struct Refused {
  std::string spec;
  std::string topology;
  std::vector<int32_t> participants;
  Kind collective;
  int32_t root;
  ErrorCode code;
  std::string message;  // a part of it
};

TEST(Algorithms, RefuseWhatTheyCannotDoInOneLine) {
  const ErrorCode invalid = ErrorCode::kInvalidArgument, infeasible = ErrorCode::kInfeasible;
  const Refused cases[] = {
      {"rnig", "ring:4", {}, Kind::kAllReduce, 0, invalid, "did you mean 'ring'?"},
      {"", "ring:4", {}, Kind::kAllReduce, 0, invalid, "has no name"},
      {"ring:4", "ring:4", {}, Kind::kAllReduce, 0, invalid, "not ':4'"},
      {"ring,lanes=2", "ring:4", {}, Kind::kAllReduce, 0, invalid, "unknown option 'lanes'"},
      {"ring,form=short", "ring:4", {}, Kind::kAllReduce, 0, invalid, "'short'"},
      {"hdrm", "ring:4", {}, Kind::kAllReduce, 0, infeasible, "it takes a BiGraph"},
      {"hdrm", "fat_tree:16,radix=4", {}, Kind::kAllReduce, 0, infeasible, "it takes a BiGraph"},
      {"hdrm",
       "bigraph:3x4",
       {},
       Kind::kAllReduce,
       0,
       infeasible,
       "a power of two of ranks, not 12"},
      {"multitree,interfaces=-1", "ring:4", {}, Kind::kAllReduce, 0, invalid, "-1"},
      {"ring",
       "ring:4",
       {},
       Kind::kAllToAll,
       0,
       invalid,
       "ring does not do all_to_all; it does all_reduce, reduce_scatter"},
      {"ring", "ring:4", {0, 4}, Kind::kAllReduce, 0, invalid, "participant 1 is node 4"},
      {"ring", "ring:4", {0, -1}, Kind::kAllReduce, 0, invalid, "participant 1 is node -1"},
      {"ring", "ring:4", {0, 2, 0}, Kind::kAllReduce, 0, invalid, "participant 2 is node 0"},
      {"ring", "switch:4", {0, 4}, Kind::kAllReduce, 0, invalid, "hosts no rank"},
      {"ring", "ring:4", {2}, Kind::kAllReduce, 0, invalid, "1 participant of topology 'ring:4'"},
      {"ring", "ring:4", {}, Kind::kBroadcast, 4, invalid, "root 4"},
      {"ring", "ring:4", {}, Kind::kBroadcast, -1, invalid, "root -1"},
      {"direct,mode=one_shot",
       "ring:4",
       {},
       Kind::kAllGather,
       0,
       invalid,
       "mode=one_shot is for all_reduce, not all_gather"},
      {"tree,arity=2",
       "ring:4",
       {},
       Kind::kScatter,
       1,
       invalid,
       "arity=2 is not for scatter, whose tree is binomial"},
      {"halving_doubling", "ring:6", {}, Kind::kAllGather, 0, infeasible, "a power of two"},
      {"in_switch", "ring:6", {}, Kind::kAllReduce, 0, infeasible, "has no switch"},
      {"in_switch", "switch:6", {}, Kind::kReduce, 0, infeasible, "does not reduce"},
      {"in_switch",
       "switch:6,reduce=true",
       {},
       Kind::kAllReduce,
       0,
       infeasible,
       "does not multicast"},
      {"hierarchical,shares=1+2",
       "dgx_h100:2",
       {0, 1, 2, 8},
       Kind::kAllReduce,
       0,
       infeasible,
       "shares=1+2 for 1 part"},
      {"hierarchical,shares=0+0",
       "mesh:2x3",
       {},
       Kind::kAllReduce,
       0,
       invalid,
       "shares=0+0: all are 0"},
      {"hierarchical,levels=3x2", "ring:8", {}, Kind::kAllReduce, 0, infeasible, "not of 8"},
      {"hierarchical,levels=ax2", "ring:8", {}, Kind::kAllReduce, 0, invalid, "'a' is not"},
      {"hierarchical,algorithms=ring+ring",
       "ring:8",
       {},
       Kind::kAllReduce,
       0,
       infeasible,
       "algorithms=ring+ring for 1 levels"},
      {"hierarchical,algorithms=rnig", "ring:8", {}, Kind::kAllReduce, 0, invalid, "did you mean"},
      {"hierarchical,algorithms=in_switch",
       "torus:4x4",
       {},
       Kind::kAllReduce,
       0,
       infeasible,
       "in_switch: "},
      {"ring_2d", "ring:6", {}, Kind::kAllReduce, 0, infeasible, "is no grid of two dimensions"},
      {"ring_2d", "mesh:5x1", {}, Kind::kAllReduce, 0, infeasible, "is no grid of two dimensions"},
      {"ring_2d", "torus:2x2x3", {}, Kind::kAllReduce, 0, infeasible, "no grid of two dimensions"},
      {"ring_2d", "switch:4", {}, Kind::kAllReduce, 0, infeasible, "is no grid of two dimensions"},
      {"multi_ring",
       "torus:4x6",
       {},
       Kind::kAllReduce,
       0,
       infeasible,
       "no torus of two dimensions"},
      {"multi_ring", "torus:6x3", {}, Kind::kAllReduce, 0, infeasible, "no common divisor"},
      {"multi_ring", "mesh:4x4", {}, Kind::kAllReduce, 0, infeasible, "no torus of two dimensions"},
      {"multi_ring", "switch:4", {}, Kind::kAllReduce, 0, infeasible, "are no whole torus"},
      {"ring_2d",
       "torus:4x4,without_link=5-6",
       {},
       Kind::kAllReduce,
       0,
       infeasible,
       "one that lost a cable or a node is none"},
      {"ring_2d", "torus:4x4", {0, 1}, Kind::kAllReduce, 0, infeasible, "2 of the 16 ranks"},
      {"ring_2d,order=published", "torus:4x6", {}, Kind::kAllReduce, 0, infeasible, "is no square"},
      {"ring_2d", "torus:255x256", {}, Kind::kAllReduce, 0, infeasible, "the limit is"},
      {"direct", "torus:100x100", {}, Kind::kAllToAll, 0, infeasible, "the limit is"},
      {"multitree", "torus:100x100", {}, Kind::kAllReduce, 0, infeasible, "the limit is"},
      {"ring,form=explicit", "ring:10000", {}, Kind::kAllReduce, 0, infeasible, "the limit is"},
      {"recursive_doubling", "ring:20000", {}, Kind::kAllGather, 0, infeasible, "the limit is"},
      {"halving_doubling", "ring:10000", {}, Kind::kAllReduce, 0, infeasible, "the limit is"},
  };
  for (const Refused& refused : cases) {
    SCOPED_TRACE(refused.spec + " on " + refused.topology);
    const Topology topology = topology_of(refused.topology);
    const auto schedule = synthesize(
        {topology, nodes_of(refused.participants), refused.collective, Rank{refused.root}},
        refused.spec);
    ASSERT_FALSE(schedule);
    EXPECT_EQ(schedule.error().code, refused.code);
    EXPECT_NE(schedule.error().message.find(refused.message), std::string::npos)
        << schedule.error().message;
    EXPECT_EQ(schedule.error().message.find('\n'), std::string::npos);
  }
}

TEST(Algorithms, HaveDistinctNamesAndSources) {
  std::vector<std::string> names;
  for (const Algorithm* algorithm : algorithms()) {
    names.push_back(algorithm->name);
    EXPECT_FALSE(algorithm->summary.empty()) << algorithm->name;
    EXPECT_FALSE(algorithm->source.empty()) << algorithm->name;
    EXPECT_FALSE(algorithm->collectives.empty()) << algorithm->name;
  }
  const std::vector<std::string> expected = {"ring",
                                             "bidirectional_ring",
                                             "ring_2d",
                                             "recursive_doubling",
                                             "halving_doubling",
                                             "hdrm",
                                             "direct",
                                             "in_switch",
                                             "multitree",
                                             "hierarchical",
                                             "multi_ring",
                                             "tree",
                                             "io_tree",
                                             "double_binary_tree",
                                             "pairwise",
                                             "bruck"};
  EXPECT_EQ(names, expected);
}

}  // namespace
}  // namespace pleach
