#include "pleach/network/flow_sets.h"

namespace pleach {

bool FlowSets::Load::is_empty() const {
  return held == 0 &&
         std::ranges::all_of(alternate, [](const auto& other) { return other.second == 0; });
}

void FlowSets::add(Load& load, int32_t set, bool alternates) {
  if (alternates) {
    ++load.alternate[set];
  } else {
    load.held = sum(load.held, set);
  }
}

void FlowSets::remove(Load& load, int32_t set, bool alternates) {
  if (alternates) {
    --load.alternate[set];
  } else {
    load.held = rest(load.held, set);
  }
}

bool FlowSets::carries(int32_t set, int32_t& refused) {
  Set& one = sets_[at(set)];
  if (!one.conflict.has_value()) {
    one.conflict.emplace();
    for (const int32_t index : core_->conflict(flows(set))) {
      one.conflict->push_back(one.members[at(index)]);
    }
  }
  refused = one.conflict->empty() ? refused : set;
  return one.conflict->empty();
}

bool FlowSets::carries(const Load& inside, int32_t set, bool alternates, int32_t& refused) {
  if (alternates) {
    return inside.held == 0 || carries(beside(inside.held, set), refused);
  }
  const int32_t held = sum(inside.held, set);
  return carries(held, refused) && std::ranges::all_of(inside.alternate, [&](const auto& other) {
           return other.second == 0 || carries(beside(held, other.first), refused);
         });
}

void FlowSets::Keep::operator()(Load& load) const {
  (*this)(load.held);
  std::map<int32_t, int32_t> alternate;
  for (const auto& [set, count] : load.alternate) {
    if (count > 0) {
      int32_t kept = set;
      (*this)(kept);
      alternate[kept] = count;
    }
  }
  load.alternate = std::move(alternate);
}

}  // namespace pleach
