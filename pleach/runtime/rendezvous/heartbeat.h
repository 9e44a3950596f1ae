// Heartbeat: when a store pings, and how long it has been since it looked last.
#pragma once

#include "pleach/runtime/clock.h"

namespace pleach {

class Heartbeat {
 public:
  struct Beat {
    Duration passed;  // since the last tick
    bool must_ping = false;
  };

  explicit Heartbeat(Duration interval) : interval_(interval) {}
  void start(TimePoint now) { last_tick_ = next_ping_ = now; }
  TimePoint next() const { return next_ping_; }
  Beat tick(TimePoint now) {
    const Beat beat = {now - last_tick_, now >= next_ping_};
    last_tick_ = now;
    if (beat.must_ping) {
      next_ping_ = now + interval_;
    }
    return beat;
  }

 private:
  Duration interval_;
  TimePoint last_tick_, next_ping_;
};

}  // namespace pleach
