// Network models: how long schedules take on a topology. The registry.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pleach/base/registry.h"
#include "pleach/base/result.h"
#include "pleach/collective/record.h"
#include "pleach/collective/schedule.h"
#include "pleach/topology/topology.h"

namespace pleach {

enum class Gate : uint8_t { kDataflow, kLockstep };
// kPacket: a header per packet of at most Framing::packet_bytes; kMessage: one per segment.
enum class FlowControl : uint8_t { kPacket, kMessage };

struct Job {
  const Schedule* schedule = nullptr;  // correct; its participants are nodes of the topology
  int64_t size_bytes = 0;              // whole buffer of one rank, ≥ 0; cut at bytes
  int64_t start_ps = 0;
};

struct SimulationOptions {
  int32_t segment_count = 1;
  Gate gate = Gate::kDataflow;
  FlowControl flow_control = FlowControl::kPacket;
  int32_t landing_places = 0;                // per connection; 0: as many as needed
  int64_t reduce_bandwidth_bytes_per_s = 0;  // of a rank, commits of reduces queue; 0: no time
  bool fold = true;                          // simulate one rank where symmetry allows
  std::vector<Record>* records = nullptr;    // one per job, appended to when set (prevents folding)
};

struct LinkUse {
  int64_t busy_ps = 0;  // time during which something was in transmission
  int64_t wire_bytes = 0;
};

struct Simulation {
  int64_t finish_ps = 0;  // when the last chunk is in place
  std::vector<int64_t> job_finish_ps;
  std::vector<LinkUse> links;  // by LinkId
  int64_t event_count = 0;     // segments delivered (stream × segment)
  bool folded = false;
};

struct NetworkModel {
  std::string name;
  std::string summary;
  std::string source;
  // Errors: kInvalidArgument: a job does not fit the topology or the options; kUnsupported: the
  // model cannot do it; kInfeasible: a transfer has no route. Deterministic. Thread safe: no shared
  // state. A schedule that cannot finish is reported with the stream that is stuck.
  Result<Simulation> (*simulate)(const Topology& topology, std::span<const Job> jobs,
                                 const SimulationOptions& options);
};

Registry<NetworkModel> network_models();

}  // namespace pleach
