#include "pleach/training/timekeeper.h"

#include <algorithm>
#include <limits>

#include "pleach/base/index.h"
#include "pleach/policy/buckets.h"

namespace pleach {

Timekeeper::Timekeeper(const TrainingProfile& profile)
    : layers_(ParameterSpace(profile), fuse_by_threshold(ParameterSpace(profile), 0)),
      needed_ps_(profile.layers.size()),
      ready_ps_(profile.layers.size()) {}

void Timekeeper::observe(const PolicyEvent& event) {
  const auto layer = at(event.index);
  if (event.kind == EventKind::kForwardNeeded) {
    needed_ps_[layer].push_back(event.time_ps);
  } else if (event.kind == EventKind::kGradientReady) {
    ready_ps_[layer].push_back(event.time_ps);
    for (const std::size_t index : layers_.gradient_ready(event.index)) {
      ready_.push_back(layers_.range(index));
    }
  }
}

void Timekeeper::decide(int64_t /*now_ps*/, PolicyActions& actions) {
  for (const ByteRange& range : ready_) {
    actions.start.push_back({CollectiveKind::kAllReduce, range});
  }
  ready_.clear();
}

TrainingProfile Timekeeper::told(const TrainingProfile& profile) const {
  std::vector<std::size_t> seen;  // layers with events, in forward order
  std::size_t count = std::numeric_limits<std::size_t>::max();
  for (std::size_t layer = 0; layer < ready_ps_.size(); ++layer) {
    if (!ready_ps_[layer].empty() && !needed_ps_[layer].empty()) {
      seen.push_back(layer);
      count = std::min({count, ready_ps_[layer].size(), needed_ps_[layer].size()});
    }
  }
  TrainingProfile told = profile;
  if (seen.empty() || count < 2) {
    return told;
  }
  for (PolicyLayer& layer : told.layers) {  // those without events are part of their neighbours
    layer.forward_ps = 0;
    layer.backward_ps = 0;
  }
  const auto needed = [&](std::size_t layer) { return needed_ps_[layer][count - 1]; };
  const auto ready = [&](std::size_t layer) { return ready_ps_[layer][count - 1]; };
  for (std::size_t index = 0; index + 1 < seen.size(); ++index) {
    PolicyLayer& layer = told.layers[seen[index]];
    layer.forward_ps = std::max<int64_t>(0, needed(seen[index + 1]) - needed(seen[index]));
    layer.backward_ps = std::max<int64_t>(0, ready(seen[index]) - ready(seen[index + 1]));
  }
  const std::size_t last = seen.back();
  const int64_t turn_ps = std::max<int64_t>(0, ready(last) - needed(last));
  told.layers[last].forward_ps = std::min(turn_ps, profile.layers[last].forward_ps);
  told.layers[last].backward_ps = turn_ps - told.layers[last].forward_ps;
  // Between iterations: what passes before the first layer's forward.
  const int64_t pause_ps = needed(seen.front()) - ready_ps_[seen.front()][count - 2];
  told.layers.front().forward_ps += std::max<int64_t>(0, pause_ps);
  for (PolicyLayer& layer : told.layers) {
    layer.weight_gradient_ps = std::min(layer.weight_gradient_ps, layer.backward_ps);
  }
  return told;
}

}  // namespace pleach
