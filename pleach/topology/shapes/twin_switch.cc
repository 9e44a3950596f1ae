#include <fmt/format.h>

#include "pleach/topology/shapes/common.h"

namespace pleach {
namespace {

Result<Topology> make_twin_switch(const std::string& name, const std::string& argument,
                                  const Options& options) {
  PLEACH_ASSIGN(settings, switched_settings(options));
  PLEACH_ASSIGN(rank_count, parse_rank_count("twin_switch", argument));
  if (rank_count % 2 != 0) {
    return invalid(fmt::format("twin_switch: {} ranks: it takes an even number", rank_count));
  }
  TopologyBuilder builder(name);
  builder.set_framing(settings.framing);
  for (int32_t rank = 0; rank < rank_count; ++rank) {
    PLEACH_TRY(builder.add_node(settings.rank(false)));
  }
  PLEACH_ASSIGN(first, builder.add_node(settings.plain_switch("switch0")));
  PLEACH_ASSIGN(second, builder.add_node(settings.plain_switch("switch1")));
  for (int32_t rank = 0; rank < rank_count; ++rank) {
    PLEACH_TRY(
        builder.add_cable(settings.link(NodeId{rank}, rank < rank_count / 2 ? first : second)));
  }
  for (int32_t cable = 0; cable < rank_count / 2; ++cable) {
    PLEACH_TRY(builder.add_cable(settings.link(first, second)));
  }
  return std::move(builder).build();
}

}  // namespace

// As the DGX-2: two baseboards of eight GPUs (NVIDIA NVSwitch technical overview, 2018).
extern const Shape kTwinSwitchShape = {
    "twin_switch",
    "half of the ranks on each of two switches, with as many cables between them",
    "N",
    {switch_latency_option()},
    make_twin_switch};

}  // namespace pleach
