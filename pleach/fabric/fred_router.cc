#include "pleach/fabric/fred_router.h"

#include <numeric>

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
  return size.levels() - 1;
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

}  // namespace pleach
