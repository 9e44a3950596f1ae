// What each I/O node carries of what passes by all of them.
#include "pleach/planning/io_shares.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <vector>

#include "pleach/base/rng.h"
#include "pleach/planning/planner.h"
#include "pleach/topology/shapes.h"

namespace pleach {
namespace {

// A switch with four ranks and I/O nodes, whose bandwidths in and out [GB/s] need not be alike.
struct Io {
  int32_t out = 0;
  int32_t in = 0;
};
Topology with_io(const std::vector<Io>& nodes) {
  TopologyBuilder builder("box");
  const auto node = [&](NodeKind kind) {
    Node one;
    one.kind = kind;
    one.reduces = one.multicasts = kind == NodeKind::kSwitch;
    return *builder.add_node(one);
  };
  constexpr int64_t kGb = 1'000'000'000;
  const NodeId center = node(NodeKind::kSwitch);
  for (int32_t rank = 0; rank < 4; ++rank) {
    EXPECT_TRUE(builder.add_cable(
        {.source = node(NodeKind::kRank), .target = center, .bandwidth_bytes_per_s = 100 * kGb}));
  }
  for (const auto& [out, in] : nodes) {
    const NodeId io = node(NodeKind::kIo);
    if (out > 0) {
      EXPECT_TRUE(
          builder.add_link({.source = io, .target = center, .bandwidth_bytes_per_s = out * kGb}));
    }
    if (in > 0) {
      EXPECT_TRUE(
          builder.add_link({.source = center, .target = io, .bandwidth_bytes_per_s = in * kGb}));
    }
  }
  auto topology = std::move(builder).build();
  EXPECT_TRUE(topology) << topology.error().message;
  return *topology;
}

using Kind = CollectiveKind;

std::map<int32_t, int64_t> parts_of(const IoShares& shares, int64_t size_bytes) {
  std::map<int32_t, int64_t> parts;
  for (const auto& [node, bytes] : shares.parts(size_bytes)) {
    EXPECT_GT(bytes, 0);
    parts[node.value] = bytes;
  }
  return parts;
}

TEST(IoShares, AreInProportionToBandwidth) {
  const Topology topology = with_io({{4, 1}, {0, 1}, {2, 0}, {2, 1}});
  const auto out = IoShares::of(topology, Kind::kBroadcast),
             in = IoShares::of(topology, Kind::kReduce);
  ASSERT_TRUE(out && in);
  EXPECT_EQ(out->bandwidth_bytes_per_s(), 8'000'000'000);
  EXPECT_EQ(parts_of(*out, 80), (std::map<int32_t, int64_t>{{5, 40}, {7, 20}, {8, 20}}));
  EXPECT_EQ(parts_of(*in, 90), (std::map<int32_t, int64_t>{{5, 30}, {6, 30}, {8, 30}}));
  EXPECT_EQ(parts_of(*out, 1), (std::map<int32_t, int64_t>{{8, 1}}));
  EXPECT_TRUE(parts_of(*out, 0).empty());
  Rng rng(3);
  for (int32_t round = 0; round < 200; ++round) {
    const auto size_bytes = static_cast<int64_t>(rng.below(uint64_t{1} << rng.below(51)));
    int64_t sum = 0;
    for (const auto& [node, bytes] : out->parts(size_bytes)) {
      const double exact = static_cast<double>(size_bytes) * (node.value == 5 ? 0.5 : 0.25);
      EXPECT_NEAR(static_cast<double>(bytes), exact, 1);
      sum += bytes;
    }
    EXPECT_EQ(sum, size_bytes);
  }
}

TEST(IoShares, AreOfSomeNode) {
  for (const auto& nodes : {std::vector<Io>{}, {{0, 3}}}) {
    const auto refused = IoShares::of(with_io(nodes), Kind::kBroadcast);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message, "topology box has no I/O nodes");
  }
}

// Each group and each node: a schedule of both, the node's root, of its part.
TEST(ChooseIo, PlansEveryGroupWithEveryNode) {
  const Topology topology = with_io({{4, 4}, {2, 2}});
  const auto planner = make_planner(topology, "in_switch");
  ASSERT_TRUE(planner);
  const auto ranks = topology.rank_nodes();
  const std::vector<std::vector<NodeId>> groups = {{ranks[0], ranks[2]}, {ranks[3]}};
  for (const Kind kind : {Kind::kBroadcast, Kind::kReduce}) {
    const auto choice = (*planner)->choose_io(kind, groups, 300);
    ASSERT_TRUE(choice) << choice.error().message;
    ASSERT_EQ(choice->schedules.size(), 4U);
    EXPECT_EQ(choice->part_bytes, (std::vector<int64_t>{200, 100, 200, 100}));
    for (std::size_t index = 0; index < 4; ++index) {
      std::vector<NodeId> nodes = groups[index / 2];
      nodes.push_back(NodeId{5 + static_cast<int32_t>(index % 2)});
      const Schedule& schedule = *choice->schedules[index];
      EXPECT_EQ(schedule.participants, nodes);
      EXPECT_EQ(schedule.collective, kind);
      EXPECT_EQ(schedule.root.value, static_cast<int32_t>(nodes.size()) - 1);
    }
  }
}

}  // namespace
}  // namespace pleach
