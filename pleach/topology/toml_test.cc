#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include "pleach/base/rng.h"
#include "pleach/base/text.h"
#include "pleach/topology/link_classes.h"
#include "pleach/topology/metrics.h"
#include "pleach/topology/shapes.h"

namespace pleach {
namespace {

constexpr const char* kValid = R"(name = "two"
[defaults]
bandwidth = "10GB/s"
latency = "1us"
overhead = "20ns"

[framing]
header = 16
packet = "4KiB"

[[node]]
name = "a"

[[node]]
name = "b-1"
overhead = "0"
forwards = true

[[node]]
name = "s"
kind = "switch"
reduce = true
latency = "30ns"

[[cable]]
source = "a"
target = "s"
lanes = 4

[[cable]]
source = "s"
target = "b-1"
bandwidth = "100Gb/s"

[[link]]
source = "a"
target = "b-1"
latency = "3us"
)";

TEST(TopologyFile, SaysEverything) {
  const Result<Topology> topology = parse_topology_toml(kValid, "dir/x.toml");
  ASSERT_TRUE(topology) << topology.error().message;
  EXPECT_EQ(topology->name(), "two");
  ASSERT_EQ(topology->nodes().size(), 3U);
  EXPECT_EQ(topology->framing(), (Framing{16, 4096}));
  EXPECT_EQ(topology->node(NodeId{0}).overhead_ps, 20'000);
  EXPECT_EQ(topology->node(NodeId{1}).overhead_ps, 0);
  EXPECT_TRUE(topology->node(NodeId{1}).forwards);
  EXPECT_EQ(topology->node(NodeId{2}).kind, NodeKind::kSwitch);
  EXPECT_TRUE(topology->node(NodeId{2}).reduces);
  EXPECT_FALSE(topology->node(NodeId{2}).multicasts);
  EXPECT_EQ(topology->node(NodeId{2}).overhead_ps, 0);  // overhead is of ranks
  EXPECT_EQ(topology->node(NodeId{2}).latency_ps, 30'000);
  ASSERT_EQ(topology->links().size(), 5U);
  EXPECT_EQ(topology->link(LinkId{1}).source, NodeId{2});  // the cable's way back
  EXPECT_EQ(topology->link(LinkId{0}).lanes, 4);
  EXPECT_EQ(topology->link(LinkId{1}).lanes, 4);
  EXPECT_EQ(topology->link(LinkId{2}).lanes, 1);
  EXPECT_EQ(topology->link(LinkId{1}).bandwidth_bytes_per_s, 10'000'000'000);
  EXPECT_EQ(topology->link(LinkId{3}).bandwidth_bytes_per_s, 12'500'000'000);
  EXPECT_EQ(topology->link(LinkId{3}).latency_ps, 1'000'000);
  EXPECT_EQ(topology->link(LinkId{4}).latency_ps, 3'000'000);
}

TEST(TopologyFile, StartsFromAShape) {
  const Result<Topology> topology = parse_topology_toml(R"(
    shape = "torus:4x4,latency=100ns"
    [defaults]
    bandwidth = "10GB/s"
    latency = "9us"
    [framing]
    header = 8
    [[cable]]
    source = 5
    target = 6
    bandwidth = "1GB/s"
    class = "slow"
    [[link]]
    source = "0"
    target = "1"
    latency = "7ns"
  )",
                                                        "slow.toml");
  ASSERT_TRUE(topology) << topology.error().message;
  EXPECT_EQ(topology->name(), "slow");  // the file's
  EXPECT_EQ(topology->links().size(), 64U);
  EXPECT_EQ(topology->grid().size(), 2U);  // other attributes leave it a grid
  EXPECT_EQ(topology->framing().header_bytes, 8);
  EXPECT_EQ(link_classes(*topology), (std::vector<std::string>{"rank-rank", "slow"}));
  EXPECT_EQ(links_of_class(*topology, "slow")->size(), 2U);
  for (const Link& link : topology->links()) {
    const auto is = [&](int32_t source, int32_t target) {
      return link.source.value == source && link.target.value == target;
    };
    EXPECT_EQ(link.bandwidth_bytes_per_s, is(5, 6) || is(6, 5) ? 1'000'000'000 : 10'000'000'000);
    EXPECT_EQ(link.latency_ps, is(0, 1) ? 7'000 : 100'000);
  }
  const Result<Topology> chord = parse_topology_toml(
      "shape = 'ring:6'\n[[cable]]\nsource = 0\ntarget = 3\nbandwidth = '1GB/s'\n", "x.toml");
  ASSERT_TRUE(chord);
  EXPECT_EQ(chord->links().size(), 14U);
  EXPECT_TRUE(chord->grid().empty());
}

TEST(TopologyFile, SaysHowTrafficIsRouted) {
  const std::string one_rank = "node = [{name = 'a'}]\n";
  const auto routing = [](const std::string& text) {
    const Result<Topology> topology = parse_topology_toml(text, "x.toml");
    EXPECT_TRUE(topology) << topology.error().message;
    return topology->routing();
  };
  EXPECT_EQ(routing(one_rank), Routing{});
  EXPECT_EQ(routing("routing = 'shortest'\n" + one_rank), Routing{});
  EXPECT_EQ(routing("routing = 'spread'\n" + one_rank), (Routing{RoutingKind::kSpread, 0}));
  EXPECT_EQ(routing("routing = 'ecmp'\n" + one_rank), (Routing{RoutingKind::kEcmp, 0}));
  EXPECT_EQ(routing("routing = 'ecmp'\nseed = 7\n" + one_rank), (Routing{RoutingKind::kEcmp, 7}));
  // A shape's own, unless the file says otherwise.
  const std::string shape = "shape = 'torus:4x4,routing=ecmp,seed=3'\n";
  EXPECT_EQ(routing(shape), (Routing{RoutingKind::kEcmp, 3}));
  EXPECT_EQ(routing(shape + "seed = 4"), (Routing{RoutingKind::kEcmp, 4}));
  EXPECT_EQ(routing(shape + "routing = 'spread'"), (Routing{RoutingKind::kSpread, 0}));
}

TEST(TopologyFile, RepeatsNodesAndLinks) {
  const Result<Topology> topology = parse_topology_toml(R"(
    [[node]]
    name = "z{box}.gpu{a}"  # the first in the name varies slowest, whatever it is called
    count = { a = 3, box = 2 }
    [[node]]
    name = "switch{box}"
    count = { box = 2 }
    kind = "switch"
    [[node]]
    name = "{literal}"
    [[cable]]
    source = "z{box}.gpu{a}"
    target = "switch{box}"
    count = { box = 2, a = 3 }
    [[link]]
    source = "switch0"
    target = "switch{i}"
    count = { i = 1 }
  )",
                                                        "x.toml");
  ASSERT_FALSE(topology);
  EXPECT_EQ(topology.error().message, "x.toml:15: link switch0->switch0 is a self-loop");
  const Result<Topology> built = parse_topology_toml(R"(
    node = [{ name = "z{box}.gpu{a}", count = { a = 3, box = 2 } },
            { name = "switch{i}", count = { i = 2 }, kind = "switch" },
            { name = "{literal}", kind = "switch" }]
    cable = [{ source = "z{box}.gpu{a}", target = "switch{box}", count = { box = 2, a = 3 } },
             { source = "{literal}", target = "switch{k}", count = { k = 2 }, latency = "1us" }]
  )",
                                                     "x.toml");
  ASSERT_TRUE(built) << built.error().message;
  std::vector<std::string> names;
  for (const Node& node : built->nodes()) {
    names.push_back(node.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"z0.gpu0", "z0.gpu1", "z0.gpu2", "z1.gpu0", "z1.gpu1",
                                             "z1.gpu2", "switch0", "switch1", "{literal}"}));
  ASSERT_EQ(built->links().size(), 16U);
  for (int32_t cable = 0; cable < 6; ++cable) {
    const Link& link = built->link(LinkId{2 * cable});
    EXPECT_EQ(link.source.value, cable);
    EXPECT_EQ(link.target.value, 6 + cable / 3);
  }
  EXPECT_EQ(built->link(LinkId{15}).source, NodeId{7});
  EXPECT_EQ(built->link(LinkId{15}).latency_ps, 1'000'000);
}

struct BadFile {
  std::string text;
  std::string error;
};

void expect_errors(const std::vector<BadFile>& cases) {
  for (const auto& [text, error] : cases) {
    const Result<Topology> topology = parse_topology_toml(text, "x.toml");
    ASSERT_FALSE(topology) << text;
    EXPECT_EQ(topology.error().message, error);
  }
}

TEST(TopologyFile, NamesWhatIsWrongAndWhere) {
  const std::string nodes = "[[node]]\nname='a'\n[[node]]\nname='b'\n";
  const std::string cable = "[[cable]]\nsource='a'\ntarget='b'\n";
  expect_errors({
      {nodes + "[[cable]]\nsource='a'\ntarget='bb'\n",
       "x.toml:7: [[cable]] unknown node 'bb'; did you mean 'b'? known: a, b"},
      {nodes + "[[link]]\nsource='a'\ntarget='a'\n", "x.toml:5: link a->a is a self-loop"},
      {nodes + cable + "bandwidth='0GB/s'\n",
       "x.toml:8: [[cable]] bandwidth: '0GB/s' is not a bandwidth: it must be at least 1 B/s"},
      {nodes + cable + "bandwidth=16\n",
       "x.toml:8: [[cable]] bandwidth: '16' is not a bandwidth: it has no unit, as 16GB/s or "
       "100Gb/s"},
      {nodes + cable + "bandwidth=true\n", "x.toml:8: [[cable]] bandwidth must be text, in quotes"},
      {nodes + cable + "latency='-1ns'\n",
       "x.toml:8: [[cable]] latency: '-1ns' is not a time: expected a number with a unit, as 150ns "
       "or 10us"},
      {nodes + cable + "latency='5000s'\n",
       "x.toml:5: link a->b has latency 5000000000000000 ps: outside 0 to 1000 s"},
      {nodes + cable + "bandwith='1GB/s'\n",
       "x.toml:8: [[cable]] unknown key 'bandwith'; did you mean 'bandwidth'? known: source, "
       "target, count, link, bandwidth, latency, lanes, class"},
      {nodes + cable + "lanes=0\n", "x.toml:8: [[cable]] lanes: value '0' is outside 1 to 65536"},
      {nodes + cable + "lanes='x'\n", "x.toml:8: [[cable]] lanes: value 'x' is not a whole number"},
      {nodes + cable + "class='all'\n",
       "x.toml:5: class 'all' of a link is not plain UTF-8 of 1 to 128 bytes without ',', '+' and "
       "'>', and other than 'all'"},
      {nodes + cable + "class=''\n", "x.toml:8: [[cable]] has an empty class"},
      {nodes + cable + "class=true\n", "x.toml:8: [[cable]] class must be text, in quotes"},
      {nodes, "x.toml:1: rank 'a' cannot reach rank 'b': no route between them"},
      {nodes + "[[link]]\nsource='a'\ntarget='b'\n",
       "x.toml:3: rank 'b' cannot reach rank 'a': no route between them"},
      {nodes + "[[node]]\nname='a'\n", "x.toml:5: duplicate node name 'a'"},
      {nodes + "[[node]]\n", "x.toml:5: [[node]] has no name"},
      {nodes + "[[node]]\nname=''\n", "x.toml:6: [[node]] has an empty name"},
      {nodes + "[[node]]\nname=\"c\\n\"\n",
       "x.toml:5: node name 'c\\x0a' is not plain UTF-8 of at most 128 bytes without ',', '+' and "
       "'>'"},
      {nodes + "[[node]]\nname='c'\nkind='swich'\n",
       "x.toml:7: [[node]] unknown kind 'swich'; did you mean 'switch'? known: rank, switch, io"},
      {nodes + "[[node]]\nname='c'\nforwards='yes'\n",
       "x.toml:7: [[node]] forwards must be true or false"},
      {nodes + "[[node]]\nname='c'\nreduce=true\n",
       "x.toml:5: node 'c': only a switch reduces or multicasts"},
      {nodes + "[[node]]\nname='c'\nlatency='1ns'\n",
       "x.toml:5: node 'c': only a switch has a latency"},
      {nodes + "[[link]]\nsource='a'\n", "x.toml:5: [[link]] has no target"},
      {nodes + "[link]\nsource='a'\n", "x.toml:5: link must be a list of tables, [[link]]"},
      {"node = ['a']", "x.toml:1: node must be a list of tables, [[node]]"},
      {"defaults = 3", "x.toml:1: defaults must be a table, [defaults]"},
      {"[default]\nlatency='1ns'",
       "x.toml:1: unknown key 'default'; did you mean 'defaults'? known: name, shape, routing, "
       "seed, defaults, framing, node, link, cable"},
      {"routing = 'spraed'",
       "x.toml:1: unknown routing 'spraed'; did you mean 'spread'? known: shortest, spread, ecmp, "
       "dmodk"},
      {"\nseed = 3", "x.toml:2: seed is of routing = \"ecmp\""},
      {"routing = 'ecmp'\nseed = -1",
       "x.toml:2: seed: value '-1' is outside 0 to 9223372036854775807"},
      {"[defaults]\nlatency='1'",
       "x.toml:2: [defaults] latency: '1' is not a time: it has no unit, as 150ns or 10us"},
      {"[framing]\npacket=0", "x.toml:1: packet of 0 bytes is outside 1 to 1073741824"},
      {"[framing]\nheader='x'",
       "x.toml:2: [framing] header: 'x' is not a size: expected a number with a unit, as 64MiB, "
       "1GB or 4096"},
      {"", "x.toml:1: topology 'x' has no rank node"},
      {"name = \"a\\u0007\"", "x.toml:1: name 'a\\x07' is too long or has control letters"},
      {"name = 1.5", "x.toml:1: name must be text, in quotes"},
  });
}

TEST(TopologyFile, RefusesBadCounts) {
  const std::string nodes = "[[node]]\nname='a'\n[[node]]\nname='b'\n";
  expect_errors({
      {nodes + "[[node]]\nname='c{i}'\ncount={i=0}\n",
       "x.toml:7: [count] i: value '0' is outside 1 to 16777216"},
      {nodes + "[[node]]\nname='c{i}'\ncount={i='x'}\n",
       "x.toml:7: [count] i: value 'x' is not a whole number"},
      {nodes + "[[node]]\nname='c{i}'\ncount=3\n",
       "x.toml:7: [[node]] count must be a table, [count]"},
      {nodes + "[[node]]\nname='c{i}'\ncount={i=2,j=2}\n",
       "x.toml:7: [[node]] count: no {j} in its names"},
      {nodes + "[[node]]\nname='c{i}{j}'\ncount={i=16777216,j=2}\n",
       "x.toml:7: [[node]] count: more than 16777216 times"},
      {nodes + "[[node]]\nname='{i}{j}'\ncount={i=12,j=12}\n",
       "x.toml:5: duplicate node name '110'"},
      {nodes + "[[cable]]\nsource='a{i}'\ntarget='b'\ncount={i=2}\n",
       "x.toml:6: [[cable]] unknown node 'a0'; did you mean 'a'? known: a, b"},
  });
}

TEST(TopologyFile, RefusesBadShapes) {
  expect_errors({
      {"shape = 'rnig:8'",
       "x.toml:1: unknown topology 'rnig'; did you mean 'ring'? known: ring, fully_connected, "
       "switch, mesh, torus, hypercube, fat_tree, leaf_spine, bigraph, twin_switch, dragonfly, "
       "dgx_a100, dgx_h100, dgx_b200, wafer_mesh, fred, switch_tree"},
      {"\nshape = 'torus:99999x99999'", "x.toml:2: torus: dimension '99999' is outside 1 to 65536"},
      {"shape = 'other.toml'",
       "x.toml:1: unknown topology 'other.toml'; known: ring, fully_connected, switch, mesh, "
       "torus, hypercube, fat_tree, leaf_spine, bigraph, twin_switch, dragonfly, dgx_a100, "
       "dgx_h100, dgx_b200, wafer_mesh, fred, switch_tree"},
      {"shape = ''", "x.toml:1: '' has no name: expected NAME[:ARGUMENT][,key=value...]"},
      {"shape = ['ring:4']", "x.toml:1: shape must be text, in quotes"},
      {"shape = 'ring:4'\n[[node]]\nname = '3'", "x.toml:2: duplicate node name '3'"},
      {"shape = 'ring:4'\n[[node]]\nname = 'new'",
       "x.toml:1: rank '0' cannot reach rank 'new': no route between them"},
  });
}

TEST(TopologyFile, NamesMayBeInAnyScript) {
  const Result<Topology> topology = parse_topology_toml(
      "\xef\xbb\xbf# caf\xc3\xa9\nname = \"caf\xc3\xa9\"\n[[node]]\nname = 'n\xc5\x93ud'\n",
      "x.toml");
  ASSERT_TRUE(topology) << topology.error().message;
  EXPECT_EQ(topology->name(), "caf\xc3\xa9");
  EXPECT_EQ(topology->node(NodeId{0}).name, "n\xc5\x93ud");
}

TEST(TopologyFile, RefusesWhatIsNoToml) {
  const auto message = [](const std::string& text) {
    const Result<Topology> topology = parse_topology_toml(text, "x.toml");
    EXPECT_FALSE(topology);
    return topology ? "" : topology.error().message;
  };
  EXPECT_TRUE(message("name = \"\xff\xfe\"").starts_with("x.toml:1: "));
  EXPECT_EQ(message("name = 'x' # \xc3\xa9\n\xc3\xa9 = 1\n"),
            "x.toml:2: '\xc3\xa9 = 1' is in neither text nor comment");
  EXPECT_EQ(message("name = \"\"\"\xc3\xa9\\\"\"\"\"\"\" \xc3\xa9\n"),
            "x.toml:1: '\xc3\xa9' is in neither text nor comment");
  EXPECT_TRUE(message("\n\nname = ").starts_with("x.toml:3: "));
  EXPECT_TRUE(message("[[node]]\nname = \"a").starts_with("x.toml:2: "));
  EXPECT_TRUE(message("name = 1\nname = 2").starts_with("x.toml:2: "));
  EXPECT_TRUE(message(std::string("\0\0\0", 3)).starts_with("x.toml:1: "));
  EXPECT_TRUE(message(std::string(100'000, '[')).starts_with("x.toml:1: "));
}

// Each dot is a table in a table; a million of them overflow the stack of whoever frees them.
TEST(TopologyFile, RefusesKeysOfManyDots) {
  std::string key = "a";
  for (int32_t dot = 0; dot < 1'000'000; ++dot) {
    key += ".a";
  }
  for (const std::string& text :
       {key + " = 1\n", "[" + key + "]\n", "[[" + key + "]]\n", "x = {" + key + " = 1}\n"}) {
    const auto refused = parse_topology_toml("# a\n" + text, "x.toml");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message, "x.toml:2: too many dots on one line");
  }
  const std::string harmless = "name = '" + key.substr(0, 60) + "' # " + key + "\n" + "node = [" +
                               "{name = 'a', overhead = '1.5us'}]\n";
  EXPECT_TRUE(parse_topology_toml(harmless, "x.toml"));
}

std::string one_of_many_changes(Rng& rng, std::string text) {
  const std::array<std::string, 9> pieces = {
      "\xc3\xa9", "[[node]]\n", "name = \"a\"\n", "\"", "\xff", "{", "= 99999999999999999999",
      "\n",       "\\u"};
  switch (rng.below(5)) {
    case 0:  // cut off
      return text.substr(0, rng.below(text.size()));
    case 1:  // a wrong byte
      text[rng.below(text.size())] = static_cast<char>(rng.below(256));
      return text;
    case 2:  // a lost part
      return text.erase(rng.below(text.size()), 1 + rng.below(20));
    case 3:  // a strange part
      return text.insert(rng.below(text.size()), pieces[rng.below(pieces.size())]);
    default: {  // a doubled part
      const std::size_t begin = rng.below(text.size());
      return text.insert(rng.below(text.size()), text.substr(begin, rng.below(60)));
    }
  }
}

TEST(TopologyFile, AnyTextGivesATopologyOrOneLine) {
  constexpr uint64_t kSeed = 13;
  Rng rng(kSeed);
  int accepted = 0;
  for (int trial = 0; trial < 6000; ++trial) {
    std::string text = kValid;
    if (trial % 10 == 0) {
      text.resize(rng.below(200));
      for (char& letter : text) {
        letter = static_cast<char>(rng.below(256));
      }
    }
    for (uint64_t change = 0; change <= rng.below(3) && !text.empty(); ++change) {
      text = one_of_many_changes(rng, text);
    }
    const Result<Topology> topology = parse_topology_toml(text, "x.toml");
    if (topology) {
      ++accepted;
      continue;
    }
    const std::string& message = topology.error().message;
    EXPECT_TRUE(message.starts_with("x.toml:")) << message << ", seed " << kSeed;
    EXPECT_TRUE(is_utf8(message)) << "seed " << kSeed << ", trial " << trial;
    EXPECT_EQ(message.find_first_of("\r\n"), std::string::npos) << message << ", seed " << kSeed;
  }
  EXPECT_GT(accepted, 10);
  EXPECT_LT(accepted, 5000);
}

TEST(TopologyFile, ReadsTheExamples) {
  struct Case {
    std::string file;
    std::size_t rank_count;
    std::size_t link_count;
    int32_t diameter;
  };
  const std::vector<Case> cases = {
      {"torus_4x4", 16, 64, 4},  {"torus_8x8", 64, 256, 8}, {"mesh_4x4", 16, 48, 6},
      {"mesh_8x8", 64, 224, 14}, {"two_boxes", 16, 64, 2},  {"irregular", 6, 19, 4},
  };
  const std::filesystem::path root =
      std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
  for (const auto& [file, rank_count, link_count, links] : cases) {
    const Result<Topology> topology =
        parse_topology((root / "examples" / (file + ".toml")).string());
    ASSERT_TRUE(topology) << topology.error().message;
    EXPECT_EQ(topology->name(), file);
    EXPECT_EQ(topology->rank_nodes().size(), rank_count) << file;
    EXPECT_EQ(topology->links().size(), link_count) << file;
    EXPECT_EQ(diameter(*topology).link_count, links) << file;
  }
  const std::string boxes = (root / "examples" / "two_boxes.toml").string();
  const Result<Topology> fewer =
      parse_topology(boxes + ",without_link=box0.gpu0-infiniband,without_node=box1.gpu7");
  EXPECT_EQ(fewer.error().message,
            boxes + ": rank 'box0.gpu0' cannot reach rank 'box1.gpu0': no route between them");
  const Result<Topology> fifteen = parse_topology(boxes + ",without_node=box1.gpu7");
  ASSERT_TRUE(fifteen) << fifteen.error().message;
  EXPECT_EQ(fifteen->name(), "two_boxes,without_node=box1.gpu7");
  EXPECT_EQ(fifteen->rank_nodes().size(), 15U);
}

}  // namespace
}  // namespace pleach
