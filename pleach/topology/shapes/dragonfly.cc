#include <fmt/format.h>

#include "pleach/base/index.h"
#include "pleach/topology/shapes/common.h"

namespace pleach {
namespace {

struct Dragonfly {
  int32_t ranks_per_router = 0;
  int32_t routers_per_group = 0;
  int32_t globals_per_router = 0;

  int32_t group_count() const { return routers_per_group * globals_per_router + 1; }
  int32_t router_count() const { return group_count() * routers_per_group; }
  int32_t rank_count() const { return router_count() * ranks_per_router; }
  // The router of a group that has the cable to another: groups are served in order.
  int32_t gateway(int32_t group, int32_t other) const {
    const int32_t port = other < group ? other : other - 1;
    return group * routers_per_group + port / globals_per_router;
  }
};

Result<Dragonfly> parse_dragonfly(const std::string& argument) {
  PLEACH_ASSIGN(sizes, parse_sizes("dragonfly", argument, "PxAxH", 1));  // of two groups
  const Dragonfly shape = {sizes[0], sizes[1], sizes[2]};
  const int64_t groups = int64_t{sizes[1]} * sizes[2] + 1;
  const int64_t ranks = groups * sizes[1] * sizes[0];
  if (ranks > kShapeRankLimit ||
      groups * (groups + int64_t{sizes[1]} * sizes[1]) > kShapeCableLimit) {
    return invalid(fmt::format("dragonfly: {} has {} groups of {} ranks: at most {} ranks",
                               argument, groups, int64_t{sizes[1]} * sizes[0], kShapeRankLimit));
  }
  return shape;
}

Result<Topology> make_dragonfly(const std::string& name, const std::string& argument,
                                const Options& options) {
  PLEACH_ASSIGN(settings, switched_settings(options));
  PLEACH_ASSIGN(shape, parse_dragonfly(argument));
  TopologyBuilder builder(name);
  builder.set_framing(settings.framing);
  const int32_t rank_count = shape.rank_count(), routers = shape.routers_per_group;
  for (int32_t rank = 0; rank < rank_count; ++rank) {
    PLEACH_TRY(builder.add_node(settings.rank(false)));
  }
  for (int32_t router = 0; router < shape.router_count(); ++router) {
    PLEACH_TRY(builder.add_node(settings.plain_switch(
        fmt::format("group{}.router{}", router / routers, router % routers))));
  }
  const auto join = [&](int32_t first, int32_t second) {
    return builder.add_cable(
        settings.link(NodeId{rank_count + first}, NodeId{rank_count + second}));
  };
  for (int32_t rank = 0; rank < rank_count; ++rank) {
    const NodeId router{rank_count + rank / shape.ranks_per_router};
    PLEACH_TRY(builder.add_cable(settings.link(NodeId{rank}, router)));
  }
  for (int32_t first = 0; first < shape.router_count(); ++first) {
    for (int32_t second = first + 1; second / routers == first / routers; ++second) {
      PLEACH_TRY(join(first, second));
    }
  }
  for (int32_t group = 0; group < shape.group_count(); ++group) {
    for (int32_t other = group + 1; other < shape.group_count(); ++other) {
      PLEACH_TRY(join(shape.gateway(group, other), shape.gateway(other, group)));
    }
  }
  return std::move(builder).build();
}

}  // namespace

// Kim, Dally, Scott & Abts, Technology-driven, highly-scalable dragonfly topology, ISCA 2008.
extern const Shape kDragonflyShape = {
    "dragonfly",
    "A*H + 1 groups of A routers with P ranks and H global cables each; routers of a group and "
    "groups all joined",
    "PxAxH",
    {switch_latency_option()},
    make_dragonfly};

}  // namespace pleach
