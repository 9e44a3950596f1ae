#include "pleach/network/flit/vc_classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/network/flit/vc_layers.h"
#include "pleach/topology/link_name.h"

namespace pleach {
namespace {

// How a link lies in a grid.
struct GridLink {
  int32_t dimension = -1;  // -1: it joins no neighbours
  bool is_plus = false;
  bool wraps = false;
};

class GridLinks {
 public:
  explicit GridLinks(const Topology& topology)
      : topology_(topology), place_(topology.nodes().size(), -1) {
    for (std::size_t rank = 0; rank < topology.rank_nodes().size(); ++rank) {
      place_[topology.rank_nodes()[rank].index()] = static_cast<int32_t>(rank);
    }
  }

  // Whether one of its ends is no place of the grid.
  bool is_outside(LinkId link) const {
    return std::min(place_[topology_.link(link).source.index()],
                    place_[topology_.link(link).target.index()]) < 0;
  }

  GridLink find(LinkId link) const {
    const int32_t source = place_[topology_.link(link).source.index()];
    const int32_t target = place_[topology_.link(link).target.index()];
    int32_t stride = count_of(topology_.rank_nodes());
    GridLink found;
    for (int32_t i = 0; i < count_of(topology_.grid()) && source >= 0 && target >= 0; ++i) {
      const int32_t size = topology_.grid()[at(i)].size;
      stride /= size;
      const int32_t from = source / stride % size, to = target / stride % size;
      if (from == to) {
        continue;
      }
      // Of a ring of two the way round is a link that there is already.
      const bool wraps = size > 2 && std::abs(to - from) == size - 1;
      if (found.dimension >= 0 || (!wraps && std::abs(to - from) != 1)) {
        return {};
      }
      found = {i, wraps ? to == 0 : to > from, wraps};
    }
    return found;
  }

 private:
  const Topology& topology_;
  std::vector<int32_t> place_;  // by node: its rank in the grid
};

// By datelines; none where a route is not along the grid.
std::optional<VcClasses> with_datelines(const Topology& topology,
                                        std::span<const std::vector<LinkId>> routes) {
  const GridLinks grid(topology);
  VcClasses classes{2, {}};
  for (const std::vector<LinkId>& route : routes) {
    std::vector<int32_t>& of = classes.class_of.emplace_back(route.size());
    for (std::size_t first = 0, end = 0; first < route.size(); first = end) {
      if (grid.is_outside(route[first])) {  // of an I/O node, from which no circle goes on
        ++end;
        continue;
      }
      const GridLink direction = grid.find(route[first]);
      if (direction.dimension < 0) {
        return std::nullopt;
      }
      bool wraps = false;
      for (; end < route.size(); ++end) {
        const GridLink link = grid.find(route[end]);
        if (link.dimension != direction.dimension || link.is_plus != direction.is_plus) {
          break;
        }
        wraps = wraps || link.wraps;
      }
      std::fill(of.begin() + static_cast<std::ptrdiff_t>(first),
                of.begin() + static_cast<std::ptrdiff_t>(end), wraps ? 1 : 0);
    }
  }
  return classes;
}

bool has_circle(const Topology& topology, std::span<const std::vector<LinkId>> routes,
                const VcClasses& classes) {
  std::vector<std::vector<LinkId>> channels(routes.begin(), routes.end());
  for (std::size_t i = 0; i < channels.size(); ++i) {
    for (std::size_t hop = 0; hop < channels[i].size(); ++hop) {
      channels[i][hop].value = channels[i][hop].value * classes.count + classes.class_of[i][hop];
    }
  }
  const int32_t count = count_of(topology.links()) * classes.count;
  return !assign_vc_layers(count, channels, 1).cycle.empty();
}

std::string names_of(const Topology& topology, const std::vector<LinkId>& links) {
  constexpr std::size_t kMost = 16;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(kMost, links.size()); ++i) {
    names.push_back(link_name(topology, links[i]));
  }
  if (links.size() > kMost) {
    names.emplace_back("...");
  }
  return join(names, ", ");
}

}  // namespace

Error too_few_vcs(const Topology& topology, int32_t vcs, const std::vector<LinkId>& cycle) {
  return Error{ErrorCode::kInfeasible,
               fmt::format("vcs '{}' are too few for the routes on {}: packets could wait in the "
                           "circle of links {} (deadlock=allow runs them)",
                           vcs, topology.name(), names_of(topology, cycle))};
}

Result<VcClasses> assign_vc_classes(const Topology& topology,
                                    std::span<const std::vector<LinkId>> routes, int32_t vcs,
                                    bool allow_deadlock) {
  const bool wraps = std::ranges::any_of(topology.grid(), [](const GridDimension& dimension) {
    return dimension.wraps && dimension.size > 2;
  });
  if (wraps && vcs >= 2) {
    auto classes = with_datelines(topology, routes);
    if (classes && !has_circle(topology, routes, *classes)) {
      return std::move(*classes);
    }
  }
  const VcLayers layers = assign_vc_layers(count_of(topology.links()), routes, vcs);
  if (!layers.cycle.empty() && !allow_deadlock) {
    return too_few_vcs(topology, vcs, layers.cycle);
  }
  VcClasses classes{layers.count, {}};
  for (std::size_t i = 0; i < routes.size(); ++i) {
    classes.class_of.emplace_back(routes[i].size(), layers.layer_of[i]);
  }
  return classes;
}

}  // namespace pleach
