#include "pleach/topology/shapes/common.h"

namespace pleach {
namespace {

constexpr int32_t kRankLimit = 4'096;  // 16.8 million links

Result<Topology> make_fully_connected(const std::string& name, const std::string& argument,
                                      const Options& options) {
  PLEACH_ASSIGN(settings, shape_settings(options));
  PLEACH_ASSIGN(rank_count, parse_rank_count("fully_connected", argument, kRankLimit));
  TopologyBuilder builder(name);
  builder.set_framing(settings.framing);
  for (int32_t rank = 0; rank < rank_count; ++rank) {
    PLEACH_TRY(builder.add_node(settings.rank(false)));
  }
  for (int32_t source = 0; source < rank_count; ++source) {
    for (int32_t target = 0; target < rank_count; ++target) {
      if (source != target) {
        PLEACH_TRY(builder.add_link(settings.link(NodeId{source}, NodeId{target})));
      }
    }
  }
  return std::move(builder).build();
}

}  // namespace

extern const Shape kFullyConnectedShape = {
    "fully_connected", "a cable between every two ranks", "N", {}, make_fully_connected};

}  // namespace pleach
