// The barrier, as a schedule: an all_reduce of nothing.
#pragma once

#include <cstdint>

#include "pleach/collective/schedule.h"

namespace pleach {

// Up a binomial tree to rank 0 and down again: no rank's last arrival comes before all ranks have
// sent. 2·ceil(log2 n) steps, 2·(n - 1) messages. Correct for whatever it carries.
Schedule barrier_schedule(int32_t rank_count);

}  // namespace pleach
