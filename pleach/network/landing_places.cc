#include "pleach/network/flow/landing.h"

#include <algorithm>
#include <tuple>

#include "pleach/base/index.h"

namespace pleach {
namespace {}  // namespace

LandingPlaces::LandingPlaces(const LoweredJob& plan, int32_t period, int32_t segment_count,
                             int32_t places)
    : plan_(plan),
      segment_count_(segment_count),
      places_(places),
      windows_(plan.connections().size()) {
  struct Item {
    int32_t connection_class;  // the order is the same on all its connections
    int64_t key;
    int32_t segment;
    int32_t stream;
    auto operator<=>(const Item&) const = default;
  };
  const Order& order = plan.order();
  const int32_t instance_count = plan.instance_count();
  std::vector<Item> items;
  for (int32_t stream = 0; stream < order.stream_count(); ++stream) {
    for (int32_t segment = 0; segment < segment_count; ++segment) {
      const int64_t key = int64_t{segment} * period + order.stream(stream).step;
      items.push_back({plan.connection_class(stream), key, segment, stream});
      left_.insert(left_.end(), at(instance_count), count_of(order.commits(stream)));
    }
  }
  std::sort(items.begin(), items.end());
  position_.resize(items.size());
  for (const Item& one : items) {
    for (int32_t instance = 0; instance < instance_count; ++instance) {
      Window& window = windows_[at(plan.connection_of(one.stream, instance))];
      position_[item(one.stream, one.segment)] = count_of(window.states);
      window.states.push_back(State::kWaiting);
    }
  }
}

bool LandingPlaces::admits(int32_t connection, int32_t stream, int32_t segment) const {
  const Window& window = windows_[at(connection)];
  if (window.held == places_) {
    return false;
  }
  return position_[item(stream, segment)] == window.smallest || window.held + 1 < places_ ||
         window.states[at(window.smallest)] == State::kAdmitted;
}

void LandingPlaces::admit(int32_t connection, int32_t stream, int32_t segment) {
  Window& window = windows_[at(connection)];
  ++window.held;
  window.states[at(position_[item(stream, segment)])] = State::kAdmitted;
}

bool LandingPlaces::commit(int32_t connection, int32_t stream, int32_t segment, int32_t instance) {
  const std::size_t entry = item(stream, segment) * at(plan_.instance_count()) + at(instance);
  if (--left_[entry] > 0) {
    return false;
  }
  Window& window = windows_[at(connection)];
  --window.held;
  window.states[at(position_[item(stream, segment)])] = State::kCommitted;
  while (at(window.smallest) < window.states.size() &&
         window.states[at(window.smallest)] == State::kCommitted) {
    ++window.smallest;
  }
  return true;
}

}  // namespace pleach
