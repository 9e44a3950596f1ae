// I/O nodes: roots of broadcasts and reduces, and what hangs on a grid that remains one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/collective/verify.h"
#include "pleach/network/model.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/topology/changes.h"
#include "pleach/topology/grids.h"
#include "pleach/topology/metrics.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

using support::topology_of;

// A shape with so many I/O nodes behind its nodes, each on a node by a cable of 1 GB/s.
Topology with_io(const std::string& shape, const std::vector<std::string>& places) {
  std::string text = fmt::format("shape = '{}'\n", shape);
  for (std::size_t number = 0; number < places.size(); ++number) {
    text += fmt::format(
        "[[node]]\nname = 'io{0}'\nkind = 'io'\n"
        "[[cable]]\nsource = 'io{0}'\ntarget = '{1}'\nbandwidth = '1GB/s'\nlatency = '70ns'\n",
        number, places[number]);
  }
  const Result<Topology> topology = parse_topology_toml(text, "io.toml");
  EXPECT_TRUE(topology) << topology.error().message;
  return *topology;
}

int64_t time_ps(const std::string& model, const Topology& topology, const Schedule& schedule,
                int64_t size_bytes = 1 << 20) {
  const Job job{borrowed(schedule), size_bytes, 0};
  const auto result = simulate(model, topology, {&job, 1}, {});
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result ? result->finish_ps : -1;
}

Result<Schedule> made(const Topology& topology, const std::string& algorithm,
                      CollectiveKind collective, std::vector<NodeId> participants = {},
                      Rank root = {0}) {
  return synthesize({.topology = topology,
                     .participants = std::move(participants),
                     .collective = collective,
                     .root = root},
                    algorithm);
}

// All ranks of the topology, and one of its I/O nodes behind them.
std::vector<NodeId> all_and(const Topology& topology, int32_t io_number) {
  std::vector<NodeId> nodes(topology.rank_nodes().begin(), topology.rank_nodes().end());
  nodes.push_back(NodeId{count_of(nodes) + io_number});
  return nodes;
}

// What nobody's traffic passes changes nothing for the ranks: not what they may do, nor what it
// takes.
TEST(IoNodes, LeaveAGridAGrid) {
  for (const std::string shape : {"mesh:5x4", "torus:5x5", "torus:3x4x2", "mesh:5x4,header=16"}) {
    SCOPED_TRACE(shape);
    const Topology bare = topology_of(shape);
    const Topology dressed = with_io(shape, {"0", "0", "3", "7", "19"});
    ASSERT_EQ(dressed.nodes().size(), bare.nodes().size() + 5);
    EXPECT_EQ(dressed.grid().size(), bare.grid().size());
    EXPECT_FALSE(is_bare_grid(dressed));
    EXPECT_EQ(bisection(dressed).bytes_per_s, bisection(bare).bytes_per_s);
    EXPECT_EQ(bisection(dressed).exact, bisection(bare).exact);
    EXPECT_EQ(diameter(dressed).link_count, diameter(bare).link_count);
    for (const std::string algorithm :
         {"ring", "bidirectional_ring", "ring_2d", "multi_ring", "hierarchical", "multitree"}) {
      const auto plain = made(bare, algorithm, CollectiveKind::kAllReduce);
      const auto found = made(dressed, algorithm, CollectiveKind::kAllReduce);
      ASSERT_EQ(plain.has_value(), found.has_value()) << algorithm;
      if (!plain) {
        continue;
      }
      EXPECT_TRUE(verify(*found, &dressed).correct) << algorithm;
      EXPECT_DOUBLE_EQ(found->provenance.certificate.bound_algbw_bytes_per_s,
                       plain->provenance.certificate.bound_algbw_bytes_per_s);
      EXPECT_DOUBLE_EQ(found->provenance.certificate.alpha_s,
                       plain->provenance.certificate.alpha_s);
      for (const char* model : {"flow", "analytic", "flit"}) {
        EXPECT_EQ(time_ps(model, dressed, *found, 1 << 16), time_ps(model, bare, *plain, 1 << 16))
            << algorithm << ' ' << model;
      }
    }
  }
}

TEST(IoNodes, AreNoPartOfAGridOnlyWhileTheyHang) {
  const auto grid = [](const std::string& more) {
    const auto topology = parse_topology_toml("shape = 'mesh:2x2'\n" + more, "io.toml");
    EXPECT_TRUE(topology) << topology.error().message;
    return !topology->grid().empty();
  };
  const std::string io = "[[node]]\nname = 'io'\nkind = 'io'\n";
  const std::string cable = "[[cable]]\nsource = 'io'\ntarget = 0\n";
  EXPECT_TRUE(grid(io + cable));
  EXPECT_FALSE(grid(io + "forwards = true\n" + cable));
  EXPECT_FALSE(grid(io + cable + "[[cable]]\nsource = 0\ntarget = 3\n"));
  EXPECT_FALSE(grid("[[node]]\nname = 'io'\nkind = 'switch'\n" + cable));
  // What takes I/O nodes away leaves the grid; what takes ranks does not.
  const Topology dressed = with_io("mesh:3x3", {"0", "8"});
  const NodeId first_io = {9}, rank = {4};
  EXPECT_EQ(without(dressed, {&first_io, 1}, {})->grid().size(), 2U);
  EXPECT_TRUE(without(dressed, {&rank, 1}, {})->grid().empty());
  const LinkId of_io = dressed.links_out(first_io).front();
  EXPECT_EQ(without(dressed, {}, {&of_io, 1})->grid().size(), 2U);
  const LinkId of_rank = dressed.links_out(rank).front();
  EXPECT_TRUE(without(dressed, {}, {&of_rank, 1})->grid().empty());
}

// A bisection does not go through an I/O node that joins two ranks and passes nothing on.
TEST(IoNodes, CarryNothingForRanks) {
  const auto topology = parse_topology_toml(R"(
    node = [{ name = "a" }, { name = "b" }, { name = "s", kind = "switch" },
            { name = "io", kind = "io" }]
    cable = [{ source = "a", target = "s", bandwidth = "1GB/s" },
             { source = "b", target = "s", bandwidth = "1GB/s" },
             { source = "a", target = "io", bandwidth = "5GB/s" },
             { source = "b", target = "io", bandwidth = "5GB/s" }]
  )",
                                            "x.toml");
  ASSERT_TRUE(topology) << topology.error().message;
  EXPECT_EQ(bisection(*topology).bytes_per_s, 1'000'000'000);
}

// The root's cable is what all of a broadcast or reduce must pass: no schedule is faster, and a
// chain comes near with many segments.
TEST(IoNodes, AreRootsOfBroadcastsAndReduces) {
  const std::pair<std::string, std::vector<std::string>> networks[] = {
      {"mesh:3x3", {"0", "4"}},
      {"torus:4x4", {"5", "6"}},
      {"switch:4,reduce,multicast", {"switch"}}};
  for (const auto& [shape, places] : networks) {
    const Topology topology = with_io(shape, places);
    for (const CollectiveKind collective : {CollectiveKind::kBroadcast, CollectiveKind::kReduce}) {
      for (const std::string algorithm : {"ring", "bidirectional_ring", "tree", "direct"}) {
        SCOPED_TRACE(shape + " " + algorithm + " " + std::string(to_text(collective)));
        std::vector<NodeId> nodes = all_and(topology, 0);
        if (shape.starts_with("switch")) {
          nodes.back().value += 1;  // behind the switch
        }
        const Rank root{count_of(nodes) - 1};
        const auto schedule = made(topology, algorithm, collective, nodes, root);
        ASSERT_TRUE(schedule) << schedule.error().message;
        const Verification verification = verify(*schedule, &topology);
        EXPECT_TRUE(verification.correct) << verification.violations.front();
        EXPECT_LE(schedule->provenance.certificate.bound_algbw_bytes_per_s, 1e9);
        const int64_t least_ps = 70'000 + (int64_t{1} << 16) * 1'000;
        for (const char* model : {"flow", "analytic", "flit"}) {
          EXPECT_GE(time_ps(model, topology, *schedule, 1 << 16), least_ps) << model;
        }
      }
    }
  }
}

TEST(IoNodes, TakeNoOtherPart) {
  const Topology topology = with_io("mesh:2x2", {"0", "3"});
  const std::vector<NodeId> nodes = all_and(topology, 1);
  struct Case {
    CollectiveKind collective;
    Rank root;
  };
  for (const auto& [collective, root] : {Case{CollectiveKind::kBroadcast, Rank{0}},
                                         {CollectiveKind::kGather, Rank{4}},
                                         {CollectiveKind::kAllGather, Rank{0}},
                                         {CollectiveKind::kAllReduce, Rank{0}}}) {
    const auto refused = made(topology, "ring", collective, nodes, root);
    const auto direct = made(topology, "direct", collective, nodes, root);
    for (const auto* one : {&refused, &direct}) {
      ASSERT_FALSE(*one) << to_text(collective);
    }
    EXPECT_EQ(direct.error().message, "participant 4 is node 5 (io1), which hosts no rank");
  }
  // A file may say so, too.
  auto broadcast = made(topology, "direct", CollectiveKind::kBroadcast, nodes, Rank{4});
  ASSERT_TRUE(broadcast);
  EXPECT_TRUE(check_form(*broadcast, &topology).empty());
  broadcast->root = Rank{0};
  ASSERT_FALSE(check_form(*broadcast, &topology).empty());
  EXPECT_EQ(check_form(*broadcast, &topology).front(), "participants[4]: node 5 (io1) is no rank");
}

}  // namespace
}  // namespace pleach
