#include "pleach/report/sweep.h"

#include "pleach/report/training_json.h"

namespace pleach {

std::string to_json(const Sweep& sweep, double wall_s) {
  Json points = Json::array();
  for (const SweepPoint& point : sweep.points) {
    points.push_back({{"bandwidth_bytes_per_s", point.bandwidth_bytes_per_s},
                      {"rows", rows_json(point.rows, false)}});
  }
  Json needed = Json::array();
  for (std::size_t index = 0; index < sweep.needed_bytes_per_s.size(); ++index) {
    const int64_t bandwidth = sweep.needed_bytes_per_s[index];
    needed.push_back({{"policy", sweep.points.front().rows[index].policy},
                      {"bandwidth_bytes_per_s", bandwidth > 0 ? Json(bandwidth) : Json(nullptr)}});
  }
  return line_of(
      {{"points", points},
       {"target_s", sweep.target_ps > 0 ? Json(seconds(sweep.target_ps)) : Json(nullptr)},
       {"needed", needed},
       {"wall_s", wall_s}});
}

}  // namespace pleach
