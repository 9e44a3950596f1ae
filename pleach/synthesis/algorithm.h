// Algorithm: something that writes schedules. The registry.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/collective_kind.h"
#include "pleach/base/id.h"
#include "pleach/base/options.h"
#include "pleach/base/registry.h"
#include "pleach/base/result.h"
#include "pleach/collective/schedule.h"
#include "pleach/topology/topology.h"

namespace pleach {

struct SynthesisRequest {
  const Topology& topology;
  std::vector<NodeId> participants;  // rank r is this node; empty: all rank nodes
  CollectiveKind collective = CollectiveKind::kAllReduce;
  Rank root = {0};
  bool wants_certificate = true;  // which takes longer than the schedule where groups are small
};

struct Algorithm {
  std::string name;
  std::string summary;
  std::string source;  // paper and section
  std::vector<CollectiveKind> collectives;
  std::vector<OptionDescriptor> options;
  // Participants are filled in, distinct rank nodes, or an I/O node as root (io_roots.h), at least
  // 2; the collective is one of `collectives`; the root is in range. Sets everything but
  // provenance, which synthesize() adds.
  Result<Schedule> (*create)(const SynthesisRequest& request, const Options& options);
  // Options other than the defaults that are best for something: "mode=one_shot".
  std::vector<std::string> variants = {};

  std::string details() const;
};

Registry<Algorithm> algorithms();

// Whether the algorithm of a spec does the collective; false for an unknown one.
bool algorithm_does(std::string_view algorithm_spec, CollectiveKind collective);

// "multitree,step_rule=published" → a schedule with routes, provenance and certificate.
//   errors  kInvalidArgument: unknown algorithm or option, collective it does not do, bad
//           participant or root; kInfeasible: the topology does not allow it (says why)
Result<Schedule> synthesize(const SynthesisRequest& request, std::string_view algorithm_spec);

}  // namespace pleach
