// Random all_reduces inside trees of two levels.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "pleach/base/rng.h"
#include "pleach/collective/schedule.h"
#include "pleach/network/session.h"
#include "tests/support/random_schedules.h"
#include "tests/support/two_levels.h"

namespace pleach::support {

inline std::shared_ptr<const Schedule> shared(Schedule schedule) {
  return std::make_shared<const Schedule>(std::move(schedule));
}

struct LevelJobs {
  TwoLevels levels;
  SimulationOptions options;
  std::vector<Job> jobs;
};

// Of groups, sizes, starts and `classes` classes as they come, some of them empty.
inline LevelJobs random_level_jobs(Rng& rng, int32_t classes) {
  const int32_t leaves = 2 + pick(rng, 3);
  LevelJobs drawn;
  drawn.levels = {.ranks = leaves * (2 + pick(rng, 3)),
                  .leaves = leaves,
                  .switch_model = rng.below(2) == 0 ? "fred" : "fred,middle=2",
                  .trunk_lanes = 1 + pick(rng, 3)};
  drawn.options.segment_count = 1 + pick(rng, 8);
  drawn.options.landing_places = pick(rng, 3);
  drawn.options.keep_records = true;
  for (int32_t count = 2 + pick(rng, 20); count > 0; --count) {
    std::vector<int32_t> group;
    while (group.size() < 2) {
      group.clear();
      for (int32_t rank = 0; rank < drawn.levels.ranks; ++rank) {
        if (rng.below(3) == 0) {
          group.push_back(rank);
        }
      }
    }
    drawn.jobs.push_back({shared(drawn.levels.all_reduce(group)),
                          static_cast<int64_t>(rng.below(5'000)),
                          static_cast<int64_t>(rng.below(1'000'000)), pick(rng, classes)});
  }
  return drawn;
}

}  // namespace pleach::support
