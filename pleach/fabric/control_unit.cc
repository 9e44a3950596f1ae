#include "pleach/fabric/control_unit.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "pleach/base/check.h"
#include "pleach/base/index.h"

namespace pleach {
namespace {

constexpr int32_t kPublishedBits = 3;
constexpr int32_t kBothBits = 3;

int32_t bits_for(int64_t values) {
  return static_cast<int32_t>(std::bit_width(static_cast<uint64_t>(values - 1)));
}

int32_t bits_of(CellKind kind, int64_t middle) {
  switch (kind) {
    case CellKind::kReduce:
    case CellKind::kDistribute:
      return bits_for(middle * middle);
    case CellKind::kDemux:
    case CellKind::kMux:
      return bits_for(middle);
    case CellKind::kBoth:
      return kBothBits;
  }
  PLEACH_CHECK(false, "no such kind of cell");
}

// The modes of an RD, by their code: inputs of each output, as bits.
constexpr CellMode kBothModes[] = {{0, 0}, {1, 2}, {2, 1}, {3, 0}, {0, 3}, {3, 3}, {1, 1}, {2, 2}};

// Nothing comes by the idle side of an RD, so that some mode with it in use does the same.
int64_t code_of_both(const CellMode& mode) {
  const int32_t first = std::max(0, mode.first);
  const int32_t second = std::max(0, mode.second);
  for (int64_t code = 0; code < 8; ++code) {
    if (kBothModes[code].first == first && kBothModes[code].second == second) {
      return code;
    }
  }
  // One input to one output, the other input idle: straight on, or crossed.
  const bool is_straight = first == 1 || second == 2;
  return is_straight ? 1 : 2;
}

// An idle side goes another way than the one in use, where nothing is.
int64_t code_of_ways(const CellMode& mode, int64_t middle) {
  const int64_t first = mode.first >= 0 ? mode.first : mode.second == 0 ? 1 : 0;
  const int64_t second = mode.second >= 0 ? mode.second : first == 0 ? 1 : 0;
  return first * middle + second;
}

}  // namespace

int64_t configuration_bits(const FredSize& size, BitCount count) {
  int64_t bits = 0;
  int64_t subnetworks = 1;
  for (int32_t level = 0; level <= size.levels(); ++level) {
    const int32_t ports = size.ports_of(level);
    const bool is_last = level == size.levels();
    const int64_t cells = is_last ? 1 : ports / 2 * 2;
    const int64_t ends = !is_last && ports % 2 == 1 ? 2 : 0;
    if (count == BitCount::kPublished) {
      bits += subnetworks * cells * kPublishedBits;
    } else {
      const CellKind kind = is_last ? CellKind::kBoth : CellKind::kReduce;
      bits += subnetworks *
              (cells * bits_of(kind, size.middle) + ends * bits_of(CellKind::kMux, size.middle));
    }
    subnetworks *= is_last ? 1 : size.middle;
  }
  return bits;
}

std::vector<bool> encode_configuration(const FredSwitch& fred, const Configuration& modes) {
  std::vector<bool> bits;
  const int32_t middle = fred.size().middle;
  for (std::size_t cell = 0; cell < modes.size(); ++cell) {
    const CellKind kind = fred.cells()[cell].kind;
    int64_t code = 0;
    if (kind == CellKind::kBoth) {
      code = code_of_both(modes[cell]);
    } else if (kind == CellKind::kDemux || kind == CellKind::kMux) {
      code = std::max(0, modes[cell].first);
    } else {
      code = code_of_ways(modes[cell], middle);
    }
    for (int32_t bit = bits_of(kind, middle) - 1; bit >= 0; --bit) {
      bits.push_back((code >> bit & 1) == 1);
    }
  }
  return bits;
}

Result<Configuration> decode_configuration(const FredSwitch& fred, const std::vector<bool>& bits) {
  const auto wanted = static_cast<std::size_t>(configuration_bits(fred.size(), BitCount::kExact));
  if (bits.size() != wanted) {
    return invalid(fmt::format("{} bits: a configuration of {} has {}", bits.size(),
                               fred.size().text(), wanted));
  }
  const int32_t middle = fred.size().middle;
  Configuration modes;
  std::size_t next = 0;
  for (const FredCell& cell : fred.cells()) {
    int64_t code = 0;
    for (int32_t left = bits_of(cell.kind, middle); left > 0; --left) {
      code = 2 * code + (bits[next++] ? 1 : 0);
    }
    const bool is_single = cell.kind == CellKind::kDemux || cell.kind == CellKind::kMux;
    const int64_t codes = is_single ? middle : int64_t{middle} * middle;
    if (cell.kind == CellKind::kBoth) {
      modes.push_back(kBothModes[code]);
    } else if (code >= codes) {
      return invalid("cell " + fred.name_of(cell), fmt::format("has no mode of code {}", code));
    } else if (is_single) {
      modes.push_back({static_cast<int32_t>(code), -1});
    } else {
      modes.push_back({static_cast<int32_t>(code / middle), static_cast<int32_t>(code % middle)});
    }
  }
  return modes;
}

ControlUnit::ControlUnit(const FredSwitch& fred, int64_t memory_bytes, BitCount count)
    : fred_(fred),
      memory_bytes_(memory_bytes),
      bits_(configuration_bits(fred.size(), count)),
      capacity_(8 * memory_bytes / bits_) {}

Result<int32_t> ControlUnit::add(const Configuration& modes) {
  const int64_t index = static_cast<int64_t>(phases_.size()) + 1;
  if (index > capacity_) {
    return Error{ErrorCode::kInfeasible, fmt::format("phase {} of {} bits: {} bytes hold {}", index,
                                                     bits_, memory_bytes_, capacity_)};
  }
  phases_.push_back(encode_configuration(fred_, modes));
  return static_cast<int32_t>(index);
}

Result<Configuration> ControlUnit::find(int32_t index) const {
  if (index < 1 || index > count_of(phases_)) {
    return invalid(fmt::format("configuration {} is outside 1 to {}", index, phases_.size()));
  }
  return decode_configuration(fred_, phases_[at(index - 1)]);
}

}  // namespace pleach
