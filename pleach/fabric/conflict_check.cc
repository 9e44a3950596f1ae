#include "pleach/fabric/conflict_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/fabric/fred_faults.h"

namespace pleach {
namespace {

class WireTrial {
 public:
  WireTrial(const FredSize& size, std::span<const PortFlow> flows, int32_t levels, int64_t tries)
      : size_(size), flows_(flows), levels_(levels), tries_left_(tries) {}

  std::optional<bool> run() {
    const bool routed =
        std::ranges::none_of(flows_, [&](const PortFlow& flow) { return is_stopped(flow, {}); }) &&
        place(0, 0, {});
    if (!routed && tries_left_ <= 0) {
      return std::nullopt;
    }
    return routed;
  }

 private:
  // A wire into or out of a subnetwork: side, the way to it, port.
  using Wire = std::pair<int32_t, std::vector<int32_t>>;

  std::vector<Wire> wires_into(const PortFlow& flow, const std::vector<int32_t>& way) const {
    std::vector<Wire> wires;
    for (int32_t side = 0; side < 2; ++side) {
      for (int32_t port : side == 0 ? flow.inputs : flow.outputs) {
        // Pairs share a cell, and so a wire on; the last port of an odd number has its own.
        int32_t ports = size_.ports;
        for (std::size_t level = 0; level < way.size(); ++level) {
          port = ports % 2 == 1 && port == ports - 1 ? (ports - 1) / 2 : port / 2;
          ports = (ports + 1) / 2;
        }
        std::vector<int32_t> key = way;
        key.push_back(port);
        wires.emplace_back(side, std::move(key));
      }
    }
    std::ranges::sort(wires);
    wires.erase(std::unique(wires.begin(), wires.end()), wires.end());
    return wires;
  }

  // Whether something dead is in the flow's way into the subnetwork at `way`: all of that, or a
  // cell by which it would enter or leave it.
  bool is_stopped(const PortFlow& flow, const std::vector<int32_t>& way) const {
    for (const FredSubnetwork& dead : size_.dead.subnetworks) {
      if (path_to(size_, dead) == way) {
        return true;
      }
    }
    for (const FredCell& dead : size_.dead.cells) {
      if (path_to(size_, {dead.level, dead.subnetwork}) != way) {
        continue;
      }
      for (const auto& [side, key] : wires_into(flow, way)) {
        const int32_t port = key.back();
        const bool is_last =
            size_.ports_of(dead.level) % 2 == 1 && port == size_.ports_of(dead.level) - 1;
        const CellKind enters = is_last ? CellKind::kDemux : CellKind::kReduce;
        const CellKind leaves = is_last ? CellKind::kMux : CellKind::kDistribute;
        if (dead.kind == CellKind::kBoth ||
            (dead.kind == (side == 0 ? enters : leaves) && (is_last || dead.index == port / 2))) {
          return true;
        }
      }
    }
    return false;
  }

  // The flow's next choice, at `level` behind `way`.
  bool place(std::size_t flow, int32_t level, std::vector<int32_t> way) {
    if (flow == flows_.size()) {
      return true;
    }
    if (level == levels_) {
      return place(flow + 1, 0, {});
    }
    // Subnetworks that no flow is in are alike where none is dead: one of them is tried.
    int32_t known = size_.dead.empty() ? 0 : size_.middle;
    for (; known < size_.middle; ++known) {
      way.push_back(known);
      const bool is_used = users_.contains(way);
      way.pop_back();
      if (!is_used) {
        break;
      }
    }
    for (int32_t choice = 0; choice < std::min(known + 1, size_.middle); ++choice) {
      if (--tries_left_ <= 0) {
        return false;
      }
      way.push_back(choice);
      const std::vector<Wire> wires = wires_into(flows_[flow], way);
      const bool are_free =
          std::ranges::none_of(wires, [&](const Wire& wire) { return busy_.contains(wire); }) &&
          !is_stopped(flows_[flow], way);
      if (are_free) {
        busy_.insert(wires.begin(), wires.end());
        users_.insert(way);
        if (place(flow, level + 1, way)) {
          return true;
        }
        users_.erase(users_.find(way));
        for (const Wire& wire : wires) {
          busy_.erase(wire);
        }
      }
      way.pop_back();
    }
    return false;
  }

  const FredSize size_;
  const std::span<const PortFlow> flows_;
  const int32_t levels_;
  int64_t tries_left_;
  std::set<Wire> busy_;
  std::multiset<std::vector<int32_t>> users_;  // the subnetworks that flows are in
};

}  // namespace

std::optional<bool> route_by_trial(const FredSize& size, std::span<const PortFlow> flows,
                                   int32_t levels, int64_t most_tries) {
  return WireTrial(size, flows, levels, most_tries).run();
}

Status check_conflict(const FredSize& size, std::span<const PortFlow> flows,
                      const FlowConflict& conflict, int64_t most_tries) {
  std::vector<PortFlow> own;
  for (const int32_t flow : conflict.flows) {
    if (flow < 0 || flow >= count_of(flows)) {
      return invalid(fmt::format("there is no flow {}", flow));
    }
    own.push_back(flows[at(flow)]);
  }
  PLEACH_TRY(check_flows(own, size.ports));
  const auto expect = [&](std::span<const PortFlow> some, int32_t levels, bool routes,
                          const std::string& what) -> Status {
    const std::optional<bool> found = route_by_trial(size, some, levels, most_tries);
    if (!found.has_value()) {
      return Error{ErrorCode::kInfeasible, fmt::format("over {} tries", most_tries)};
    }
    return *found == routes ? ok() : Status(invalid(what));
  };
  if (conflict.level < 0 || conflict.level >= std::max(1, size.levels())) {
    return invalid(fmt::format("there is no level {}", conflict.level));
  }
  PLEACH_TRY(expect(own, size.levels(), false, "the flows route"));
  PLEACH_TRY(expect(own, std::min(conflict.level + 1, size.levels()), false,
                    fmt::format("levels up to {} do not refuse them", conflict.level)));
  if (conflict.level > 0) {
    PLEACH_TRY(expect(own, conflict.level, true,
                      fmt::format("levels before {} refuse them", conflict.level)));
  }
  for (std::size_t left_out = 0; left_out < own.size(); ++left_out) {
    std::vector<PortFlow> rest = own;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(left_out));
    PLEACH_TRY(expect(
        rest, size.levels(), true,
        fmt::format("without flow {} the others do not route either", conflict.flows[left_out])));
  }
  return ok();
}

}  // namespace pleach
