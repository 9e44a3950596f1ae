#include "pleach/fabric/switch_model.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pleach/fabric/fred_switch.h"
#include "pleach/fabric/switch_cores.h"
#include "pleach/topology/shapes.h"

namespace pleach {
namespace {

Topology with_hub(const std::string& model) {
  TopologyBuilder builder("one");
  const auto left = builder.add_node({.name = "left"});
  const auto hub =
      builder.add_node({.name = "hub", .kind = NodeKind::kSwitch, .switch_model = model});
  EXPECT_TRUE(left && hub);
  EXPECT_TRUE(builder.add_cable({.source = *left, .target = *hub, .bandwidth_bytes_per_s = 1}));
  auto built = std::move(builder).build();
  EXPECT_TRUE(built);
  return std::move(built).value();
}

TEST(SwitchModel, IsChosenByTheNode) {
  for (const char* model : {"", "unlimited", "tail_drop"}) {
    const Topology topology = with_hub(model);
    EXPECT_TRUE(check_switches(topology)) << model;
    EXPECT_EQ(make_switch(topology, NodeId{1}), nullptr) << "it carries whatever enters";
  }
  EXPECT_EQ(crowding_of(with_hub(""), NodeId{1}), 0);
  EXPECT_EQ(crowding_of(with_hub("tail_drop"), NodeId{1}), 0.25);
}

TEST(SwitchModel, HasToBeKnown) {
  const struct {
    const char* model;
    const char* error;
  } cases[] = {
      {"unlimted", "node 'hub': unknown switch model 'unlimted'; did you mean 'unlimited'?"},
      {"unlimited,middle=3", "node 'hub': switch model unlimited: unknown option 'middle'"},
      {"unlimited:8", "node 'hub': switch model unlimited"},
      {",", "node 'hub': "},
  };
  for (const auto& [model, error] : cases) {
    const Status status = check_switches(with_hub(model));
    ASSERT_FALSE(status) << model;
    EXPECT_EQ(status.error().message.substr(0, std::string(error).size()), error);
  }
}

TEST(SwitchModel, FredCarriesWhatRoutesOnPortsOfItsOwn) {
  TopologyBuilder builder("hub");
  for (int32_t node = 0; node < 7; ++node) {
    ASSERT_TRUE(builder.add_node({.name = std::to_string(node),
                                  .kind = node < 6 ? NodeKind::kRank : NodeKind::kSwitch,
                                  .switch_model = node < 6 ? "" : "fred,middle=2"}));
  }
  for (int32_t rank = 0; rank < 6; ++rank) {
    ASSERT_TRUE(builder.add_cable({NodeId{rank}, NodeId{6}, 1, 0}));
  }
  const auto topology = std::move(builder).build();
  ASSERT_TRUE(topology);
  const std::unique_ptr<SwitchCore> fred = make_switch(*topology, NodeId{6});
  ASSERT_NE(fred, nullptr);
  const std::vector<PortFlow> three = {{{0, 2}, {0, 2}}, {{1, 4}, {1, 4}}, {{3, 5}, {3, 5}}};
  EXPECT_EQ(fred->conflict(three), (std::vector{0, 1, 2}));
  EXPECT_EQ(fred->conflict(std::span(three).first(2)), std::vector<int32_t>());
  EXPECT_EQ(fred->conflict(std::vector<PortFlow>{{{0}, {1}}, {{2}, {3}}, {{4}, {1, 5}}}),
            (std::vector{0, 2}));
  EXPECT_EQ(fred->conflict({}), std::vector<int32_t>());
  const Status status = check_switches(with_hub("fred,middle=1"));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message,
            "node 'hub': switch model fred: option 'middle': value '1' is outside 2 to 2147483647");
}

// A hub of four ranks in whose switch something is dead.
TEST(SwitchModel, FredKeepsOutOfWhatIsDead) {
  const auto hub_with = [](const std::string& dead) {
    return parse_topology("switch_tree:4,switch=fred,middle=3" + dead).value();
  };
  const Topology topology = hub_with(",without_cell=l1.0:R0,without_subnetwork=l1.0:1+l1.0:2");
  ASSERT_TRUE(check_switches(topology));
  const std::unique_ptr<SwitchCore> fred = make_switch(topology, NodeId{4});
  ASSERT_NE(fred, nullptr);
  const std::vector<PortFlow> flows = {{{2}, {0}}, {{3}, {1}}, {{1}, {3}}};
  EXPECT_EQ(fred->conflict(std::span(flows).first(1)), std::vector<int32_t>());
  EXPECT_EQ(fred->conflict(std::span(flows).first(2)), (std::vector{0, 1}));
  EXPECT_EQ(fred->dead_in_the_way(std::span(flows).first(2)), "subnetwork 1, subnetwork 2");
  EXPECT_EQ(fred->conflict(std::span(flows).last(1)), std::vector{0});
  EXPECT_EQ(fred->dead_in_the_way(std::span(flows).last(1)), "R0 (input ports 0, 1)");
  EXPECT_EQ(fred->cells()->dead.cells.size(), 1U);
  const struct {
    const char* dead;
    const char* error;
  } cases[] = {
      {",without_cell=l1.0:R2",
       "node 'l1.0': there is no cell 'R2' in FRED_3(4): its outermost level has R0 to R1, D0 to "
       "D1"},
      {",without_subnetwork=l1.0:3",
       "node 'l1.0': there is no subnetwork '3' in FRED_3(4): they are numbers from 0 to 2, "
       "outermost first, of 1 level, as 1 or 1.0"},
      {",without_cell=l1.0:R1+l1.0:R1", "node 'l1.0': cell 'R1' is named twice"},
  };
  for (const auto& [dead, error] : cases) {
    const Status status = check_switches(hub_with(dead));
    ASSERT_FALSE(status) << dead;
    EXPECT_EQ(status.error().message, error);
  }
}

// The lanes of a link are ports, one behind the other.
TEST(SwitchModel, FredHasAPortForEveryLane) {
  TopologyBuilder builder("lanes");
  ASSERT_TRUE(builder.add_node({.name = "left"}));
  ASSERT_TRUE(builder.add_node({.name = "right"}));
  ASSERT_TRUE(builder.add_node({.name = "hub", .kind = NodeKind::kSwitch, .switch_model = "fred"}));
  Link link{NodeId{0}, NodeId{2}, 1, 0};
  link.lanes = 4;
  ASSERT_TRUE(builder.add_cable(link));
  ASSERT_TRUE(builder.add_cable({NodeId{1}, NodeId{2}, 1, 0}));
  const auto topology = std::move(builder).build();
  ASSERT_TRUE(topology);
  EXPECT_TRUE(check_switches(*topology));
  const SwitchCores cores(*topology);
  const SwitchPass pass{
      NodeId{2}, {topology->links_in(NodeId{2})[1]}, {topology->links_out(NodeId{2})[0]}};
  EXPECT_EQ(cores.flow_of(pass, [](LinkId) { return 0; }), (PortFlow{{4}, {0}}));
  EXPECT_EQ(cores.flow_of(pass, [&](LinkId id) { return topology->link(id).lanes - 1; }),
            (PortFlow{{4}, {3}}));
}

}  // namespace
}  // namespace pleach
