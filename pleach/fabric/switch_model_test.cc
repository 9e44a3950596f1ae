#include "pleach/fabric/switch_model.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

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

}  // namespace
}  // namespace pleach
