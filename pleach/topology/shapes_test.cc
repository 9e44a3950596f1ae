#include "pleach/topology/shapes.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/topology/metrics.h"
#include "pleach/topology/routes.h"

namespace pleach {
namespace {

TEST(Shapes, HaveTheirSizes) {
  struct Case {
    std::string spec;
    std::size_t node_count;
    std::size_t link_count;
    std::size_t least_degree;
    std::size_t most_degree;
    int32_t diameter;
    int64_t bisection_links;  // one way
  };
  const std::vector<Case> cases = {
      {"ring:2", 2, 2, 1, 1, 1, 1},
      {"ring:3", 3, 6, 2, 2, 1, 2},
      {"ring:8", 8, 16, 2, 2, 4, 2},
      {"torus:2x2", 4, 8, 2, 2, 2, 2},
      {"torus:4x1", 4, 8, 2, 2, 2, 2},
      {"torus:4x2", 8, 24, 3, 3, 3, 4},
      {"torus:4x4", 16, 64, 4, 4, 4, 8},
      {"torus:8x8", 64, 256, 4, 4, 8, 16},
      {"torus:4x4x4", 64, 384, 6, 6, 6, 32},
      {"torus:3x5", 15, 60, 4, 4, 3, 8},
      {"mesh:4", 4, 6, 1, 2, 3, 1},
      {"mesh:4x4", 16, 48, 2, 4, 6, 4},
      {"mesh:8x8", 64, 224, 2, 4, 14, 8},
      {"mesh:2x3x4", 24, 92, 3, 5, 6, 6},
      {"fully_connected:8", 8, 56, 7, 7, 1, 16},
      {"switch:8", 9, 16, 1, 8, 2, 4},
      {"torus:4x4,without_link=5-6", 16, 62, 3, 4, 4, 8},
      {"torus:4x4,without_link=5>6", 16, 63, 3, 4, 4, 8},
      {"torus:4x4,without_node=3", 15, 56, 3, 4, 4, 7},
  };
  for (const Case& expected : cases) {
    const Result<Topology> topology = parse_topology(expected.spec);
    ASSERT_TRUE(topology) << topology.error().message;
    EXPECT_EQ(topology->name(), expected.spec);
    EXPECT_EQ(topology->nodes().size(), expected.node_count) << expected.spec;
    EXPECT_EQ(topology->links().size(), expected.link_count) << expected.spec;
    std::set<std::size_t> degrees;
    for (std::size_t node = 0; node < topology->nodes().size(); ++node) {
      degrees.insert(topology->links_out(NodeId{static_cast<int32_t>(node)}).size());
    }
    EXPECT_EQ(*degrees.begin(), expected.least_degree) << expected.spec;
    EXPECT_EQ(*degrees.rbegin(), expected.most_degree) << expected.spec;
    EXPECT_EQ(diameter(*topology).link_count, expected.diameter) << expected.spec;
    EXPECT_EQ(bisection(*topology).bytes_per_s, expected.bisection_links * 16'000'000'000)
        << expected.spec;
    for (const Link& link : topology->links()) {
      EXPECT_EQ(link.bandwidth_bytes_per_s, 16'000'000'000);
      EXPECT_EQ(link.latency_ps, 150'000);
    }
  }
}

// Every shape that has switches takes their latency, of all of them.
TEST(Shapes, SwitchesTakeTheirLatency) {
  for (const std::string spec :
       {"switch:4", "fat_tree:16,radix=4", "leaf_spine:2x4", "bigraph:2x4", "twin_switch:4",
        "dragonfly:1x2x1", "dgx_a100:2", "dgx_h100:2,fabric=rails", "dgx_b200:1"}) {
    const Result<Topology> topology = parse_topology(spec + ",switch_latency=20ns");
    ASSERT_TRUE(topology) << topology.error().message;
    for (const Node& node : topology->nodes()) {
      EXPECT_EQ(node.latency_ps, node.kind == NodeKind::kSwitch ? 20'000 : 0) << spec;
    }
  }
  EXPECT_FALSE(parse_topology("torus:4x4,switch_latency=20ns"));
}

struct Form {
  std::string spec;
  int64_t ranks;
  int64_t switches;
  int64_t cables;
  int32_t diameter;
  int64_t bisection_bytes_per_s;
};

void expect_forms(const std::vector<Form>& forms) {
  for (const Form& form : forms) {
    SCOPED_TRACE(form.spec);
    const Result<Topology> topology = parse_topology(form.spec);
    ASSERT_TRUE(topology) << topology.error().message;
    EXPECT_EQ(topology->name(), form.spec);
    EXPECT_EQ(count_of(topology->rank_nodes()), form.ranks);
    EXPECT_EQ(count_of(topology->nodes()), form.ranks + form.switches);
    EXPECT_EQ(count_of(topology->links()), 2 * form.cables);
    EXPECT_EQ(diameter(*topology).link_count, form.diameter);
    EXPECT_EQ(bisection(*topology).bytes_per_s, form.bisection_bytes_per_s);
  }
}

constexpr int64_t kGigabyte = 1'000'000'000;
constexpr int64_t kCable = 16 * kGigabyte;     // per second, the default
constexpr int64_t kNdrCable = 50 * kGigabyte;  // the default of what people buy

// n ranks, log2 n cables each; a half is a face of the cube.
TEST(Shapes, HypercubesHaveTheirClosedForms) {
  std::vector<Form> forms;
  for (int32_t bits = 1; bits <= 8; ++bits) {
    const int64_t ranks = int64_t{1} << bits;
    forms.push_back({"hypercube:" + std::to_string(ranks), ranks, 0, ranks / 2 * bits, bits,
                     ranks / 2 * kCable});
  }
  expect_forms(forms);
  const Topology cube = *parse_topology("hypercube:32");
  for (const Link& link : cube.links()) {
    EXPECT_EQ(std::popcount(static_cast<uint32_t>(link.source.value ^ link.target.value)), 1);
  }
}

// Every level has as many cables as there are ranks, and half of them cross the middle.
TEST(Shapes, FatTreesHaveTheirClosedForms) {
  const auto form = [](int64_t ranks, int64_t radix, int64_t levels, const std::string& more) {
    const int64_t top = levels == 2 ? radix : radix * radix;
    return Form{"fat_tree:" + std::to_string(ranks) + more, ranks,
                (levels - 1) * ranks / radix + top,         levels * ranks,
                static_cast<int32_t>(2 * levels),           ranks / 2 * kNdrCable};
  };
  expect_forms({form(64, 8, 2, ""), form(128, 8, 2, ""), form(16, 8, 2, ""), form(1024, 8, 3, ""),
                form(16, 4, 2, ",radix=4"), form(16, 2, 3, ",radix=2"),
                form(64, 4, 3, ",levels=3,radix=4"), form(128, 4, 3, ",radix=4")});
  // Two levels: one cable between every leaf and every spine.
  const Topology two = *parse_topology("fat_tree:64");
  std::set<std::pair<int32_t, int32_t>> pairs;
  for (const Link& link : two.links()) {
    EXPECT_TRUE(pairs.emplace(link.source.value, link.target.value).second);
  }
  for (int32_t leaf = 64; leaf < 72; ++leaf) {
    for (int32_t spine = 72; spine < 80; ++spine) {
      EXPECT_TRUE(pairs.contains({leaf, spine}));
    }
  }
  // Three: 16 ports at every switch, and radix³ ways between ranks far apart.
  const Topology three = *parse_topology("fat_tree:1024");
  for (int32_t node = 1024; node < count_of(three.nodes()); ++node) {
    EXPECT_EQ(three.links_out(NodeId{node}).size(), 16U);
  }
}

// Ranks leave a leaf at 1/oversubscription of what they have, on each of the rails.
TEST(Shapes, LeafSpinesHaveTheirClosedForms) {
  const auto form = [](int64_t leaves, int64_t hosts, int64_t spines, int64_t over, int64_t rails,
                       const std::string& more) {
    const int64_t ranks = leaves * hosts;
    return Form{"leaf_spine:" + std::to_string(leaves) + "x" + std::to_string(hosts) + more,
                ranks,
                rails * (leaves + spines),
                rails * (ranks + leaves * spines),
                4,
                rails * ranks / 2 * kNdrCable / over};
  };
  expect_forms({form(2, 4, 4, 1, 1, ""), form(2, 4, 4, 1, 1, ",spines=4"),
                form(4, 8, 2, 1, 1, ",spines=2"), form(4, 8, 8, 4, 1, ",oversubscription=4"),
                form(2, 6, 3, 2, 1, ",oversubscription=2,spines=3"),
                form(2, 4, 4, 1, 2, ",rails=2"),
                form(8, 4, 2, 2, 4, ",oversubscription=2,rails=4,spines=2")});
  EXPECT_EQ(parse_topology("leaf_spine:2x4,rails=2")->node(NodeId{8}).name, "rail0.leaf0");
}

// Half of the lower and half of the upper switches on either side: N²/8 cables cross, unless
// cutting off ranks is cheaper.
TEST(Shapes, BigraphsHaveTheirClosedForms) {
  const auto form = [](int64_t each, int64_t switches, int32_t diameter) {
    const int64_t half = switches / 2;
    return Form{"bigraph:" + std::to_string(each) + "x" + std::to_string(switches),
                each * switches,
                switches,
                each * switches + half * half,
                diameter,
                half * half / 2 * kCable};
  };
  expect_forms({form(4, 8, 4), form(4, 16, 4), form(8, 4, 4), form(2, 8, 4)});
  expect_forms({{"bigraph:4x2", 8, 2, 9, 3, kCable}});
  const Topology topology = *parse_topology("bigraph:4x8");
  Router router(topology);
  EXPECT_EQ(router.distance(NodeId{0}, NodeId{16}), 3) << "of different halves";
  EXPECT_EQ(router.distance(NodeId{0}, NodeId{12}), 4) << "of one";
}

TEST(Shapes, TwinSwitchesHaveTheirClosedForms) {
  expect_forms(
      {{"twin_switch:16", 16, 2, 24, 3, 8 * kCable}, {"twin_switch:2", 2, 2, 3, 3, kCable}});
}

// All groups joined: A·H + 1 of them, each pair by one cable.
TEST(Shapes, DragonfliesHaveTheirClosedForms) {
  const auto form = [](int64_t p, int64_t a, int64_t h, int32_t diameter, int64_t crossing) {
    const int64_t groups = a * h + 1, routers = groups * a;
    return Form{
        "dragonfly:" + std::to_string(p) + "x" + std::to_string(a) + "x" + std::to_string(h),
        p * routers,
        routers,
        p * routers + groups * a * (a - 1) / 2 + groups * (groups - 1) / 2,
        diameter,
        crossing * kCable};
  };
  // With groups that halve evenly, (groups/2)² cables cross between them, or those of
  // half the ranks where these are fewer.
  expect_forms(
      {form(2, 3, 1, 5, 4), form(1, 1, 3, 3, 2), form(4, 3, 3, 5, 25), form(1, 1, 1, 3, 1)});
  // A router has P ranks, the others of its group, and H cables to other groups.
  const Topology topology = *parse_topology("dragonfly:2x4x2");
  for (int32_t node = 72; node < count_of(topology.nodes()); ++node) {
    EXPECT_EQ(topology.links_out(NodeId{node}).size(), 2U + 3 + 2);
  }
}

// The network's half is what crosses between halves of the boxes.
TEST(Shapes, BoxesHaveTheirClosedForms) {
  // 26 bytes before 4096 of InfiniBand, 16 before 256 of NVLink: a card's payload stays.
  const auto card = [](int64_t bytes_per_s) {
    return static_cast<int64_t>(
        std::llround(static_cast<double>(bytes_per_s) * (272.0 / 256) * (4096.0 / 4122)));
  };
  const int64_t hdr = card(25 * kGigabyte), ndr = card(50 * kGigabyte);
  expect_forms({{"dgx_a100:1", 8, 1, 8, 2, 4 * 300 * kGigabyte},
                {"dgx_h100:2", 16, 3, 32, 2, 8 * ndr},
                {"dgx_b200:4", 32, 5, 64, 2, 16 * ndr},
                {"dgx_a100:4,nics=2", 32, 5, 96, 2, 16 * 2 * hdr},
                {"dgx_h100:4,fabric=rails", 32, 16, 96, 4, 16 * ndr},
                {"dgx_h100:2,nic_bandwidth=50GB/s", 16, 3, 32, 2, 8 * 50 * kGigabyte},
                {"dgx_h100:2,header=26,packet=4KiB", 16, 3, 32, 2, 8 * 50 * kGigabyte}});
  const Topology boxes = *parse_topology("dgx_h100:2,sharp");
  EXPECT_EQ(boxes.node(NodeId{9}).name, "box1.gpu1");
  EXPECT_EQ(boxes.node(NodeId{16}).name, "box0.nvswitch");
  EXPECT_TRUE(boxes.node(NodeId{16}).reduces);
  EXPECT_FALSE(boxes.node(NodeId{18}).reduces);  // the network
  EXPECT_EQ(boxes.link(LinkId{0}).bandwidth_bytes_per_s, 450 * kGigabyte);
  EXPECT_EQ(boxes.link(LinkId{0}).latency_ps, 300'000);
  EXPECT_EQ(boxes.given_class(LinkId{0}), "nvlink");
  EXPECT_EQ(boxes.given_class(LinkId{63}), "nic");
  EXPECT_EQ(boxes.link(LinkId{63}).latency_ps, 1'350'000);
}

TEST(Shapes, OrderLinksNorthSouthWestEast) {
  const auto targets = [](const std::string& spec, int32_t node) {
    const Result<Topology> topology = parse_topology(spec);
    EXPECT_TRUE(topology);
    std::vector<int32_t> result;
    for (const LinkId link : topology->links_out(NodeId{node})) {
      result.push_back(topology->link(link).target.value);
    }
    return result;
  };
  EXPECT_EQ(targets("torus:4x4", 5), (std::vector<int32_t>{1, 9, 4, 6}));
  EXPECT_EQ(targets("torus:4x4", 0), (std::vector<int32_t>{12, 4, 3, 1}));
  EXPECT_EQ(targets("mesh:4x4", 0), (std::vector<int32_t>{4, 1}));
  EXPECT_EQ(targets("mesh:2x3x4", 23), (std::vector<int32_t>{11, 19, 22}));
  EXPECT_EQ(targets("torus:2x4", 0), (std::vector<int32_t>{4, 3, 1}));
  EXPECT_EQ(targets("ring:5", 0), (std::vector<int32_t>{4, 1}));
  EXPECT_EQ(targets("switch:3", 3), (std::vector<int32_t>{0, 1, 2}));
}

TEST(Shapes, SetAttributes) {
  const Result<Topology> topology = parse_topology(
      "switch:4,reduce,bandwidth=100Gb/s,latency=2us,overhead=1us,header=16,packet=64KiB");
  ASSERT_TRUE(topology) << topology.error().message;
  EXPECT_EQ(topology->link(LinkId{0}).bandwidth_bytes_per_s, 12'500'000'000);
  EXPECT_EQ(topology->link(LinkId{0}).latency_ps, 2'000'000);
  EXPECT_EQ(topology->node(NodeId{0}).overhead_ps, 1'000'000);
  EXPECT_EQ(topology->framing(), (Framing{16, 65'536}));
  EXPECT_EQ(topology->node(NodeId{4}).kind, NodeKind::kSwitch);
  EXPECT_TRUE(topology->node(NodeId{4}).reduces);
  EXPECT_FALSE(topology->node(NodeId{4}).multicasts);
  EXPECT_FALSE(topology->node(NodeId{0}).forwards);
  EXPECT_TRUE(parse_topology("mesh:2x2")->node(NodeId{0}).forwards);
  EXPECT_FALSE(parse_topology("fully_connected:4")->node(NodeId{0}).forwards);
  EXPECT_EQ(parse_topology("torus:4x2")->grid().size(), 2U);
  EXPECT_TRUE(parse_topology("torus:4x2")->grid()[1].wraps);
  EXPECT_FALSE(parse_topology("mesh:4x2")->grid()[0].wraps);
  EXPECT_TRUE(parse_topology("fully_connected:4")->grid().empty());
}

TEST(Shapes, SpreadLatenciesBySeed) {
  const auto latencies = [](const std::string& options) {
    const Result<Topology> topology = parse_topology("ring:512,latency=100ns" + options);
    EXPECT_TRUE(topology);
    EXPECT_EQ(topology->grid().size(), 1U);
    std::vector<int64_t> result;
    for (const Link& link : topology->links()) {
      result.push_back(link.latency_ps);
    }
    return result;
  };
  const std::vector<int64_t> spread = latencies(",latency_spread=20%");
  EXPECT_EQ(spread, latencies(",latency_spread=20,seed=0"));
  EXPECT_NE(spread, latencies(",latency_spread=20%,seed=1"));
  const auto [least, most] = std::minmax_element(spread.begin(), spread.end());
  EXPECT_GE(*least, 80'000);
  EXPECT_LT(*least, 81'000);
  EXPECT_LE(*most, 120'000);
  EXPECT_GT(*most, 119'000);
}

TEST(Shapes, NameWhatIsRemovedAsInTheWhole) {
  const Result<Topology> topology =
      parse_topology("torus:4x4,without_node=3+7,without_link=5-6+9>10");
  ASSERT_TRUE(topology) << topology.error().message;
  EXPECT_EQ(topology->nodes().size(), 14U);
  EXPECT_EQ(topology->links().size(), 64U - 14 - 3);
  EXPECT_EQ(topology->node(NodeId{3}).name, "4");
  // The switch goes by its name or its number, the last.
  EXPECT_EQ(parse_topology("switch:4,without_link=switch>0").error().message,
            "switch:4: rank '1' cannot reach rank '0': no route between them");
  EXPECT_EQ(parse_topology("switch:4,without_link=4>0").error().message,
            "switch:4: rank '1' cannot reach rank '0': no route between them");
  // A node that only a lost node needs may go with it.
  EXPECT_TRUE(parse_topology("mesh:4,without_link=0-1,without_node=0"));
}

TEST(Shapes, RefuseBadSpecs) {
  const std::string shapes =
      "known: ring, fully_connected, switch, mesh, torus, hypercube, fat_tree, leaf_spine, "
      "bigraph, twin_switch, "
      "dragonfly, dgx_a100, dgx_h100, dgx_b200, wafer_mesh, fred, switch_tree";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "'' has no name: expected NAME[:ARGUMENT][,key=value...]"},
      {"rnig:8", "unknown topology 'rnig'; did you mean 'ring'? " + shapes},
      {"\x01\xff", "unknown topology '\\x01\\xff'; " + shapes},
      {"ring", "ring: needs an argument, as ring:N"},
      {"mesh:", "mesh: needs an argument, as mesh:AxBx..."},
      {"ring:1", "ring: rank count '1' is outside 2 to 65536"},
      {"ring:0", "ring: rank count '0' is outside 2 to 65536"},
      {"ring:-3", "ring: rank count '-3' is outside 2 to 65536"},
      {"ring:1000000000", "ring: rank count '1000000000' is outside 2 to 65536"},
      {"ring:4x4", "ring: rank count '4x4' is not a whole number"},
      {"fully_connected:5000", "fully_connected: rank count '5000' is outside 2 to 4096"},
      {"switch:1", "switch: rank count '1' is outside 2 to 65536"},
      {"mesh:0x4", "mesh: dimension '0' is outside 1 to 65536"},
      {"mesh:4x", "mesh: dimension '' is not a whole number"},
      {"mesh:4X4", "mesh: dimension '4X4' is not a whole number"},
      {"mesh:1x1", "mesh: '1x1' has fewer than 2 ranks"},
      {"torus:99999x99999", "torus: dimension '99999' is outside 1 to 65536"},
      {"torus:60000x60000", "torus: '60000x60000' has more than 65536 ranks"},
      {"torus:1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x2",
       "torus: '1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x2' has more than 16 dimensions"},
      {"hypercube:12", "hypercube: rank count '12' is no power of two"},
      {"fat_tree:60,radix=8",
       "fat_tree: 60 ranks on 2 levels of radix 8: it takes a multiple of 8, from 16 to 128"},
      {"fat_tree:8,radix=8",
       "fat_tree: 8 ranks on 2 levels of radix 8: it takes a multiple of 8, from 16 to 128"},
      {"fat_tree:1000,radix=8",
       "fat_tree: 1000 ranks on 3 levels of radix 8: it takes a multiple of 64, from 128 to 1024"},
      {"fat_tree:256,radix=8,levels=2",
       "fat_tree: 256 ranks on 2 levels of radix 8: it takes a multiple of 8, from 16 to 128"},
      {"fat_tree:64,radix=0", "fat_tree: option 'radix': value '0' is outside 1 to 1024"},
      {"leaf_spine:8", "leaf_spine: '8' is not of the form LxH"},
      {"leaf_spine:2x4x4", "leaf_spine: '2x4x4' is not of the form LxH"},
      {"leaf_spine:256x256,rails=64,spines=65536",
       "leaf_spine: 1077936128 cables: at most 8388608"},
      {"leaf_spine:2x4,bandwidth=1B/s,oversubscription=9",
       "link leaf0->spine0 has bandwidth 0 B/s: it must be positive"},
      {"bigraph:4x7", "bigraph: 7 switches: it takes an even number of at most 4096"},
      {"bigraph:4", "bigraph: '4' is not of the form MxN"},
      {"twin_switch:7", "twin_switch: 7 ranks: it takes an even number"},
      {"dragonfly:4x4", "dragonfly: '4x4' is not of the form PxAxH"},
      {"dragonfly:16x32x16",
       "dragonfly: 16x32x16 has 513 groups of 512 ranks: at most 65536 ranks"},
      {"dgx_h100:0", "dgx_h100: box count '0' is outside 1 to 4096"},
      {"dgx_a100:2,sharp",
       "dgx_a100: unknown option 'sharp'; known: bandwidth, latency, overhead, header, packet, "
       "link, "
       "routing, latency_spread, seed, without_link, without_lane, without_node, without_cell, "
       "without_subnetwork, switch_latency, "
       "nic_link, "
       "nic_bandwidth, "
       "nic_latency, nics, fabric, spines"},
      {"dgx_a100:2,nic_link=ib",
       "dgx_a100: unknown kind of link 'ib'; known: nvlink3, nvlink4, nvlink5, ib_hdr, ib_ndr, "
       "ib_xdr, eth_10, eth_25, eth_100, eth_400, pcie4, pcie5, wafer"},
      {"dgx_a100:2,link=",
       "dgx_a100: unknown kind of link ''; known: nvlink3, nvlink4, nvlink5, ib_hdr, ib_ndr, "
       "ib_xdr, eth_10, eth_25, eth_100, eth_400, pcie4, pcie5, wafer"},
      {"dgx_a100:2,header=1TB", "header of 1000000000000 bytes is outside 0 to 1048576"},
      {"dgx_a100:2,packet=none",
       "dgx_a100: option 'packet': 'none' is not a size: expected a number with a unit, as 64MiB, "
       "1GB or 4096"},
      {"torus:4x4,bandwith=1GB/s",
       "torus: unknown option 'bandwith'; did you mean 'bandwidth'? known: bandwidth, latency, "
       "overhead, header, packet, link, routing, latency_spread, seed, without_link, without_lane, "
       "without_node, without_cell, without_subnetwork"},
      {"torus:4x4,routing=spraed",
       "torus: option 'routing': unknown value 'spraed'; did you mean 'spread'? known: shortest, "
       "spread, ecmp, dmodk"},
      {"torus:4x4,bandwidth=0GB/s",
       "torus: option 'bandwidth': '0GB/s' is not a bandwidth: it must be at least 1 B/s"},
      {"torus:4x4,latency=2000s",
       "link 0->12 has latency 2000000000000000 ps: outside 0 to 1000 s"},
      {"torus:4x4,packet=0", "packet of 0 bytes is outside 1 to 1073741824"},
      {"torus:4x4,header=2MiB", "header of 2097152 bytes is outside 0 to 1048576"},
      {"torus:4x4,latency_spread=150%",
       "torus:4x4: latency_spread in percent '150' is outside 0 to 100"},
      {"torus:4x4,latency_spread=%",
       "torus:4x4: latency_spread in percent '' is not a whole number"},
      {"torus:4x4,seed=-1", "torus: option 'seed': value '-1' is outside 0 to 9223372036854775807"},
      {"torus:4x4,without_link=5",
       "torus:4x4: without_link: '5' is no link: expected SOURCE-TARGET or SOURCE>TARGET"},
      {"torus:4x4,without_link=5-7", "torus:4x4: without_link: there is no link '5-7'"},
      {"torus:4x4,without_link=5>5", "torus:4x4: without_link: there is no link '5>5'"},
      {"torus:4x4,without_link=5-6+",
       "torus:4x4: without_link: '' is no link: expected SOURCE-TARGET or SOURCE>TARGET"},
      {"torus:2x2,without_link=0-4",
       "torus:2x2: without_link: unknown node '4'; known: 0, 1, 2, 3"},
      {"torus:2x2,without_node=9", "torus:2x2: without_node: unknown node '9'; known: 0, 1, 2, 3"},
      {"torus:2x2,without_node=0+1+2+3",
       "torus:2x2: topology 'torus:2x2,without_node=0+1+2+3' "
       "has no rank node"},
      {"ring:4,without_node=0+2", "ring:4: rank '1' cannot reach rank '3': no route between them"},
      {"switch:4,reduce=maybe",
       "switch: option 'reduce': unknown value 'maybe'; known: true, false"},
      {"missing.toml", "cannot read 'missing.toml': No such file or directory"},
      {"/", "cannot read '/': it is a directory"},
      {"missing.toml,bandwidth=1GB/s",
       "missing.toml: unknown option 'bandwidth'; known: routing, latency_spread, seed, "
       "without_link, without_lane, without_node, without_cell, without_subnetwork"},
  };
  for (const auto& [spec, error] : cases) {
    const Result<Topology> topology = parse_topology(spec);
    ASSERT_FALSE(topology) << spec;
    EXPECT_EQ(topology.error().message, error);
  }
}

TEST(Shapes, AnySpecGivesATopologyOrOneLine) {
  constexpr uint64_t kSeed = 5;
  Rng rng(kSeed);
  const std::vector<std::string> starts = {"ring:8",
                                           "torus:4x4,without_link=5-6+9>10",
                                           "switch:4,reduce",
                                           "mesh:2x3x2,latency=1ns",
                                           "mesh:2x2,x",
                                           "fully_connected:4,without_node=3",
                                           "fat_tree:8,radix=2",
                                           "leaf_spine:2x4,spines=4",
                                           "dragonfly:2x2x1",
                                           "dgx_h100:2,fabric=rails"};
  const std::string letters = std::string("0123456789x:,=-+>.%abrGs/\xff\n ") + '\0';
  int refused = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::string spec = starts[rng.below(starts.size())];
    for (uint64_t change = 0; change <= rng.below(3); ++change) {
      const std::size_t at = rng.below(spec.size());
      switch (rng.below(3)) {
        case 0:
          spec[at] = letters[rng.below(letters.size())];
          break;
        case 1:
          spec.erase(at, 1);
          break;
        default:
          spec.insert(at, 1, letters[rng.below(letters.size())]);
      }
    }
    const Result<Topology> topology = parse_topology(spec);
    if (!topology) {
      ++refused;
      EXPECT_EQ(topology.error().message.find('\n'), std::string::npos)
          << "seed " << kSeed << ", trial " << trial;
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 2950);
}

TEST(Shapes, TablesNameEachShapeOnce) {
  std::set<std::string> names;
  for (const Shape* shape : shapes()) {
    EXPECT_TRUE(names.insert(shape->name).second) << shape->name;
    EXPECT_FALSE(shape->summary.empty());
    EXPECT_FALSE(shape->argument.empty());
    EXPECT_TRUE(Options::create(shape_options(*shape), {}, shape->name));
  }
  EXPECT_GE(names.size(), 13U);
}

}  // namespace
}  // namespace pleach
