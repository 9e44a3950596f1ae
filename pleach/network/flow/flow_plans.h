// FlowPlans: the ways to simulate one schedule, each derived when it is first asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "pleach/base/result.h"
#include "pleach/network/lowered_schedule.h"

namespace pleach {

// A symmetric schedule is folded where all ranks are alike, every translate has its state where
// they are not, and it is written out where priorities within a connection depend on chunk numbers.
// Not thread safe.
class FlowPlans {
 public:
  // Borrows everything. Errors: kInvalidArgument: participants that do not fit; kInfeasible: a
  // transfer without a route; what expand() refuses.
  static Result<std::unique_ptr<FlowPlans>> create(const Topology& topology,
                                                   const Schedule& schedule,
                                                   const SimulationOptions& options);

  // One rank for all; none where that would not be exact. Only for a job without company.
  Result<std::optional<LoweredJob>> folded(int64_t size_bytes);
  // Every rank.
  Result<LoweredJob> whole(int64_t size_bytes);

 private:
  FlowPlans(const Topology& topology, const Schedule& schedule, const SimulationOptions& options)
      : topology_(topology), options_(options), schedule_(&schedule) {}

  const Topology& topology_;
  const SimulationOptions& options_;
  const Schedule* schedule_;  // the given one, or `made_`
  std::optional<Schedule> made_;
  std::shared_ptr<const LoweredSchedule> folded_;  // null: not exact on this topology
  std::shared_ptr<const LoweredSchedule> whole_;   // null: not asked for yet
};

}  // namespace pleach
