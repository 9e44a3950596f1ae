#include "pleach/collective/cut_bounds.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "pleach/base/index.h"

namespace pleach {

EdgeBound bound_of(CollectiveKind collective, const Edge& edge, double rank_count) {
  const double inside = edge.rank_count;
  const double outside = rank_count - inside;
  const auto least = [](double out, double in) {
    return out <= in ? EdgeBound{out, true} : EdgeBound{in, false};
  };
  switch (collective) {
    case CollectiveKind::kAllReduce:
      return least(edge.out, edge.in);
    case CollectiveKind::kAllGather:
      return least(edge.out * rank_count / inside, edge.in * rank_count / outside);
    case CollectiveKind::kReduceScatter:
      return least(edge.out * rank_count / outside, edge.in * rank_count / inside);
    case CollectiveKind::kBroadcast:
      return edge.has_root ? EdgeBound{edge.out, true} : EdgeBound{edge.in, false};
    case CollectiveKind::kReduce:
      return edge.has_root ? EdgeBound{edge.in, false} : EdgeBound{edge.out, true};
    case CollectiveKind::kGather:
      return edge.has_root ? EdgeBound{edge.in * rank_count / outside, false}
                           : EdgeBound{edge.out * rank_count / inside, true};
    case CollectiveKind::kScatter:
      return edge.has_root ? EdgeBound{edge.out * rank_count / outside, true}
                           : EdgeBound{edge.in * rank_count / inside, false};
    case CollectiveKind::kAllToAll:
      return least(edge.out * rank_count / (inside * outside),
                   edge.in * rank_count / (inside * outside));
  }
  return {};
}

int32_t narrowest_edge(const LinkTree& tree, CollectiveKind collective,
                       std::span<const NodeId> participants, NodeId root) {
  std::vector<Edge> edges(tree.above.size());
  for (const NodeId node : participants) {
    edges[node.index()].rank_count = 1;
  }
  edges[root.index()].has_root = true;
  const auto rank_count = static_cast<double>(participants.size());
  int32_t narrowest = -1;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t next = tree.order.size(); next-- > 1;) {
    const int32_t node = tree.order[next];
    Edge& edge = edges[at(node)];
    edge.out = static_cast<double>(tree.up[at(node)]);
    edge.in = static_cast<double>(tree.down[at(node)]);
    Edge& above = edges[at(tree.above[at(node)])];
    above.rank_count += edge.rank_count;
    above.has_root = above.has_root || edge.has_root;
    if (edge.rank_count > 0 && edge.rank_count < rank_count) {
      if (const double algbw = bound_of(collective, edge, rank_count).algbw; algbw < least) {
        least = algbw;
        narrowest = node;
      }
    }
  }
  return narrowest;
}

}  // namespace pleach
