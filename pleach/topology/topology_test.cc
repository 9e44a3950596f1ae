#include "pleach/topology/topology.h"

#include <gtest/gtest.h>

#include "pleach/topology/shapes.h"

namespace pleach {
namespace {

Node rank(const std::string& name, bool forwards = false) {
  Node node;
  node.name = name;
  node.forwards = forwards;
  return node;
}

Node hub(const std::string& name) {
  Node node;
  node.name = name;
  node.kind = NodeKind::kSwitch;
  return node;
}

Link link(int32_t source, int32_t target, int64_t bandwidth_bytes_per_s = 1, int64_t latency_ps = 0,
          int32_t lanes = 1) {
  return {NodeId{source}, NodeId{target}, bandwidth_bytes_per_s, latency_ps, lanes};
}

TEST(TopologyBuilder, RefusesBadNodes) {
  struct Case {
    Node node;
    std::string error;
  };
  Node late = rank("late");
  late.overhead_ps = -1;
  Node hasty = hub("hasty");
  hasty.latency_ps = -2;
  Node slow = rank("slow");
  slow.latency_ps = 1;
  Node clever = rank("clever");
  clever.reduces = true;
  const std::string form = " is not plain UTF-8 of at most 128 bytes without ',', '+' and '>'";
  const std::vector<Case> cases = {
      {rank("a"), "x.toml:3: duplicate node name 'a'"},
      {rank("0"), "x.toml:3: duplicate node name '0'"},  // the unnamed first node has taken it
      {rank("b,c"), "x.toml:3: node name 'b,c'" + form},
      {rank("b\n"), "x.toml:3: node name 'b\\x0a'" + form},
      {rank(" b"), "x.toml:3: node name ' b'" + form},
      {rank("\xff"), "x.toml:3: node name '\\xff'" + form},
      {late, "x.toml:3: node 'late': overhead -1 ps is outside 0 to 1000 s"},
      {hasty, "x.toml:3: node 'hasty': latency -2 ps is outside 0 to 1000 s"},
      {slow, "x.toml:3: node 'slow': only a switch has a latency"},
      {clever, "x.toml:3: node 'clever': only a switch reduces or multicasts"},
  };
  for (const auto& [node, error] : cases) {
    TopologyBuilder builder("x");
    ASSERT_TRUE(builder.add_node(rank("")));
    ASSERT_TRUE(builder.add_node(rank("a")));
    const Result<NodeId> added = builder.add_node(node, "x.toml:3");
    ASSERT_FALSE(added);
    EXPECT_EQ(added.error().message, error);
  }
}

TEST(TopologyBuilder, RefusesBadLinks) {
  const std::vector<std::pair<Link, std::string>> cases = {
      {link(0, 0), "link a->a is a self-loop"},
      {link(0, 2), "link 0->2: unknown node 2 (there are 2)"},
      {link(-1, 0), "link -1->0: unknown node -1 (there are 2)"},
      {link(0, 1, 0), "link a->b has bandwidth 0 B/s: it must be positive"},
      {link(0, 1, -5), "link a->b has bandwidth -5 B/s: it must be positive"},
      {link(0, 1, 1, -1), "link a->b has latency -1 ps: outside 0 to 1000 s"},
      {link(0, 1, 1, INT64_MAX),
       "link a->b has latency 9223372036854775807 ps: outside 0 to 1000 s"},
      {link(0, 1, 1, 0, 0), "link a->b has 0 lanes: outside 1 to 65536"},
      {link(0, 1, 1, 0, 65'537), "link a->b has 65537 lanes: outside 1 to 65536"},
  };
  for (const auto& [bad, error] : cases) {
    TopologyBuilder builder("x");
    ASSERT_TRUE(builder.add_node(rank("a")));
    ASSERT_TRUE(builder.add_node(rank("b")));
    const Result<LinkId> added = builder.add_link(bad);
    ASSERT_FALSE(added);
    EXPECT_EQ(added.error().message, error);
  }
}

// Ranks a, b, c (numbers 0, 1, 2) and switches s, t (3, 4), joined by the given links.
Result<Topology> three_ranks(const std::vector<Link>& links, bool forwards) {
  TopologyBuilder builder("x");
  for (const std::string name : {"a", "b", "c"}) {
    PLEACH_TRY(builder.add_node(rank(name, forwards), "line of " + name));
  }
  PLEACH_TRY(builder.add_node(hub("s")));
  PLEACH_TRY(builder.add_node(hub("t")));
  for (const Link& each : links) {
    PLEACH_TRY(builder.add_link(each));
  }
  return std::move(builder).build();
}

TEST(TopologyBuilder, AsksThatRanksReachEachOther) {
  struct Case {
    std::vector<Link> links;
    bool forwards;
    std::string error;  // "": connected
  };
  const std::vector<Case> cases = {
      {{link(0, 1), link(1, 2), link(2, 0)}, true, ""},
      {{link(0, 1), link(1, 2), link(2, 0)},
       false,
       "line of a: rank 'a' cannot reach rank 'c': no route between them"},
      {{link(0, 1), link(1, 2)},
       true,
       "line of b: rank 'b' cannot reach rank 'a': no route between them"},
      {{}, true, "line of a: rank 'a' cannot reach rank 'b': no route between them"},
      // All on one switch, each way.
      {{link(0, 3), link(1, 3), link(2, 3), link(3, 0), link(3, 1), link(3, 2)}, false, ""},
      // c cannot send.
      {{link(0, 3), link(1, 3), link(3, 0), link(3, 1), link(3, 2)},
       false,
       "line of c: rank 'c' cannot reach rank 'a': no route between them"},
      // a and b by one switch, a and c by the other, b and c directly.
      {{link(0, 3), link(3, 0), link(1, 3), link(3, 1), link(0, 4), link(4, 0), link(2, 4),
        link(4, 2), link(1, 2), link(2, 1)},
       false,
       ""},
      // The same without b and c: the host a does not forward.
      {{link(0, 3), link(3, 0), link(1, 3), link(3, 1), link(0, 4), link(4, 0), link(2, 4),
        link(4, 2)},
       false,
       "line of b: rank 'b' cannot reach rank 'c': no route between them"},
      // One switch up, the other down.
      {{link(0, 3), link(1, 3), link(2, 3), link(3, 4), link(4, 0), link(4, 1), link(4, 2)},
       false,
       ""},
  };
  for (std::size_t index = 0; index < cases.size(); ++index) {
    const auto& [links, forwards, error] = cases[index];
    const Result<Topology> built = three_ranks(links, forwards);
    EXPECT_EQ(built ? "" : built.error().message, error) << "case " << index;
  }
  TopologyBuilder no_rank("x");
  ASSERT_TRUE(no_rank.add_node(hub("s")));
  EXPECT_EQ(std::move(no_rank).build().error().message, "topology 'x' has no rank node");
}

TEST(Topology, GroupsLinksByTheirEnds) {
  const Result<Topology> built =
      three_ranks({link(0, 1), link(1, 2), link(2, 0), link(0, 1), link(0, 2)}, true);
  ASSERT_TRUE(built);
  const auto values = [](std::span<const LinkId> links) {
    std::vector<int32_t> result;
    for (const LinkId id : links) {
      result.push_back(id.value);
    }
    return result;
  };
  EXPECT_EQ(values(built->links_out(NodeId{0})), (std::vector<int32_t>{0, 3, 4}));
  EXPECT_EQ(values(built->links_in(NodeId{1})), (std::vector<int32_t>{0, 3}));
  EXPECT_EQ(values(built->links_in(NodeId{2})), (std::vector<int32_t>{1, 4}));
  EXPECT_TRUE(built->links_out(NodeId{3}).empty());
  EXPECT_EQ(built->rank_nodes().size(), 3U);
}

TEST(Topology, FingerprintsTellWhatMatters) {
  const auto fingerprint = [](const std::string& spec) {
    const Result<Topology> topology = parse_topology(spec);
    EXPECT_TRUE(topology) << spec;
    return topology->fingerprint();
  };
  const uint64_t base = fingerprint("torus:4x4");
  EXPECT_EQ(base, fingerprint("torus:4x4,bandwidth=16GB/s"));
  EXPECT_EQ(fingerprint("ring:8"), fingerprint("torus:8"));
  for (const std::string other :
       {"mesh:4x4", "torus:2x8", "torus:4x4,bandwidth=17GB/s", "torus:4x4,latency=1ns",
        "torus:4x4,overhead=1ns", "torus:4x4,header=16", "torus:4x4,packet=128",
        "torus:4x4,without_link=0-1", "torus:4x4,without_link=0>1", "torus:4x4,without_node=0",
        "torus:4x4,latency_spread=10%"}) {
    EXPECT_NE(base, fingerprint(other)) << other;
  }
  EXPECT_NE(fingerprint("switch:4"), fingerprint("switch:4,switch_latency=1ns"));
  EXPECT_NE(fingerprint("switch:4"), fingerprint("switch:4,reduce"));
  EXPECT_NE(fingerprint("switch:4,multicast"), fingerprint("switch:4,reduce"));
}

// Schedules in files name the fingerprint of the topology that they were made for.
TEST(Topology, FingerprintsStayWhatTheyWere) {
  const std::pair<const char*, uint64_t> cases[] = {
      {"torus:4x4", 6947340480421002874U},
      {"switch:8,reduce", 15938197297681245012U},
      {"fat_tree:16,radix=4,levels=2", 7045854700496509175U},
      {"dgx_h100:2", 6525739128957502348U},
  };
  for (const auto& [spec, fingerprint] : cases) {
    EXPECT_EQ(parse_topology(spec)->fingerprint(), fingerprint) << spec;
  }
}

TEST(Topology, LanesArePartOfTheFingerprint) {
  const auto fingerprint = [](int32_t first, int32_t second) {
    const Result<Topology> built =
        three_ranks({link(0, 1, 1, 0, first), link(1, 2, 1, 0, second), link(2, 0)}, true);
    EXPECT_TRUE(built);
    return built->fingerprint();
  };
  EXPECT_NE(fingerprint(1, 1), fingerprint(1, 2));
  EXPECT_NE(fingerprint(2, 1), fingerprint(1, 2));
}

// What model a switch is, is part of what a topology is.
TEST(Topology, HasModelsOfSwitches) {
  const auto fingerprint = [](const std::string& model) {
    TopologyBuilder builder("one");
    const auto left = builder.add_node(rank("left"));
    const auto hub =
        builder.add_node({.name = "hub", .kind = NodeKind::kSwitch, .switch_model = model});
    EXPECT_TRUE(left && hub);
    EXPECT_TRUE(builder.add_cable({.source = *left, .target = *hub, .bandwidth_bytes_per_s = 1}));
    const auto built = std::move(builder).build();
    EXPECT_TRUE(built) << built.error().message;
    return built->fingerprint();
  };
  EXPECT_NE(fingerprint(""), fingerprint("unlimited"));
  TopologyBuilder builder("one");
  const auto added = builder.add_node({.name = "r", .switch_model = "unlimited"}, "x.toml:3");
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().message, "x.toml:3: node 'r': only a switch has a switch model");
}

}  // namespace
}  // namespace pleach
