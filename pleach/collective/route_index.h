// RouteIndex: keeps each distinct route of a RouteTable once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>

#include "pleach/base/hash.h"
#include "pleach/base/id.h"
#include "pleach/collective/schedule.h"

namespace pleach {

// Borrows the table; nobody else may add to it meanwhile.
class RouteIndex {
 public:
  explicit RouteIndex(RouteTable& routes) : routes_(routes) {
    for (int32_t route = 0; route < routes.size(); ++route) {
      by_hash_.emplace(hash(routes[route]), route);
    }
  }

  // The index of the route with exactly these links, which is added when there is none.
  int32_t find_or_add(std::span<const LinkId> links) {
    const uint64_t key = hash(links);
    const auto [begin, end] = by_hash_.equal_range(key);
    for (auto entry = begin; entry != end; ++entry) {
      const auto route = routes_[entry->second];
      if (std::equal(route.begin(), route.end(), links.begin(), links.end())) {
        return entry->second;
      }
    }
    return by_hash_.emplace(key, routes_.add(links))->second;
  }

 private:
  static uint64_t hash(std::span<const LinkId> links) {
    Fingerprint fingerprint;
    for (const LinkId link : links) {
      fingerprint.add(link.value);
    }
    return fingerprint.value();
  }

  RouteTable& routes_;
  std::unordered_multimap<uint64_t, int32_t> by_hash_;
};

}  // namespace pleach
