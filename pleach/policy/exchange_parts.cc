#include "pleach/policy/exchange_parts.h"

#include <algorithm>

#include "pleach/base/units.h"

namespace pleach {
namespace {

int64_t divide_up(int64_t value, int32_t by) {
  return value / by + (value % by > 0 ? 1 : 0);
}

// At most kLongestPs + 1.
int64_t times(int64_t count, int64_t time_ps) {
  return time_ps > kLongestPs / count ? kLongestPs + 1 : count * time_ps;
}

}  // namespace

int64_t pipelined_forward_ps(const PolicyLayer& layer, const CostModel& costs, int32_t parts) {
  if (layer.exchange_bytes == 0) {
    return layer.forward_ps;
  }
  const int64_t exchange_ps =
      costs.time_ps(CollectiveKind::kAllToAll, divide_up(layer.exchange_bytes, parts));
  return std::max(
      {times(int64_t{2} * parts, exchange_ps),
       add_times_ps(times(int64_t{parts} + 1, exchange_ps), divide_up(layer.forward_ps, parts)),
       add_times_ps(times(2, exchange_ps), layer.forward_ps)});
}

int32_t best_exchange_parts(const PolicyLayer& layer, const CostModel& costs, int32_t most_parts) {
  int32_t best = 1;
  for (int32_t parts = 2; layer.exchange_bytes > 0 && parts <= most_parts; ++parts) {
    if (pipelined_forward_ps(layer, costs, parts) < pipelined_forward_ps(layer, costs, best)) {
      best = parts;
    }
  }
  return best;
}

}  // namespace pleach
