#include "pleach/fabric/switch_parts.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "pleach/fabric/switch_model.h"

namespace pleach {
namespace {

SwitchParts parts(const std::string& spec, const PartsModel& model = {}) {
  const Result<Topology> topology = load_topology(spec);
  EXPECT_TRUE(topology) << spec;
  const Result<std::optional<SwitchParts>> found = parts_of(*topology, model);
  EXPECT_TRUE(found && *found) << spec;
  return found ? found->value_or(SwitchParts{}) : SwitchParts{};
}

std::map<int32_t, int64_t> count_by_ports(const SwitchParts& parts) {
  std::map<int32_t, int64_t> count;
  for (const ChipletKind& kind : parts.chiplets) {
    count[kind.ports] += kind.count;
  }
  return count;
}

double area_of(double gigabytes_per_s, double density) {
  const double edge_mm = gigabytes_per_s / density / 4;
  return edge_mm * edge_mm;
}

// 15, 10 and 10 chiplets is the one way in which 685, 678 and 814 mm² come to 25,195.
TEST(SwitchParts, AreThoseOfThePublishedWafer) {
  for (const std::string variant : {"A", "B", "C", "D"}) {
    const SwitchParts wafer = parts("fred:" + variant);
    EXPECT_EQ(wafer.planes, 5);
    EXPECT_EQ(count_by_ports(wafer), (std::map<int32_t, int64_t>{{12, 15}, {11, 10}, {10, 10}}));
    EXPECT_EQ(wafer.chiplet_count(), kPublishedChiplets);
    EXPECT_EQ(wafer.cell_count(), 15 * 75 + 10 * 73 + 10 * 67);
    EXPECT_EQ(wafer.memory_bytes(), 35 * 1536);
    EXPECT_DOUBLE_EQ(wafer.ranks_and_io_mm2, 26'640);
  }
  const SwitchParts wafer = parts("fred:D");
  ASSERT_EQ(wafer.chiplets.size(), 3U);
  // Four NPUs and four ways up of 600 GB/s, I/O of 25.6 GB/s; ten ports; both ways.
  EXPECT_NEAR(wafer.chiplets[0].area_mm2, area_of(2 * (8 * 600 + 4 * 25.6), 107.4), 1e-6);
  EXPECT_NEAR(wafer.chiplets[1].area_mm2, area_of(2 * (8 * 600 + 3 * 25.6), 107.4), 1e-6);
  EXPECT_NEAR(wafer.chiplets[2].area_mm2, area_of(2 * 10 * 600, 107.4), 1e-6);
  EXPECT_EQ(wafer.chiplets[0].configuration_bits, 225);
  EXPECT_EQ(wafer.chiplets[0].phases(), 54);
  EXPECT_NEAR(wafer.area_mm2(), 20'770, 2);
  // 20 and 5 · 4 links of 3 TB/s and 18 of 128 GB/s, both ways.
  EXPECT_NEAR(wafer.wire_w, 2 * 8 * (40 * 3000 + 18 * 128) * 0.063e-3, 1e-9);
}

TEST(SwitchParts, ShrinkWithTheSquareOfTheDensity) {
  PartsModel dense;
  dense.io_bytes_per_s_per_mm = 250'000'000'000;
  const double share = parts("fred:D", dense).area_mm2() / parts("fred:D").area_mm2();
  EXPECT_NEAR(share, 0.185, 0.0005);
  EXPECT_DOUBLE_EQ(parts("fred:D", dense).density_share, share);
}

TEST(SwitchParts, OfPlanesAndOtherFabrics) {
  const SwitchParts plane = parts("fred:D,view=plane");
  EXPECT_EQ(plane.planes, 1);
  EXPECT_EQ(count_by_ports(plane), (std::map<int32_t, int64_t>{{12, 3}, {11, 2}, {10, 2}}));
  EXPECT_NEAR(5 * plane.area_mm2(), parts("fred:D").area_mm2(), 1e-6);
  // 20 ports of a crossbar in three chiplets of at most eight, whose cells are not known.
  PartsModel small;
  small.chiplet_ports = 8;
  small.port_bytes_per_s = 16'000'000'000;
  const SwitchParts tree = parts("switch_tree:20,switch=unlimited", small);
  EXPECT_EQ(tree.planes, 1);
  EXPECT_EQ(count_by_ports(tree), (std::map<int32_t, int64_t>{{7, 2}, {6, 1}}));
  EXPECT_EQ(tree.cell_count(), 0);
  EXPECT_EQ(tree.chiplets[0].phases(), 0);
  small.port_bytes_per_s = 15'999'999'999;
  EXPECT_EQ(parts("switch_tree:20,switch=unlimited", small).planes, 2);
  // What says nothing of its switches has no parts.
  EXPECT_FALSE(*parts_of(*load_topology("wafer_mesh:5x4"), {}));
  EXPECT_FALSE(*parts_of(*load_topology("fat_tree:64"), {}));
}

TEST(SwitchParts, AreRefusedWhereTheyCannotBeCounted) {
  PartsModel model;
  model.port_bytes_per_s = 1;
  const Topology fast = *load_topology("fred:D,bandwidth=9000000TB/s");
  const auto many = parts_of(fast, model);
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().message,
            "the parts of fred:D,bandwidth=9000000TB/s cannot be counted: 9000000000000000000 "
            "planes with ports of 1 B/s, and 1536 bytes of configurations in each of 7 chiplets "
            "of a plane");
  model = {};
  model.memory_bytes = INT64_MAX;
  EXPECT_FALSE(parts_of(*load_topology("fred:D"), model));
  model.memory_bytes = INT64_MAX / 8 / (kPublishedChiplets + 1);
  EXPECT_GT(parts("fred:D", model).memory_bytes(), INT64_MAX / 9);
  model = {};
  model.port_bytes_per_s = INT64_MAX;
  const auto one_plane = parts_of(fast, model);
  ASSERT_TRUE(one_plane && *one_plane);
  EXPECT_GT((*one_plane)->area_mm2(), 0);
}

}  // namespace
}  // namespace pleach
