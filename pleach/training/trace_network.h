// TraceNetwork: what carries a trace's communication.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/network/model.h"
#include "pleach/planning/cost_curve.h"
#include "pleach/policy/profile.h"
#include "pleach/topology/topology.h"
#include "pleach/workload/trace.h"

namespace pleach {

// One collective of some groups of a family, which do it alike at the same time. Of a family of I/O
// nodes: a broadcast from all of the network's to each group, or a reduction of each to all of
// them.
struct GroupCollective {
  int32_t family = 0;
  const std::vector<int32_t>* groups = nullptr;  // of the family
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int64_t size_bytes = 0;
  int32_t traffic_class = 0;  // Job::traffic_class, where links are shared
};

// One message from each rank of a worker to its counterpart of another. Ranks say who they are in
// every trace of a training; workers do in one.
struct WorkerSend {
  const std::vector<int32_t>* sources = nullptr;  // ranks
  const std::vector<int32_t>* targets = nullptr;  // as many
  int64_t size_bytes = 0;
  int32_t traffic_class = 0;
};

// Of a family, one group, or the two ranks of a message.
struct TraceGroup {
  std::string family;
  std::vector<int32_t> ranks;
};
// AdmissionUse of the operations of a trace.
struct TraceConflict {
  std::string node;                // the switch
  std::vector<TraceGroup> groups;  // whose streams had to wait, or were in the way
  std::optional<int32_t> level = {};
  int64_t count = 0;
};
struct TraceAdmission {
  int64_t configurations = 0;
  int64_t waited_ps = 0;
  int64_t preemptions = 0;
  int64_t undecided = 0;
  int64_t reconfigurations = 0;
  std::vector<TraceConflict> conflicts = {};
};

class TraceNetwork {
 public:
  struct Finish {
    int32_t operation = 0;
    int64_t time_ps = 0;
  };
  virtual ~TraceNetwork() = default;
  // Start now; no earlier than the last advance(). Operations are numbered from 0, together.
  virtual Result<int32_t> start(const GroupCollective& what, int64_t now_ps) = 0;
  virtual Result<int32_t> start(const WorkerSend& what, int64_t now_ps) = 0;
  // When something happens next; none: nothing is under way.
  virtual std::optional<int64_t> next_ps() const = 0;
  // Advances to the first time at which operations finish, at most to `until_ps`.
  virtual Result<std::vector<Finish>> advance(int64_t until_ps) = 0;
  // What switches did so far; none where no switch may refuse a stream, or no links are shared.
  virtual Result<std::optional<TraceAdmission>> admission() {
    return std::optional<TraceAdmission>();
  }
};

// What operations take when their times are known beforehand.
class OperationCosts {
 public:
  virtual ~OperationCosts() = default;
  virtual Result<int64_t> collective_ps(const GroupCollective& what) = 0;
  virtual Result<int64_t> send_ps(const WorkerSend& what) = 0;
};

// The same, and what policies are told of them.
class TraceCosts : public OperationCosts {
 public:
  // The costs of a family's collectives, for policies; lives as long as this. Of `kinds`, those
  // that the algorithm does not do are absent.
  virtual Result<const CostModel*> family_costs(int32_t family,
                                                std::span<const CollectiveKind> kinds) = 0;
};

// Sources of schedules as make_planner() takes them.
struct FabricOptions {
  // Of all_reduce, reduce_scatter and all_gather: an algorithm or file, or several
  // (list_planner.h).
  std::string algorithm = "ring";
  std::string exchange_algorithm = "direct";                  // of all_to_all
  std::map<std::string, std::string> family_algorithms = {};  // by family, in place of both
  std::string model = kDefaultNetworkModel;
  std::optional<int32_t> segment_count = 1;  // none: the best at each size (curves only)
  SimulationOptions simulation = {};         // its segment_count is ignored
  // Where curves end, > 0: larger sizes follow the last slope. None: where the model has it.
  std::optional<int64_t> curve_end_bytes = {};
};

// Up to which size curves are simulated, of which sizes up to `largest_bytes` are asked: no
// further. Errors: those of the registry of network models.
Result<int64_t> curve_end_bytes(const FabricOptions& options, int64_t largest_bytes);

// Costs by curves on a topology: rank r of the trace is the topology's rank r. All groups of a
// family communicate at the same time, sharing the network. Measured when first asked for.
//   `topology` and `trace` outlive the costs
//   largest_bytes  as far as curves are simulated
//   overhead_ps  of every collective, before its first byte
std::unique_ptr<TraceCosts> fabric_costs(const Topology& topology, const Trace& trace,
                                         const FabricOptions& options, int64_t largest_bytes,
                                         int64_t overhead_ps = 0);

// What a ring of ranks has where no topology says it.
struct RingLink {
  std::optional<int64_t> alpha_ps;              // per hop
  std::optional<double> bandwidth_bytes_per_s;  // of a rank, > 0
};

// The family, in RingOptions, of the messages from stage to stage.
inline constexpr std::string_view kPipelineFamily = "pipeline";

struct RingOptions {
  int64_t alpha_ps = 0;
  double bandwidth_bytes_per_s = 0;               // > 0
  int64_t overhead_ps = 0;                        // of every collective, before its first byte
  std::map<std::string, RingLink> families = {};  // what is theirs, in place of the first two
};

// Every group is a ring as in AlphaBeta; a message takes alpha + bytes / bandwidth.
std::unique_ptr<TraceCosts> alpha_beta_costs(const Trace& trace, const RingOptions& options);

// Operations take what the costs say, whatever else is under way. `costs` outlives the network.
std::unique_ptr<TraceNetwork> independent_network(OperationCosts& costs);

// Whether a model and a number of segments are such that shared_network() takes them, and traffic
// of several classes where `has_classes`.
Status check_shared(const FabricOptions& options, bool has_classes = false);

// All operations share the links of the topology as they come, in options.model. `topology` and
// `trace` outlive the network. Errors: those of open_network and check_shared().
Result<std::unique_ptr<TraceNetwork>> shared_network(const Topology& topology, const Trace& trace,
                                                     const FabricOptions& options,
                                                     int64_t overhead_ps = 0);

}  // namespace pleach
