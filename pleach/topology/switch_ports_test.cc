#include "pleach/topology/switch_ports.h"

#include <gtest/gtest.h>

#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/topology/shapes.h"

namespace pleach {
namespace {

// Two switches, a rank on each by a cable of one lane, and three cables between the switches.
constexpr const char* kTrunks = R"(
  node = [{ name = "a" }, { name = "s", kind = "switch" }, { name = "t", kind = "switch" },
          { name = "b" }]
  cable = [{ source = "a", target = "s" }, { source = "s", target = "t", lanes = 4 },
           { source = "t", target = "s", lanes = 2 }, { source = "s", target = "t" },
           { source = "t", target = "b" }]
)";

TEST(SwitchPorts, CountLanesInLinkOrder) {
  const Result<Topology> topology = parse_topology_toml(kTrunks, "x.toml");
  ASSERT_TRUE(topology) << topology.error().message;
  const SwitchPorts s(*topology, NodeId{1}), t(*topology, NodeId{2});
  EXPECT_EQ(s.input_count(), 8);
  EXPECT_EQ(s.output_count(), 8);
  EXPECT_EQ(t.input_count(), 8);
  EXPECT_EQ(t.output_count(), 8);
  // Cables are links 2k and 2k + 1, there and back; 4 is the one of two lanes, from t to s.
  EXPECT_EQ(s.input({LinkId{0}, 0}), 0);
  EXPECT_EQ(s.output({LinkId{1}, 0}), 0);
  EXPECT_EQ(s.output({LinkId{2}, 3}), 4);
  EXPECT_EQ(t.input({LinkId{2}, 3}), 3);
  EXPECT_EQ(s.input({LinkId{4}, 1}), 6);
  EXPECT_EQ(t.output({LinkId{4}, 1}), 5);
  EXPECT_EQ(s.lane_of_input(7), (LinkLane{LinkId{7}, 0}));
  EXPECT_EQ(t.lane_of_output(7), (LinkLane{LinkId{8}, 0}));
}

// Every port is the lane that has it, and of cables the way in has the number of the way out.
TEST(SwitchPorts, AreNumberedWithoutGaps) {
  Rng rng(1);
  for (int32_t round = 0; round < 20; ++round) {
    TopologyBuilder builder("random");
    ASSERT_TRUE(builder.add_node({.name = "rank", .forwards = true}));
    const auto node = builder.add_node({.name = "switch", .kind = NodeKind::kSwitch});
    ASSERT_TRUE(node);
    const auto cables = static_cast<int32_t>(1 + rng.below(9));
    for (int32_t cable = 0; cable < cables; ++cable) {
      Link link{NodeId{0}, NodeId{1}, 1};
      link.lanes = static_cast<int32_t>(1 + rng.below(5));
      if (rng.below(2) == 0) {
        std::swap(link.source, link.target);
      }
      ASSERT_TRUE(builder.add_cable(link));
    }
    const Result<Topology> topology = std::move(builder).build();
    ASSERT_TRUE(topology);
    const SwitchPorts ports(*topology, *node);
    int32_t expected = 0;
    for (int32_t cable = 0; cable < cables; ++cable) {
      for (int32_t lane = 0; lane < topology->link(LinkId{2 * cable}).lanes; ++lane, ++expected) {
        const bool is_in = topology->link(LinkId{2 * cable}).target == *node;
        const LinkLane in{LinkId{2 * cable + (is_in ? 0 : 1)}, lane};
        const LinkLane out{LinkId{2 * cable + (is_in ? 1 : 0)}, lane};
        EXPECT_EQ(ports.input(in), expected);
        EXPECT_EQ(ports.output(out), expected);
        EXPECT_EQ(ports.lane_of_input(expected), in);
        EXPECT_EQ(ports.lane_of_output(expected), out);
      }
    }
    EXPECT_EQ(ports.input_count(), expected);
    EXPECT_EQ(ports.output_count(), expected);
  }
}

}  // namespace
}  // namespace pleach
