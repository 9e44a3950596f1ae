#include "pleach/training/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "pleach/base/units.h"
#include "pleach/topology/changes.h"

namespace pleach {
namespace {

// How near to each other the bandwidths are that do not and do meet the target.
constexpr double kPrecision = 1.01;

class Sweeper {
 public:
  explicit Sweeper(const SweepRequest& request) : request_(request) {}

  Result<Sweep> run() const {
    Sweep sweep;
    sweep.target_ps = request_.target_ps;
    const TrainingRequest& training = request_.training;
    for (const int64_t bandwidth : request_.bandwidths_bytes_per_s) {
      PLEACH_ASSIGN(rows, rows_at(bandwidth, training.policies));
      sweep.points.push_back({bandwidth, std::move(rows)});
    }
    for (std::size_t index = 0; sweep.target_ps > 0 && index < training.policies.size(); ++index) {
      PLEACH_ASSIGN(needed, least(sweep.points, index));
      sweep.needed_bytes_per_s.push_back(needed);
    }
    return sweep;
  }

 private:
  Result<std::vector<TrainingRow>> rows_at(int64_t bandwidth_bytes_per_s,
                                           const std::vector<std::string>& policies) const {
    TrainingRequest training = request_.training;
    training.policies = policies;
    const auto bandwidth = static_cast<double>(bandwidth_bytes_per_s);
    if (training.progress) {
      training.progress(fmt::format("links of {}", format_bandwidth(bandwidth)));
    }
    NetworkChoice& network = training.network;
    network.bandwidth_bytes_per_s = request_.efficiency * bandwidth;
    std::optional<Topology> topology;
    if (network.source != CostSource::kAlphaBeta) {
      const Topology& original = *network.topology;
      PLEACH_ASSIGN(changed, with_bandwidth(original, request_.links, bandwidth_bytes_per_s));
      // The name says in errors how far the sweep had come.
      topology = renamed(std::move(changed),
                         fmt::format("{},bandwidth={}B/s", original.name(), bandwidth_bytes_per_s));
      network.topology = &*topology;
    }
    return train(training);
  }

  // The least bandwidth at which policy `index` meets the target; 0: none.
  Result<int64_t> least(const std::vector<SweepPoint>& points, std::size_t index) const {
    const auto meets = [&](const SweepPoint& point) {
      return point.rows[index].run.iteration_ps <= request_.target_ps;
    };
    const auto enough = std::find_if(points.begin(), points.end(), meets);
    if (enough == points.end()) {
      return int64_t{0};
    }
    int64_t high = enough->bandwidth_bytes_per_s;
    if (enough == points.begin()) {
      return high;
    }
    int64_t low = std::prev(enough)->bandwidth_bytes_per_s;
    while (static_cast<double>(high) > kPrecision * static_cast<double>(low)) {
      const auto middle = static_cast<int64_t>(std::sqrt(static_cast<double>(low)) *
                                               std::sqrt(static_cast<double>(high)));
      PLEACH_ASSIGN(rows, rows_at(middle, {request_.training.policies[index]}));
      (rows.front().run.iteration_ps <= request_.target_ps ? high : low) = middle;
    }
    return high;
  }

  const SweepRequest& request_;
};

}  // namespace

Result<Sweep> sweep_bandwidths(const SweepRequest& request) {
  return Sweeper(request).run();
}

}  // namespace pleach
