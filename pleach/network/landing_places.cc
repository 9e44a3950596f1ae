#include "pleach/network/landing_places.h"

#include <algorithm>
#include <compare>

namespace pleach {

LandingPlaces::LandingPlaces(const LoweredSchedule& schedule, int32_t places)
    : schedule_(schedule), places_(places), windows_(schedule.connections().size()) {
  struct Item {
    int32_t connection_class;  // the order is the same on all its connections
    Send send;
    auto operator<=>(const Item&) const = default;
  };
  const Order& order = schedule.order();
  std::vector<Item> items;
  for (int32_t stream = 0; stream < order.stream_count(); ++stream) {
    for (int32_t segment = 0; segment < schedule.segment_count(); ++segment) {
      items.push_back({schedule.connection_class(stream), schedule.send(stream, segment, 0)});
      left_.insert(left_.end(), at(schedule.translate_count()), count_of(order.commits(stream)));
    }
  }
  std::ranges::sort(items);
  position_.resize(items.size());
  for (const auto& [connection_class, send] : items) {
    for (int32_t translate = 0; translate < schedule.translate_count(); ++translate) {
      Window& window =
          windows_[at(schedule.connection_of(schedule.send(send.stream, send.segment, translate)))];
      position_[item(send.stream, send.segment)] = count_of(window.states);
      window.states.push_back(State::kWaiting);
    }
  }
}

bool LandingPlaces::admits(const Send& send) const {
  const Window& window = windows_[at(schedule_.connection_of(send))];
  if (window.held == places_) {
    return false;
  }
  return position_[item(send.stream, send.segment)] == window.smallest ||
         window.held + 1 < places_ || window.states[at(window.smallest)] == State::kAdmitted;
}

void LandingPlaces::admit(const Send& send) {
  Window& window = windows_[at(schedule_.connection_of(send))];
  ++window.held;
  window.states[at(position_[item(send.stream, send.segment)])] = State::kAdmitted;
}

bool LandingPlaces::commit(const Arrival& arrival) {
  const std::size_t sent = item(schedule_.order().commit(arrival.commit).stream, arrival.segment);
  if (--left_[sent * at(schedule_.translate_count()) + at(arrival.translate)] > 0) {
    return false;
  }
  Window& window = windows_[at(schedule_.connection_of(arrival))];
  --window.held;
  window.states[at(position_[sent])] = State::kCommitted;
  while (at(window.smallest) < window.states.size() &&
         window.states[at(window.smallest)] == State::kCommitted) {
    ++window.smallest;
  }
  return true;
}

}  // namespace pleach
