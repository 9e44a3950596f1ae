#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/interruption.h"
#include "pleach/topology/grids.h"
#include "pleach/topology/metrics.h"

namespace pleach {
namespace {

constexpr std::size_t kMostSpeeds = 64;  // that groups are looked for by
__extension__ using Wide = __int128;

// A set of nodes: the ranks in it, and the bandwidth out of it and into it.
struct Part {
  int64_t ranks = 0;
  Wide out = 0, in = 0;
};

class Parts {
 public:
  Parts(const Topology& topology, int64_t bisection_bytes_per_s)
      : topology_(topology),
        half_(static_cast<int64_t>(topology.rank_nodes().size() / 2)),
        least_(bisection_bytes_per_s) {}

  int64_t least() const { return static_cast<int64_t>(least_); }

  // Nodes by the part that they are in: each part and all that is not in it.
  void try_parts(const std::vector<int32_t>& part_of) {
    std::vector<Part> parts(at(*std::ranges::max_element(part_of) + 1));
    for (const NodeId rank : topology_.rank_nodes()) {
      ++parts[at(part_of[rank.index()])].ranks;
    }
    for (const Link& link : topology_.links()) {
      const int32_t source = part_of[link.source.index()], target = part_of[link.target.index()];
      if (source != target && carries(link)) {
        parts[at(source)].out += link.bandwidth_bytes_per_s;
        parts[at(target)].in += link.bandwidth_bytes_per_s;
      }
    }
    std::ranges::for_each(parts, std::bind_front(&Parts::try_part, this));
  }

  // Either side of it.
  void try_part(const Part& part) {
    const auto all = static_cast<int64_t>(topology_.rank_nodes().size());
    const int64_t ranks = std::min(part.ranks, all - part.ranks);
    if (ranks > 0) {
      least_ = std::min(least_, std::min(part.out, part.in) * half_ / ranks);
    }
  }

  bool carries(const Link& link) const {
    return !hangs_on(topology_.node(link.source)) && !hangs_on(topology_.node(link.target));
  }

 private:
  const Topology& topology_;
  const int64_t half_;
  Wide least_;
};

// What links faster than some speed connect, for each speed that there is.
void try_fast_groups(const Topology& topology, Parts& parts) {
  std::set<int64_t> speeds;
  for (const Link& link : topology.links()) {
    if (parts.carries(link) && speeds.size() < kMostSpeeds) {
      speeds.insert(link.bandwidth_bytes_per_s);
    }
  }
  for (const int64_t speed : speeds) {
    std::vector<int32_t> leader(topology.nodes().size());
    std::iota(leader.begin(), leader.end(), 0);
    const auto find = [&leader](int32_t node) {
      while (leader[at(node)] != node) {
        node = leader[at(node)] = leader[at(leader[at(node)])];
      }
      return node;
    };
    for (const Link& link : topology.links()) {
      if (link.bandwidth_bytes_per_s > speed) {
        leader[at(find(link.source.value))] = find(link.target.value);
      }
    }
    std::vector<int32_t> part_of;
    for (int32_t node = 0; node < count_of(leader); ++node) {
      part_of.push_back(find(node));
    }
    parts.try_parts(part_of);
  }
}

// The lines of a grid cut at every place along a dimension.
void try_slabs(const Topology& topology, Parts& parts) {
  const int32_t ranks = count_of(topology.rank_nodes());
  int32_t stride = ranks;
  for (const GridDimension& dimension : topology.grid()) {
    stride /= dimension.size;
    // Of the slab below each place: what begins and ends to leave it there, and to enter it.
    std::vector<Wide> out(at(dimension.size + 1), 0), in(at(dimension.size + 1), 0);
    for (const Link& link : topology.links()) {
      if (parts.carries(link)) {
        const int32_t source = link.source.value / stride % dimension.size;
        const int32_t target = link.target.value / stride % dimension.size;
        std::vector<Wide>& way = source < target ? out : in;
        way[at(std::min(source, target) + 1)] += link.bandwidth_bytes_per_s;
        way[at(std::max(source, target) + 1)] -= link.bandwidth_bytes_per_s;
      }
    }
    Part slab;
    for (int32_t place = 1; place < dimension.size; ++place) {
      slab.ranks += ranks / dimension.size;
      slab.out += out[at(place)];
      slab.in += in[at(place)];
      parts.try_part(slab);
    }
  }
}

// What falls apart where all links between two nodes are cut: the lowest number, in the order of a
// walk in depth, that a part below a node reaches by another way.
//   source  Tarjan, A note on finding the bridges of a graph, 1974
class Bridges {
 public:
  Bridges(const Topology& topology, Parts& parts)
      : topology_(topology),
        parts_(parts),
        neighbours_(topology.nodes().size()),
        number_(topology.nodes().size(), 0),
        lowest_(topology.nodes().size(), 0),
        ranks_below_(topology.nodes().size(), 0) {
    for (const Link& link : topology.links()) {
      if (parts.carries(link)) {
        neighbours_[link.source.index()].push_back(link.target.value);
        neighbours_[link.target.index()].push_back(link.source.value);
      }
    }
  }

  void try_all() {
    // All ranks reach each other.
    std::vector<Visit> visits = {enter(topology_.rank_nodes().front().value, -1)};
    while (!visits.empty()) {
      check_interruption();
      Visit& visit = visits.back();
      if (visit.next < count_of(neighbours_[at(visit.node)])) {
        const int32_t neighbour = neighbours_[at(visit.node)][at(visit.next++)];
        if (number_[at(neighbour)] == 0) {
          visits.push_back(enter(neighbour, visit.node));
        } else if (neighbour != visit.above) {
          lower(visit.node, number_[at(neighbour)]);
        }
        continue;
      }
      const Visit done = visit;
      visits.pop_back();
      if (done.above >= 0) {
        leave(done);
      }
    }
  }

 private:
  struct Visit {
    int32_t node;
    int32_t above;
    int32_t next = 0;
  };

  Visit enter(int32_t node, int32_t above) {
    number_[at(node)] = lowest_[at(node)] = ++count_;
    ranks_below_[at(node)] = topology_.node(NodeId{node}).kind == NodeKind::kRank ? 1 : 0;
    return {node, above};
  }

  void lower(int32_t node, int32_t to) { lowest_[at(node)] = std::min(lowest_[at(node)], to); }

  void leave(const Visit& visit) {
    lower(visit.above, lowest_[at(visit.node)]);
    ranks_below_[at(visit.above)] += ranks_below_[at(visit.node)];
    if (lowest_[at(visit.node)] < number_[at(visit.node)]) {
      return;
    }
    Part part{ranks_below_[at(visit.node)]};
    for (const LinkId link : topology_.links_out(NodeId{visit.node})) {
      const Link& of = topology_.link(link);
      part.out += of.target.value == visit.above ? of.bandwidth_bytes_per_s : 0;
    }
    for (const LinkId link : topology_.links_in(NodeId{visit.node})) {
      const Link& of = topology_.link(link);
      part.in += of.source.value == visit.above ? of.bandwidth_bytes_per_s : 0;
    }
    parts_.try_part(part);
  }

  const Topology& topology_;
  Parts& parts_;
  std::vector<std::vector<int32_t>> neighbours_;
  std::vector<int32_t> number_;  // from 1; 0: not seen
  std::vector<int32_t> lowest_;
  std::vector<int64_t> ranks_below_;
  int32_t count_ = 0;
};

}  // namespace

int64_t proportional_bisection(const Topology& topology, const Bisection& bisection) {
  Parts parts(topology, bisection.bytes_per_s);
  if (topology.rank_nodes().size() > 1) {
    try_fast_groups(topology, parts);
    try_slabs(topology, parts);
    Bridges(topology, parts).try_all();
  }
  return parts.least();
}

}  // namespace pleach
