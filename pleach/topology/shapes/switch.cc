#include "pleach/topology/shapes/common.h"

namespace pleach {
namespace {

Result<Topology> make_switch(const std::string& name, const std::string& argument,
                             const Options& options) {
  PLEACH_ASSIGN(settings, switched_settings(options));
  PLEACH_ASSIGN(rank_count, parse_rank_count("switch", argument));
  TopologyBuilder builder(name);
  builder.set_framing(settings.framing);
  for (int32_t rank = 0; rank < rank_count; ++rank) {
    PLEACH_TRY(builder.add_node(settings.rank(false)));
  }
  Node node = settings.plain_switch("switch");
  node.reduces = options.text("reduce") == "true";
  node.multicasts = options.text("multicast") == "true";
  PLEACH_ASSIGN(hub, builder.add_node(node));
  for (int32_t rank = 0; rank < rank_count; ++rank) {
    PLEACH_TRY(builder.add_cable(settings.link(NodeId{rank}, hub)));
  }
  return std::move(builder).build();
}

}  // namespace

extern const Shape kSwitchShape = {
    "switch",
    "ranks on one switch, a cable each",
    "N",
    {switch_latency_option(), flag_option("reduce", "the switch combines what ranks send"),
     flag_option("multicast", "the switch copies to several ranks at once")},
    make_switch};

}  // namespace pleach
