#include "pleach/network/flow/fair_shares.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "pleach/base/check.h"
#include "pleach/base/index.h"

namespace pleach {
namespace {

constexpr double kUnfixed = -1;
constexpr double kNothing = 1e-9;  // of a link

}  // namespace

FairShares::FairShares(std::vector<Capacity> capacities,
                       std::vector<std::span<const LinkId>> flow_links)
    : capacities_(std::move(capacities)),
      flow_links_(std::move(flow_links)),
      active_(capacities_.size()),
      rates_(flow_links_.size()),
      place_(capacities_.size(), -1),
      fixed_(flow_links_.size()) {}

void FairShares::add_flow(std::span<const LinkId> links) {
  flow_links_.push_back(links);
  rates_.emplace_back();
  fixed_.push_back(0);
}

void FairShares::start(int32_t flow, int32_t flow_class) {
  rates_[at(flow)] = {kUnfixed, flow_class};
  for (const LinkId link : links_of(flow)) {
    active_[link.index()].push_back(flow);
    touched_.push_back(link);
  }
}

void FairShares::stop(int32_t flow) {
  for (const LinkId link : links_of(flow)) {
    auto& flows = active_[link.index()];
    const auto found = std::find(flows.begin(), flows.end(), flow);
    PLEACH_CHECK(found != flows.end(), "a flow stops that never started");
    *found = flows.back();
    flows.pop_back();
    touched_.push_back(link);
  }
  rates_[at(flow)].bytes_per_s = 0;
}

std::span<const FairShares::Change> FairShares::solve() {
  changes_.clear();
  if (touched_.empty()) {
    return changes_;
  }
  collect_part();
  fill_part();
  for (const int32_t flow : part_flows_) {
    double& bytes_per_s = rates_[at(flow)].bytes_per_s;
    if (class_of(flow) == kSuspended) {
      fixed_[at(flow)] = 0;
    }
    if (fixed_[at(flow)] != bytes_per_s) {
      bytes_per_s = fixed_[at(flow)];
      changes_.push_back({flow, bytes_per_s});
    }
    fixed_[at(flow)] = 0;
  }
  for (const LinkId link : part_links_) {
    place_[link.index()] = -1;
  }
  return changes_;
}

// All flows and links that the touched links reach.
void FairShares::collect_part() {
  part_links_.clear();
  part_flows_.clear();
  const auto add = [this](LinkId link) {
    if (place_[link.index()] < 0) {
      place_[link.index()] = 0;
      part_links_.push_back(link);
    }
  };
  std::for_each(touched_.begin(), touched_.end(), add);
  touched_.clear();
  for (std::size_t next = 0; next < part_links_.size(); ++next) {
    for (const int32_t flow : active_[part_links_[next].index()]) {
      if (fixed_[at(flow)] != kUnfixed) {
        fixed_[at(flow)] = kUnfixed;
        part_flows_.push_back(flow);
        std::for_each(links_of(flow).begin(), links_of(flow).end(), add);
      }
    }
  }
  // The order of arithmetic must not depend on the order of discovery.
  std::sort(part_flows_.begin(), part_flows_.end());
  std::sort(part_links_.begin(), part_links_.end());
}

double FairShares::capacity(LinkId link) const {
  const Capacity& own = capacities_[link.index()];
  const std::vector<int32_t>& flows = active_[link.index()];
  if (own.crowding == 0 || flows.size() < 2) {
    return own.bytes_per_s;
  }
  std::vector<LinkId> entries;
  for (const int32_t flow : flows) {
    const auto entry = std::ranges::find_if(
        links_of(flow), [&](LinkId one) { return capacities_[one.index()].target == own.source; });
    entries.push_back(entry == links_of(flow).end() ? link : *entry);
  }
  std::ranges::sort(entries);
  const auto repeated = std::ranges::unique(entries);
  const auto count = static_cast<double>(entries.size() - repeated.size());
  return own.bytes_per_s / (1 + own.crowding * (1 - 1 / count));
}

void FairShares::fill_part() {
  std::vector<double> left(part_links_.size());
  for (std::size_t index = 0; index < part_links_.size(); ++index) {
    left[index] = capacity(part_links_[index]);
    place_[part_links_[index].index()] = static_cast<int32_t>(index);
  }
  // From class to class there is.
  constexpr int32_t kNone = kSuspended;
  for (int32_t last = -1, next = 0; next != kNone; last = next) {
    next = kNone;
    bool is_only = true;
    for (const int32_t flow : part_flows_) {
      const int32_t own = class_of(flow);
      is_only = is_only && own == class_of(part_flows_.front());
      next = own > last ? std::min(next, own) : next;
    }
    if (next != kNone) {
      fill_class(next, is_only, left);
    }
  }
}

// The fullest link is the one whose flows left get the least; of several the first. A heap holds
// every link with its share; an entry that is no longer true is passed over.
void FairShares::fill_class(int32_t flow_class, bool is_only, std::vector<double>& left) {
  struct Share {
    double rate;
    std::size_t index;
    auto operator<=>(const Share&) const = default;
  };
  std::vector<int32_t> unfixed(part_links_.size());
  std::vector<Share> heap;
  std::vector<std::size_t> changed;
  std::size_t remaining = is_only ? part_flows_.size() : 0;
  for (std::size_t next = remaining; next < part_flows_.size(); ++next) {
    const int32_t flow = part_flows_[next];
    if (class_of(flow) == flow_class) {
      ++remaining;
      for (const LinkId link : links_of(flow)) {
        ++unfixed[at(place_[link.index()])];
      }
    }
  }
  for (std::size_t index = 0; index < part_links_.size(); ++index) {
    if (is_only) {
      unfixed[index] = count_of(active_[part_links_[index].index()]);
    }
    if (left[index] < kNothing * capacities_[part_links_[index].index()].bytes_per_s) {
      left[index] = 0;
    }
    if (unfixed[index] > 0) {
      heap.push_back({left[index] / unfixed[index], index});
    }
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (remaining > 0) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const auto [least, fullest] = heap.back();
    heap.pop_back();
    if (unfixed[fullest] == 0 || left[fullest] / unfixed[fullest] != least) {
      continue;
    }
    changed.clear();
    for (const int32_t flow : active_[part_links_[fullest].index()]) {
      if (fixed_[at(flow)] != kUnfixed || class_of(flow) != flow_class) {
        continue;
      }
      fixed_[at(flow)] = least;
      --remaining;
      for (const LinkId link : links_of(flow)) {
        const std::size_t index = at(place_[link.index()]);
        left[index] = std::max(0.0, left[index] - least);
        --unfixed[index];
        changed.push_back(index);
      }
    }
    std::sort(changed.begin(), changed.end());
    changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
    for (const std::size_t index : changed) {
      if (unfixed[index] > 0) {
        heap.push_back({left[index] / unfixed[index], index});
        std::push_heap(heap.begin(), heap.end(), std::greater<>());
      }
    }
  }
}

}  // namespace pleach
