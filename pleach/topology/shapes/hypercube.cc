#include <bit>

#include "pleach/topology/shapes/common.h"

namespace pleach {
namespace {

Result<Topology> make_hypercube(const std::string& name, const std::string& argument,
                                const Options& options) {
  PLEACH_ASSIGN(settings, shape_settings(options));
  PLEACH_ASSIGN(rank_count, parse_rank_count("hypercube", argument));
  const auto ranks = static_cast<uint32_t>(rank_count);
  if (!std::has_single_bit(ranks)) {
    return invalid("hypercube: rank count '" + argument + "' is no power of two");
  }
  const auto dimension_count = static_cast<std::size_t>(std::countr_zero(ranks));
  return make_grid(name, std::vector<GridDimension>(dimension_count, {2, true}), settings);
}

}  // namespace

extern const Shape kHypercubeShape = {
    "hypercube",
    "a power of two of ranks, a cable between every two whose numbers differ in one bit",
    "N",
    {},
    make_hypercube};

}  // namespace pleach
