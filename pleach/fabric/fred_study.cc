#include "pleach/fabric/fred_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/fabric/fred_faults.h"
#include "pleach/fabric/plane.h"

namespace pleach {
namespace {

constexpr std::array<std::string_view, 4> kSampleNames = {"all_reduce", "multicast", "reduce",
                                                          "mixed"};
constexpr std::array<std::string_view, 4> kPhaseNames = {"MP", "DP", "PP forward", "PP backward"};

void sort_sides(std::vector<PortFlow>& flows) {
  for (PortFlow& flow : flows) {
    std::ranges::sort(flow.inputs);
    std::ranges::sort(flow.outputs);
  }
}

std::vector<int32_t> shuffled_ports(int32_t ports, Rng& rng) {
  std::vector<int32_t> order(at(ports));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t last = order.size(); last > 1; --last) {
    std::swap(order[last - 1], order[rng.below(last)]);
  }
  return order;
}

// Every partition of ports 0 to `ports` − 1, as the block of each port: a block's number is at most
// one more than those before it.
template <typename Visit>
void visit_partitions(std::vector<int32_t>& block_of, int32_t ports, int32_t blocks,
                      const Visit& visit) {
  if (count_of(block_of) == ports) {
    visit(block_of, blocks);
    return;
  }
  for (int32_t block = 0; block <= blocks; ++block) {
    block_of.push_back(block);
    visit_partitions(block_of, ports, std::max(blocks, block + 1), visit);
    block_of.pop_back();
  }
}

// `count` of the numbers 0 to `end` − 1, ascending.
//   source  Floyd, in Bentley, Programming Pearls, CACM 30(9), 1987
std::vector<int64_t> drawn(int64_t count, int64_t end, Rng& rng) {
  std::set<int64_t> numbers;
  for (int64_t last = end - count; last < end; ++last) {
    const auto one = static_cast<int64_t>(rng.below(static_cast<uint64_t>(last) + 1));
    numbers.insert(numbers.contains(one) ? last : one);
  }
  return {numbers.begin(), numbers.end()};
}

bool is_cut_off(const FredSize& size, const PortFlow& flow) {
  const auto share = [](const std::vector<int32_t>& ports, const std::vector<int32_t>& dead) {
    return std::ranges::any_of(
        ports, [&](int32_t port) { return std::ranges::binary_search(dead, port); });
  };
  return share(flow.inputs, dead_inputs(size)) || share(flow.outputs, dead_outputs(size));
}

}  // namespace

void RouteCount::add(const FredSize& size, const std::vector<PortFlow>& flows,
                     const RouteOptions& options) {
  add_all(size, std::span(&flows, 1), options);
}

void RouteCount::add_all(const FredSize& size, std::span<const std::vector<PortFlow>> together,
                         const RouteOptions& options) {
  ++sets;
  RouteOptions first = options;
  first.goes_back = false;
  bool first_routes = true, all_route = true;
  const std::vector<PortFlow>* stopped = nullptr;  // a set that is proved not to route
  for (const std::vector<PortFlow>& flows : together) {
    // What the first colouring routes is routed: the search would begin with it.
    const FlowRouting quick = route_flows(size, flows, first);
    const FlowRouting full = quick.proved ? quick : route_flows(size, flows, options);
    first_routes = first_routes && quick.routed;
    all_route = all_route && full.routed;
    stopped = stopped == nullptr && !full.routed && full.proved ? &flows : stopped;
    most_steps = std::max(most_steps, full.steps);
  }
  first_routed += first_routes ? 1 : 0;
  routed += all_route ? 1 : 0;
  if (stopped != nullptr) {
    if (refused++ == 0) {
      refused_example = *stopped;
      refused_dead = size.dead;
    }
    cut_off +=
        std::ranges::any_of(*stopped, [&](const PortFlow& flow) { return is_cut_off(size, flow); })
            ? 1
            : 0;
  }
}

Result<RouteCount> count_partitions(const FredSize& size, const RouteOptions& options) {
  if (size.ports > kMostPartitionPorts) {
    return invalid(fmt::format("partitions of {} ports: at most {} are enumerated", size.ports,
                               kMostPartitionPorts));
  }
  RouteCount count;
  std::vector<int32_t> block_of;
  visit_partitions(block_of, size.ports, 0, [&](std::span<const int32_t> of, int32_t blocks) {
    std::vector<PortFlow> flows(at(blocks));
    for (int32_t port = 0; port < size.ports; ++port) {
      flows[at(of[at(port)])].inputs.push_back(port);
      flows[at(of[at(port)])].outputs.push_back(port);
    }
    count.add(size, flows, options);
  });
  return count;
}

std::string_view to_text(StrategyPhase phase) {
  return kPhaseNames[at(phase)];
}

std::vector<PortFlow> strategy_flows(const SwitchStrategy& strategy, StrategyPhase phase) {
  const auto& [model, data, pipeline] = strategy;
  const auto port = [&](int32_t mp, int32_t dp, int32_t pp) {
    return mp + strategy.model * (pp + strategy.pipeline * dp);
  };
  std::vector<PortFlow> flows;
  if (phase == StrategyPhase::kData) {
    for (int32_t other = 0; data > 1 && other < model * pipeline; ++other) {
      PortFlow& flow = flows.emplace_back();
      for (int32_t dp = 0; dp < data; ++dp) {
        flow.inputs.push_back(other + model * pipeline * dp);
      }
      flow.outputs = flow.inputs;
    }
    return flows;
  }
  for (int32_t dp = 0; dp < data; ++dp) {
    for (int32_t pp = 0; pp < pipeline; ++pp) {
      const int32_t to = phase == StrategyPhase::kForward    ? pp + 1
                         : phase == StrategyPhase::kBackward ? pp - 1
                                                             : pp;
      if (to < 0 || to >= pipeline || (to == pp && model == 1)) {
        continue;
      }
      PortFlow& flow = flows.emplace_back();
      for (int32_t mp = 0; mp < model; ++mp) {
        flow.outputs.push_back(port(mp, dp, to));
      }
      flow.inputs = to == pp ? flow.outputs : std::vector<int32_t>{port(0, dp, pp)};
    }
  }
  return flows;
}

namespace {

// Every phase with flows of every strategy of 2 to `most` workers.
template <typename Visit>
int64_t visit_placements(int32_t most, const Visit& visit) {
  constexpr std::array kPhases = {StrategyPhase::kModel, StrategyPhase::kData,
                                  StrategyPhase::kForward, StrategyPhase::kBackward};
  int64_t strategies = 0;
  for (int32_t workers = 2; workers <= most; ++workers) {
    for (int32_t model = 1; model <= workers; ++model) {
      for (int32_t data = 1; workers % model == 0 && data <= workers / model; ++data) {
        if (workers / model % data != 0) {
          continue;
        }
        const SwitchStrategy strategy = {model, data, workers / model / data};
        ++strategies;
        for (const StrategyPhase phase : kPhases) {
          if (const std::vector<PortFlow> flows = strategy_flows(strategy, phase); !flows.empty()) {
            visit(strategy, phase, flows);
          }
        }
      }
    }
  }
  return strategies;
}

}  // namespace

PlacementCount count_placements(const FredSize& size, const RouteOptions& options) {
  PlacementCount count;
  count.strategies = visit_placements(
      size.ports,
      [&](const SwitchStrategy& strategy, StrategyPhase phase, const std::vector<PortFlow>& flows) {
        const int64_t before = count.all.routed;
        count.all.add(size, flows, options);
        if (count.all.routed == before) {
          count.refused.push_back({strategy, phase});
        }
      });
  return count;
}

PlacementCount count_plane_placements(const FredSize& size, const RouteOptions& options) {
  PlacementCount count;
  count.strategies = visit_placements(
      size.ports,
      [&](const SwitchStrategy& strategy, StrategyPhase phase, const std::vector<PortFlow>& flows) {
        const PlaneRouting routing = route_plane(size.ports, size.middle, flows, options);
        count.all.sets += 1;
        count.all.routed += routing.routed ? 1 : 0;
        count.all.refused += !routing.routed && routing.proved ? 1 : 0;
        if (!routing.routed) {
          count.refused.push_back({strategy, phase});
        }
      });
  return count;
}

std::vector<std::string> flow_sample_names() {
  return {kSampleNames.begin(), kSampleNames.end()};
}

Result<FlowSample::Kind> parse_flow_sample(std::string_view text) {
  const auto found = std::ranges::find(kSampleNames, text);
  if (found == kSampleNames.end()) {
    return unknown_name("kind of flows", text, flow_sample_names(),
                        text == "broadcast" ? "multicast" : "");
  }
  return static_cast<FlowSample::Kind>(found - kSampleNames.begin());
}

Status check_sample(const FlowSample& sample, int32_t ports) {
  if (int64_t{sample.flows} * sample.ports_each > ports) {
    return invalid(fmt::format("{} flows of {} ports take {}: the switch has {}", sample.flows,
                               sample.ports_each, int64_t{sample.flows} * sample.ports_each,
                               ports));
  }
  return ok();
}

std::vector<PortFlow> draw_flows(const FlowSample& sample, int32_t ports, Rng& rng) {
  using enum FlowSample::Kind;
  const std::vector<int32_t> inputs = shuffled_ports(ports, rng);
  const std::vector<int32_t> outputs =
      sample.kind == kAllReduce ? inputs : shuffled_ports(ports, rng);
  const auto size_of = [&](bool has_one) {
    if (sample.kind == kMixed) {
      return 1 + static_cast<int32_t>(rng.below(static_cast<uint64_t>(sample.ports_each)));
    }
    return has_one ? 1 : sample.ports_each;
  };
  std::vector<PortFlow> flows(at(sample.flows));
  for (int32_t flow = 0; flow < sample.flows; ++flow) {
    const auto fill = [&](const std::vector<int32_t>& from, bool has_one) {
      const auto first = from.begin() + static_cast<std::ptrdiff_t>(flow) * sample.ports_each;
      return std::vector<int32_t>(first, first + size_of(has_one));
    };
    flows[at(flow)].inputs = fill(inputs, sample.kind == kMulticast);
    flows[at(flow)].outputs = fill(outputs, sample.kind == kReduce);
  }
  sort_sides(flows);
  return flows;
}

Status check_sample(const FaultSample& sample, const FredSize& size) {
  PLEACH_ASSIGN(count, count_cells(size));
  if (sample.cells > count.cells) {
    return invalid(fmt::format("{} dead cells: {} has {}", sample.cells, size.text(), count.cells));
  }
  if (sample.subnetworks == 0) {
    return ok();
  }
  if (sample.level > size.levels()) {
    return invalid(fmt::format("dead subnetworks of level {}: {} has {} level{} of them",
                               sample.level, size.text(), size.levels(),
                               size.levels() == 1 ? "" : "s"));
  }
  const int64_t there = size.subnetworks(sample.level);
  if (sample.subnetworks > there) {
    return invalid(fmt::format("{} dead subnetworks of level {}: {} has {}", sample.subnetworks,
                               sample.level, size.text(), there));
  }
  return ok();
}

FredFaults draw_faults(const FaultSample& sample, const FredSize& size, Rng& rng) {
  FredFaults dead;
  const int64_t cells = count_cells(size)->cells;
  for (const int64_t number : drawn(sample.cells, cells, rng)) {
    dead.cells.push_back(cell_at(size, number));
  }
  std::ranges::sort(dead.cells);
  const int64_t subnetworks = sample.subnetworks == 0 ? 0 : size.subnetworks(sample.level);
  for (const int64_t number : drawn(sample.subnetworks, subnetworks, rng)) {
    dead.subnetworks.push_back({sample.level, static_cast<int32_t>(number)});
  }
  return dead;
}

Share share_of(int64_t hits, int64_t trials) {
  constexpr double kNormal = 1.959963984540054;  // 95 % lie within this many deviations
  if (trials == 0) {
    return {0, 0, 1};
  }
  const auto count = static_cast<double>(trials);
  const double value = static_cast<double>(hits) / count;
  const double square = kNormal * kNormal / count;
  const double middle = (value + square / 2) / (1 + square);
  const double reach =
      kNormal / (1 + square) * std::sqrt(value * (1 - value) / count + square / (4 * count));
  return {value, std::max(0.0, middle - reach), std::min(1.0, middle + reach)};
}

}  // namespace pleach
