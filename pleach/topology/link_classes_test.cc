#include "pleach/topology/link_classes.h"

#include <gtest/gtest.h>

#include "pleach/topology/changes.h"
#include "pleach/topology/shapes.h"

namespace pleach {
namespace {

// Two hosts with a card each on a switch, a direct link between them, and a disk.
constexpr const char* kHosts = R"(
  node = [{name="a"}, {name="b"}, {name="s", kind="switch"}, {name="disk", kind="io"}]
  [[cable]]
  source = "a"
  target = "s"
  class = "nic"
  [[cable]]
  source = "s"
  target = "b"
  class = "nic"
  [[link]]
  source = "a"
  target = "b"
  [[cable]]
  source = "disk"
  target = "a"
  [[cable]]
  source = "disk"
  target = "s"
)";

std::vector<int32_t> numbers(const Result<std::vector<LinkId>>& links) {
  std::vector<int32_t> result;
  for (const LinkId link : links.value()) {
    result.push_back(link.value);
  }
  return result;
}

TEST(LinkClasses, AreGivenOrTheKindsOfTheEnds) {
  const Topology hosts = parse_topology_toml(kHosts, "x.toml").value();
  EXPECT_EQ(link_classes(hosts),
            (std::vector<std::string>{"nic", "rank-io", "switch-io", "rank-rank"}));
  EXPECT_EQ(numbers(links_of_class(hosts, "nic")), (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(numbers(links_of_class(hosts, "rank-io")), (std::vector<int32_t>{4, 5}));
  EXPECT_EQ(numbers(links_of_class(hosts, "switch-io")), (std::vector<int32_t>{6, 7}));
  EXPECT_EQ(numbers(links_of_class(hosts, "rank-rank")), (std::vector<int32_t>{8}));
  EXPECT_EQ(links_of_class(hosts, "all")->size(), 9U);
  EXPECT_EQ(link_classes(parse_topology("torus:4x4").value()),
            std::vector<std::string>{"rank-rank"});
  EXPECT_EQ(link_classes(parse_topology("switch:4").value()),
            std::vector<std::string>{"rank-switch"});
}

TEST(LinkClasses, NameTheKnownOnes) {
  const Topology hosts = parse_topology_toml(kHosts, "x.toml").value();
  EXPECT_EQ(links_of_class(hosts, "nics").error().message,
            "unknown class of links 'nics'; did you mean 'nic'? known: all, nic, rank-io, "
            "switch-io, rank-rank");
  EXPECT_EQ(links_of_class(hosts, "").error().message,
            "unknown class of links ''; known: all, nic, rank-io, switch-io, rank-rank");
}

TEST(LinkClasses, StayWhenTopologiesChange) {
  const Topology hosts = parse_topology_toml(kHosts, "x.toml").value();
  const std::vector<LinkId> direct = links_of_class(hosts, "rank-rank").value();
  const Topology slow = with_bandwidth(hosts, links_of_class(hosts, "nic").value(), 5).value();
  EXPECT_EQ(link_classes(slow), link_classes(hosts));
  const std::vector<NodeId> disk = {NodeId{3}};
  const Topology without_disk = without(slow, disk, direct).value();
  EXPECT_EQ(numbers(links_of_class(without_disk, "nic")), (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(link_classes(without_disk), std::vector<std::string>{"nic"});
  EXPECT_EQ(without_disk.link(LinkId{0}).bandwidth_bytes_per_s, 5);
  // A class is a name: it changes no schedule.
  EXPECT_EQ(
      hosts.fingerprint(),
      parse_topology_toml(std::string(kHosts) + "class = 'x'", "x.toml").value().fingerprint());
}

TEST(LinkClasses, AreNamedAsNodesAre) {
  TopologyBuilder builder("x");
  ASSERT_TRUE(builder.add_node({}));
  ASSERT_TRUE(builder.add_node({}));
  ASSERT_TRUE(builder.add_link({NodeId{0}, NodeId{1}, 1, 0}));
  const std::string form =
      " of a link is not plain UTF-8 of 1 to 128 bytes without ',', '+' and '>', and other than "
      "'all'";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "x.toml:3: class ''" + form},
      {"all", "x.toml:3: class 'all'" + form},
      {"a,b", "x.toml:3: class 'a,b'" + form},
  };
  for (const auto& [name, error] : cases) {
    EXPECT_EQ(builder.set_class(LinkId{0}, name, "x.toml:3").error().message, error);
  }
  EXPECT_EQ(builder.set_class(LinkId{1}, "nic").error().message, "no link 1: there are 1");
  ASSERT_TRUE(builder.set_class(LinkId{0}, "nic"));
  ASSERT_TRUE(builder.set_class(LinkId{0}, "fast"));
  ASSERT_TRUE(builder.add_link({NodeId{1}, NodeId{0}, 1, 0}));
  const Topology built = std::move(builder).build().value();
  EXPECT_EQ(built.given_class(LinkId{0}), "fast");
  EXPECT_EQ(built.given_class(LinkId{1}), "");
}

}  // namespace
}  // namespace pleach
