#include "pleach/network/flow/switch_traffic.h"

#include <algorithm>

#include "pleach/base/index.h"

namespace pleach {

SwitchTraffic::SwitchTraffic(const Topology& topology)
    : topology_(topology), switch_of_(topology.nodes().size()) {
  for (std::size_t node = 0; node < switch_of_.size(); ++node) {
    if (topology.nodes()[node].kind == NodeKind::kSwitch) {
      switch_of_[node] = switches_.size();
      switches_.push_back(
          {make_switch_model(topology, NodeId{static_cast<int32_t>(node)}), {}, {}, {}});
    }
  }
}

void SwitchTraffic::add(std::span<const LinkId> links) {
  if (switches_.empty()) {
    return;
  }
  auto& passes = passes_.emplace_back();
  const auto pass_at = [&](NodeId node) -> Pass* {
    if (topology_.node(node).kind != NodeKind::kSwitch) {
      return nullptr;
    }
    for (Pass& pass : passes) {
      if (pass.at_switch == switch_of_[node.index()]) {
        return &pass;
      }
    }
    passes.push_back({switch_of_[node.index()], {}, {}});
    return &passes.back();
  };
  for (const LinkId link : links) {
    if (Pass* pass = pass_at(topology_.link(link).source)) {
      pass->outputs.push_back(link);
    }
    if (Pass* pass = pass_at(topology_.link(link).target)) {
      pass->inputs.push_back(link);
    }
  }
}

bool SwitchTraffic::enter(int32_t connection) {
  if (switches_.empty()) {
    return true;
  }
  const auto& passes = passes_[at(connection)];
  std::size_t entered = 0;
  for (; entered < passes.size(); ++entered) {
    const Pass& pass = passes[entered];
    State& state = switches_[pass.at_switch];
    state.streams.push_back({pass.inputs, pass.outputs});
    state.connections.push_back(connection);
    if (!state.model->admits(state.streams)) {
      state.waiting.push_back(connection);
      break;
    }
  }
  if (entered == passes.size()) {
    return true;
  }
  for (std::size_t back = 0; back <= entered; ++back) {
    switches_[passes[back].at_switch].streams.pop_back();
    switches_[passes[back].at_switch].connections.pop_back();
  }
  return false;
}

void SwitchTraffic::leave(int32_t connection, std::vector<int32_t>& woken) {
  if (switches_.empty()) {
    return;
  }
  for (const Pass& pass : passes_[at(connection)]) {
    State& state = switches_[pass.at_switch];
    const auto found = std::find(state.connections.begin(), state.connections.end(), connection);
    state.streams.erase(state.streams.begin() + (found - state.connections.begin()));
    state.connections.erase(found);
    woken.insert(woken.end(), state.waiting.begin(), state.waiting.end());
    state.waiting.clear();
  }
}

}  // namespace pleach
