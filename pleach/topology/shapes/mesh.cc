#include "pleach/topology/shapes/common.h"

namespace pleach {
namespace {

Result<Topology> make_mesh(const std::string& name, const std::string& argument,
                           const Options& options) {
  PLEACH_ASSIGN(settings, shape_settings(options));
  PLEACH_ASSIGN(sizes, parse_dimensions("mesh", argument));
  std::vector<GridDimension> dimensions;
  dimensions.reserve(sizes.size());
  for (const int32_t size : sizes) {
    dimensions.push_back({size, false});
  }
  return make_grid(name, dimensions, settings);
}

}  // namespace

extern const Shape kMeshShape = {
    "mesh", "a grid of ranks, any number of dimensions", "AxBx...", {}, make_mesh};

}  // namespace pleach
