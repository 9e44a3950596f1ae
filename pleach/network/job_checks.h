// What every network model asks of a job before it looks at it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "pleach/base/result.h"
#include "pleach/network/model.h"

namespace pleach {

// Simulated time ends here (26 days): far from the end of int64, so that sums cannot overflow.
inline constexpr int64_t kLongestPs = INT64_MAX / 4;

// first + second, at most kLongestPs + 1. Both ≥ 0.
inline int64_t add_times_ps(int64_t first_ps, int64_t second_ps) {
  const int64_t sum_ps = std::min(first_ps, kLongestPs + 1) + std::min(second_ps, kLongestPs + 1);
  return std::min(sum_ps, kLongestPs + 1);
}

// The error of a simulation that passes kLongestPs.
Error takes_too_long();

// Checks options and jobs against the topology. Errors: kInvalidArgument naming the value.
Status check_jobs(const Topology& topology, std::span<const Job> jobs,
                  const SimulationOptions& options);

// The schedule with every route filled in, if it lacks some; else empty. Errors: kInfeasible.
Result<std::optional<Schedule>> with_routes(const Topology& topology, const Schedule& schedule);

}  // namespace pleach
