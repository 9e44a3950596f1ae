#include "pleach/topology/shapes/common.h"

namespace pleach {
namespace {

Result<Topology> make_torus(const std::string& name, const std::string& argument,
                            const Options& options) {
  PLEACH_ASSIGN(settings, shape_settings(options));
  PLEACH_ASSIGN(sizes, parse_dimensions("torus", argument));
  std::vector<GridDimension> dimensions;
  dimensions.reserve(sizes.size());
  for (const int32_t size : sizes) {
    dimensions.push_back({size, true});
  }
  return make_grid(name, dimensions, settings);
}

}  // namespace

extern const Shape kTorusShape = {
    "torus",
    "a grid of ranks whose rows and columns close into rings, any number of dimensions",
    "AxBx...",
    {},
    make_torus};

}  // namespace pleach
