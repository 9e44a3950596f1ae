#include "pleach/collective/borrowing.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "pleach/base/index.h"

namespace pleach {
namespace {

// A chunk of a stream, as an edge between ranks.
struct Edge {
  int32_t step = 0;
  int32_t chunk = 0;
  int32_t source = 0;
  int32_t target = 0;
  int32_t stream = 0;
};

std::vector<Edge> edges_of(const Order& order) {
  std::vector<Edge> edges;
  for (int32_t stream = 0; stream < order.stream_count(); ++stream) {
    const Stream& what = order.stream(stream);
    if (order.sources(stream).size() > 1 || order.targets(stream).size() > 1) {
      continue;
    }
    for (int32_t k = 0; k < what.chunk_count; ++k) {
      edges.push_back({what.step, what.first_chunk + k, order.sources(stream).front(),
                       order.targets(stream).front(), stream});
    }
  }
  std::ranges::sort(edges, {}, [](const Edge& edge) {
    return std::tuple(edge.step, edge.chunk, edge.source, edge.target);
  });
  return edges;
}

// `edges` are sorted by source.
bool has_cycle(std::span<const Edge> edges) {
  const auto leaving = [&](int32_t rank) {
    return std::ranges::equal_range(edges, rank, {}, &Edge::source);
  };
  if (std::ranges::all_of(edges, [&](const Edge& edge) { return leaving(edge.target).empty(); })) {
    return false;  // as in most schedules: nobody passes on what comes in the same step
  }
  std::unordered_map<int32_t, int32_t> arrivals;  // by rank, of edges that are left
  for (const Edge& edge : edges) {
    arrivals.try_emplace(edge.source, 0);
    ++arrivals[edge.target];
  }
  std::vector<int32_t> free;  // ranks that nothing comes to
  for (const auto& [rank, count] : arrivals) {
    if (count == 0) {
      free.push_back(rank);
    }
  }
  for (std::size_t i = 0; i < free.size(); ++i) {
    for (const Edge& edge : leaving(free[i])) {
      if (--arrivals[edge.target] == 0) {
        free.push_back(edge.target);
      }
    }
  }
  return free.size() < arrivals.size();
}

}  // namespace

std::vector<bool> find_borrowable(const Order& order) {
  std::vector<bool> may(at(order.stream_count()));
  for (int32_t stream = 0; stream < order.stream_count(); ++stream) {
    may[at(stream)] = order.sources(stream).size() == 1 && order.targets(stream).size() == 1;
  }
  const std::vector<Edge> edges = edges_of(order);
  for (auto begin = edges.begin(); begin != edges.end();) {
    const auto end = std::find_if(begin, edges.end(), [&](const Edge& edge) {
      return edge.step != begin->step || edge.chunk != begin->chunk;
    });
    // Ranks that grow along every edge close no cycle.
    if (const std::span group(begin, end); has_cycle(group)) {
      for (const Edge& edge : group) {
        may[at(edge.stream)] = may[at(edge.stream)] && edge.source < edge.target;
      }
    }
    begin = end;
  }
  return may;
}

}  // namespace pleach
