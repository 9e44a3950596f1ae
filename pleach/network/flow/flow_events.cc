#include "pleach/network/flow/flow_events.h"

#include <algorithm>
#include <bit>

namespace pleach {
namespace {

// Buckets of about eight events: `connections` transmissions of `transmission_ps` go on at a
// time.
int bucket_shift(int64_t transmission_ps, std::size_t connections) {
  const auto count = static_cast<int64_t>(std::max<std::size_t>(connections, 1));
  constexpr int64_t kMostPs = int64_t{1} << 50;
  const int64_t width_ps = std::max<int64_t>(1, std::min(transmission_ps, kMostPs) * 4 / count);
  return std::min(40, static_cast<int>(std::bit_width(static_cast<uint64_t>(width_ps))));
}

}  // namespace

void FlowEvents::clear() {
  queue_.clear();
  connections_ = 0;
  slowest_ps_ = 1;
  is_fresh_ = true;
}

void FlowEvents::join(std::size_t connections, int64_t transmission_ps, int64_t now_ps) {
  connections_ += connections;
  slowest_ps_ = std::max(slowest_ps_, transmission_ps);
  const int shift = bucket_shift(slowest_ps_, connections_);
  if (is_fresh_ || shift < queue_.shift()) {
    queue_.retune(shift, now_ps);
  }
  is_fresh_ = false;
}

}  // namespace pleach
