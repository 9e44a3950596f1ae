// Ring order: a closed walk that visits every participant once.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/topology/topology.h"

namespace pleach {

// A Hamiltonian cycle of a full grid, as node indices from 0; each step along it is one link. A
// dimension of more than two nodes may wrap.
//   returns  none when the grid has no cycle (an odd number of nodes and no wrapping dimension, or
//            one line); then grid_snake() is the path to close the long way round
//   cost     O(nodes)
std::optional<std::vector<int32_t>> grid_cycle(std::span<const GridDimension> grid);

// A Hamiltonian path of a full grid: rows in alternating direction.
std::vector<int32_t> grid_snake(std::span<const GridDimension> grid);

// The ranks of `participants` in ring order: where the participants are the whole of a grid, its
// cycle or snake; else rank order if consecutive ranks have links; else the first cycle over links
// between participants that a bounded search finds; else box by box or leaf by leaf, as
// find_hierarchy has them, every other one backwards, so that the ring leaves a group for the same
// member of the next one, on its rail; where groups are of different sizes one group after the
// other (nested_order), so that on a tree each trunk carries the ring once a way; else rank order.
// Deterministic.
std::vector<int32_t> ring_order(const Topology& topology, std::span<const NodeId> participants);

// The order of MultiTree's baselines, where ranks hang on switches, as many on each: on a BiGraph
// halves in turn, rank i of lower switch u and then rank i of upper switch (u + i) mod half, so
// that no cable serves two; elsewhere rank 0 of every switch, then rank 1 of every switch, and so
// on. ring_order() where it would not be that: other networks, and BiGraphs with more ranks on a
// switch than switches in a half, or where the walk would not come to all.
// Source: Huang et al., ISCA 2021; the authors' simulator.
std::vector<int32_t> published_ring_order(const Topology& topology,
                                          std::span<const NodeId> participants);

// Whether the topology is one cycle of all its nodes in rank order and nothing else.
bool is_natural_ring(const Topology& topology, std::span<const NodeId> participants);

}  // namespace pleach
