// Which messages of a job wait, and for what.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "pleach/report/flight.h"

namespace pleach {

// What is in flight on the ranks, and what was sent and has not been received, as FlightReport has
// them; a send and a receive of one message are two. At most some hundred.
//   files  by rank
std::vector<FlightReport::Message> match_messages(const std::map<int32_t, FlightFile>& files);

}  // namespace pleach
