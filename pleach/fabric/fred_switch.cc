#include "pleach/fabric/fred_switch.h"

#include <fmt/format.h>

#include <algorithm>

#include "pleach/base/check.h"
#include "pleach/base/text.h"
#include "pleach/fabric/fred_faults.h"

namespace pleach {

int32_t FredSize::ports_of(int32_t level) const {
  int32_t left = ports;
  for (int32_t next = 0; next < level; ++next) {
    left -= left / 2;
  }
  return left;
}

int32_t FredSize::levels() const {
  int32_t count = 0;
  for (int32_t left = ports; left > 2; left -= left / 2) {
    ++count;
  }
  return count;
}

int64_t FredSize::subnetworks(int32_t level) const {
  int64_t count = 1;
  for (int32_t next = 0; next < level; ++next) {
    count *= middle;
  }
  return count;
}

std::string FredSize::text() const {
  return fmt::format("FRED_{}({})", middle, ports);
}

Result<FredCount> count_cells(const FredSize& size) {
  if (size.ports < 2) {
    return invalid(fmt::format("a switch of {} ports: there are at least 2", size.ports));
  }
  if (size.middle < 2) {
    return invalid(
        fmt::format("a switch with {} subnetworks in the middle: it has at least 2", size.middle));
  }
  FredCount count;
  int64_t subnetworks = 1;
  for (int32_t left = size.ports;; left -= left / 2) {
    count.cells += left == 2 ? subnetworks : subnetworks * (left / 2) * 2;
    count.multiplexers += left > 2 && left % 2 == 1 ? 2 * subnetworks : 0;
    if (std::max(count.cells, count.multiplexers) > kMostFredCells) {
      return invalid(fmt::format("{} has over {} cells", size.text(), kMostFredCells));
    }
    if (left == 2) {
      return count;
    }
    if (subnetworks > kMostFredCells) {
      return invalid(fmt::format("{} has over {} cells", size.text(), kMostFredCells));
    }
    subnetworks *= size.middle;
  }
}

std::string_view to_text(CellKind kind) {
  switch (kind) {
    case CellKind::kReduce:
      return "R";
    case CellKind::kDemux:
      return "demux";
    case CellKind::kBoth:
      return "RD";
    case CellKind::kDistribute:
      return "D";
    case CellKind::kMux:
      return "mux";
  }
  PLEACH_CHECK(false, "no such kind of cell");
}

Result<FredSwitch> FredSwitch::create(const FredSize& size) {
  FredSwitch made;
  made.size_ = size;
  PLEACH_SET(made.count_, count_cells(size));
  PLEACH_TRY(check_faults(size));
  made.cells_.reserve(static_cast<std::size_t>(made.count_.cells + made.count_.multiplexers));
  const int32_t levels = size.levels();
  for (int32_t level = 0; level < levels; ++level) {
    made.add_stage(level, true);
  }
  made.add_stage(levels, true);
  for (int32_t level = levels - 1; level >= 0; --level) {
    made.add_stage(level, false);
  }
  made.connect();
  made.find_dead();
  return made;
}

void FredSwitch::add_stage(int32_t level, bool is_input) {
  stage_begin_.push_back(static_cast<int32_t>(cells_.size()));
  const auto subnetworks = static_cast<int32_t>(size_.subnetworks(level));
  const int32_t ports = size_.ports_of(level);
  const bool is_last = ports == 2;
  const CellKind pair = is_last    ? CellKind::kBoth
                        : is_input ? CellKind::kReduce
                                   : CellKind::kDistribute;
  for (int32_t subnetwork = 0; subnetwork < subnetworks; ++subnetwork) {
    for (int32_t index = 0; index < ports / 2; ++index) {
      cells_.push_back({pair, level, subnetwork, index});
    }
    if (ports % 2 == 1) {
      cells_.push_back({is_input ? CellKind::kDemux : CellKind::kMux, level, subnetwork, 0});
    }
  }
}

int32_t FredSwitch::inputs_count(CellKind kind) const {
  switch (kind) {
    case CellKind::kReduce:
    case CellKind::kBoth:
      return 2;
    case CellKind::kDemux:
      return 1;
    case CellKind::kDistribute:
    case CellKind::kMux:
      return size_.middle;
  }
  PLEACH_CHECK(false, "no such kind of cell");
}

int32_t FredSwitch::outputs_count(CellKind kind) const {
  switch (kind) {
    case CellKind::kReduce:
    case CellKind::kDemux:
      return size_.middle;
    case CellKind::kBoth:
    case CellKind::kDistribute:
      return 2;
    case CellKind::kMux:
      return 1;
  }
  PLEACH_CHECK(false, "no such kind of cell");
}

// Output o of an input cell i is input i of subnetwork o of the next level; output i of that is
// input o of the output cell i.
void FredSwitch::connect() {
  wire_count_ = size_.ports;
  for (const FredCell& cell : cells_) {
    first_output_.push_back(wire_count_);
    wire_count_ += outputs_count(cell.kind);
  }
  // Wire of port `port` into, or out of, a subnetwork.
  const auto into = [&](int32_t level, int32_t subnetwork, int32_t port) {
    if (level == 0) {
      return port;
    }
    const bool has_cell = port < size_.ports_of(level - 1) / 2;
    const int32_t cell = find(has_cell ? CellKind::kReduce : CellKind::kDemux, level - 1,
                              subnetwork / size_.middle, has_cell ? port : 0);
    return first_output_[at(cell)] + subnetwork % size_.middle;
  };
  const auto out_of = [&](int32_t level, int32_t subnetwork, int32_t port) {
    const int32_t ports = size_.ports_of(level);
    const bool has_cell = port < ports / 2 * 2;
    const CellKind pair = ports == 2 ? CellKind::kBoth : CellKind::kDistribute;
    const int32_t cell =
        find(has_cell ? pair : CellKind::kMux, level, subnetwork, has_cell ? port / 2 : 0);
    return first_output_[at(cell)] + (has_cell ? port % 2 : 0);
  };
  for (const FredCell& cell : cells_) {
    first_input_.push_back(static_cast<int32_t>(input_wires_.size()));
    const bool is_end = cell.kind == CellKind::kDemux || cell.kind == CellKind::kMux;
    const int32_t place = is_end ? size_.ports_of(cell.level) / 2 : cell.index;
    for (int32_t input = 0; input < inputs_count(cell.kind); ++input) {
      const bool is_output = cell.kind == CellKind::kDistribute || cell.kind == CellKind::kMux;
      input_wires_.push_back(
          is_output ? out_of(cell.level + 1, cell.subnetwork * size_.middle + input, place)
                    : into(cell.level, cell.subnetwork, 2 * place + input));
    }
  }
  first_input_.push_back(static_cast<int32_t>(input_wires_.size()));
  for (int32_t port = 0; port < size_.ports; ++port) {
    output_wires_.push_back(out_of(0, 0, port));
  }
}

int32_t FredSwitch::stage_of(const FredCell& cell) const {
  const bool is_output = cell.kind == CellKind::kDistribute || cell.kind == CellKind::kMux;
  return is_output ? size_.stages() - 1 - cell.level : cell.level;
}

int32_t FredSwitch::find(CellKind kind, int32_t level, int32_t subnetwork, int32_t index) const {
  const int32_t ports = size_.ports_of(level);
  const bool is_end = kind == CellKind::kDemux || kind == CellKind::kMux;
  return stage_begin_[at(stage_of({kind, level, subnetwork, index}))] +
         subnetwork * (ports - ports / 2) + (is_end ? ports / 2 : index);
}

std::span<const int32_t> FredSwitch::inputs_of(int32_t cell) const {
  const auto first = at(first_input_[at(cell)]);
  return std::span(input_wires_).subspan(first, at(first_input_[at(cell) + 1]) - first);
}

int32_t FredSwitch::output_count_of(int32_t cell) const {
  return outputs_count(cells_[at(cell)].kind);
}

void FredSwitch::find_dead() {
  if (size_.dead.empty()) {
    return;
  }
  is_dead_.assign(cells_.size(), false);
  for (const FredCell& cell : size_.dead.cells) {
    is_dead_[at(find(cell.kind, cell.level, cell.subnetwork, cell.index))] = true;
  }
  for (std::size_t index = 0; index < cells_.size(); ++index) {
    FredSubnetwork own = {cells_[index].level, cells_[index].subnetwork};
    for (; own.level > 0; --own.level, own.number /= size_.middle) {
      if (std::ranges::binary_search(size_.dead.subnetworks, own)) {
        is_dead_[index] = true;
      }
    }
  }
}

FredCount FredSwitch::dead_count() const {
  FredCount count;
  for (std::size_t index = 0; index < is_dead_.size(); ++index) {
    const CellKind kind = cells_[index].kind;
    const bool is_multiplexer = kind == CellKind::kDemux || kind == CellKind::kMux;
    (is_multiplexer ? count.multiplexers : count.cells) += is_dead_[index] ? 1 : 0;
  }
  return count;
}

std::vector<int32_t> FredSwitch::path_of(const FredCell& cell) const {
  return path_to(size_, {cell.level, cell.subnetwork});
}

std::string FredSwitch::name_of(const FredCell& cell) const {
  return pleach::name_of(size_, cell);
}

}  // namespace pleach
