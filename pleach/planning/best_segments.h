// The number of segments that makes a collective fastest.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "pleach/base/result.h"
#include "pleach/network/model.h"

namespace pleach {

// Segments of messages that the choice may simulate, over all counts tried.
inline constexpr int64_t kAutoSegmentLimit = 4'000'000;

struct BestSegments {
  int32_t segment_count = 1;
  Simulation simulation;
};

// Tries 1, 2, 4, ... 64 segments, none smaller than a byte of the largest job, and keeps the
// fastest (the fewest on a tie), until two in a row are no faster, and while the jobs have at most
// kAutoSegmentLimit transfers × segments in all; options.segment_count is ignored.
//   errors  those of the model
Result<BestSegments> find_best_segments(std::string_view model, const Topology& topology,
                                        std::span<const Job> jobs, SimulationOptions options);

}  // namespace pleach
