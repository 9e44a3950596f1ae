#include "pleach/topology/link_preset.h"

#include <gtest/gtest.h>

#include <string>

#include "pleach/topology/shapes.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

using support::topology_of;

Topology file_of(const std::string& text) {
  auto topology = parse_topology_toml(text, "x.toml");
  EXPECT_TRUE(topology) << (topology ? "" : topology.error().message);
  return std::move(*topology);
}

TEST(LinkPresets, SayAllThatAShapeAsks) {
  for (const LinkPreset* preset : link_presets()) {
    SCOPED_TRACE(preset->name);
    EXPECT_GT(preset->bandwidth_bytes_per_s, 0);
    EXPECT_GT(preset->latency_ps, 0);
    EXPECT_GT(preset->framing.header_bytes, 0);
    EXPECT_FALSE(preset->source.empty());
    const Topology topology = topology_of("ring:4,link=" + preset->name);
    EXPECT_EQ(topology.name(), "ring:4,link=" + preset->name);
    EXPECT_EQ(topology.framing(), preset->framing);
    for (const Link& link : topology.links()) {
      EXPECT_EQ(link.bandwidth_bytes_per_s, preset->bandwidth_bytes_per_s);
      EXPECT_EQ(link.latency_ps, preset->latency_ps);
    }
    for (const Node& node : topology.nodes()) {
      EXPECT_EQ(node.overhead_ps, preset->overhead_ps);
    }
    EXPECT_EQ(bandwidth_under(*preset, preset->framing), preset->bandwidth_bytes_per_s);
  }
  EXPECT_GE(link_presets().size(), 12U);
}

TEST(LinkPresets, YieldToWhatIsSaid) {
  const Topology topology = topology_of("mesh:2x2,link=ib_ndr,latency=150ns,bandwidth=16GB/s");
  EXPECT_EQ(topology.name(), "mesh:2x2,bandwidth=16GB/s,latency=150ns,link=ib_ndr");
  EXPECT_EQ(topology.links()[0].bandwidth_bytes_per_s, 16'000'000'000);
  EXPECT_EQ(topology.links()[0].latency_ps, 150'000);
  EXPECT_EQ(topology.nodes()[0].overhead_ps, 1'300'000);
  EXPECT_EQ(topology.framing(), (Framing{26, 4096}));
}

// A tenth of what 10 Gb/s carry is headers: 1.18 GB/s were measured of it.
TEST(LinkPresets, CarryPayloadAsFastUnderAnyFraming) {
  const LinkPreset& ethernet = **link_presets().find("eth_10");
  EXPECT_NEAR(static_cast<double>(bandwidth_under(ethernet, {0, 256})), 1.1768e9, 1e5);
  EXPECT_NEAR(static_cast<double>(bandwidth_under(ethernet, {128, 256})), 1.7652e9, 1e5);
}

TEST(LinkPresets, AreForFilesToo) {
  const Topology mixed = file_of(R"(
    defaults = {link = "nvlink4"}
    node = [{name = "a"}, {name = "b"}, {name = "c", overhead = "1ns"},
            {name = "s", kind = "switch"}]
    cable = [{source = "a", target = "b"},
             {source = "b", target = "c", link = "ib_ndr"},
             {source = "a", target = "c", link = "ib_ndr", latency = "2us", class = "far"},
             {source = "a", target = "s", bandwidth = "1GB/s"}]
  )");
  const LinkPreset& near = **link_presets().find("nvlink4");
  const LinkPreset& far = **link_presets().find("ib_ndr");
  EXPECT_EQ(mixed.framing(), near.framing);
  EXPECT_EQ(mixed.nodes()[0].overhead_ps, near.overhead_ps);
  EXPECT_EQ(mixed.nodes()[2].overhead_ps, 1'000);
  EXPECT_EQ(mixed.nodes()[3].overhead_ps, 0);
  EXPECT_EQ(mixed.links()[0].bandwidth_bytes_per_s, near.bandwidth_bytes_per_s);
  EXPECT_EQ(mixed.links()[0].latency_ps, near.latency_ps);
  EXPECT_EQ(mixed.links()[2].bandwidth_bytes_per_s, bandwidth_under(far, near.framing));
  EXPECT_EQ(mixed.links()[2].latency_ps, far.latency_ps);
  EXPECT_EQ(mixed.given_class(LinkId{2}), "ib_ndr");
  EXPECT_EQ(mixed.links()[4].bandwidth_bytes_per_s, bandwidth_under(far, near.framing));
  EXPECT_EQ(mixed.links()[4].latency_ps, 2'000'000);
  EXPECT_EQ(mixed.given_class(LinkId{4}), "far");
  EXPECT_EQ(mixed.links()[6].bandwidth_bytes_per_s, 1'000'000'000);
  EXPECT_EQ(mixed.links()[6].latency_ps, near.latency_ps);

  const Topology shaped = file_of("shape = 'ring:4'\ndefaults = {link = 'pcie4', latency = '1us'}");
  EXPECT_EQ(shaped.links()[0].bandwidth_bytes_per_s, 31'507'692'308);
  EXPECT_EQ(shaped.links()[0].latency_ps, 1'000'000);
  EXPECT_EQ(shaped.framing(), (Framing{24, 256}));
  const Topology own = file_of("shape = 'ring:4,link=wafer'\ndefaults = {bandwidth = '1GB/s'}");
  EXPECT_EQ(own.links()[0].bandwidth_bytes_per_s, 750'000'000'000);
}

TEST(LinkPresets, AreNamedWhenUnknown) {
  EXPECT_EQ(parse_topology("ring:4,link=ib_ndt").error().message.substr(0, 64),
            "ring: unknown kind of link 'ib_ndt'; did you mean 'ib_ndr'? know");
  const auto file =
      parse_topology_toml("defaults = {link = 'nvlink9'}\nnode = [{name = 'a'}]", "x.toml");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().message.substr(0, 51),
            "x.toml:1: [defaults] unknown kind of link 'nvlink9'");
}

}  // namespace
}  // namespace pleach
