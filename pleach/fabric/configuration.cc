#include "pleach/fabric/configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "pleach/base/check.h"
#include "pleach/base/index.h"
#include "pleach/base/text.h"

namespace pleach {
namespace {

bool has_mode(CellKind kind, const CellMode& mode, int32_t middle) {
  const bool is_single = kind == CellKind::kDemux || kind == CellKind::kMux;
  const int32_t most = kind == CellKind::kBoth ? 3 : middle - 1;
  return mode.first >= -1 && mode.first <= most && mode.second >= -1 &&
         mode.second <= (is_single ? -1 : most);
}

// A flow on a wire: which, and how many of its inputs are in the sum.
struct Carried {
  int32_t flow = -1;
  int32_t inputs = 0;
};

// What each wire carries.
class Follower {
 public:
  Follower(const FredSwitch& fred, std::span<const PortFlow> flows)
      : fred_(fred), carried_(at(fred.wire_count())) {
    for (int32_t flow = 0; flow < count_of(flows); ++flow) {
      for (const int32_t port : flows[at(flow)].inputs) {
        carried_[at(port)] = {flow, 1};
      }
    }
  }

  // Takes what is at the cell's inputs through it.
  Status pass(int32_t cell, const CellMode& mode) {
    const std::span<const int32_t> inputs = fred_.inputs_of(cell);
    std::vector<bool> is_taken(inputs.size(), false);
    for (const auto& [input, output] : moves_of(fred_.cells()[at(cell)].kind, mode)) {
      Carried& out = carried_[at(fred_.first_output_of(cell) + output)];
      const Carried& in = carried_[at(inputs[at(input)])];
      is_taken[at(input)] = true;
      if (in.flow < 0) {
        continue;
      }
      if (out.flow >= 0 && out.flow != in.flow) {
        return invalid(name(cell), fmt::format("adds flows {} and {}", out.flow, in.flow));
      }
      out = {in.flow, out.inputs + in.inputs};
    }
    for (std::size_t input = 0; input < inputs.size(); ++input) {
      const Carried& in = carried_[at(inputs[input])];
      if (in.flow >= 0 && !is_taken[input]) {
        return invalid(name(cell), fmt::format("loses flow {} at input {}", in.flow, input));
      }
    }
    return ok();
  }

  const Carried& on(int32_t wire) const { return carried_[at(wire)]; }
  std::string name(int32_t cell) const { return "cell " + fred_.name_of(fred_.cells()[at(cell)]); }

 private:
  const FredSwitch& fred_;
  std::vector<Carried> carried_;
};

// Choices as subnetworks of one level, numbered through.
int32_t subnetwork_of(const FredSize& size, std::span<const int32_t> choices, int32_t level) {
  int32_t subnetwork = 0;
  for (int32_t next = 0; next < level; ++next) {
    subnetwork = subnetwork * size.middle + choices[at(next)];
  }
  return subnetwork;
}

// The distinct places of `ports` after `level` halvings; they are ascending.
std::vector<int32_t> places_of(std::span<const int32_t> ports, int32_t level) {
  std::vector<int32_t> places;
  for (const int32_t port : ports) {
    if (places.empty() || places.back() != port >> level) {
      places.push_back(port >> level);
    }
  }
  return places;
}

}  // namespace

std::vector<CellMove> moves_of(CellKind kind, const CellMode& mode) {
  std::vector<CellMove> moves;
  for (int32_t side = 0; side < 2; ++side) {
    const int32_t way = side == 0 ? mode.first : mode.second;
    if (way < 0) {
      continue;
    }
    switch (kind) {
      case CellKind::kReduce:
      case CellKind::kDemux:
        moves.push_back({side, way});
        break;
      case CellKind::kDistribute:
      case CellKind::kMux:
        moves.push_back({way, side});
        break;
      case CellKind::kBoth:
        for (int32_t input = 0; input < 2; ++input) {
          if ((way >> input & 1) == 1) {
            moves.push_back({input, side});
          }
        }
        break;
    }
  }
  return moves;
}

std::string mode_text(CellKind kind, const CellMode& mode) {
  // What is added for one output; what is copied to several.
  std::vector<std::pair<std::string, int32_t>> sums;
  for (const auto& [input, output] : moves_of(kind, mode)) {
    const auto same = std::ranges::find(sums, output, &std::pair<std::string, int32_t>::second);
    if (same == sums.end()) {
      sums.emplace_back(std::to_string(input), output);
    } else {
      same->first += fmt::format("+{}", input);
    }
  }
  if (sums.empty()) {
    return "idle";
  }
  std::string text = fmt::format("{}>{}", sums[0].first, sums[0].second);
  if (sums.size() == 2) {
    text += sums[0].first == sums[1].first ? fmt::format(",{}", sums[1].second)
                                           : fmt::format(" {}>{}", sums[1].first, sums[1].second);
  }
  return text;
}

Configuration configure(const FredSwitch& fred, std::span<const PortFlow> flows,
                        std::span<const int32_t> choices) {
  const FredSize& size = fred.size();
  const int32_t levels = size.levels();
  Configuration modes(fred.cells().size());
  const auto mode_at = [&](CellKind kind, CellKind end, int32_t level, int32_t subnetwork,
                           int32_t port) -> int32_t& {
    const bool has_cell = port < size.ports_of(level) / 2 * 2;
    CellMode& mode =
        modes[at(fred.find(has_cell ? kind : end, level, subnetwork, has_cell ? port / 2 : 0))];
    return has_cell && port % 2 == 1 ? mode.second : mode.first;
  };
  for (int32_t flow = 0; flow < count_of(flows); ++flow) {
    const auto own = choices.subspan(at(flow * levels), at(levels));
    const auto& [inputs, outputs] = flows[at(flow)];
    for (int32_t level = 0; level < levels; ++level) {
      const int32_t subnetwork = subnetwork_of(size, own, level);
      for (const int32_t port : places_of(inputs, level)) {
        mode_at(CellKind::kReduce, CellKind::kDemux, level, subnetwork, port) = own[at(level)];
      }
      for (const int32_t port : places_of(outputs, level)) {
        mode_at(CellKind::kDistribute, CellKind::kMux, level, subnetwork, port) = own[at(level)];
      }
    }
    int32_t bits = 0;
    for (const int32_t port : places_of(inputs, levels)) {
      bits |= 1 << port;
    }
    CellMode& mode =
        modes[at(fred.find(CellKind::kBoth, levels, subnetwork_of(size, own, levels), 0))];
    for (const int32_t port : places_of(outputs, levels)) {
      (port == 0 ? mode.first : mode.second) = bits;
    }
  }
  return modes;
}

Status check_configuration(const FredSwitch& fred, std::span<const PortFlow> flows,
                           std::span<const CellMode> modes) {
  PLEACH_TRY(check_flows(flows, fred.size().ports));
  if (modes.size() != fred.cells().size()) {
    return invalid(fmt::format("{} modes for {} cells", modes.size(), fred.cells().size()));
  }
  Follower follower(fred, flows);
  for (int32_t cell = 0; cell < count_of(modes); ++cell) {
    const CellKind kind = fred.cells()[at(cell)].kind;
    if (!has_mode(kind, modes[at(cell)], fred.size().middle)) {
      return invalid(follower.name(cell), fmt::format("has no mode {}, {}", modes[at(cell)].first,
                                                      modes[at(cell)].second));
    }
    if (fred.is_dead(cell) && !moves_of(kind, modes[at(cell)]).empty()) {
      return invalid(follower.name(cell),
                     fmt::format("is dead, and is to do {}", mode_text(kind, modes[at(cell)])));
    }
    PLEACH_TRY(follower.pass(cell, modes[at(cell)]));
  }
  std::vector<int32_t> owner(at(fred.size().ports), -1);
  for (int32_t flow = 0; flow < count_of(flows); ++flow) {
    for (const int32_t port : flows[at(flow)].outputs) {
      owner[at(port)] = flow;
    }
  }
  for (int32_t port = 0; port < fred.size().ports; ++port) {
    const Carried& carried = follower.on(fred.output_wires()[at(port)]);
    const std::string place = fmt::format("output port {}", port);
    if (carried.flow != owner[at(port)]) {
      return invalid(place,
                     fmt::format("gets flow {} in place of {}", carried.flow, owner[at(port)]));
    }
    if (carried.flow >= 0 && carried.inputs != count_of(flows[at(carried.flow)].inputs)) {
      return invalid(place, fmt::format("gets {} of the {} inputs of flow {}", carried.inputs,
                                        flows[at(carried.flow)].inputs.size(), carried.flow));
    }
  }
  return ok();
}

std::vector<std::vector<int32_t>> ways_of(const FredSwitch& fred, std::span<const PortFlow> flows,
                                          std::span<const CellMode> modes) {
  std::vector<std::vector<int32_t>> ways(flows.size());
  Follower follower(fred, flows);
  for (int32_t cell = 0; cell < count_of(modes); ++cell) {
    for (const int32_t wire : fred.inputs_of(cell)) {
      if (const int32_t flow = follower.on(wire).flow; flow >= 0) {
        std::vector<int32_t>& way = ways[at(flow)];
        if (way.empty() || way.back() != cell) {
          way.push_back(cell);
        }
      }
    }
    const Status passed = follower.pass(cell, modes[at(cell)]);
    PLEACH_CHECK(passed.has_value(), "the configuration is of these flows");
  }
  return ways;
}

std::vector<std::optional<Payload>> execute(const FredSwitch& fred, std::span<const CellMode> modes,
                                            std::span<const std::optional<Payload>> payloads) {
  std::vector<std::optional<Payload>> wires(at(fred.wire_count()));
  std::ranges::copy(payloads, wires.begin());
  for (int32_t cell = 0; cell < count_of(modes); ++cell) {
    if (fred.is_dead(cell)) {
      continue;
    }
    for (const auto& [input, output] : moves_of(fred.cells()[at(cell)].kind, modes[at(cell)])) {
      std::optional<Payload>& out = wires[at(fred.first_output_of(cell) + output)];
      const std::optional<Payload>& in = wires[at(fred.inputs_of(cell)[at(input)])];
      if (!out.has_value()) {
        out = in;
      } else if (in.has_value()) {
        std::ranges::transform(*in, *out, out->begin(), std::plus<>());
      }
    }
  }
  std::vector<std::optional<Payload>> results;
  for (const int32_t wire : fred.output_wires()) {
    results.push_back(std::move(wires[at(wire)]));
  }
  return results;
}

}  // namespace pleach
