#include "pleach/topology/max_flow.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // a false alarm in LEMON's containers
#endif
#include <lemon/hao_orlin.h>
#include <lemon/preflow.h>
#include <lemon/smart_graph.h>

#include <algorithm>
#include <numeric>

#include "pleach/base/check.h"
#include "pleach/base/interruption.h"

namespace pleach {

namespace {

using Graph = lemon::SmartDigraph;
// LEMON reads them in its innermost loops: there a long search is interrupted.
class Capacities : public Graph::ArcMap<int64_t> {
 public:
  using Map = Graph::ArcMap<int64_t>;
  using Map::Map;
  Reference operator[](const Key& arc) { return Map::operator[](arc); }
  ConstReference operator[](const Key& arc) const {
    if (--countdown_ == 0) {
      countdown_ = kReads;
      check_interruption_now();
    }
    return Map::operator[](arc);
  }

 private:
  static constexpr int kReads = 4096;
  mutable int countdown_ = kReads;
};
using Side = Graph::NodeMap<bool>;
using Search = lemon::HaoOrlin<Graph, Capacities>;

}  // namespace

struct FlowGraph::Implementation {
  Graph graph;
  Capacities capacities{graph};

  MinimumCut cut(int64_t capacity, const Side& side) const {
    MinimumCut result;
    result.capacity = capacity;
    for (int node = 0; node < graph.nodeNum(); ++node) {
      result.source_side.push_back(side[Graph::nodeFromId(node)]);
    }
    return result;
  }

  // The least cut with `root` on one side.
  MinimumCut least(int32_t root, void (Search::*calculate)()) const {
    Search search(graph, capacities);
    search.init(Graph::nodeFromId(root));
    (search.*calculate)();
    Side side(graph);
    const int64_t capacity = search.minCutMap(side);
    return cut(capacity, side);
  }
};

int64_t capacity_unit(const std::vector<int64_t>& capacities, int64_t multiple) {
  constexpr double kLimit = 0x1p61;
  int64_t divisor = 0;
  double total = 0;
  for (const int64_t capacity : capacities) {
    divisor = std::gcd(divisor, capacity);
    total += static_cast<double>(capacity);
  }
  divisor = std::max<int64_t>(divisor, 1);
  const auto units = [&](int64_t unit) {  // rounding up adds at most one per capacity
    const double rounded = unit == divisor ? 0 : static_cast<double>(capacities.size());
    return (total / static_cast<double>(unit) + rounded) * static_cast<double>(multiple);
  };
  int64_t unit = divisor;
  while (units(unit) >= kLimit && unit < (int64_t{1} << 61)) {
    unit *= 2;
  }
  PLEACH_CHECK(units(unit) < kLimit, "capacities fit some unit");
  return unit;
}

bool are_multiples(const std::vector<int64_t>& capacities, int64_t unit) {
  return std::all_of(capacities.begin(), capacities.end(),
                     [unit](int64_t capacity) { return capacity % unit == 0; });
}

FlowGraph::FlowGraph(int32_t node_count, const std::vector<FlowArc>& arcs)
    : implementation_(std::make_unique<Implementation>()) {
  Graph& graph = implementation_->graph;
  graph.reserveNode(node_count);
  graph.reserveArc(static_cast<int>(arcs.size()));
  for (int32_t node = 0; node < node_count; ++node) {
    graph.addNode();
  }
  int64_t total = 0;
  for (const FlowArc& arc : arcs) {
    PLEACH_CHECK(arc.capacity >= 0 && arc.capacity <= (int64_t{1} << 62) - total,
                 "capacities fit their type");
    total += arc.capacity;
    const Graph::Arc added =
        graph.addArc(Graph::nodeFromId(arc.source), Graph::nodeFromId(arc.target));
    implementation_->capacities[added] = arc.capacity;
  }
}

FlowGraph::FlowGraph(FlowGraph&&) noexcept = default;
FlowGraph& FlowGraph::operator=(FlowGraph&&) noexcept = default;
FlowGraph::~FlowGraph() = default;

void FlowGraph::set_capacity(std::size_t arc, int64_t capacity) {
  implementation_->capacities[Graph::arcFromId(static_cast<int>(arc))] = capacity;
}

MinimumCut FlowGraph::between(int32_t source, int32_t target) const {
  const Graph& graph = implementation_->graph;
  lemon::Preflow<Graph, Capacities> flow(graph, implementation_->capacities,
                                         Graph::nodeFromId(source), Graph::nodeFromId(target));
  flow.runMinCut();
  Side side(graph);
  flow.minCutMap(side);
  return implementation_->cut(flow.flowValue(), side);
}

MinimumCut FlowGraph::out_of(int32_t source) const {
  return implementation_->least(source, &Search::calculateOut);
}

MinimumCut FlowGraph::into(int32_t target) const {
  return implementation_->least(target, &Search::calculateIn);
}

}  // namespace pleach
