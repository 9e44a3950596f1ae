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
      filling_(capacities_.size()),
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
  for (const int32_t flow : part_.flows) {
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
  for (const LinkId link : part_.links) {
    filling_[link.index()].is_in_part = false;
  }
  std::ranges::sort(changes_, {}, &Change::flow);
  return changes_;
}

// All flows and links that the touched links reach, in no order.
void FairShares::collect_part() {
  part_.links.clear();
  part_.flows.clear();
  const auto add = [this](LinkId link) {
    Filling& filling = filling_[link.index()];
    if (!filling.is_in_part) {
      filling.is_in_part = true;
      part_.links.push_back(link);
    }
  };
  std::for_each(touched_.begin(), touched_.end(), add);
  touched_.clear();
  for (std::size_t next = 0; next < part_.links.size(); ++next) {
    for (const int32_t flow : active_[part_.links[next].index()]) {
      if (fixed_[at(flow)] != kUnfixed) {
        fixed_[at(flow)] = kUnfixed;
        part_.flows.push_back(flow);
        std::for_each(links_of(flow).begin(), links_of(flow).end(), add);
      }
    }
  }
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
  for (const LinkId link : part_.links) {
    filling_[link.index()].left = capacity(link);
  }
  // From class to class there is.
  constexpr int32_t kNone = kSuspended;
  for (int32_t last = -1, next = 0; next != kNone; last = next) {
    next = kNone;
    bool is_only = true;
    for (const int32_t flow : part_.flows) {
      const int32_t own = class_of(flow);
      is_only = is_only && own == class_of(part_.flows.front());
      next = own > last ? std::min(next, own) : next;
    }
    if (next != kNone) {
      fill_class(next, is_only);
    }
  }
}

// How many of the class each link of the part has, and the share of each; returns their sum.
std::size_t FairShares::prepare_class(int32_t flow_class, bool is_only) {
  std::size_t remaining = is_only ? part_.flows.size() : 0;
  for (const LinkId link : part_.links) {
    filling_[link.index()].unfixed = is_only ? count_of(active_[link.index()]) : 0;
  }
  for (std::size_t next = remaining; next < part_.flows.size(); ++next) {
    const int32_t flow = part_.flows[next];
    if (class_of(flow) == flow_class) {
      ++remaining;
      for (const LinkId link : links_of(flow)) {
        ++filling_[link.index()].unfixed;
      }
    }
  }
  part_.heap.clear();
  for (const LinkId link : part_.links) {
    Filling& filling = filling_[link.index()];
    if (filling.left < kNothing * capacities_[link.index()].bytes_per_s) {
      filling.left = 0;
    }
    if (filling.unfixed > 0) {
      part_.heap.push_back({filling.left / filling.unfixed, link});
    }
  }
  std::make_heap(part_.heap.begin(), part_.heap.end(), std::greater<>());
  return remaining;
}

// The fullest link is the one whose flows left get the least; of several the first, so that the
// order of arithmetic does not depend on the order of discovery. A heap holds every link with its
// share; an entry that is no longer true is passed over.
void FairShares::fill_class(int32_t flow_class, bool is_only) {
  std::size_t remaining = prepare_class(flow_class, is_only);
  while (remaining > 0) {
    std::pop_heap(part_.heap.begin(), part_.heap.end(), std::greater<>());
    const auto [least, fullest] = part_.heap.back();
    part_.heap.pop_back();
    const Filling& top = filling_[fullest.index()];
    if (top.unfixed == 0 || top.left / top.unfixed != least) {
      continue;
    }
    part_.changed.clear();
    for (const int32_t flow : active_[fullest.index()]) {
      if (fixed_[at(flow)] != kUnfixed || class_of(flow) != flow_class) {
        continue;
      }
      fixed_[at(flow)] = least;
      --remaining;
      for (const LinkId link : links_of(flow)) {
        Filling& filling = filling_[link.index()];
        filling.left = std::max(0.0, filling.left - least);
        --filling.unfixed;
        if (!filling.is_changed) {
          filling.is_changed = true;
          part_.changed.push_back(link);
        }
      }
    }
    for (const LinkId link : part_.changed) {
      Filling& filling = filling_[link.index()];
      filling.is_changed = false;
      if (filling.unfixed > 0) {
        part_.heap.push_back({filling.left / filling.unfixed, link});
        std::push_heap(part_.heap.begin(), part_.heap.end(), std::greater<>());
      }
    }
  }
}

}  // namespace pleach
