#include "pleach/topology/changes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pleach/topology/link_classes.h"
#include "pleach/topology/shapes.h"

namespace pleach {
namespace {

Topology shape(const std::string& spec) {
  return parse_topology(spec).value();
}

std::vector<LinkId> all_links(const Topology& topology) {
  return links_of_class(topology, kAllLinks).value();
}

TEST(Changes, WithoutCompactsIdsAndKeepsNames) {
  const Topology torus = shape("torus:4x4");
  const std::vector<NodeId> nodes = {NodeId{3}, NodeId{7}};
  const Result<Topology> fewer = without(torus, nodes, {});
  ASSERT_TRUE(fewer);
  EXPECT_EQ(fewer->nodes().size(), 14U);
  EXPECT_EQ(fewer->links().size(), 64U - 2 * 8 + 2);  // 3 and 7 share a cable
  EXPECT_EQ(fewer->node(NodeId{3}).name, "4");
  EXPECT_TRUE(fewer->grid().empty());
  const std::vector<LinkId> links = {LinkId{0}, LinkId{0}};
  EXPECT_EQ(without(torus, {}, links)->links().size(), 63U);

  const std::vector<NodeId> unknown = {NodeId{16}};
  EXPECT_EQ(without(torus, unknown, {}).error().message, "no node 16: there are 16");
  const std::vector<LinkId> unset = {LinkId{}};
  EXPECT_EQ(without(torus, {}, unset).error().message, "no link -1: there are 64");
  EXPECT_EQ(without(torus, torus.rank_nodes(), {}).error().message,
            "topology 'torus:4x4' has no rank node");
}

TEST(Changes, AreWhatSpecsSay) {
  const struct {
    std::string from;
    std::string to;
    Result<Topology> (*change)(const Topology&);
  } cases[] = {
      {"torus:4x4", "torus:4x4,bandwidth=1GB/s",
       [](const Topology& topology) {
         return with_bandwidth(topology, all_links(topology), 1'000'000'000);
       }},
      {"switch:4,bandwidth=3GB/s,overhead=1us", "switch:4,bandwidth=1GB/s,overhead=1us",
       [](const Topology& topology) {
         return with_bandwidth(topology, all_links(topology), 1'000'000'000);
       }},
      {"mesh:2x3,latency_spread=10%,seed=3,without_node=2",
       "mesh:2x3,bandwidth=100Gb/s,latency_spread=10%,seed=3,without_node=2",
       [](const Topology& topology) {
         return with_bandwidth(topology, all_links(topology), 12'500'000'000);
       }},
      {"ring:5,header=16", "ring:5,latency=2us,header=16",
       [](const Topology& topology) {
         return with_latencies(topology, std::vector<int64_t>(topology.links().size(), 2'000'000));
       }},
      {"mesh:3x3", "mesh:3x3,without_node=4,without_link=0>1",
       [](const Topology& topology) {
         const std::vector<NodeId> nodes = {NodeId{4}};
         const std::vector<LinkId> links = {topology.links_out(NodeId{0})[1]};
         return without(topology, nodes, links);
       }},
  };
  for (const auto& [from, to, change] : cases) {
    const Result<Topology> changed = change(shape(from));
    ASSERT_TRUE(changed) << changed.error().message;
    EXPECT_EQ(changed->fingerprint(), shape(to).fingerprint()) << to;
    EXPECT_EQ(changed->grid().size(), shape(to).grid().size()) << to;
    EXPECT_EQ(changed->name(), shape(from).name());
  }
}

TEST(Changes, LeaveOtherLinksAlone) {
  const Topology ring = shape("ring:4");
  const std::vector<LinkId> links = {LinkId{1}, LinkId{6}};
  const Result<Topology> changed = with_bandwidth(ring, links, 5);
  ASSERT_TRUE(changed);
  for (int32_t link = 0; link < 8; ++link) {
    EXPECT_EQ(changed->link(LinkId{link}).bandwidth_bytes_per_s,
              link == 1 || link == 6 ? 5 : 16'000'000'000);
    EXPECT_EQ(changed->link(LinkId{link}).latency_ps, 150'000);
  }
}

TEST(Changes, RefuseWhatNoLinkHas) {
  const Topology ring = shape("ring:4");
  const std::vector<LinkId> last = {LinkId{8}};
  EXPECT_EQ(with_bandwidth(ring, last, 5).error().message, "no link 8: there are 8");
  const std::vector<LinkId> first = {LinkId{0}};
  EXPECT_EQ(with_bandwidth(ring, first, 0).error().message,
            "link 0->3 has bandwidth 0 B/s: it must be positive");
  EXPECT_EQ(with_latencies(ring, std::vector<int64_t>(7, 0)).error().message,
            "7 latencies for 8 links");
  EXPECT_EQ(with_latencies(ring, std::vector<int64_t>(8, -1)).error().message,
            "link 0->3 has latency -1 ps: outside 0 to 1000 s");
}

TEST(Changes, LeaveTheRouting) {
  const Topology torus = shape("torus:4x4,routing=ecmp,seed=9");
  const Routing routing = {RoutingKind::kEcmp, 9};
  EXPECT_EQ(torus.routing(), routing);
  const std::vector<LinkId> links = {LinkId{0}};
  EXPECT_EQ(without(torus, {}, links)->routing(), routing);
  EXPECT_EQ(with_bandwidth(torus, links, 5)->routing(), routing);
  EXPECT_EQ(with_latencies(torus, std::vector<int64_t>(64, 0))->routing(), routing);
  EXPECT_EQ(shape("torus:4x4,routing=spread,without_link=5-6,latency_spread=5%").routing(),
            (Routing{RoutingKind::kSpread, 0}));
  // Schedules depend on it; what stood before keeps its fingerprint.
  EXPECT_NE(torus.fingerprint(), shape("torus:4x4").fingerprint());
  EXPECT_NE(torus.fingerprint(), shape("torus:4x4,routing=ecmp").fingerprint());
  EXPECT_EQ(shape("torus:4x4,seed=9").fingerprint(), shape("torus:4x4").fingerprint());
  EXPECT_EQ(with_routing(torus, {}).fingerprint(), shape("torus:4x4").fingerprint());
}

TEST(Changes, RenamesOnlyTheName) {
  const Topology ring = shape("ring:4");
  const Topology other = renamed(ring, "other");
  EXPECT_EQ(other.name(), "other");
  EXPECT_EQ(other.fingerprint(), ring.fingerprint());
}

}  // namespace
}  // namespace pleach
