// IoShares: what each of a topology's I/O nodes carries of what passes by all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "pleach/base/collective_kind.h"
#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/topology/topology.h"

namespace pleach {

// In proportion to the nodes' bandwidths, so that all are busy for the same time.
class IoShares {
 public:
  struct Part {
    NodeId node;
    int64_t size_bytes = 0;
  };

  // Of broadcasts from I/O nodes, by the links that leave them, or of reductions to them, by those
  // that enter.
  //   errors  kInvalidArgument: no I/O node has such a link (names the topology)
  static Result<IoShares> of(const Topology& topology, CollectiveKind kind);

  // The nodes that get anything of `size_bytes` ≥ 0, ascending; they get all of it.
  std::vector<Part> parts(int64_t size_bytes) const;
  // Of all of them together.
  int64_t bandwidth_bytes_per_s() const { return until_.back(); }

 private:
  std::vector<NodeId> nodes_;
  std::vector<int64_t> until_;  // bandwidth of a node and those before it
};

}  // namespace pleach
