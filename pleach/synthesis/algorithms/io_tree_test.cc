// io_tree: which links carry what all I/O nodes spread at once, and that anybody may take part.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/collective/verify.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/topology/grids.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

using support::topology_of;
using Kind = CollectiveKind;

std::vector<NodeId> io_nodes(const Topology& topology) {
  std::vector<NodeId> nodes;
  for (int32_t index = 0; index < count_of(topology.nodes()); ++index) {
    if (topology.node(NodeId{index}).kind == NodeKind::kIo) {
      nodes.push_back(NodeId{index});
    }
  }
  return nodes;
}

Schedule made(const Topology& topology, Kind collective, std::vector<NodeId> group, NodeId io,
              const std::string& spec = "io_tree") {
  group.push_back(io);
  const Rank root{count_of(group) - 1};
  const auto schedule = synthesize({.topology = topology,
                                    .participants = std::move(group),
                                    .collective = collective,
                                    .root = root},
                                   spec);
  EXPECT_TRUE(schedule) << schedule.error().message;
  EXPECT_TRUE(verify(*schedule, &topology).correct);
  return *schedule;
}

std::vector<NodeId> all(const Topology& topology) {
  return {topology.rank_nodes().begin(), topology.rank_nodes().end()};
}

// How often each link is taken by what all I/O nodes spread, or collect, at once.
std::map<LinkId, int32_t> uses_of(const Topology& topology, Kind collective,
                                  const std::string& spec = "io_tree") {
  std::map<LinkId, int32_t> uses;
  for (const NodeId io : io_nodes(topology)) {
    const Schedule schedule = made(topology, collective, all(topology), io, spec);
    for (const Transfer& transfer : schedule.transfers) {
      for (const LinkId link : schedule.routes[transfer.route]) {
        ++uses[link];
      }
    }
  }
  return uses;
}

int32_t most_of(const std::map<LinkId, int32_t>& uses) {
  int32_t most = 0;
  for (const auto& [link, count] : uses) {
    most = std::max(most, count);
  }
  return most;
}

TEST(IoTree, LoadsTheHottestLinkOfAMeshAsPublished) {
  const struct {
    std::string shape;
    int32_t by_face,
        by_rows;  // (2N-1)P by the faces of an NxN mesh; more where all take rows first
  } cases[] = {
      {"wafer_mesh:4x4", 7, 10},
      {"wafer_mesh:5x4", 9, 11},
      {"wafer_mesh:8x8", 15, 22},
      {"wafer_mesh:3x3", 5, 7},
  };
  for (const auto& [shape, by_face, by_rows] : cases) {
    SCOPED_TRACE(shape);
    const Topology topology = topology_of(shape);
    const std::map<LinkId, int32_t> spread = uses_of(topology, Kind::kBroadcast);
    EXPECT_EQ(most_of(spread), by_face);
    EXPECT_EQ(most_of(uses_of(topology, Kind::kBroadcast, "io_tree,first=rows")), by_rows);
    // Collecting loads the same links the other way.
    std::map<std::pair<NodeId, NodeId>, int32_t> there, back;
    for (const auto& [link, count] : spread) {
      there[{topology.link(link).source, topology.link(link).target}] = count;
    }
    for (const auto& [link, count] : uses_of(topology, Kind::kReduce)) {
      back[{topology.link(link).target, topology.link(link).source}] = count;
    }
    EXPECT_EQ(there, back);
  }
}

// Columns are shorter than rows: what goes up and down takes less of a link.
TEST(IoTree, LoadsColumnsOfTheWaferLess) {
  const Topology topology = topology_of("wafer_mesh:5x4");
  int32_t most = 0;
  for (const auto& [link, count] : uses_of(topology, Kind::kBroadcast)) {
    const int32_t step = topology.link(link).source.value - topology.link(link).target.value;
    const bool joins_ranks =
        std::max(topology.link(link).source, topology.link(link).target) < NodeId{20};
    most = joins_ranks && std::abs(step) == 5 ? std::max(most, count) : most;
  }
  EXPECT_EQ(most, 7);
}

// Each way up and each way down is taken once, and between leaves goes around: no way has what
// comes from its own leaf.
TEST(IoTree, CrossesEveryTrunkOnce) {
  const Topology topology = topology_of("fred:A");
  const auto is_trunk = [&](LinkId link) {
    return topology.node(topology.link(link).source).kind == NodeKind::kSwitch &&
           topology.node(topology.link(link).target).kind == NodeKind::kSwitch;
  };
  Rng rng(3);
  for (int32_t round = 0; round < 60; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    std::vector<NodeId> group = all(topology);
    for (std::size_t k = group.size(); k > 1; --k) {
      std::swap(group[k - 1], group[rng.below(k)]);
    }
    group.resize(1 + rng.below(group.size()));
    const std::vector<NodeId> ios = io_nodes(topology);
    const Kind collective = round % 2 == 0 ? Kind::kBroadcast : Kind::kReduce;
    const Schedule schedule = made(topology, collective, group, ios[rng.below(ios.size())]);
    std::set<LinkId> crossed;
    for (const Transfer& transfer : schedule.transfers) {
      for (const LinkId link : schedule.routes[transfer.route]) {
        EXPECT_TRUE(!is_trunk(link) || crossed.insert(link).second) << "a trunk is taken twice";
      }
    }
  }
  for (const Kind collective : {Kind::kBroadcast, Kind::kReduce}) {
    std::map<LinkId, int32_t> trunks = uses_of(topology, collective);
    std::erase_if(trunks, [&](const auto& one) { return !is_trunk(one.first); });
    EXPECT_EQ(trunks.size(), 10U);
    EXPECT_EQ(most_of(trunks), 15);  // of 18; a leaf with four I/O nodes takes 14
  }
}

// Chains from all I/O nodes are at different NPUs in every step.
TEST(IoTree, SpreadsChainsOverTheRanksOfALeaf) {
  for (const std::string shape : {"fred:A", "fred:C", "fred:C,npus=24,radix=6,io=24"}) {
    const Topology topology = topology_of(shape);
    std::set<std::pair<int32_t, NodeId>> taken;
    for (const NodeId io : io_nodes(topology)) {
      const Schedule schedule = made(topology, Kind::kBroadcast, all(topology), io);
      for (const Transfer& transfer : schedule.transfers) {
        EXPECT_TRUE(taken.insert({transfer.step, transfer.target}).second)
            << shape << " step " << transfer.step;
      }
    }
  }
}

// From any root, of any ranks, wherever they are.
TEST(IoTree, ServesAnyGroup) {
  Rng rng(17);
  for (const std::string shape :
       {"wafer_mesh:5x4", "wafer_mesh:1x6", "wafer_mesh:2x2", "wafer_mesh:3x7",
        "wafer_mesh:5x4,without_node=top0+left2", "fred:A", "fred:C", "torus:4x5", "torus:3x4x2",
        "mesh:4x4,without_link=5-6", "leaf_spine:3x4", "ring:9", "fully_connected:5"}) {
    const Topology topology = topology_of(shape);
    const std::vector<NodeId> ios = io_nodes(topology);
    for (int32_t round = 0; round < 20; ++round) {
      SCOPED_TRACE(shape + " round " + std::to_string(round));
      std::vector<NodeId> group = all(topology);
      for (std::size_t k = group.size(); k > 1; --k) {
        std::swap(group[k - 1], group[rng.below(k)]);
      }
      group.resize(2 + rng.below(group.size() - 1));
      const NodeId root = ios.empty() ? group.back() : ios[rng.below(ios.size())];
      if (ios.empty()) {
        group.pop_back();
      }
      for (const Kind collective : {Kind::kBroadcast, Kind::kReduce}) {
        const Schedule schedule = made(topology, collective, group, root);
        EXPECT_EQ(schedule.transfer_count(), count_of(group));
        if (!ios.empty()) {
          // An I/O node gives, or takes, one copy.
          EXPECT_EQ(std::ranges::count_if(schedule.transfers,
                                          [&](const Transfer& transfer) {
                                            return transfer.source == root ||
                                                   transfer.target == root;
                                          }),
                    1);
        }
      }
    }
  }
}

}  // namespace
}  // namespace pleach
