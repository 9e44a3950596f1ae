// The shapes of wafers and of trees of switches: fred, wafer_mesh, switch_tree.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/topology/grids.h"
#include "pleach/topology/metrics.h"
#include "pleach/topology/routes.h"
#include "pleach/topology/shapes.h"
#include "pleach/topology/switch_ports.h"

namespace pleach {
namespace {

constexpr int64_t kGigabyte = 1'000'000'000;

Topology made(const std::string& spec) {
  Result<Topology> topology = parse_topology(spec);
  EXPECT_TRUE(topology) << spec << ": " << topology.error().message;
  return std::move(topology).value();
}

NodeId named(const Topology& topology, const std::string& name) {
  for (int32_t node = 0; node < count_of(topology.nodes()); ++node) {
    if (topology.node(NodeId{node}).name == name) {
      return NodeId{node};
    }
  }
  ADD_FAILURE() << topology.name() << " has no node " << name;
  return NodeId{0};
}

// Bandwidth and lanes of the links from a node to another, in order.
std::vector<std::pair<int64_t, int32_t>> between(const Topology& topology, NodeId source,
                                                 NodeId target) {
  std::vector<std::pair<int64_t, int32_t>> links;
  for (const LinkId link : topology.links_out(source)) {
    if (topology.link(link).target == target) {
      links.emplace_back(topology.link(link).bandwidth_bytes_per_s / kGigabyte,
                         topology.link(link).lanes);
    }
  }
  return links;
}

using Links = std::vector<std::pair<int64_t, int32_t>>;

TEST(Fred, HasItsFourVariants) {
  for (const std::string variant : {"A", "B", "C", "D"}) {
    SCOPED_TRACE(variant);
    const Topology fred = made("fred:" + variant);
    EXPECT_EQ(fred.name(), "fred:" + variant);
    EXPECT_EQ(count_of(fred.rank_nodes()), 20);
    EXPECT_EQ(count_of(fred.nodes()), 20 + 5 + 1 + 18);
    EXPECT_EQ(count_of(fred.links()), 2 * (20 + 18 + 5));
    const bool in_network = variant == "B" || variant == "D";
    const int64_t trunk = variant == "A" || variant == "B" ? 1500 : 12000;
    const NodeId top = named(fred, "l2.0");
    for (int32_t leaf = 0; leaf < 5; ++leaf) {
      const NodeId id = named(fred, "l1." + std::to_string(leaf));
      for (int32_t npu = 4 * leaf; npu < 4 * leaf + 4; ++npu) {
        EXPECT_EQ(between(fred, NodeId{npu}, id), (Links{{3000, 1}}));
        EXPECT_EQ(between(fred, id, NodeId{npu}), (Links{{3000, 1}}));
      }
      EXPECT_EQ(between(fred, id, top), (Links{{trunk, 4}}));
      EXPECT_EQ(between(fred, top, id), (Links{{trunk, 4}}));
      // Ports go NPUs, I/O, up; leaves with three I/O nodes have one port fewer.
      const SwitchPorts ports(fred, id);
      const int32_t io_count = leaf < 3 ? 4 : 3;
      EXPECT_EQ(ports.input_count(), 8 + io_count);
      EXPECT_EQ(ports.output_count(), 8 + io_count);
      for (int32_t port = 0; port < ports.output_count(); ++port) {
        const Link& link = fred.link(ports.lane_of_output(port).link);
        const NodeKind kind = fred.node(link.target).kind;
        EXPECT_EQ(kind, port < 4              ? NodeKind::kRank
                        : port < 4 + io_count ? NodeKind::kIo
                                              : NodeKind::kSwitch);
        if (kind == NodeKind::kIo) {
          EXPECT_EQ(link.bandwidth_bytes_per_s, 128 * kGigabyte);
        }
      }
    }
    EXPECT_EQ(SwitchPorts(fred, top).input_count(), 20);
    for (const Node& node : fred.nodes()) {
      const bool is_switch = node.kind == NodeKind::kSwitch;
      EXPECT_EQ(node.reduces, is_switch && in_network);
      EXPECT_EQ(node.multicasts, is_switch && in_network);
      EXPECT_EQ(node.switch_model, is_switch ? "fred,middle=3" : "");
      EXPECT_EQ(node.latency_ps, 0);
      EXPECT_FALSE(node.forwards);
    }
    for (const Link& link : fred.links()) {
      EXPECT_EQ(link.latency_ps, 20'000);
    }
  }
}

TEST(Fred, TakesOptions) {
  const Topology fred = made(
      "fred:D,npus=18,middle=4,io=7,bandwidth=1TB/s,taper=2,io_bandwidth=10GB/s,latency=10ns,"
      "io_latency=30ns,trunk_latency=40ns,switch_latency=5ns");
  EXPECT_EQ(count_of(fred.nodes()), 18 + 5 + 1 + 7);
  const NodeId top = named(fred, "l2.0");
  const NodeId last = named(fred, "l1.4");
  EXPECT_EQ(between(fred, named(fred, "l1.0"), top), (Links{{2000, 4}}));
  EXPECT_EQ(between(fred, last, top), (Links{{1000, 2}})) << "two NPUs";
  EXPECT_EQ(between(fred, NodeId{17}, last), (Links{{1000, 1}}));
  EXPECT_EQ(between(fred, named(fred, "io6"), last), (Links{{10, 1}}));
  EXPECT_EQ(fred.node(top).switch_model, "fred,middle=4");
  std::map<std::pair<NodeKind, NodeKind>, std::set<int64_t>> latencies_ps;
  for (int32_t link = 0; link < count_of(fred.links()); ++link) {
    const Link& of = fred.link(LinkId{link});
    latencies_ps[{fred.node(of.source).kind, fred.node(of.target).kind}].insert(
        fred.hop_latency_ps(LinkId{link}));
  }
  using enum NodeKind;
  EXPECT_EQ((latencies_ps[{kRank, kSwitch}]), (std::set<int64_t>{10'000}));
  EXPECT_EQ((latencies_ps[{kSwitch, kRank}]), (std::set<int64_t>{15'000}));
  EXPECT_EQ((latencies_ps[{kIo, kSwitch}]), (std::set<int64_t>{30'000}));
  EXPECT_EQ((latencies_ps[{kSwitch, kSwitch}]), (std::set<int64_t>{45'000}));
}

// Trunks carry what all ranks below them send, divided by the taper of each level on the way.
TEST(Fred, GrowsByLevels) {
  struct Case {
    std::string spec;
    std::vector<int32_t> switches;     // of each level
    std::vector<int64_t> trunk_tb;     // per level but the last [TB/s], of its first switch
    std::vector<int32_t> trunk_lanes;  // likewise
  };
  const std::vector<Case> cases = {
      {"fred:D,npus=8,levels=1", {1}, {}, {}},
      {"fred:D,npus=16", {4, 1}, {12}, {4}},
      {"fred:C,npus=64,levels=3", {16, 4, 1}, {12, 48}, {4, 16}},
      {"fred:B,npus=64,levels=3,taper=2", {16, 4, 1}, {6, 12}, {4, 16}},
      {"fred:D,npus=1024,levels=3,radix=8,lanes=8", {128, 16, 1}, {24, 192}, {8, 8}},
      {"fred:D,npus=1024,levels=4,radix=6", {171, 29, 5, 1}, {18, 108, 648}, {6, 36, 216}},
  };
  for (const Case& expected : cases) {
    SCOPED_TRACE(expected.spec);
    const Topology fred = made(expected.spec);
    int32_t switch_count = 0;
    for (int32_t level = 1; level <= count_of(expected.switches); ++level) {
      const std::string first = "l" + std::to_string(level) + ".";
      switch_count += expected.switches[at(level - 1)];
      named(fred, first + std::to_string(expected.switches[at(level - 1)] - 1));
      if (level < count_of(expected.switches)) {
        EXPECT_EQ(between(fred, named(fred, first + "0"),
                          named(fred, "l" + std::to_string(level + 1) + ".0")),
                  (Links{{1000 * expected.trunk_tb[at(level - 1)],
                          expected.trunk_lanes[at(level - 1)]}}));
      }
    }
    EXPECT_EQ(count_of(fred.nodes()), count_of(fred.rank_nodes()) + switch_count + 18);
  }
}

// What is left of a trunk has its part of the bandwidth, and the switches as many ports fewer.
TEST(Fred, LosesLanesAndLinks) {
  const Topology fred = made("fred:D,without_lane=l1.0-l2.0+l1.0-l2.0+l1.4>l2.0");
  const NodeId top = named(fred, "l2.0");
  EXPECT_EQ(between(fred, named(fred, "l1.0"), top), (Links{{6000, 2}}));
  EXPECT_EQ(between(fred, top, named(fred, "l1.0")), (Links{{6000, 2}}));
  EXPECT_EQ(between(fred, named(fred, "l1.4"), top), (Links{{9000, 3}}));
  EXPECT_EQ(between(fred, top, named(fred, "l1.4")), (Links{{12000, 4}}));
  EXPECT_EQ(SwitchPorts(fred, top).input_count(), 17);
  EXPECT_EQ(SwitchPorts(fred, top).output_count(), 18);
  EXPECT_EQ(count_of(made("fred:D,without_link=0-l1.0,without_node=0").rank_nodes()), 19);
}

// What is dead in a switch is part of its model, and of the fingerprint; links stay.
TEST(Fred, SaysWhatOfASwitchIsDead) {
  const Topology fred =
      made("fred:D,without_cell=l1.0:R0+l2.0:2.0/D1+l1.0:1/mux,without_subnetwork=l2.0:1");
  EXPECT_EQ(fred.node(named(fred, "l1.0")).switch_model, "fred,middle=3,without_cell=R0+1/mux");
  EXPECT_EQ(fred.node(named(fred, "l2.0")).switch_model,
            "fred,middle=3,without_cell=2.0/D1,without_subnetwork=1");
  EXPECT_EQ(fred.node(named(fred, "l1.1")).switch_model, "fred,middle=3");
  EXPECT_EQ(fred.links().size(), made("fred:D").links().size());
  EXPECT_NE(fred.fingerprint(), made("fred:D").fingerprint());
  EXPECT_EQ(made("fred:D,without_cell=20:R0").node(named(fred, "l1.0")).switch_model,
            "fred,middle=3,without_cell=R0");
}

// Fifteen leaf chiplets of 12 ports, ten of 11, ten of 10: three and two leaves and two halves in
// each of five planes, of a fifth of every rate.
TEST(Fred, HasPlanesAsBuilt) {
  for (const auto& [variant, trunk] : {std::pair("A", 150), std::pair("D", 1200)}) {
    const Topology plane = made(std::string("fred:") + variant + ",view=plane");
    EXPECT_EQ(count_of(plane.nodes()), 20 + 5 + 2 + 18);
    std::multiset<int32_t> ports;
    for (int32_t node = 0; node < count_of(plane.nodes()); ++node) {
      if (plane.node(NodeId{node}).kind == NodeKind::kSwitch) {
        ports.insert(SwitchPorts(plane, NodeId{node}).input_count());
      }
    }
    EXPECT_EQ(ports, (std::multiset<int32_t>{12, 12, 12, 11, 11, 10, 10}));
    EXPECT_EQ(between(plane, NodeId{0}, named(plane, "l1.0")), (Links{{600, 1}}));
    EXPECT_EQ(plane.link(plane.links_out(named(plane, "io0"))[0]).bandwidth_bytes_per_s,
              25'600'000'000);
    for (const std::string half : {"l2.0", "l2.1"}) {
      EXPECT_EQ(between(plane, named(plane, "l1.4"), named(plane, half)), (Links{{trunk, 2}}));
    }
  }
  // Of an odd number of lanes the first half has one more, and that share of the bandwidth.
  const Topology odd = made("fred:D,view=plane,npus=15,radix=3,bandwidth=5TB/s");
  EXPECT_EQ(between(odd, named(odd, "l1.0"), named(odd, "l2.0")), (Links{{2000, 2}}));
  EXPECT_EQ(between(odd, named(odd, "l1.0"), named(odd, "l2.1")), (Links{{1000, 1}}));
}

TEST(Wafers, HaveTheirBisections) {
  EXPECT_EQ(bisection(made("wafer_mesh:5x4")).bytes_per_s, 3'750 * kGigabyte);
  EXPECT_EQ(bisection(made("fred:C")).bytes_per_s, 30'000 * kGigabyte);
  EXPECT_EQ(bisection(made("fred:D")).bytes_per_s, 30'000 * kGigabyte);
}

TEST(WaferMesh, IsAGridWithIoAtEveryFace) {
  struct Case {
    std::string argument;
    int32_t columns, rows;
  };
  for (const auto& [argument, columns, rows] :
       {Case{"5x4", 5, 4}, Case{"4x5", 4, 5}, Case{"8x8", 8, 8}, Case{"5x1", 5, 1},
        Case{"1x3", 1, 3}, Case{"2x1", 2, 1}}) {
    SCOPED_TRACE(argument);
    const Topology mesh = made("wafer_mesh:" + argument);
    const int32_t ranks = columns * rows;
    EXPECT_EQ(count_of(mesh.rank_nodes()), ranks);
    EXPECT_EQ(count_of(mesh.nodes()), ranks + 2 * (columns + rows));
    ASSERT_EQ(mesh.grid().size(), 2U);
    EXPECT_EQ(mesh.grid()[0], (GridDimension{rows, false}));
    EXPECT_EQ(mesh.grid()[1], (GridDimension{columns, false}));
    EXPECT_TRUE(are_whole_grid(mesh, mesh.rank_nodes()));
    EXPECT_EQ(diameter(mesh).link_count, columns - 1 + rows - 1);
    std::vector<int32_t> io_count(at(ranks));
    for (const Link& link : mesh.links()) {
      EXPECT_EQ(link.latency_ps, 20'000);
      const bool is_io = mesh.node(link.source).kind == NodeKind::kIo ||
                         mesh.node(link.target).kind == NodeKind::kIo;
      EXPECT_EQ(link.bandwidth_bytes_per_s, (is_io ? 128 : 750) * kGigabyte);
      if (mesh.node(link.source).kind == NodeKind::kIo) {
        ++io_count[link.target.index()];
      }
    }
    for (int32_t rank = 0; rank < ranks; ++rank) {
      const int32_t row = rank / columns, column = rank % columns;
      const int32_t faces = (row == 0 ? 1 : 0) + (row == rows - 1 ? 1 : 0) + (column == 0 ? 1 : 0) +
                            (column == columns - 1 ? 1 : 0);
      EXPECT_EQ(io_count[at(rank)], faces);
    }
    // Each side from left to right, or down.
    const auto rank_of = [&](const std::string& io) {
      return mesh.link(mesh.links_out(named(mesh, io))[0]).target.value;
    };
    EXPECT_EQ(rank_of("top" + std::to_string(columns - 1)), columns - 1);
    EXPECT_EQ(rank_of("bottom0"), columns * (rows - 1));
    EXPECT_EQ(rank_of("left" + std::to_string(rows - 1)), columns * (rows - 1));
    EXPECT_EQ(rank_of("right0"), columns - 1);
  }
  EXPECT_TRUE(is_bare_grid(made("wafer_mesh:5x4,io=none")));
}

TEST(WaferMesh, RoutesAlongRowsFirst) {
  const Topology mesh = made("wafer_mesh:5x4");
  Router router(mesh);
  for (const NodeId source : mesh.rank_nodes()) {
    for (const NodeId target : mesh.rank_nodes()) {
      bool is_vertical = false;
      int32_t here = source.value;
      const Result<std::vector<LinkId>> route = router.route(source, target);
      ASSERT_TRUE(route);
      for (const LinkId link : *route) {
        const int32_t next = mesh.link(link).target.value;
        const bool along_column = here / 5 != next / 5;
        EXPECT_TRUE(along_column || !is_vertical) << source.value << " to " << target.value;
        is_vertical = along_column;
        here = next;
      }
      EXPECT_EQ(here, target.value);
    }
  }
}

TEST(SwitchTree, HasAnyFanOuts) {
  const Topology tree = made(
      "switch_tree:3x2x4,switch=fred,middle=2,reduce,multicast,taper=2,io=5,bandwidth=1TB/s,"
      "io_bandwidth=8GB/s,lanes=2");
  EXPECT_EQ(count_of(tree.rank_nodes()), 24);
  EXPECT_EQ(count_of(tree.nodes()), 24 + 6 + 3 + 1 + 5);
  EXPECT_EQ(between(tree, NodeId{23}, named(tree, "l1.5")), (Links{{1000, 1}}));
  EXPECT_EQ(between(tree, named(tree, "l1.5"), named(tree, "l2.2")), (Links{{2000, 2}}));
  EXPECT_EQ(between(tree, named(tree, "l2.2"), named(tree, "l3.0")), (Links{{2000, 2}}));
  EXPECT_EQ(between(tree, named(tree, "io4"), named(tree, "l1.4")), (Links{{8, 1}}));
  EXPECT_EQ(tree.node(named(tree, "l3.0")).switch_model, "fred,middle=2");
  EXPECT_TRUE(tree.node(named(tree, "l1.0")).reduces);
  EXPECT_TRUE(tree.node(named(tree, "l2.0")).multicasts);
  const Topology plain = made("switch_tree:2x2");
  EXPECT_EQ(plain.node(named(plain, "l2.0")).switch_model, "");
  EXPECT_FALSE(plain.node(named(plain, "l2.0")).reduces);
  EXPECT_EQ(between(plain, named(plain, "l1.0"), named(plain, "l2.0")), (Links{{32, 2}}));
  // One switch is the shape `switch`.
  const Topology one = made("switch_tree:8,reduce,multicast");
  EXPECT_EQ(one.fingerprint(), made("switch:8,reduce,multicast").fingerprint());
  // FRED's wafer is such a tree, but for I/O that is shared out unevenly: here too.
  EXPECT_EQ(made("switch_tree:5x4,switch=fred,middle=3,bandwidth=3TB/s,latency=20ns,io=18,"
                 "io_bandwidth=128GB/s,taper=8,reduce,multicast")
                .fingerprint(),
            made("fred:B").fingerprint());
}

TEST(WaferShapes, RefuseWhatTheyCannotBe) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"fred:E", "fred: unknown variant 'E'; known: A, B, C, D"},
      {"fred:d", "fred: unknown variant 'd'; did you mean 'D'? known: A, B, C, D"},
      {"fred:", "fred: needs an argument, as fred:A|B|C|D"},
      {"fred:D,npus=1", "fred: option 'npus': value '1' is outside 2 to 65536"},
      {"fred:D,levels=0", "fred: option 'levels': value '0' is outside 1 to 16"},
      {"fred:D,radix=0", "fred: option 'radix': value '0' is outside 1 to 65536"},
      {"fred:D,middle=1", "fred: option 'middle': value '1' is outside 2 to 2147483647"},
      {"fred:D,lanes=-1", "fred: option 'lanes': value '-1' is outside 0 to 65536"},
      {"fred:D,npus=4",
       "fred: 4 ranks leave one switch below the topmost of 2 levels: take fewer levels"},
      {"fred:D,view=plane,levels=3", "fred: view=plane has two levels, and levels=3 is given"},
      {"fred:D,view=plane,npus=17", "fred: l1.4 has 1 lane up, for 2 topmost switches"},
      {"fred:D,view=plane,lanes=1", "fred: l1.0 has 1 lane up, for 2 topmost switches"},
      {"fred:D,trunk_latency=1",
       "fred: option 'trunk_latency': '1' is not a time: it has no unit, as 150ns or 10us"},
      {"fred:D,without_lane=0-l1.0",
       "fred:D: without_lane: link 0->l1.0 has 1 lane: to take the last one is to take the link"},
      {"fred:D,without_lane=l1.0-l2.0+l1.0-l2.0+l1.0-l2.0+l1.0-l2.0",
       "fred:D: without_lane: link l1.0->l2.0 has 4 lanes: to take the last one is to take the "
       "link"},
      {"fred:D,without_lane=l1.0-l1.1", "fred:D: without_lane: there is no link 'l1.0-l1.1'"},
      {"fred:D,without_cell=R0",
       "fred:D: without_cell: 'R0' does not say of which switch: expected SWITCH:NAME"},
      {"fred:D,without_cell=l1.0:R0+",
       "fred:D: without_cell: '' does not say of which switch: expected SWITCH:NAME"},
      {"fred:D,without_cell=l1.0:",
       "fred:D: without_cell: 'l1.0:' names nothing: expected SWITCH:NAME"},
      {"fred:D,without_subnetwork=l3.0:1",
       "fred:D: without_subnetwork: unknown node 'l3.0'; did you mean 'l1.0'? known: 0, 1, 2, "
       "3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, l1.0, l1.1, l1.2, l1.3, "
       "l1.4, l2.0, io0, io1, io2, io3, io4, io5, io6, io7, io8, io9, io10, io11, io12, io13, "
       "... (44 in all)"},
      {"fred:D,without_subnetwork=3:1",
       "fred:D: without_subnetwork: node '3' is no switch of cells"},
      {"wafer_mesh:5", "wafer_mesh: '5' is not of the form COLUMNSxROWS"},
      {"wafer_mesh:5x4x2", "wafer_mesh: '5x4x2' is not of the form COLUMNSxROWS"},
      {"wafer_mesh:1x1", "wafer_mesh: '1x1' has fewer than 2 ranks"},
      {"wafer_mesh:5x4,io=18", "wafer_mesh: option 'io': unknown value '18'; known: faces, none"},
      {"switch_tree:5x0", "switch_tree: dimension '0' is outside 1 to 65536"},
      {"switch_tree:1", "switch_tree: '1' has fewer than 2 ranks"},
      {"switch_tree:1x4",
       "switch_tree: 4 ranks leave one switch below the topmost of 2 levels: take fewer levels"},
      {"switch_tree:4x4,middle=3",
       "switch_tree: option 'middle': 3 is of no switch: name one that takes it, as switch=fred"},
      {"switch_tree:4x4,taper=0", "switch_tree: option 'taper': value '0' is outside 1 to 65536"},
  };
  for (const auto& [spec, message] : cases) {
    const Result<Topology> topology = parse_topology(spec);
    ASSERT_FALSE(topology) << spec;
    EXPECT_EQ(topology.error().message, message);
  }
}

}  // namespace
}  // namespace pleach
