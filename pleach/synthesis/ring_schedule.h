// What the ring algorithms share: schedules that pass data around a cycle in one or two directions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pleach/base/options.h"
#include "pleach/base/result.h"
#include "pleach/collective/schedule.h"
#include "pleach/synthesis/algorithm.h"

namespace pleach {

// `form=auto|explicit`, `order=auto|published`.
std::vector<OptionDescriptor> ring_options();

// Writes the ring schedule of the request's collective (all_to_all excepted).
//   direction_count  1, or 2: half of every chunk travels the other way round
//   source  Patarasuk & Yuan 2009, Bandwidth optimal all-reduce algorithms for clusters of
//           workstations
Result<Schedule> ring_schedule(const SynthesisRequest& request, const Options& options,
                               int32_t direction_count);

// The same round several cycles of all ranks at once, with an equal part of every chunk each. A
// message is cut into 1 ≤ `stripes` ≤ kStripeLimit where links are side by side on its way.
Result<Schedule> ring_schedule(const SynthesisRequest& request,
                               std::span<const std::vector<int32_t>> cycles, int32_t stripes = 1);

}  // namespace pleach
