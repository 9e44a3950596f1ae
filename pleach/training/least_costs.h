// LeastCosts: what the operations of a trace take at the least where all share a topology's links.
#pragma once

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "pleach/planning/least_time.h"
#include "pleach/training/fabric_planners.h"
#include "pleach/training/trace_network.h"

namespace pleach {

// Whatever else is under way in a shared_network() of the same options, no operation takes less.
// Not thread safe.
class LeastCosts : public OperationCosts {
 public:
  // `topology` and `trace` outlive it. `options` has a number of segments and a known model; where
  // that does not obey the links, nothing is known, and all operations take no time.
  LeastCosts(const Topology& topology, const Trace& trace, const FabricOptions& options);

  Result<int64_t> collective_ps(const GroupCollective& what) override;
  Result<int64_t> send_ps(const WorkerSend& what) override;

  // Whether links carry no more than they can: else nothing is known.
  bool obeys_links() const { return obeys_links_; }
  // Whether the family's algorithm does the collective.
  Result<bool> does(int32_t family, CollectiveKind kind);
  // The least for a byte, of any size. Not of I/O nodes.
  Result<double> ps_per_byte(const GroupCollective& what);

 private:
  using Key = std::tuple<int32_t, CollectiveKind, std::vector<int32_t>>;  // family, kind, groups
  using Pairs = std::pair<std::vector<int32_t>, std::vector<int32_t>>;    // ranks

  // By I/O nodes each schedule moves a part of the size; the smallest of those that `time` is of.
  struct Part {
    double share = 1;
    LeastTime time;
  };
  Result<const std::vector<Part>*> least(const GroupCollective& what);
  Result<std::vector<Part>> io_parts(Planner& planner, CollectiveKind kind,
                                     const std::vector<std::vector<NodeId>>& groups) const;

  const Topology& topology_;
  const Trace& trace_;
  const int32_t segment_count_;
  const bool obeys_links_;
  FabricPlanners planners_;
  std::map<Key, std::vector<Part>> collectives_;
  std::map<Pairs, LeastTime> sends_;
};

}  // namespace pleach
