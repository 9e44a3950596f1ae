#include "pleach/policy/group_driver.h"

#include "pleach/base/index.h"

namespace pleach {

GroupDriver::GroupDriver(const TrainingProfile& profile, Policy& policy,
                         const GroupSetting& setting)
    : setting_(setting),
      host_(profile, policy, setting.channel_width),
      layers_(profile.layers.size()) {
  for (int32_t layer = 0; layer < host_.space().layer_count(); ++layer) {
    layers_with_bytes_ += host_.space().layer(layer).size() > 0 ? 1 : 0;
  }
}

void GroupDriver::gradient_ready(int32_t layer, int64_t now_ps) {
  Layer& one = layers_[at(layer)];
  if (++one.reported < setting_.workers) {
    return;
  }
  one.reported = 0;
  ++one.completed;
  layers_completed_ += host_.space().layer(layer).size() > 0 ? 1 : 0;
  host_.gradient_ready(layer, now_ps);
}

void GroupDriver::come(const LayerGate& gate, int64_t now_ps) {
  Layer& layer = layers_[at(gate.layer)];
  Comers& comers = gate.is_forward ? layer.forward_comers : layer.backward_comers;
  if (++comers[at(gate.iteration % 2)] < setting_.workers) {
    return;
  }
  comers[at(gate.iteration % 2)] = 0;
  gate.is_forward ? host_.forward_needed(gate.layer, now_ps)
                  : host_.backward_needed(gate.layer, now_ps);
}

void GroupDriver::forward_finished(int32_t layer) {
  if (++layers_[at(layer)].forwarded == setting_.workers) {
    layers_[at(layer)].forwarded = 0;
    host_.forward_finished(layer);
  }
}

bool GroupDriver::pass(const LayerGate& gate, int64_t now_ps) {
  const bool is_open =
      has_gradients(gate) &&
      (gate.is_forward ? host_.may_run_forward(gate.layer) : host_.may_run_backward(gate.layer));
  if (gate.worker == setting_.watched_worker) {
    is_open ? host_.go_on(now_ps) : host_.stand_still(now_ps);
  }
  return is_open;
}

// Whether the gate's iteration is the group's: all workers have the gradients of the one before.
// Until then a worker that is ahead would find its parameters in place, but not updated.
bool GroupDriver::has_gradients(const LayerGate& gate) const {
  if (host_.needs().step_at_once) {
    // No layer is further than this before all are here.
    return layers_completed_ >= gate.iteration * layers_with_bytes_;
  }
  return host_.space().layer(gate.layer).size() == 0 ||
         layers_[at(gate.layer)].completed >= gate.iteration;
}

}  // namespace pleach
