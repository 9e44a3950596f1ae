#include <fmt/format.h>

#include "pleach/base/index.h"
#include "pleach/topology/shapes/common.h"

namespace pleach {
namespace {

struct LeafSpine {
  int32_t leaf_count = 0;
  int32_t ranks_per_leaf = 0;
  int32_t rail_count = 0;
  int32_t spine_count = 0;  // of a rail
  int64_t uplink_bytes_per_s = 0;

  int32_t rank_count() const { return leaf_count * ranks_per_leaf; }
};

Result<LeafSpine> parse_leaf_spine(const std::string& argument, const ShapeSettings& settings,
                                   const Options& options) {
  LeafSpine shape;
  PLEACH_ASSIGN(sizes, parse_sizes("leaf_spine", argument, "LxH"));
  shape.leaf_count = sizes[0];
  shape.ranks_per_leaf = sizes[1];
  shape.rail_count = static_cast<int32_t>(options.integer("rails"));
  const auto spines = static_cast<int32_t>(options.integer("spines"));
  shape.spine_count = spines > 0 ? spines : shape.ranks_per_leaf;
  const int64_t cables = int64_t{shape.rail_count} * shape.leaf_count *
                         (int64_t{shape.ranks_per_leaf} + shape.spine_count);
  if (cables > kShapeCableLimit) {
    return invalid(fmt::format("leaf_spine: {} cables: at most {}", cables, kShapeCableLimit));
  }
  const auto down = static_cast<__int128>(settings.bandwidth_bytes_per_s) * shape.ranks_per_leaf;
  const auto up = static_cast<__int128>(shape.spine_count) * options.integer("oversubscription");
  shape.uplink_bytes_per_s = static_cast<int64_t>(down / up);
  return shape;
}

Status add_rail(const LeafSpine& shape, const ShapeSettings& settings, const std::string& prefix,
                TopologyBuilder& builder) {
  std::vector<NodeId> leaves, spines;
  for (int32_t leaf = 0; leaf < shape.leaf_count; ++leaf) {
    PLEACH_ASSIGN(id,
                  builder.add_node(settings.plain_switch(fmt::format("{}leaf{}", prefix, leaf))));
    leaves.push_back(id);
  }
  for (int32_t spine = 0; spine < shape.spine_count; ++spine) {
    PLEACH_ASSIGN(id,
                  builder.add_node(settings.plain_switch(fmt::format("{}spine{}", prefix, spine))));
    spines.push_back(id);
  }
  for (int32_t rank = 0; rank < shape.rank_count(); ++rank) {
    const NodeId leaf = leaves[at(rank / shape.ranks_per_leaf)];
    PLEACH_TRY(builder.add_cable(settings.link(NodeId{rank}, leaf)));
  }
  for (const NodeId leaf : leaves) {
    for (const NodeId spine : spines) {
      PLEACH_TRY(builder.add_cable({leaf, spine, shape.uplink_bytes_per_s, settings.latency_ps}));
    }
  }
  return ok();
}

Result<Topology> make_leaf_spine(const std::string& name, const std::string& argument,
                                 const Options& options) {
  PLEACH_ASSIGN(settings, switched_settings(options));
  PLEACH_ASSIGN(shape, parse_leaf_spine(argument, settings, options));
  TopologyBuilder builder(name);
  builder.set_framing(settings.framing);
  for (int32_t rank = 0; rank < shape.rank_count(); ++rank) {
    PLEACH_TRY(builder.add_node(settings.rank(false)));
  }
  for (int32_t rail = 0; rail < shape.rail_count; ++rail) {
    const std::string prefix = shape.rail_count == 1 ? "" : fmt::format("rail{}.", rail);
    PLEACH_TRY(add_rail(shape, settings, prefix, builder));
  }
  return std::move(builder).build();
}

}  // namespace

extern const Shape kLeafSpineShape = {
    "leaf_spine",
    "L leaf switches with H ranks each, every leaf with a cable to every spine",
    "LxH",
    {link_option("ib_ndr", "the kind of all links"),
     switch_latency_option(),
     {.name = "spines", .default_value = "0", .summary = "of a rail; 0: H", .most = 65'536},
     {.name = "oversubscription",
      .default_value = "1",
      .summary = "bandwidth of a leaf's ranks over that of its cables up",
      .least = 1,
      .most = 1'000'000},
     {.name = "rails",
      .default_value = "1",
      .summary = "as many such networks side by side, each rank with a cable to each",
      .least = 1,
      .most = 64}},
    make_leaf_spine};

}  // namespace pleach
