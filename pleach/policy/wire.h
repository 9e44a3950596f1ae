// Wire: the channel of a gradient group: what waits for it, what it carries, and a log of it all.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "pleach/policy/policy.h"

namespace pleach {

// The life of one collective.
struct HostedCollective {
  PolicyCollective what;
  int32_t number = 0;
  int32_t iteration = 0;  // whose gradients it carries, from 0
  int64_t ready_ps = 0;   // what it needs was there (gradients, or the reduce_scatter)
  int64_t issued_ps = 0;  // the policy's decision
  int64_t started_ps = 0;
  int64_t finished_ps = -1;  // −1: on the wire
  int64_t updated_ps = -1;   // what a reduction brought was used; −1: not yet
  int64_t exposed_ps = 0;    // of its time on the wire during which computation stood still
};

// Collectives start in the order in which they are issued, at most `width` of them at once, and may
// finish in any. Times never go back. Not thread safe.
class Wire {
 public:
  explicit Wire(int32_t width) : width_(width) {}  // ≥ 1

  // Numbers it, from 0, and lets it wait.
  void issue(HostedCollective one);
  // Whether any would start now.
  bool may_start() const { return !waiting_.empty() && count_of(carried_) < width_; }
  // Those that wait start, as far as there is room; they, in order. Valid until the next call of
  // any of these.
  std::span<const HostedCollective> start(int64_t now_ps) {
    return may_start() ? start_waiting(now_ps) : std::span<const HostedCollective>();
  }
  // One that has started; null: none that is in the log has the number. Valid as long.
  const HostedCollective* find(int32_t number) const;
  // One that is on the wire. Valid as long.
  const HostedCollective& carried(int32_t number) const;
  // It finishes.
  const HostedCollective& finish(int32_t number, int64_t now_ps);
  // What a reduction, which has finished, brought is used; or, of all that have, dropped.
  const HostedCollective& update(int32_t number, int64_t now_ps);
  void drop_reductions();
  // Whether nothing is on the wire, or waits for it.
  bool is_idle() const { return carried_.empty() && waiting_.empty(); }

  // Computation stands still from now on, and goes on again; to say so twice changes nothing.
  void stand_still(int64_t now_ps);
  void go_on(int64_t now_ps);

  // When what the last reduction of the bytes brought was used, of those logged.
  int64_t reduced_ps(ByteRange range) const;
  // Every collective started so far, in that order; forget_before drops those of older iterations
  // that are over.
  std::span<const HostedCollective> log() const { return log_; }
  void forget_before(int32_t iteration);

 private:
  struct Carried {
    int32_t number = 0;
    int64_t stood_still_ps = 0;  // in all, when it started
  };
  std::span<const HostedCollective> start_waiting(int64_t now_ps);
  int64_t stood_still_ps(int64_t now_ps) const {
    return stood_still_ps_ + (still_since_ps_ < 0 ? 0 : now_ps - still_since_ps_);
  }

  const int32_t width_;
  std::deque<HostedCollective> waiting_;
  std::vector<Carried> carried_;
  std::vector<HostedCollective> log_;
  int32_t next_number_ = 0;
  int64_t stood_still_ps_ = 0;   // of all stalls that are over
  int64_t still_since_ps_ = -1;  // −1: computation goes on
};

}  // namespace pleach
