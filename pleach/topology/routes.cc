#include "pleach/topology/routes.h"

#include <fmt/format.h>

#include "pleach/base/text.h"

namespace pleach {
namespace {

constexpr int32_t kUnreachable = -1;
// Distances kept at once; beyond it the fields are computed anew.
constexpr std::size_t kCacheLimitBytes = std::size_t{256} << 20;

bool is_node(const Topology& topology, NodeId id) {
  return id.value >= 0 && id.index() < topology.nodes().size();
}

}  // namespace

Result<std::vector<LinkId>> Router::route(NodeId source, NodeId target) {
  for (const NodeId end : {source, target}) {
    if (!is_node(topology_, end)) {
      return Error{
          ErrorCode::kInfeasible,
          fmt::format("no route from node {} to node {}: topology {} has no node {}", source.value,
                      target.value, pleach::quoted(topology_.name()), end.value)};
    }
  }
  if (source == target) {
    return std::vector<LinkId>{};
  }
  for (const LinkId link : topology_.links_out(source)) {  // neighbours need no distance field
    if (topology_.link(link).target == target) {
      return std::vector{link};
    }
  }
  const std::vector<int32_t>& distances = distances_to(target);
  if (distances[source.index()] == kUnreachable) {
    return Error{
        ErrorCode::kInfeasible,
        fmt::format("no route from {} to {}: topology {} does not connect them",
                    pleach::quoted(topology_.node(source).name),
                    pleach::quoted(topology_.node(target).name), pleach::quoted(topology_.name()))};
  }
  std::vector<LinkId> route;
  for (NodeId node = source; node != target;) {
    const int32_t nearer = distances[node.index()] - 1;
    NodeId next = node;
    for (const LinkId link : topology_.links_out(node)) {
      const NodeId candidate = topology_.link(link).target;
      if (distances[candidate.index()] == nearer &&
          (candidate == target || passes_through(topology_.node(candidate)))) {
        route.push_back(link);
        next = candidate;
        break;
      }
    }
    PLEACH_CHECK(next != node, "a distance field leads nowhere");
    node = next;
  }
  return route;
}

int32_t Router::distance(NodeId source, NodeId target) {
  if (!is_node(topology_, source) || !is_node(topology_, target)) {
    return kUnreachable;
  }
  return distances_to(target)[source.index()];
}

const std::vector<int32_t>& Router::distances_to(NodeId target) {
  if (const auto found = distances_.find(target.value); found != distances_.end()) {
    return found->second;
  }
  const std::size_t node_count = topology_.nodes().size();
  if ((distances_.size() + 1) * node_count * sizeof(int32_t) > kCacheLimitBytes) {
    distances_.clear();
  }
  std::vector<int32_t>& distances = distances_[target.value];
  distances.assign(node_count, kUnreachable);
  distances[target.index()] = 0;
  std::vector<NodeId> queue = {target};
  for (std::size_t at = 0; at < queue.size(); ++at) {
    const NodeId node = queue[at];
    for (const LinkId link : topology_.links_in(node)) {
      const NodeId previous = topology_.link(link).source;
      if (distances[previous.index()] != kUnreachable) {
        continue;
      }
      distances[previous.index()] = distances[node.index()] + 1;
      if (passes_through(topology_.node(previous))) {
        queue.push_back(previous);
      }
    }
  }
  return distances;
}

}  // namespace pleach
