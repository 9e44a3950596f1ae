#include "pleach/network/flit/patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "pleach/base/index.h"

namespace pleach {
namespace {

// The rank whose coordinate in each dimension is shift(coordinate, size).
template <typename Shift>
std::vector<int32_t> shifted(const Topology& topology, Shift shift) {
  std::vector<int32_t> targets(topology.rank_nodes().size());
  for (int32_t rank = 0; rank < count_of(targets); ++rank) {
    int32_t rest = rank, target = 0, stride = 1;
    for (std::size_t i = topology.grid().size(); i-- > 0;) {  // the last dimension is the fastest
      const int32_t size = topology.grid()[i].size;
      target += shift(rest % size, size) * stride;
      rest /= size;
      stride *= size;
    }
    targets[at(rank)] = target;
  }
  return targets;
}

Result<std::vector<int32_t>> uniform(const Topology& /*topology*/) {
  return std::vector<int32_t>();
}

Result<std::vector<int32_t>> transpose(const Topology& topology) {
  const auto grid = topology.grid();
  if (grid.size() != 2 || grid[0].size != grid[1].size) {
    return invalid(fmt::format("transpose: {} is no square grid", topology.name()));
  }
  const int32_t size = grid[0].size;
  std::vector<int32_t> targets(topology.rank_nodes().size());
  for (int32_t rank = 0; rank < count_of(targets); ++rank) {
    targets[at(rank)] = rank % size * size + rank / size;
  }
  return targets;
}

Result<std::vector<int32_t>> bit_complement(const Topology& topology) {
  const auto ranks = static_cast<uint32_t>(topology.rank_nodes().size());
  if (!std::has_single_bit(ranks)) {
    return invalid(fmt::format("bit_complement: {} has {} ranks, which is no power of two",
                               topology.name(), ranks));
  }
  std::vector<int32_t> targets(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    targets[rank] = static_cast<int32_t>(ranks - 1 - rank);
  }
  return targets;
}

Result<std::vector<int32_t>> tornado(const Topology& topology) {
  if (std::ranges::none_of(topology.grid(), &GridDimension::wraps)) {
    return invalid(fmt::format("tornado: {} has no ring", topology.name()));
  }
  return shifted(topology,
                 [](int32_t place, int32_t size) { return (place + (size + 1) / 2 - 1) % size; });
}

Result<std::vector<int32_t>> neighbour(const Topology& topology) {
  if (topology.grid().empty()) {
    return invalid(fmt::format("neighbour: {} is no grid", topology.name()));
  }
  return shifted(topology, [](int32_t place, int32_t size) { return (place + 1) % size; });
}

}  // namespace

extern const TrafficPattern kUniformPattern = {
    "uniform", "to any rank, itself included, packet by packet", uniform};
extern const TrafficPattern kTransposePattern = {
    "transpose", "from (x, y) to (y, x) of a square grid", transpose};
extern const TrafficPattern kBitComplementPattern = {
    "bit_complement", "from i to the rank with all bits of i turned", bit_complement};
extern const TrafficPattern kTornadoPattern = {
    "tornado", "in every dimension of a grid just less than half way round", tornado};
extern const TrafficPattern kNeighbourPattern = {
    "neighbour", "to the next one in every dimension of a grid", neighbour};

}  // namespace pleach
