#include "pleach/topology/switch_model.h"

#include "pleach/base/check.h"

namespace pleach {

std::unique_ptr<SwitchModel> make_switch_model(const Topology& topology, NodeId node) {
  PLEACH_CHECK(topology.node(node).kind == NodeKind::kSwitch, "only switches have a model");
  return std::make_unique<UnlimitedSwitch>();
}

}  // namespace pleach
