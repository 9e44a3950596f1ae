// GroupDriver: drives the policy of a gradient group: what its workers report in, what travels and
// who may go on out.
//
// The iteration simulator and rehearse() drive the same object, and real training can. It has no
// clock and does no I/O: time is the caller's, and so are the collectives. At every instant:
//   1. report facts: gradients that are ready, workers that come to gates, forwards and collectives
//      that have finished;
//   2. try the gates of the workers that stand at one: pass() says who goes on;
//   3. when that leads to no more facts of this instant, start what next() gives: a policy that
//      decided on some of them would let less urgent bytes go first;
// and again from 1 if anything happened. When nothing does, the next instant is the next fact, or
// wake_ps().
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "pleach/policy/host.h"

namespace pleach {

// Where a worker waits before it computes a layer.
struct LayerGate {
  bool is_forward = true;  // false: backward
  int32_t layer = 0;
  int32_t worker = 0;
  int32_t iteration = 0;  // of the worker, from 0
};

struct GroupSetting {
  // That report every gradient. 1 where what is reported holds for the whole group: where its ranks
  // are alike, or where each drives a policy of its own that decides alike on all of them.
  int32_t workers = 1;
  int32_t watched_worker = 0;  // its waiting at gates is what collectives expose
  int32_t channel_width = 1;   // collectives on the wire at once, ≥ 1
};

// Not thread safe.
class GroupDriver {
 public:
  // Both outlive the driver. `profile` is checked.
  GroupDriver(const TrainingProfile& profile, Policy& policy, const GroupSetting& setting = {});

  // One more worker has the layer's gradients; each reports each layer once an iteration.
  void gradient_ready(int32_t layer, int64_t now_ps);
  // A worker has come to a gate, once an iteration. A collective needs every rank: the layer is
  // needed when the last worker has come.
  void come(const LayerGate& gate, int64_t now_ps);
  // A worker's forward of the layer has ended, once an iteration. When all have, they may drop the
  // parameters, and gather them again.
  void forward_finished(int32_t layer);
  void finish(int32_t number, int64_t now_ps) { host_.finish(number, now_ps); }

  // Whether the worker that has come to the gate goes on: the layer's parameters are in place, and
  // updated with the gradients of all workers of the iteration before. Until it does, asks again at
  // every instant.
  bool pass(const LayerGate& gate, int64_t now_ps);

  // As those of PolicyHost.
  bool has_next(int64_t now_ps) const { return host_.has_next(now_ps); }
  Result<std::span<const HostedCollective>> next(int64_t now_ps) { return host_.next(now_ps); }
  int64_t wake_ps() const { return host_.wake_ps(); }
  void forget_before(int32_t iteration) { host_.forget_before(iteration); }
  const PolicyHost& host() const { return host_; }

 private:
  // Workers that have come to a gate, by iteration modulo 2: no worker passes the gate of the next
  // one before all have come to this one's.
  using Comers = std::array<int32_t, 2>;
  struct Layer {
    int32_t reported = 0;   // workers that have its gradients in this iteration
    int32_t completed = 0;  // iterations whose gradients all workers have
    int32_t forwarded = 0;  // workers whose forward has ended in this iteration
    Comers forward_comers = {};
    Comers backward_comers = {};
  };
  bool has_gradients(const LayerGate& gate) const;

  const GroupSetting setting_;
  PolicyHost host_;
  std::vector<Layer> layers_;
  int64_t layers_with_bytes_ = 0;
  int64_t layers_completed_ = 0;  // of those, over all iterations
};

}  // namespace pleach
