#include "pleach/fabric/online_unicast.h"

#include <algorithm>

#include "pleach/base/check.h"
#include "pleach/base/index.h"
#include "pleach/fabric/fred_faults.h"
#include "pleach/fabric/fred_router.h"

namespace pleach {

OnlineUnicast::OnlineUnicast(const FredSize& size, Policy policy)
    : size_(size),
      policy_(policy),
      output_of_(at(size.ports), -1),
      output_busy_(at(size.ports), false),
      choices_(at(size.ports) * at(size.levels()), 0) {
  std::size_t wires = 0;
  std::size_t subnetworks = 1;
  for (int32_t level = 0; level < size.levels(); ++level) {
    begins_.push_back(wires);
    subnetworks *= at(size.middle);
    wires += subnetworks * at(size.ports_of(level + 1));
  }
  begins_.push_back(wires);
  is_busy_.assign(2 * wires, false);
  mark_dead();
}

// Wires that lead to something dead, or come from it, are never free.
void OnlineUnicast::mark_dead() {
  const auto mark = [this](bool is_output, int32_t level, int32_t subnetwork, int32_t place) {
    if (level > 0 && place < size_.ports_of(level)) {
      is_busy_[wire(is_output, level - 1, subnetwork, place << level)] = true;
    }
  };
  const auto mark_all = [&](int32_t level, int32_t subnetwork) {
    for (int32_t place = 0; place < size_.ports_of(level); ++place) {
      mark(false, level, subnetwork, place);
      mark(true, level, subnetwork, place);
    }
  };
  for (const auto& [level, number] : size_.dead.subnetworks) {
    mark_all(level, number);
  }
  for (const FredCell& cell : size_.dead.cells) {
    if (cell.kind == CellKind::kBoth) {
      mark_all(cell.level, cell.subnetwork);
      continue;
    }
    const bool is_output = cell.kind == CellKind::kDistribute || cell.kind == CellKind::kMux;
    const bool is_pair = cell.kind == CellKind::kReduce || cell.kind == CellKind::kDistribute;
    const int32_t first = is_pair ? 2 * cell.index : size_.ports_of(cell.level) - 1;
    for (int32_t place = first; place < first + (is_pair ? 2 : 1); ++place) {
      mark(is_output, cell.level, cell.subnetwork, place);
    }
  }
}

bool OnlineUnicast::has_dead_cell(int32_t input, int32_t output) const {
  return std::ranges::binary_search(dead_inputs(size_), input) ||
         std::ranges::binary_search(dead_outputs(size_), output);
}

bool OnlineUnicast::is_idle(int32_t input, int32_t output) const {
  return output_of_[at(input)] < 0 && !output_busy_[at(output)];
}

int32_t OnlineUnicast::output_of(int32_t input) const {
  return output_of_[at(input)];
}

std::span<const int32_t> OnlineUnicast::choices(int32_t input) const {
  const std::size_t levels = at(size_.levels());
  return std::span(choices_).subspan(at(input) * levels, levels);
}

std::size_t OnlineUnicast::wire(bool is_output, int32_t level, int32_t subnetwork,
                                int32_t port) const {
  return (is_output ? begins_.back() : 0) + begins_[at(level)] +
         at(subnetwork) * at(size_.ports_of(level + 1)) + at(port >> (level + 1));
}

void OnlineUnicast::mark(int32_t input, bool is_busy) {
  int32_t subnetwork = 0;
  for (int32_t level = 0; level < size_.levels(); ++level) {
    subnetwork = subnetwork * size_.middle + choices(input)[at(level)];
    is_busy_[wire(false, level, subnetwork, input)] = is_busy;
    is_busy_[wire(true, level, subnetwork, output_of_[at(input)])] = is_busy;
  }
}

bool OnlineUnicast::find_way(int32_t input, int32_t output, int32_t level, int32_t subnetwork) {
  if (level == size_.levels()) {
    return true;
  }
  for (int32_t choice = 0; choice < size_.middle; ++choice) {
    const int32_t next = subnetwork * size_.middle + choice;
    if (!is_busy_[wire(false, level, next, input)] && !is_busy_[wire(true, level, next, output)] &&
        find_way(input, output, level + 1, next)) {
      choices_[at(input * size_.levels() + level)] = choice;
      return true;
    }
  }
  return false;
}

std::optional<int32_t> OnlineUnicast::rearrange(int32_t input, int32_t output) {
  std::vector<PortFlow> flows;
  for (int32_t other = 0; other < size_.ports; ++other) {
    if (const int32_t end = other == input ? output : output_of_[at(other)]; end >= 0) {
      flows.push_back({{other}, {end}});
    }
  }
  const FlowRouting routing = route_flows(size_, flows);
  if (!routing.routed) {
    return std::nullopt;
  }
  const std::size_t levels = at(size_.levels());
  int32_t moved = 0;
  for (std::size_t flow = 0; flow < flows.size(); ++flow) {
    const int32_t other = flows[flow].inputs.front();
    const auto chosen = std::span(routing.choices).subspan(flow * levels, levels);
    moved += other != input && !std::ranges::equal(choices(other), chosen) ? 1 : 0;
    std::ranges::copy(chosen, choices_.begin() + static_cast<std::ptrdiff_t>(at(other) * levels));
  }
  is_busy_.assign(is_busy_.size(), false);
  mark_dead();
  for (const PortFlow& flow : flows) {
    if (flow.inputs.front() != input) {
      mark(flow.inputs.front(), true);
    }
  }
  return moved;
}

std::optional<int32_t> OnlineUnicast::connect(int32_t input, int32_t output) {
  PLEACH_CHECK(is_idle(input, output), "a call is between idle ports");
  if (has_dead_cell(input, output)) {
    return std::nullopt;
  }
  int32_t moved = 0;
  if (!find_way(input, output, 0, 0)) {
    const auto rearranged = policy_ == Policy::kRearrange ? rearrange(input, output) : std::nullopt;
    if (!rearranged.has_value()) {
      return std::nullopt;
    }
    moved = *rearranged;
  }
  output_of_[at(input)] = output;
  output_busy_[at(output)] = true;
  mark(input, true);
  return moved;
}

void OnlineUnicast::disconnect(int32_t input) {
  const int32_t output = output_of_[at(input)];
  if (output < 0) {
    return;
  }
  mark(input, false);
  output_busy_[at(output)] = false;
  output_of_[at(input)] = -1;
}

}  // namespace pleach
