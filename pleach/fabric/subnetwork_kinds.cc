#include "pleach/fabric/subnetwork_kinds.h"

#include <algorithm>

#include "pleach/base/index.h"

namespace pleach {
namespace {

// Whether the flow has a port at the cell, in the subnetwork that has it.
bool is_at(const FredSize& size, const FredCell& cell, const PortFlow& flow) {
  const auto has = [&](std::span<const int32_t> ports, bool is_pair) {
    const int32_t place = is_pair ? cell.index : size.ports_of(cell.level) - 1;
    return std::ranges::any_of(
        ports, [&](int32_t port) { return port >> (cell.level + (is_pair ? 1 : 0)) == place; });
  };
  switch (cell.kind) {
    case CellKind::kReduce:
    case CellKind::kDemux:
      return has(flow.inputs, cell.kind == CellKind::kReduce);
    case CellKind::kDistribute:
    case CellKind::kMux:
      return has(flow.outputs, cell.kind == CellKind::kDistribute);
    case CellKind::kBoth:
      return true;
  }
  return true;
}

}  // namespace

SubnetworkKinds::SubnetworkKinds(const FredSize& size, std::span<const PortFlow> flows,
                                 int32_t levels)
    : size_(size), flows_(flows), levels_(levels) {
  outermost_ = kind_of({0, 0}, size.dead);
}

int32_t SubnetworkKinds::child(int32_t kind, int32_t choice) const {
  if (is_sound(kind)) {
    return kind + 1;
  }
  const Faulty& own = faulty(kind);
  const auto found = own.children.find(choice);
  return found == own.children.end() ? own.level + 1 : found->second;
}

bool SubnetworkKinds::carries_by(std::span<const int32_t> choices, int32_t flow) const {
  int32_t kind = outermost_;
  bool carried = carries(kind, flow);
  for (const int32_t choice : choices) {
    if (is_sound(kind) || !carried) {
      break;
    }
    kind = child(kind, choice);
    carried = carries(kind, flow);
  }
  return carried;
}

std::map<int32_t, int32_t> SubnetworkKinds::children_of(const FredSubnetwork& subnetwork,
                                                        const FredFaults& inside) {
  const auto choice_of = [&](int32_t level, int32_t number) {
    for (; level > subnetwork.level + 1; --level) {
      number /= size_.middle;
    }
    return number % size_.middle;
  };
  std::map<int32_t, FredFaults> parts;
  for (const FredCell& cell : inside.cells) {
    if (cell.level > subnetwork.level) {
      parts[choice_of(cell.level, cell.subnetwork)].cells.push_back(cell);
    }
  }
  for (const FredSubnetwork& dead : inside.subnetworks) {
    parts[choice_of(dead.level, dead.number)].subnetworks.push_back(dead);
  }
  std::map<int32_t, int32_t> children;
  for (const auto& [choice, faults] : parts) {
    const int32_t kind =
        kind_of({subnetwork.level + 1, subnetwork.number * size_.middle + choice}, faults);
    if (!is_sound(kind)) {
      children.emplace(choice, kind);
    }
  }
  return children;
}

int32_t SubnetworkKinds::kind_of(const FredSubnetwork& subnetwork, const FredFaults& inside) {
  if (inside.empty()) {
    return subnetwork.level;
  }
  const bool is_dead =
      std::ranges::find(inside.subnetworks, subnetwork) != inside.subnetworks.end();
  Faulty made = {subnetwork.level};
  if (!is_dead && subnetwork.level < levels_) {
    made.children = children_of(subnetwork, inside);
  }
  const bool has_sound_child =
      subnetwork.level == levels_ || count_of(made.children) < size_.middle;
  for (int32_t flow = 0; flow < count_of(flows_); ++flow) {
    const bool is_stopped =
        is_dead || std::ranges::any_of(inside.cells, [&](const FredCell& cell) {
          return cell.level == subnetwork.level && is_at(size_, cell, flows_[at(flow)]);
        });
    made.carries.push_back(
        !is_stopped &&
        (has_sound_child || std::ranges::any_of(made.children, [&](const auto& child) {
           return carries(child.second, flow);
         })));
  }
  if (made.children.empty() && std::ranges::find(made.carries, false) == made.carries.end()) {
    return subnetwork.level;
  }
  const auto same = std::ranges::find(faulty_, made);
  const auto number = static_cast<int32_t>(same - faulty_.begin());
  if (same == faulty_.end()) {
    faulty_.push_back(std::move(made));
  }
  return levels_ + 1 + number;
}

}  // namespace pleach
