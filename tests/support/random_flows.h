// Random flows through a switch, and a brute force over the modes of its cells.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/fabric/fred_switch.h"
#include "pleach/fabric/port_flow.h"

namespace pleach::support {

inline std::vector<int32_t> shuffled_ports(int32_t ports, Rng& rng) {
  std::vector<int32_t> order(at(ports));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t last = order.size(); last > 1; --last) {
    std::swap(order[last - 1], order[rng.below(last)]);
  }
  return order;
}

// Calls `then` with the unicasts of every permutation of the ports.
template <typename Then>
void for_each_permutation(int32_t ports, Then then) {
  std::vector<int32_t> outputs(at(ports));
  std::iota(outputs.begin(), outputs.end(), 0);
  do {
    std::vector<PortFlow> flows;
    for (int32_t port = 0; port < ports; ++port) {
      flows.push_back({{port}, {outputs[at(port)]}});
    }
    then(flows);
  } while (std::ranges::next_permutation(outputs).found);
}

// A few flows whose sides have nothing to do with each other: unicasts, multicasts, reductions and
// what is both; or all-reduces. Ports may stay idle.
inline std::vector<PortFlow> random_flows(int32_t ports, Rng& rng) {
  const bool is_all_reduce = rng.below(3) == 0;
  std::vector<PortFlow> flows(1 + rng.below(static_cast<uint64_t>(ports)));
  const std::vector<int32_t> inputs = shuffled_ports(ports, rng);
  const std::vector<int32_t> outputs = is_all_reduce ? inputs : shuffled_ports(ports, rng);
  const uint64_t idle = rng.below(3);  // thirds
  for (std::size_t next = 0; next < inputs.size(); ++next) {
    const std::size_t flow = next < flows.size() ? next : rng.below(flows.size());
    const bool is_needed = next < flows.size();
    const std::size_t other = is_all_reduce || is_needed ? flow : rng.below(flows.size());
    const bool has_input = is_needed || rng.below(3) >= idle;
    const bool has_output = is_all_reduce ? has_input : is_needed || rng.below(3) >= idle;
    if (has_input) {
      flows[flow].inputs.push_back(inputs[next]);
    }
    if (has_output) {
      flows[other].outputs.push_back(outputs[next]);
    }
  }
  for (PortFlow& flow : flows) {
    std::ranges::sort(flow.inputs);
    std::ranges::sort(flow.outputs);
  }
  return flows;
}

// Whether FRED_m(P) can take what enters (a flow's number at each port, or -1) to what is to leave,
// by trying the modes of all cells of its outermost level, one combination after the other, and
// then each subnetwork by itself. Slow; asks nothing but what each cell can do.
class ModeTrial {
 public:
  explicit ModeTrial(int32_t middle, FredFaults dead = {})
      : middle_(middle), dead_(std::move(dead)) {}

  bool routes(int32_t ports, const std::vector<PortFlow>& flows) {
    std::vector<int32_t> entering(at(ports), -1);
    std::vector<int32_t> leaving(at(ports), -1);
    for (int32_t flow = 0; flow < count_of(flows); ++flow) {
      for (const int32_t port : flows[at(flow)].inputs) {
        entering[at(port)] = flow;
      }
      for (const int32_t port : flows[at(flow)].outputs) {
        leaving[at(port)] = flow;
      }
    }
    return can(entering, leaving, {0, 0});
  }

 private:
  using Side = std::vector<int32_t>;

  // Both sides of one subnetwork. A flow's inputs have to be all here or nowhere here: the caller
  // sees to it.
  bool can(const Side& entering, const Side& leaving, const FredSubnetwork& here) {
    const bool is_idle = std::ranges::max(entering) < 0 && std::ranges::max(leaving) < 0;
    if (is_idle || std::ranges::count(dead_.subnetworks, here) > 0) {
      return is_idle;
    }
    if (entering.size() == 2) {
      if (is_dead(CellKind::kBoth, here, 0)) {
        return false;
      }
      // Add, copy, pass or cross: two flows in and out, in whatever order; never two added.
      const auto comes = [&](int32_t flow) { return std::ranges::count(entering, flow) > 0; };
      const auto goes = [&](int32_t flow) { return std::ranges::count(leaving, flow) > 0; };
      return std::ranges::all_of(leaving, [&](int32_t f) { return f < 0 || comes(f); }) &&
             std::ranges::all_of(entering, [&](int32_t f) { return f < 0 || goes(f); });
    }
    return try_side({entering, here, false}, 0, std::vector<Side>(at(middle_), empty(entering)),
                    [&](const std::vector<Side>& in) {
                      return try_side(
                          {leaving, here, true}, 0, std::vector<Side>(at(middle_), empty(leaving)),
                          [&](const std::vector<Side>& out) { return all(in, out, here); });
                    });
  }

  bool is_dead(CellKind kind, const FredSubnetwork& here, int32_t index) const {
    return std::ranges::count(dead_.cells, FredCell{kind, here.level, here.number, index}) > 0;
  }

  static Side empty(const Side& side) { return Side((side.size() + 1) / 2, -1); }

  bool all(const std::vector<Side>& in, const std::vector<Side>& out, const FredSubnetwork& here) {
    for (std::size_t choice = 0; choice < in.size(); ++choice) {
      for (const Side* side : {&in[choice], &out[choice]}) {
        for (const int32_t flow : *side) {
          for (std::size_t other = 0; flow >= 0 && other < in.size(); ++other) {
            if (other != choice && (std::ranges::count(in[other], flow) > 0 ||
                                    std::ranges::count(out[other], flow) > 0)) {
              return false;  // nothing brings its parts together again
            }
          }
        }
      }
    }
    for (std::size_t choice = 0; choice < in.size(); ++choice) {
      const auto number = here.number * middle_ + static_cast<int32_t>(choice);
      if (!can(in[choice], out[choice], {here.level + 1, number})) {
        return false;
      }
    }
    return true;
  }

  // Every mode of the cell of ports 2i and 2i + 1: each goes to a subnetwork, both to the same one
  // only where they are of one flow.
  struct Edge {
    const Side& side;
    const FredSubnetwork& of;
    bool is_output = false;
  };
  template <typename Then>
  bool try_side(const Edge& edge, std::size_t cell, const std::vector<Side>& parts,
                const Then& then) {
    const Side& side = edge.side;
    if (2 * cell >= side.size()) {
      return then(parts);
    }
    const int32_t first = side[2 * cell];
    const int32_t second = 2 * cell + 1 < side.size() ? side[2 * cell + 1] : -1;
    const bool is_end = 2 * cell + 1 == side.size();
    const CellKind input = is_end ? CellKind::kDemux : CellKind::kReduce;
    const CellKind output = is_end ? CellKind::kMux : CellKind::kDistribute;
    if ((first >= 0 || second >= 0) && is_dead(edge.is_output ? output : input, edge.of,
                                               is_end ? 0 : static_cast<int32_t>(cell))) {
      return false;
    }
    for (int32_t one = 0; one < (first < 0 ? 1 : middle_); ++one) {
      for (int32_t other = 0; other < (second < 0 ? 1 : middle_); ++other) {
        if (first >= 0 && second >= 0 && one == other && first != second) {
          continue;
        }
        std::vector<Side> next = parts;
        if (first >= 0) {
          next[at(one)][cell] = first;
        }
        if (second >= 0) {
          next[at(other)][cell] = second;
        }
        if (try_side(edge, cell + 1, next, then)) {
          return true;
        }
      }
    }
    return false;
  }

  int32_t middle_;
  FredFaults dead_;
};

// A few dead parts of a switch: cells and multiplexers, and every third a subnetwork.
inline FredFaults random_faults(const FredSwitch& fred, int32_t parts, Rng& rng) {
  FredFaults dead;
  for (int32_t part = 0; part < parts; ++part) {
    if (const int32_t levels = fred.size().levels(); levels > 0 && rng.below(3) == 0) {
      FredSubnetwork one = {0, 0};
      for (const auto end = 1 + static_cast<int32_t>(rng.below(at(levels))); one.level < end;) {
        const auto choice = static_cast<int32_t>(rng.below(at(fred.size().middle)));
        one = {one.level + 1, one.number * fred.size().middle + choice};
      }
      dead.subnetworks.push_back(one);
    } else {
      dead.cells.push_back(fred.cells()[rng.below(fred.cells().size())]);
    }
  }
  std::ranges::sort(dead.cells);
  std::ranges::sort(dead.subnetworks);
  dead.cells.erase(std::unique(dead.cells.begin(), dead.cells.end()), dead.cells.end());
  dead.subnetworks.erase(std::unique(dead.subnetworks.begin(), dead.subnetworks.end()),
                         dead.subnetworks.end());
  return dead;
}

}  // namespace pleach::support
