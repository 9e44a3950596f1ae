#include "pleach/network/flow/fair_shares.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "pleach/base/check.h"
#include "pleach/base/index.h"
#include "pleach/base/interruption.h"

namespace pleach {
namespace {

constexpr double kUnfixed = -1;
constexpr double kNothing = 1e-9;   // of a link
constexpr int32_t kMostRounds = 4;  // of a part that grows

}  // namespace

FairShares::FairShares(std::vector<Capacity> capacities,
                       std::vector<std::span<const LinkId>> flow_links)
    : capacities_(std::move(capacities)),
      flow_links_(std::move(flow_links)),
      links_(capacities_.size()),
      flows_(flow_links_.size()) {}

void FairShares::add_flow(std::span<const LinkId> links) {
  flow_links_.push_back(links);
  flows_.emplace_back();
}

void FairShares::start(int32_t flow, int32_t flow_class) {
  Flow& own = flows_[at(flow)];
  if (std::exchange(own.is_stopping, false)) {
    if (own.flow_class == flow_class) {
      own.is_restarted = true;
      return since_.restarted.push_back(flow);
    }
    leave_links(flow);
  }
  own = {.bytes_per_s = kUnfixed, .flow_class = flow_class, .is_active = true};
  for (const LinkId link : links_of(flow)) {
    links_[link.index()].flows.push_back(flow);
    since_.touched.push_back(link);
  }
  ++classes_[flow_class];
}

void FairShares::stop(int32_t flow) {
  Flow& own = flows_[at(flow)];
  PLEACH_CHECK(own.is_active && !own.is_stopping, "a flow stops that never started");
  own.is_stopping = true;
  since_.stopping.push_back(flow);
}

void FairShares::leave_links(int32_t flow) {
  for (const LinkId link : links_of(flow)) {
    auto& flows = links_[link.index()].flows;
    const auto found = std::find(flows.begin(), flows.end(), flow);
    *found = flows.back();
    flows.pop_back();
    since_.touched.push_back(link);
  }
  --classes_[class_of(flow)];
  flows_[at(flow)] = {};
}

std::span<const FairShares::Change> FairShares::solve() {
  changes_.clear();
  for (const int32_t flow : since_.stopping) {
    if (flows_[at(flow)].is_stopping) {
      leave_links(flow);
    }
  }
  since_.stopping.clear();
  if (!since_.touched.empty()) {
    solve_part();
  }
  for (const int32_t number : since_.restarted) {  // they are told what they had
    if (std::exchange(flows_[at(number)].is_restarted, false)) {
      changes_.push_back({number, flows_[at(number)].bytes_per_s});
    }
  }
  since_.restarted.clear();
  std::ranges::sort(changes_, {}, &Change::flow);
  return changes_;
}

void FairShares::solve_part() {
  const auto classes =
      std::ranges::count_if(classes_, [](const auto& one) { return one.second > 0; });
  collect_part(classes > 1);
  fill_part();
  for (int32_t round = 1; !part_.overtaken.empty(); ++round) {
    extend_part(round >= kMostRounds);
    fill_part();
  }
  for (const int32_t number : part_.flows) {
    Flow& flow = flows_[at(number)];
    if (flow.flow_class == kSuspended) {
      flow.fixed = 0;
    }
    if (flow.fixed != flow.bytes_per_s || flow.is_restarted) {
      flow.bytes_per_s = flow.fixed;
      changes_.push_back({number, flow.bytes_per_s});
    }
    flow.fixed = 0;
    flow.is_in_part = false;
    flow.is_restarted = false;
  }
  for (const LinkId link : part_.links) {
    links_[link.index()].is_in_part = false;
  }
}

void FairShares::collect_part(bool is_whole) {
  part_.links.clear();
  part_.flows.clear();
  for (const LinkId link : since_.touched) {
    add_to_part(link);
  }
  since_.touched.clear();
  spread_part(0, is_whole);
}

void FairShares::add_to_part(LinkId link) {
  if (!std::exchange(links_[link.index()].is_in_part, true)) {
    part_.links.push_back(link);
  }
}

void FairShares::add_to_part(int32_t number) {
  Flow& flow = flows_[at(number)];
  flow.fixed = kUnfixed;
  if (!std::exchange(flow.is_in_part, true)) {
    part_.flows.push_back(number);
    for (const LinkId link : links_of(number)) {
      add_to_part(link);
    }
  }
}

// From these links on; all flows that links reach, or those that have come or that a link limits.
void FairShares::spread_part(std::size_t first_link, bool is_whole) {
  for (std::size_t next = first_link; next < part_.links.size(); ++next) {
    const LinkId link = part_.links[next];
    for (const int32_t number : links_[link.index()].flows) {
      const Flow& flow = flows_[at(number)];
      if (!flow.is_in_part && (is_whole || flow.bytes_per_s == kUnfixed || flow.limit == link)) {
        add_to_part(number);
      }
    }
  }
}

// By those who have more than the part leaves them, or by all that it reaches.
void FairShares::extend_part(bool is_whole) {
  for (const int32_t number : part_.flows) {
    flows_[at(number)].fixed = kUnfixed;
  }
  const std::size_t known = part_.links.size();
  for (const int32_t number : part_.overtaken) {
    add_to_part(number);
  }
  part_.overtaken.clear();
  spread_part(is_whole ? 0 : known, is_whole);
}

double FairShares::capacity(LinkId link) const {
  const Capacity& own = capacities_[link.index()];
  const std::vector<int32_t>& flows = links_[link.index()].flows;
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
  for (const LinkId number : part_.links) {
    Link& link = links_[number.index()];
    link.left = capacity(number);
    link.has_others = false;
    for (const int32_t flow : link.flows) {
      if (!flows_[at(flow)].is_in_part) {
        link.left = std::max(0.0, link.left - flows_[at(flow)].bytes_per_s);
        link.has_others = true;
      }
    }
  }
  // From class to class there is.
  constexpr int32_t kNone = kSuspended;
  for (int32_t last = -1, next = 0; next != kNone; last = next) {
    next = kNone;
    for (const int32_t flow : part_.flows) {
      const int32_t own = class_of(flow);
      next = own > last ? std::min(next, own) : next;
    }
    if (next != kNone) {
      fill_class(next);
    }
  }
}

// How many of the class each link of the part has, and the share of each; returns how many there
// are.
std::size_t FairShares::prepare_class(int32_t flow_class) {
  for (const LinkId link : part_.links) {
    links_[link.index()].unfixed = 0;
  }
  std::size_t remaining = 0;
  for (const int32_t flow : part_.flows) {
    if (class_of(flow) == flow_class) {
      ++remaining;
      for (const LinkId link : links_of(flow)) {
        ++links_[link.index()].unfixed;
      }
    }
  }
  part_.heap.clear();
  for (const LinkId number : part_.links) {
    Link& link = links_[number.index()];
    if (link.left < kNothing * capacities_[number.index()].bytes_per_s) {
      link.left = 0;
    }
    if (link.unfixed > 0) {
      part_.heap.push_back({link.left / link.unfixed, number});
    }
  }
  std::make_heap(part_.heap.begin(), part_.heap.end(), std::greater<>());
  return remaining;
}

// The fullest link is the one whose flows left get the least; of several the first, so that the
// order of arithmetic does not depend on the order of discovery. A heap holds every link with its
// share; an entry that is no longer true is passed over.
void FairShares::fill_class(int32_t flow_class) {
  std::size_t remaining = prepare_class(flow_class);
  while (remaining > 0) {
    check_interruption();
    std::pop_heap(part_.heap.begin(), part_.heap.end(), std::greater<>());
    const auto [share, fullest] = part_.heap.back();
    part_.heap.pop_back();
    const Link& top = links_[fullest.index()];
    if (top.unfixed == 0 || top.left / top.unfixed != share) {
      continue;
    }
    remaining -= at(top.unfixed);
    fill_link(fullest, flow_class, top.has_others ? share_beside_others(fullest) : share);
    for (const LinkId number : part_.changed) {
      Link& link = links_[number.index()];
      link.is_changed = false;
      if (link.unfixed > 0) {
        part_.heap.push_back({link.left / link.unfixed, number});
        std::push_heap(part_.heap.begin(), part_.heap.end(), std::greater<>());
      }
    }
  }
}

// The flows of the class that are left on the link get the share. Notes the others that have more.
void FairShares::fill_link(LinkId fullest, int32_t flow_class, double share) {
  part_.changed.clear();
  for (const int32_t number : links_[fullest.index()].flows) {
    Flow& flow = flows_[at(number)];
    if (!flow.is_in_part && flow.bytes_per_s > share) {
      part_.overtaken.push_back(number);
    }
    if (flow.fixed != kUnfixed || flow.flow_class != flow_class) {
      continue;
    }
    flow.fixed = share;
    flow.limit = fullest;
    for (const LinkId other : links_of(number)) {
      Link& link = links_[other.index()];
      link.left = std::max(0.0, link.left - share);
      --link.unfixed;
      if (!std::exchange(link.is_changed, true)) {
        part_.changed.push_back(other);
      }
    }
  }
}

// What it is where nothing is left out: the same differences in the same order.
double FairShares::share_beside_others(LinkId number) {
  const Link& link = links_[number.index()];
  if (link.left == 0) {
    return 0;
  }
  part_.fixed.clear();
  for (const int32_t one : link.flows) {
    const Flow& flow = flows_[at(one)];
    if (flow.fixed != kUnfixed) {
      part_.fixed.push_back(flow.is_in_part ? flow.fixed : flow.bytes_per_s);
    }
  }
  std::ranges::sort(part_.fixed);
  double left = capacity(number);
  for (const double rate : part_.fixed) {
    left = std::max(0.0, left - rate);
  }
  return left / link.unfixed;
}

}  // namespace pleach
