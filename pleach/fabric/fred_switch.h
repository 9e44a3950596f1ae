// FredSwitch: FRED_m(P), a switch of tiny cells that add and copy while they route, as data.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/result.h"

namespace pleach {

enum class CellKind : uint8_t { kReduce, kDemux, kBoth, kDistribute, kMux };
std::string_view to_text(CellKind kind);  // "R", "demux", "RD", "D", "mux"

struct FredCell {
  CellKind kind = CellKind::kBoth;
  int32_t level = 0;
  int32_t subnetwork = 0;  // of its level; its parent is subnetwork / m, as the parent's % m-th
  int32_t index = 0;       // among those of its kind in the subnetwork
  auto operator<=>(const FredCell&) const = default;
};

// One of the m^level subnetworks of a level, numbered as FredCell has them.
struct FredSubnetwork {
  int32_t level = 1;
  int32_t number = 0;
  auto operator<=>(const FredSubnetwork&) const = default;
};

// What of a switch is dead, so that nothing passes it. Names: fred_faults.h.
struct FredFaults {
  std::vector<FredCell> cells = {};
  std::vector<FredSubnetwork> subnetworks = {};  // with all that is in them
  bool empty() const { return cells.empty() && subnetworks.empty(); }
  auto operator<=>(const FredFaults&) const = default;
};

// FRED_m(P): P ports in and out, m subnetworks in the middle of every level; and what of it is
// dead.
//
// Level k is m^k subnetworks of P_k ports, P_0 = P and P_{k+1} = ceil(P_k / 2), and the last has 2.
// A subnetwork of P_k > 2 ports has a reducing cell for each pair of its inputs, a distributing one
// for each pair of its outputs, for the last port of an odd P_k a demultiplexer and a multiplexer,
// and m subnetworks of the next level between: cell i is at port i of each, and the last port of an
// odd P_k is at their last. One of 2 ports is a single cell that does both.
//   source  FRED, ISCA 2025; docs/fred.md
struct FredSize {
  int32_t ports = 2;
  int32_t middle = 2;
  FredFaults dead = {};

  // Of level `level`, of which there are levels().
  int32_t ports_of(int32_t level) const;
  int32_t levels() const;  // that have subnetworks to choose from: 0 at 2 ports
  int64_t subnetworks(int32_t level) const;
  int32_t stages() const { return 2 * levels() + 1; }
  std::string text() const;  // "FRED_3(12)"
  auto operator<=>(const FredSize&) const = default;
};

// How many cells; multiplexers and demultiplexers count apart.
struct FredCount {
  int64_t cells = 0;
  int64_t multiplexers = 0;  // of both kinds
};

// Refuses P < 2, m < 2 and more than kMostFredCells cells or multiplexers.
constexpr int64_t kMostFredCells = 10'000'000;
Result<FredCount> count_cells(const FredSize& size);

class FredSwitch {
 public:
  // Errors: kInvalidArgument as count_cells() and check_faults() (fred_faults.h).
  static Result<FredSwitch> create(const FredSize& size);

  const FredSize& size() const { return size_; }
  const FredCount& count() const { return count_; }
  // In an order in which what leaves a cell enters only later ones: by stages; within a stage by
  // subnetwork and index, cells before multiplexers.
  std::span<const FredCell> cells() const { return cells_; }
  int32_t stage_of(const FredCell& cell) const;
  // Where a cell of `kind` stands in cells().
  int32_t find(CellKind kind, int32_t level, int32_t subnetwork, int32_t index) const;

  // Wires: 0 to P − 1 enter the switch; every other leaves one cell.
  int32_t wire_count() const { return wire_count_; }
  std::span<const int32_t> inputs_of(int32_t cell) const;
  int32_t first_output_of(int32_t cell) const { return first_output_[at(cell)]; }
  int32_t output_count_of(int32_t cell) const;
  // Of what is dead, by itself or with a subnetwork that it is in.
  FredCount dead_count() const;
  bool is_dead(int32_t cell) const { return !is_dead_.empty() && is_dead_[at(cell)]; }
  // Wire by which each port leaves.
  std::span<const int32_t> output_wires() const { return output_wires_; }

  // "R3" of the outermost level; "2.0/R1" of subnetwork 0 of its subnetwork 2.
  std::string name_of(const FredCell& cell) const;
  // [2, 0]
  std::vector<int32_t> path_of(const FredCell& cell) const;

 private:
  int32_t inputs_count(CellKind kind) const;
  int32_t outputs_count(CellKind kind) const;
  void add_stage(int32_t level, bool is_input);
  void connect();
  void find_dead();

  FredSize size_;
  FredCount count_;
  std::vector<FredCell> cells_;
  std::vector<int32_t> stage_begin_;   // first cell of each stage
  std::vector<int32_t> first_output_;  // wire, of each cell
  std::vector<int32_t> first_input_;   // in input_wires_, of each cell
  std::vector<int32_t> input_wires_;
  std::vector<int32_t> output_wires_;
  int32_t wire_count_ = 0;
  std::vector<bool> is_dead_;  // each cell; none: all are alive
};

}  // namespace pleach
