#include "pleach/topology/routes.h"

#include <fmt/format.h>

#include "pleach/base/hash.h"
#include "pleach/base/index.h"
#include "pleach/base/interruption.h"
#include "pleach/base/text.h"

namespace pleach {
namespace {

constexpr int32_t kUnreachable = -1;
// Distances kept at once; beyond it the fields are computed anew.
constexpr std::size_t kCacheLimitBytes = std::size_t{256} << 20;

bool is_node(const Topology& topology, NodeId id) {
  return id.value >= 0 && id.index() < topology.nodes().size();
}

// A fingerprint of similar numbers has similar bits; this leaves none of that. Source: the finisher
// of MurmurHash3 (Appleby 2011).
uint64_t mixed(uint64_t hash) {
  hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccd;
  hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53;
  return hash ^ hash >> 33;
}

}  // namespace

Error no_route(const Topology& topology, NodeId source, NodeId target) {
  for (const NodeId end : {source, target}) {
    if (!is_node(topology, end)) {
      return Error{
          ErrorCode::kInfeasible,
          fmt::format("no route from node {} to node {}: topology {} has no node {}", source.value,
                      target.value, pleach::quoted(topology.name()), end.value)};
    }
  }
  return Error{
      ErrorCode::kInfeasible,
      fmt::format("no route from {} to {}: topology {} does not connect them",
                  pleach::quoted(topology.node(source).name),
                  pleach::quoted(topology.node(target).name), pleach::quoted(topology.name()))};
}

Result<std::vector<LinkId>> Router::route(NodeId source, NodeId target, int32_t stripe) {
  if (!is_node(topology_, source) || !is_node(topology_, target)) {
    return no_route(topology_, source, target);
  }
  if (source == target) {
    return std::vector<LinkId>{};
  }
  if (const LinkId link = direct_link(source, target, stripe); link.value >= 0) {
    return std::vector{link};  // neighbours need no distance field
  }
  if (distances_to(target)[source.index()] == kUnreachable) {
    return no_route(topology_, source, target);
  }
  std::vector<LinkId> route;
  for (NodeId node = source; node != target;) {
    check_interruption();
    const std::vector<int32_t>& distances = distances_to(target);
    choices_.clear();
    for_each_nearer(topology_, distances, node, target,
                    [&](LinkId link) { choices_.push_back(link); });
    PLEACH_CHECK(!choices_.empty(), "a distance field leads nowhere");
    route.push_back(pick(node, source, target, stripe));
    node = topology_.link(route.back()).target;
  }
  return route;
}

LinkId Router::direct_link(NodeId source, NodeId target, int32_t stripe) {
  choices_.clear();
  for (const LinkId link : topology_.links_out(source)) {
    if (topology_.link(link).target == target) {
      choices_.push_back(link);
    }
  }
  return choices_.empty() ? LinkId{} : pick(source, source, target, stripe);
}

// The choices that are like the first.
std::vector<LinkId>& Router::alike() {
  const Link& first = topology_.link(choices_.front());
  std::erase_if(choices_, [&](LinkId id) {
    const Link& link = topology_.link(id);
    return link.bandwidth_bytes_per_s != first.bandwidth_bytes_per_s ||
           link.latency_ps != first.latency_ps ||
           topology_.node(link.target).latency_ps != topology_.node(first.target).latency_ps;
  });
  return choices_;
}

LinkId Router::pick(NodeId node, NodeId source, NodeId target, int32_t stripe) {
  const Routing& routing = topology_.routing();
  if (routing.kind == RoutingKind::kDmodk && topology_.node(node).kind == NodeKind::kSwitch) {
    return choices_[(target.index() + at(stripe)) % choices_.size()];
  }
  if (routing.kind != RoutingKind::kEcmp || choices_.size() == 1) {
    const std::vector<LinkId>& equal = alike();
    return equal[at(stripe) % equal.size()];
  }
  Fingerprint hash;
  hash.add(routing.seed);
  for (const NodeId id : {node, source, target}) {
    hash.add(id.value);
  }
  if (stripe > 0) {
    hash.add(stripe);
  }
  return choices_[mixed(hash.value()) % choices_.size()];
}

int32_t Router::ways_out(NodeId source, NodeId target) {
  if (!is_node(topology_, source) || !is_node(topology_, target)) {
    return 0;
  }
  choices_.clear();
  for_each_nearer(topology_, distances_to(target), source, target,
                  [&](LinkId link) { choices_.push_back(link); });
  return choices_.empty() ? 0 : count_of(alike());
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
    check_interruption();
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
