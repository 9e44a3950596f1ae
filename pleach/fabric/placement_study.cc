#include "pleach/fabric/placement_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/base/text.h"

namespace pleach {
namespace {

constexpr std::array kPhases = {StrategyPhase::kModel, StrategyPhase::kData,
                                StrategyPhase::kForward, StrategyPhase::kBackward};

int64_t workers_of(const SwitchStrategy& strategy) {
  return int64_t{strategy.model} * strategy.data * strategy.pipeline;
}

Status check_workers(const SwitchStrategy& strategy, int32_t ports) {
  if (workers_of(strategy) > ports) {
    return invalid(fmt::format("{} is of {} workers: the switch has {} ports", to_text(strategy),
                               workers_of(strategy), ports));
  }
  return ok();
}

std::vector<int32_t> in_order(int32_t ports) {
  std::vector<int32_t> place(at(ports));
  std::iota(place.begin(), place.end(), 0);
  return place;
}

void shuffle(std::vector<int32_t>& place, Rng& rng) {
  for (std::size_t last = place.size(); last > 1; --last) {
    std::swap(place[last - 1], place[rng.below(last)]);
  }
}

// The least m with which all phases route; 0: none up to kMostMiddle.
Result<int32_t> least_of(int32_t ports, std::span<const std::vector<PortFlow>> phases,
                         const RouteOptions& options) {
  for (int32_t middle = 2; middle <= kMostMiddle; ++middle) {
    const FredSize size = {ports, middle};
    if (const auto count = count_cells(size); !count) {
      return count.error();
    }
    if (std::ranges::all_of(phases, [&](const std::vector<PortFlow>& flows) {
          return route_flows(size, flows, options).routed;
        })) {
      return middle;
    }
  }
  return 0;
}

}  // namespace

std::vector<std::vector<PortFlow>> placed_phases(const SwitchStrategy& strategy,
                                                 const std::vector<int32_t>& place) {
  std::vector<std::vector<PortFlow>> phases;
  for (const StrategyPhase phase : kPhases) {
    std::vector<PortFlow> flows = strategy_flows(strategy, phase);
    if (flows.empty()) {
      continue;
    }
    for (PortFlow& flow : flows) {
      for (std::vector<int32_t>* side : {&flow.inputs, &flow.outputs}) {
        std::ranges::transform(*side, side->begin(),
                               [&](int32_t worker) { return place[at(worker)]; });
        std::ranges::sort(*side);
      }
    }
    phases.push_back(std::move(flows));
  }
  return phases;
}

std::vector<SwitchStrategy> strategies_of(int32_t workers) {
  std::vector<SwitchStrategy> strategies;
  for (int32_t model = 1; model <= workers; ++model) {
    for (int32_t data = 1; workers % model == 0 && data <= workers / model; ++data) {
      if (workers / model % data == 0) {
        strategies.push_back({model, data, workers / model / data});
      }
    }
  }
  return strategies;
}

Result<SwitchStrategy> parse_switch_strategy(std::string_view text) {
  const std::vector<std::string_view> words = split(text, ',');
  if (words.size() != 3) {
    return invalid(fmt::format("{} is not MP,DP,PP, as 5,4,1", pleach::quoted(text)));
  }
  SwitchStrategy strategy;
  PLEACH_SET(strategy.model, parse_count(words[0], "MP", 1, INT32_MAX));
  PLEACH_SET(strategy.data, parse_count(words[1], "DP", 1, INT32_MAX));
  PLEACH_SET(strategy.pipeline, parse_count(words[2], "PP", 1, INT32_MAX));
  const int64_t workers = int64_t{strategy.model} * strategy.data;
  if (workers > INT32_MAX || workers * strategy.pipeline > INT32_MAX) {
    return invalid(fmt::format("{} is of over {} workers", pleach::quoted(text), INT32_MAX));
  }
  return strategy;
}

std::string to_text(const SwitchStrategy& strategy) {
  return fmt::format("MP{}-DP{}-PP{}", strategy.model, strategy.data, strategy.pipeline);
}

Result<RouteCount> count_random_placements(const FredSize& size,
                                           const std::vector<SwitchStrategy>& strategies,
                                           int32_t sets, uint64_t seed,
                                           const RouteOptions& options) {
  if (sets == 0 && size.ports > kMostPlacementPorts) {
    return invalid(fmt::format("all placements on {} ports: at most {} are enumerated", size.ports,
                               kMostPlacementPorts));
  }
  RouteCount count;
  Rng rng(seed);
  for (const SwitchStrategy& strategy : strategies) {
    PLEACH_TRY(check_workers(strategy, size.ports));
    std::vector<int32_t> place = in_order(size.ports);
    for (int32_t set = 0; set < sets; ++set) {
      shuffle(place, rng);
      count.add_all(size, placed_phases(strategy, place), options);
    }
    do {
      if (sets == 0) {
        count.add_all(size, placed_phases(strategy, place), options);
      }
    } while (sets == 0 && std::ranges::next_permutation(place).found);
  }
  return count;
}

Result<LeastMiddle> least_middle(int32_t ports, const SwitchStrategy& strategy, int32_t sets,
                                 uint64_t seed, const RouteOptions& options) {
  PLEACH_TRY(check_workers(strategy, ports));
  if (const auto count = count_cells({ports, 2}); !count) {
    return count.error();
  }
  std::vector<int32_t> place = in_order(ports);
  LeastMiddle least;
  PLEACH_SET(least.in_order, least_of(ports, placed_phases(strategy, place), options));
  Rng rng(seed);
  for (int32_t set = 0; set < sets; ++set) {
    shuffle(place, rng);
    PLEACH_ASSIGN(middle, least_of(ports, placed_phases(strategy, place), options));
    ++least.random[middle];
  }
  return least;
}

std::vector<StrategyOfWorkload> strategies_of_workloads() {
  return {{"resnet152", {1, 20, 1}},
          {"transformer_17b", {3, 3, 2}},
          {"gpt3", {2, 5, 2}},
          {"transformer_1t", {1, 20, 1}}};
}

}  // namespace pleach
