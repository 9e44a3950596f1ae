#include "pleach/topology/switch_model.h"

#include "pleach/base/check.h"

namespace pleach {

std::unique_ptr<SwitchModel> make_switch_model(const Topology& topology, NodeId node) {
  const Node& properties = topology.node(node);
  PLEACH_CHECK(properties.kind == NodeKind::kSwitch, "only switches have a model");
  const SwitchKind* kind = *switch_kinds().begin();
  if (!properties.switch_kind.empty()) {
    const auto named = switch_kinds().find(properties.switch_kind);
    PLEACH_CHECK(named.has_value(), "TopologyBuilder knows all kinds of switches");
    kind = *named;
  }
  return kind->create(topology, node);
}

}  // namespace pleach
