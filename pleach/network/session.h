// NetworkSession: the flow model, one decision at a time: jobs are added while others are under
// way, and all share the links. What a simulation with every start time known beforehand gives,
// this gives too, to the picosecond.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/collective/schedule.h"
#include "pleach/network/model.h"
#include "pleach/topology/topology.h"

namespace pleach {

class NetworkSession {
 public:
  struct Finish {
    int32_t job = 0;
    int64_t time_ps = 0;
  };

  // `topology` outlives the session. options.records and options.gate kLockstep are not supported.
  static Result<std::unique_ptr<NetworkSession>> create(const Topology& topology,
                                                        const SimulationOptions& options);
  virtual ~NetworkSession() = default;

  // Starts a job at `now_ps`, no earlier than the last advance(). The schedule, correct and of this
  // topology, outlives the job; what is derived from it is kept for its next use with any size.
  // Jobs are numbered from 0. Errors: as NetworkModel::simulate.
  virtual Result<int32_t> start(const Schedule& schedule, int64_t size_bytes, int64_t now_ps) = 0;
  // When something happens next inside; none: all jobs have finished.
  virtual std::optional<int64_t> next_ps() const = 0;
  // Advances to the first time at which jobs finish, at most to `until_ps`, and returns those jobs
  // (several where they finish together). Times of later calls never go back. Memory of finished
  // jobs is reused.
  virtual Result<std::vector<Finish>> advance(int64_t until_ps) = 0;
};

}  // namespace pleach
