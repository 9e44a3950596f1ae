#include "pleach/topology/shapes/common.h"

namespace pleach {
namespace {

Result<Topology> make_ring(const std::string& name, const std::string& argument,
                           const Options& options) {
  PLEACH_ASSIGN(settings, shape_settings(options));
  PLEACH_ASSIGN(rank_count, parse_rank_count("ring", argument));
  return make_grid(name, {{rank_count, true}}, settings);
}

}  // namespace

extern const Shape kRingShape = {
    "ring", "ranks in a cycle, a cable to each neighbour", "N", {}, make_ring};

}  // namespace pleach
