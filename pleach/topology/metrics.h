// Figures that describe a topology as a whole.
#pragma once

#include <cstdint>

#include "pleach/topology/topology.h"

namespace pleach {

struct Bisection {
  int64_t bytes_per_s = 0;  // one way, the narrower of the two directions
  bool exact = false;       // no balanced cut is narrower
};

// Finds the narrowest cut between two halves of the ranks (of an odd number, one half has one
// more). Exact up to 14 ranks by enumeration; beyond, the halves in rank order, along each grid
// dimension and along all of them, the longest first, are tried, off grids also the first and third
// quarter against the others. Their narrowest is known to be
// exact where a bound from below meets it: on meshes, and on tori without dimensions of two, of
// links that are equally fast; on grids where a straight cut through an even dimension is
// narrowest; under one switch, and where all are connected. Switches go to whichever side makes the
// cut smaller (to the first half where there are more than 65,536 links, which are no tree).
//   returns  0 when there is one rank
//   cost     a max-flow per candidate where there are switches and links close circles; else
//   O(links)
Bisection bisection(const Topology& topology);

// Of all cuts with s ranks on one side and no fewer on the other, the least capacity, one way, in
// proportion: capacity · floor(n/2) / s. So it is what two halves can send each other where no rank
// has more than its part of the narrowest cut, at most the bisection proper. The two differ where
// what is cut off narrowly is no half: a leaf of four of twenty ranks.
//   returns  the least of the bisection, both sides of all links between two nodes that hold it
//            together, of the groups that links faster than some bandwidth connect, and of slabs of
//            a grid; exact on trees
//   cost     O(links · bandwidths that differ + links · lengths of a grid)
int64_t proportional_bisection(const Topology& topology, const Bisection& bisection);

// Whether a message costs nothing but its bytes and the way: no rank has an overhead, and packets
// have no headers. What many small messages take is then flattered.
bool messages_are_free(const Topology& topology);

struct Diameter {
  int32_t link_count = 0;  // of the longest shortest route between two ranks
  bool exact = true;       // false: the topology is so large that only some sources were walked
};

// Finds the diameter: by formula on grids, on trees by two walks, else by a walk from each rank, or
// from one of those with the same one neighbour.
Diameter diameter(const Topology& topology);

}  // namespace pleach
