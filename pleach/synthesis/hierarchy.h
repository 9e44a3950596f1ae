// Hierarchy: ranks as members of groups, groups as members of larger ones.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/index.h"
#include "pleach/base/result.h"
#include "pleach/topology/topology.h"

namespace pleach {

// A rank has a digit on every level: which member of its group it is. Those that differ in one
// digit alone are the members of a group of that level. Level 0 is the innermost; in the place of a
// rank its digit counts least.
struct Hierarchy {
  std::vector<int32_t> sizes;    // members of a group, by level
  std::vector<int32_t> rank_at;  // by place
  bool is_grid = false;          // levels are the dimensions of the whole topology
  bool has_uneven = false;       // there are groups besides that are not of one size

  int32_t level_count() const { return count_of(sizes); }
  // Places of neighbours on a level are so far apart.
  int32_t stride(int32_t level) const {
    int32_t stride = 1;
    for (int32_t inner = 0; inner < level; ++inner) {
      stride *= sizes[at(inner)];
    }
    return stride;
  }
};

// Finds the levels of `participants`: the dimensions of a whole grid, the last innermost;
// else groups that links faster than others connect, and groups within so many links of each other,
// as far as one holds the next and all of a level are of one size. Members of a group are numbered
// in the order of ranks, so that those of one number are the parallel rails. One level when there
// is nothing to tell ranks apart.
//   errors  kInfeasible: there are groups, but none of one size (names two sizes)
//   cost    O(ranks · links)
Result<Hierarchy> find_hierarchy(const Topology& topology, std::span<const NodeId> participants);

// The ranks so that those of each such group stand together, whatever sizes groups have; in the
// order of ranks otherwise. Where groups are not within each other, those of fewer count.
//   cost    O(ranks · links)
std::vector<int32_t> nested_order(const Topology& topology, std::span<const NodeId> participants);

// "8x2": consecutive ranks in groups of these sizes, innermost first.
//   errors  kInvalidArgument: no such list of sizes ≥ 1; kInfeasible: another number of ranks
Result<Hierarchy> parse_hierarchy(const std::string& sizes, int32_t rank_count);

}  // namespace pleach
