#include "pleach/network/flit/vc_layers.h"

#include <algorithm>
#include <utility>

#include "pleach/base/index.h"

namespace pleach {
namespace {

// Dependencies between links, without a cycle, and an order of the links that they agree with.
class Layer {
 public:
  explicit Layer(int32_t link_count)
      : next_(at(link_count)),
        previous_(at(link_count)),
        order_(at(link_count)),
        found_by_(at(link_count), -1),
        seen_(at(link_count), 0) {
    for (int32_t link = 0; link < link_count; ++link) {
      order_[at(link)] = link;
    }
  }

  // Adds the dependencies of a route; false, and nothing has changed, where they close a cycle.
  bool add(const std::vector<LinkId>& route) {
    std::vector<std::pair<int32_t, int32_t>> added;
    for (std::size_t i = 1; i < route.size(); ++i) {
      const int32_t from = route[i - 1].value, to = route[i].value;
      if (std::ranges::find(next_[at(from)], to) != next_[at(from)].end()) {
        continue;
      }
      if (!make_room(from, to)) {
        for (const auto& [source, target] : added) {
          std::erase(next_[at(source)], target);
          std::erase(previous_[at(target)], source);
        }
        return false;
      }
      next_[at(from)].push_back(to);
      previous_[at(to)].push_back(from);
      added.emplace_back(from, to);
    }
    return true;
  }
  // Of the last add() that failed.
  const std::vector<LinkId>& cycle() const { return cycle_; }

 private:
  // Changes the order so that `from` is before `to`; false where `to` already leads to `from`.
  bool make_room(int32_t from, int32_t to) {
    if (from == to) {
      cycle_ = {LinkId{from}};
      return false;
    }
    const int32_t low = order_[at(to)], high = order_[at(from)];
    if (low > high) {
      return true;
    }
    std::vector<int32_t> after =
        reach(to, next_, [&](int32_t link) { return order_[at(link)] <= high; });
    if (std::ranges::find(after, from) != after.end()) {
      keep_cycle(from, to);
      return false;
    }
    std::vector<int32_t> before =
        reach(from, previous_, [&](int32_t link) { return order_[at(link)] >= low; });
    const auto by_order = [&](int32_t a, int32_t b) { return order_[at(a)] < order_[at(b)]; };
    std::ranges::sort(before, by_order);
    std::ranges::sort(after, by_order);
    before.insert(before.end(), after.begin(), after.end());
    std::vector<int32_t> places;
    places.reserve(before.size());
    for (const int32_t link : before) {
      places.push_back(order_[at(link)]);
    }
    std::ranges::sort(places);
    for (std::size_t i = 0; i < before.size(); ++i) {
      order_[at(before[i])] = places[i];
    }
    return true;
  }

  template <typename Within>
  std::vector<int32_t> reach(int32_t start, const std::vector<std::vector<int32_t>>& along,
                             Within within) {
    ++search_;
    std::vector<int32_t> found = {start};
    seen_[at(start)] = search_;
    found_by_[at(start)] = -1;
    for (std::size_t i = 0; i < found.size(); ++i) {
      for (const int32_t link : along[at(found[i])]) {
        if (seen_[at(link)] != search_ && within(link)) {
          seen_[at(link)] = search_;
          found_by_[at(link)] = found[i];
          found.push_back(link);
        }
      }
    }
    return found;
  }

  // From `to` to `from`, as the last search found them; the new dependency closes the cycle.
  void keep_cycle(int32_t from, int32_t to) {
    cycle_.clear();
    for (int32_t link = from; link >= 0; link = found_by_[at(link)]) {
      cycle_.push_back(LinkId{link});
      if (link == to) {
        break;
      }
    }
    std::ranges::reverse(cycle_);
  }

  std::vector<std::vector<int32_t>> next_, previous_;
  std::vector<int32_t> order_;  // of each link
  std::vector<int32_t> found_by_;
  std::vector<int64_t> seen_;  // in which search
  int64_t search_ = 0;
  std::vector<LinkId> cycle_;
};

}  // namespace

VcLayers assign_vc_layers(int32_t link_count, std::span<const std::vector<LinkId>> routes,
                          int32_t most_layers) {
  VcLayers result;
  std::vector<Layer> layers;
  layers.emplace_back(link_count);
  for (const std::vector<LinkId>& route : routes) {
    int32_t layer = 0;
    while (layer < most_layers && !layers[at(layer)].add(route)) {
      if (++layer == count_of(layers) && layer < most_layers) {
        layers.emplace_back(link_count);
      }
    }
    if (layer == most_layers) {
      if (result.cycle.empty()) {
        result.cycle = layers.back().cycle();
      }
      layer = 0;
    }
    result.layer_of.push_back(layer);
  }
  result.count = count_of(layers);
  return result;
}

}  // namespace pleach
