#include "pleach/fabric/fred_router.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/fabric/route_heuristic.h"
#include "pleach/fabric/route_search.h"

namespace pleach {
namespace {

using Outcome = RouteSearch::Outcome;

// The first levels that refuse the flows by themselves.
int32_t refusing_level(const FredSize& size, std::span<const PortFlow> flows,
                       std::span<const int32_t> core, int64_t budget) {
  for (int32_t levels = 1; levels < size.levels(); ++levels) {
    SearchBudget own = {budget};
    RouteSearch search(size, flows, {levels}, own);
    if (search.find(core).outcome == Outcome::kRefused) {
      return levels - 1;
    }
  }
  return std::max(size.levels() - 1, 0);
}

// `dead`, less the parts from `begin` to `end`, cells first.
FredFaults without(const FredFaults& dead, std::size_t begin, std::size_t end) {
  FredFaults left;
  for (std::size_t part = 0; part < dead.cells.size() + dead.subnetworks.size(); ++part) {
    if (part >= begin && part < end) {
      continue;
    }
    if (part < dead.cells.size()) {
      left.cells.push_back(dead.cells[part]);
    } else {
      left.subnetworks.push_back(dead.subnetworks[part - dead.cells.size()]);
    }
  }
  return left;
}

}  // namespace

FlowRouting route_flows(const FredSize& size, std::span<const PortFlow> flows,
                        const RouteOptions& options) {
  const int64_t pass = int64_t{64} * count_of(flows) * (size.levels() + 1);
  SearchBudget budget = {options.budget + pass};
  RouteSearch search(size, flows, {size.levels(), options.goes_back}, budget);
  std::vector<int32_t> all(flows.size());
  std::iota(all.begin(), all.end(), 0);
  RouteSearch::Answer answer = search.find(all);
  FlowRouting routing;
  if (answer.outcome == Outcome::kRefused) {
    if (!answer.is_least) {
      budget.left = options.budget;
      answer = search.least(std::move(answer.core));
    }
    const int32_t level = refusing_level(size, flows, answer.core, options.budget);
    routing.conflicts.push_back({level, std::move(answer.core), answer.is_least});
    routing.proved = true;
  } else if (answer.outcome == Outcome::kRouted) {
    routing.routed = routing.proved = true;
    routing.choices = search.choices();
  } else if (options.goes_back) {
    budget.left = options.budget;
    if (auto choices = look_for_choices(size, flows, budget)) {
      routing.routed = routing.proved = true;
      routing.choices = std::move(*choices);
    }
  }
  routing.steps = budget.used;
  return routing;
}

FredFaults faults_in_the_way(const FredSize& size, std::span<const PortFlow> flows,
                             const RouteOptions& options) {
  std::vector<int32_t> all(flows.size());
  std::iota(all.begin(), all.end(), 0);
  SearchBudget budget = {options.budget};
  const auto refuses = [&](const FredFaults& dead) {
    const FredSize other = {size.ports, size.middle, dead};
    RouteSearch search(other, flows, {size.levels()}, budget);
    return search.find(all).outcome == Outcome::kRefused;
  };
  FredFaults needed = size.dead;
  const auto count = [&] { return needed.cells.size() + needed.subnetworks.size(); };
  // Many at once first: most have nothing to do with these flows.
  for (std::size_t chunk = std::bit_ceil(std::max<std::size_t>(count(), 1)); chunk > 0;
       chunk /= 2) {
    for (std::size_t begin = 0; begin < count();) {
      FredFaults fewer = without(needed, begin, begin + chunk);
      if (refuses(fewer)) {
        needed = std::move(fewer);
      } else {
        begin += chunk;
      }
    }
  }
  return needed;
}

}  // namespace pleach
