#include "pleach/fabric/switch_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "pleach/base/check.h"
#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/topology/shapes.h"
#include "pleach/topology/switch_ports.h"

namespace pleach {
namespace {

Result<Selection<SwitchModel>> model_of(const Node& node) {
  return switch_models().select(switch_model_of(node));
}

Result<std::unique_ptr<SwitchCore>> create(const Topology& topology, NodeId node) {
  PLEACH_ASSIGN(model, model_of(topology.node(node)));
  if (model.entry->create == nullptr) {
    return std::unique_ptr<SwitchCore>();
  }
  const SwitchPorts ports(topology, node);
  return model.entry->create(std::max(ports.input_count(), ports.output_count()), model.options);
}

}  // namespace

const std::string& switch_model_of(const Node& node) {
  return node.switch_model.empty() ? (*switch_models().begin())->name : node.switch_model;
}

Status check_switches(const Topology& topology) {
  for (int32_t index = 0; index < count_of(topology.nodes()); ++index) {
    const Node& node = topology.node(NodeId{index});
    if (node.switch_model.empty()) {
      continue;
    }
    if (const auto made = create(topology, NodeId{index}); !made) {
      return invalid(fmt::format("node {}: {}", quoted(node.name), made.error().message));
    }
  }
  return ok();
}

Result<Topology> load_topology(std::string_view spec) {
  PLEACH_ASSIGN(topology, parse_topology(spec));
  PLEACH_TRY(check_switches(topology));
  return std::move(topology);
}

std::unique_ptr<SwitchCore> make_switch(const Topology& topology, NodeId node) {
  auto made = create(topology, node);
  PLEACH_CHECK(made, made ? "" : made.error().message.c_str());
  return std::move(made).value();
}

double crowding_of(const Topology& topology, NodeId node) {
  const auto model = model_of(topology.node(node));
  PLEACH_CHECK(model, model ? "" : model.error().message.c_str());
  return model->entry->crowding;
}

}  // namespace pleach
