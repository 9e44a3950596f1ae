// Minimum cuts of a directed graph. A door to LEMON, whose headers are C++17: so is this one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace pleach {

struct FlowArc {
  int32_t source = 0;
  int32_t target = 0;
  int64_t capacity = 0;  // ≥ 0
};

struct MinimumCut {
  int64_t capacity = 0;           // of the arcs that leave the source side
  std::vector<bool> source_side;  // by node
};

// The capacity that one unit of flow should stand for: the greatest common divisor, or more where
// `multiple` times the sum of all would not stay below 2^61 units. Round capacities up to units.
int64_t capacity_unit(const std::vector<int64_t>& capacities, int64_t multiple);
// Whether none has to be rounded: else a least cut of the rounded ones may not be one of the given.
bool are_multiples(const std::vector<int64_t>& capacities, int64_t unit);

// A graph with integer capacities whose sum is below 2^62. Not thread safe.
class FlowGraph {
 public:
  FlowGraph(int32_t node_count, const std::vector<FlowArc>& arcs);
  FlowGraph(FlowGraph&&) noexcept;
  FlowGraph& operator=(FlowGraph&&) noexcept;
  ~FlowGraph();

  void set_capacity(std::size_t arc, int64_t capacity);
  // The smallest cut with `source` on the source side and `target` on the other.
  //   source  Goldberg & Tarjan, A New Approach to the Maximum-Flow Problem, 1988 (preflow-push)
  MinimumCut between(int32_t source, int32_t target) const;
  // The smallest cut with `source` on the source side and any other node on the other.
  //   source  Hao & Orlin, A Faster Algorithm for Finding the Minimum Cut in a Directed Graph, 1994
  MinimumCut out_of(int32_t source) const;
  // The smallest cut with `target` on the far side and any other node on the source side.
  MinimumCut into(int32_t target) const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace pleach
