// The number of segments that makes a collective fastest.
#pragma once

#include <cstdint>
#include <functional>
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

// Segments that a choice tries at the most.
inline constexpr int32_t kMostSegmentsTried = 64;

struct SegmentSearch {
  std::string_view model = kDefaultNetworkModel;
  SimulationOptions simulation = {};  // its segment_count is ignored
  int64_t least_bytes = 1;            // of a segment of the jobs' largest message, where it is cut
  double as_good = 1;                 // PlannerOptions'
};

// The most segments of 1, 2, 4, ... kMostSegmentsTried of which none is smaller than that.
Result<int32_t> most_segments(std::span<const Job> jobs, const SegmentSearch& search);

// How long the jobs take in so many segments.
using TimeSegments = std::function<Result<int64_t>(int32_t segment_count)>;

// Tries 1, 2, 4, ... most_segments(), and keeps the fastest (the fewest on a tie); or the most that
// are as good, where others are than the fastest. Until two in a row are no better, and while the
// jobs have at most kAutoSegmentLimit transfers × segments in all.
//   errors  those of `time_ps`
Result<int32_t> find_best_segments(std::span<const Job> jobs, const SegmentSearch& search,
                                   const TimeSegments& time_ps);
// By simulations in `search.model`.   errors  those of the model
Result<BestSegments> find_best_segments(const Topology& topology, std::span<const Job> jobs,
                                        const SegmentSearch& search = {});

}  // namespace pleach
