#include "pleach/fabric/fred_faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "pleach/base/check.h"
#include "pleach/base/index.h"
#include "pleach/base/text.h"

namespace pleach {
namespace {

constexpr std::array<CellKind, 5> kCellKinds = {
    CellKind::kReduce, CellKind::kDemux, CellKind::kBoth, CellKind::kDistribute, CellKind::kMux};

bool is_numbered(CellKind kind) {
  return kind == CellKind::kReduce || kind == CellKind::kDistribute;
}

// How many cells of `kind` a subnetwork of `level` has.
int32_t count_of_kind(const FredSize& size, CellKind kind, int32_t level) {
  const int32_t ports = size.ports_of(level);
  switch (kind) {
    case CellKind::kBoth:
      return ports == 2 ? 1 : 0;
    case CellKind::kReduce:
    case CellKind::kDistribute:
      return ports == 2 ? 0 : ports / 2;
    case CellKind::kDemux:
    case CellKind::kMux:
      return ports % 2;
  }
  return 0;
}

// What a subnetwork of `level` has: "R0 to R2, demux, D0 to D2 and mux".
std::string cells_of_level(const FredSize& size, int32_t level) {
  std::vector<std::string> words;
  for (const CellKind kind : kCellKinds) {
    const int32_t count = count_of_kind(size, kind, level);
    if (count > 0) {
      words.push_back(!is_numbered(kind) ? std::string(to_text(kind))
                      : count == 1       ? fmt::format("{}0", to_text(kind))
                                         : fmt::format("{0}0 to {0}{1}", to_text(kind), count - 1));
    }
  }
  return join(words, ", ");
}

std::optional<int32_t> parse_index(std::string_view text, int32_t end) {
  const Result<int32_t> number = parse_count(text, "number", 0, end - 1);
  return number && std::to_string(*number) == text ? std::optional(*number) : std::nullopt;
}

Result<FredSubnetwork> parse_subnetwork(const FredSize& size, std::string_view text) {
  FredSubnetwork subnetwork = {0, 0};
  for (const std::string_view word : split(text, '.')) {
    const std::optional<int32_t> choice = parse_index(word, size.middle);
    if (!choice || subnetwork.level == size.levels()) {
      return invalid(
          size.levels() == 0
              ? fmt::format("there is no subnetwork {} in {}: it is one cell, RD", quoted(text),
                            size.text())
              : fmt::format("there is no subnetwork {} in {}: they are numbers from 0 to {}, "
                            "outermost first, of {} level{}, as 1 or 1.0",
                            quoted(text), size.text(), size.middle - 1, size.levels(),
                            size.levels() == 1 ? "" : "s"));
    }
    subnetwork = {subnetwork.level + 1, subnetwork.number * size.middle + *choice};
  }
  return subnetwork;
}

Result<FredCell> parse_cell(const FredSize& size, std::string_view text) {
  FredSubnetwork subnetwork = {0, 0};
  std::string_view own = text;
  const std::size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    PLEACH_SET(subnetwork, parse_subnetwork(size, text.substr(0, slash)));
    own = text.substr(slash + 1);
  }
  for (const CellKind kind : kCellKinds) {
    const int32_t count = count_of_kind(size, kind, subnetwork.level);
    if (!own.starts_with(to_text(kind)) || count == 0) {
      continue;
    }
    const std::string_view rest = own.substr(to_text(kind).size());
    const std::optional<int32_t> index = is_numbered(kind) ? parse_index(rest, count)
                                         : rest.empty()    ? std::optional(0)
                                                           : std::nullopt;
    if (index) {
      return FredCell{kind, subnetwork.level, subnetwork.number, *index};
    }
  }
  const std::string place = subnetwork.level == 0
                                ? std::string("its outermost level")
                                : fmt::format("subnetwork {}", text.substr(0, slash));
  return invalid(fmt::format("there is no cell {} in {}: {} has {}", quoted(text), size.text(),
                             place, cells_of_level(size, subnetwork.level)));
}

// Names separated by +, each once, sorted by what they name.
template <typename Part, typename Parse>
Result<std::vector<Part>> parse_names(std::string_view text, std::string_view what,
                                      const Parse& parse) {
  std::vector<Part> parts;
  if (text.empty()) {
    return parts;
  }
  for (const std::string_view name : split(text, '+')) {
    PLEACH_ASSIGN(part, parse(name));
    const auto place = std::ranges::lower_bound(parts, part);
    if (place != parts.end() && *place == part) {
      return invalid(fmt::format("{} {} is named twice", what, quoted(name)));
    }
    parts.insert(place, part);
  }
  return parts;
}

// Ports at dead cells of the outermost level, one of these kinds.
std::vector<int32_t> ports_at(const FredSize& size, CellKind pair, CellKind end) {
  std::vector<int32_t> ports;
  for (const FredCell& cell : size.dead.cells) {
    if (cell.level == 0 && (cell.kind == pair || cell.kind == CellKind::kBoth)) {
      ports.insert(ports.end(), {2 * cell.index, 2 * cell.index + 1});
    } else if (cell.level == 0 && cell.kind == end) {
      ports.push_back(size.ports - 1);
    }
  }
  std::ranges::sort(ports);
  return ports;
}

}  // namespace

std::vector<int32_t> path_to(const FredSize& size, const FredSubnetwork& subnetwork) {
  std::vector<int32_t> path(at(subnetwork.level));
  int32_t left = subnetwork.number;
  for (int32_t level = subnetwork.level - 1; level >= 0; --level) {
    path[at(level)] = left % size.middle;
    left /= size.middle;
  }
  return path;
}

std::string name_of(const FredSize& size, const FredSubnetwork& subnetwork) {
  return fmt::format("{}", fmt::join(path_to(size, subnetwork), "."));
}

std::string name_of(const FredSize& size, const FredCell& cell) {
  const std::string path = name_of(size, FredSubnetwork{cell.level, cell.subnetwork});
  return (path.empty() ? "" : path + "/") + std::string(to_text(cell.kind)) +
         (is_numbered(cell.kind) ? std::to_string(cell.index) : std::string());
}

Result<FredFaults> parse_faults(const FredSize& size, std::string_view cells,
                                std::string_view subnetworks) {
  FredFaults faults;
  PLEACH_SET(faults.cells, parse_names<FredCell>(cells, "cell", [&](std::string_view name) {
               return parse_cell(size, name);
             }));
  PLEACH_SET(faults.subnetworks,
             parse_names<FredSubnetwork>(subnetworks, "subnetwork", [&](std::string_view name) {
               return parse_subnetwork(size, name);
             }));
  return faults;
}

Status check_faults(const FredSize& size) {
  std::vector<std::string> cells, subnetworks;
  for (const FredCell& cell : size.dead.cells) {
    cells.push_back(name_of(size, cell));
  }
  for (const FredSubnetwork& subnetwork : size.dead.subnetworks) {
    subnetworks.push_back(name_of(size, subnetwork));
  }
  PLEACH_ASSIGN(faults, parse_faults(size, join(cells, "+"), join(subnetworks, "+")));
  return faults == size.dead ? ok() : Status(invalid("dead parts are not in ascending order"));
}

std::vector<int32_t> dead_inputs(const FredSize& size) {
  return ports_at(size, CellKind::kReduce, CellKind::kDemux);
}

std::vector<int32_t> dead_outputs(const FredSize& size) {
  return ports_at(size, CellKind::kDistribute, CellKind::kMux);
}

FredCell cell_at(const FredSize& size, int64_t number) {
  int64_t subnetworks = 1;
  for (int32_t level = 0;; ++level, subnetworks *= size.middle) {
    for (const CellKind kind : {CellKind::kReduce, CellKind::kBoth, CellKind::kDistribute}) {
      const int64_t each = count_of_kind(size, kind, level);
      if (number < subnetworks * each) {
        return {kind, level, static_cast<int32_t>(number / each),
                static_cast<int32_t>(number % each)};
      }
      number -= subnetworks * each;
    }
    PLEACH_CHECK(level <= size.levels(), "there are so many cells");
  }
}

std::string faults_text(const FredSize& size, const FredFaults& faults) {
  std::vector<std::string> words;
  for (const FredCell& cell : faults.cells) {
    const FredSize alone = {size.ports, size.middle, {{cell}, {}}};
    std::vector<std::string> ports;
    for (const auto& [side, numbers] :
         {std::pair("input", dead_inputs(alone)), std::pair("output", dead_outputs(alone))}) {
      if (!numbers.empty()) {
        ports.push_back(fmt::format("{} port{} {}", side, numbers.size() == 1 ? "" : "s",
                                    fmt::join(numbers, ", ")));
      }
    }
    words.push_back(name_of(size, cell) +
                    (ports.empty() ? "" : fmt::format(" ({})", join(ports, "; "))));
  }
  for (const FredSubnetwork& subnetwork : faults.subnetworks) {
    words.push_back("subnetwork " + name_of(size, subnetwork));
  }
  return join(words, ", ");
}

}  // namespace pleach
