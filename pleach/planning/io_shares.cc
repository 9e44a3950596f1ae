#include "pleach/planning/io_shares.h"

#include <fmt/format.h>

#include <span>

#include "pleach/base/check.h"
#include "pleach/topology/nodes_of_kind.h"

namespace pleach {

Result<IoShares> IoShares::of(const Topology& topology, CollectiveKind kind) {
  PLEACH_CHECK(kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kReduce,
               "I/O nodes are roots");
  IoShares shares;
  int64_t sum = 0;
  for (const NodeId node : nodes_of_kind(topology, NodeKind::kIo)) {
    const bool leaves = kind == CollectiveKind::kBroadcast;
    int64_t own = 0;
    for (const LinkId link : leaves ? topology.links_out(node) : topology.links_in(node)) {
      if (__builtin_add_overflow(own, topology.link(link).bandwidth_bytes_per_s, &own)) {
        own = -1;
        break;
      }
    }
    if (own < 0 || __builtin_add_overflow(sum, own, &sum)) {
      return invalid(fmt::format("topology {}: its I/O nodes have more than {} bytes/s",
                                 topology.name(), INT64_MAX));
    }
    if (own > 0) {
      shares.nodes_.push_back(node);
      shares.until_.push_back(sum);
    }
  }
  if (shares.nodes_.empty()) {
    return invalid(fmt::format("topology {} has no I/O nodes", topology.name()));
  }
  return shares;
}

std::vector<IoShares::Part> IoShares::parts(int64_t size_bytes) const {
  std::vector<Part> parts;
  int64_t before = 0;
  for (std::size_t index = 0; index < nodes_.size(); ++index) {
    const auto until =
        static_cast<int64_t>(static_cast<__int128>(size_bytes) * until_[index] / until_.back());
    if (until > before) {
      parts.push_back({nodes_[index], until - before});
    }
    before = until;
  }
  return parts;
}

}  // namespace pleach
