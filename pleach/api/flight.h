// What the flight recorders of a job's ranks tell.
#pragma once

#include <string>

#include "pleach/base/result.h"
#include "pleach/report/flight.h"

namespace pleach {

// Reads `folder`/rank-R.json for all ranks R, and compares them; and so, apart, the files in each
// of its folders `group-NAME`. With such folders alone the report has no ranks of its own. Files
// that are missing, cut short, foreign or of another job than the latest one are named in the
// report. Times of ranks on several hosts compare as well as their clocks do.
//   errors  kIo: the folder cannot be read; kInvalidArgument: it has no file of a rank
Result<FlightReport> inspect_flight(const std::string& folder);

}  // namespace pleach
