// What network a training needs: iteration time against link bandwidth.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "pleach/base/text.h"
#include "pleach/cli/log.h"
#include "pleach/cli/train.h"

namespace pleach {
namespace {

struct Range {
  int64_t first = 0;
  int64_t last = 0;
  double factor = 2;
};

Result<Range> parse_range(const std::string& text) {
  const auto parts = split(text, ':');
  if (parts.size() < 2 || parts.size() > 3) {
    return invalid(fmt::format("{} is not FROM:TO:FACTOR", pleach::quoted(text)));
  }
  Range range;
  PLEACH_ASSIGN(first, parse_bandwidth_bytes_per_s(parts[0]));
  PLEACH_ASSIGN(last, parse_bandwidth_bytes_per_s(parts[1]));
  range.first = first;
  range.last = last;
  if (parts.size() == 3) {
    const std::string factor(parts[2]);
    char* end = nullptr;
    range.factor = std::strtod(factor.c_str(), &end);
    if (end != factor.c_str() + factor.size() || !(range.factor >= 1.01) || range.factor > 1e6) {
      return invalid(fmt::format("factor {} is no number from 1.01 on", pleach::quoted(factor)));
    }
  }
  if (last < first) {
    return invalid(fmt::format("{} goes down", pleach::quoted(text)));
  }
  return range;
}

class Sweeper {
 public:
  Sweeper(const TrainPlan& plan, double efficiency) : plan_(plan), efficiency_(efficiency) {}

  Result<std::vector<TrainingRow>> at(int64_t bandwidth_bytes_per_s) const {
    log_step(
        fmt::format("links of {}", format_bandwidth(static_cast<double>(bandwidth_bytes_per_s))));
    const std::string spec =
        plan_.topology_spec.empty()
            ? ""
            : fmt::format("{},bandwidth={}B/s", plan_.topology_spec, bandwidth_bytes_per_s);
    return run_plan(plan_, spec, efficiency_ * static_cast<double>(bandwidth_bytes_per_s));
  }

  // The least bandwidth in [first, last] at which policy `index` meets the target; 0: none.
  Result<int64_t> least(const Sweep& sweep, std::size_t index) const {
    const auto meets = [&](const SweepPoint& point) {
      return point.rows[index].run.iteration_ps <= sweep.target_ps;
    };
    const auto enough = std::find_if(sweep.points.begin(), sweep.points.end(), meets);
    if (enough == sweep.points.end()) {
      return int64_t{0};
    }
    int64_t high = enough->bandwidth_bytes_per_s;
    if (enough == sweep.points.begin()) {
      return high;
    }
    int64_t low = std::prev(enough)->bandwidth_bytes_per_s;
    TrainPlan one = plan_;
    one.policies = {plan_.policies[index]};
    const Sweeper alone(one, efficiency_);
    while (static_cast<double>(high) > 1.01 * static_cast<double>(low)) {
      const auto middle = static_cast<int64_t>(std::sqrt(static_cast<double>(low)) *
                                               std::sqrt(static_cast<double>(high)));
      PLEACH_ASSIGN(rows, alone.at(middle));
      (rows.front().run.iteration_ps <= sweep.target_ps ? high : low) = middle;
    }
    return high;
  }

 private:
  const TrainPlan& plan_;
  double efficiency_;
};

}  // namespace

Result<Sweep> sweep_bandwidths(const TrainPlan& plan, const TrainOptions& options) {
  if (plan.trace.has_value()) {
    return invalid("--bandwidths: not for traces");
  }
  PLEACH_ASSIGN(range, from_option("--bandwidths", parse_range(options.bandwidths)));
  double efficiency = 1;
  if (!options.measured_link.empty()) {
    PLEACH_ASSIGN(nominal, from_option("--measured-link",
                                       parse_bandwidth_bytes_per_s(options.measured_link)));
    if (!plan.calibration.has_value()) {
      return invalid("--measured-link: goes with --calibration");
    }
    efficiency = plan.calibration->bandwidth_bytes_per_s / static_cast<double>(nominal);
  }
  Sweep sweep;
  if (!options.target.empty()) {
    PLEACH_SET(sweep.target_ps, from_option("--target", parse_time_ps(options.target)));
  }
  const Sweeper sweeper(plan, efficiency);
  for (auto next = static_cast<double>(range.first);; next *= range.factor) {
    const auto bandwidth = std::min<int64_t>(range.last, std::llround(next));
    PLEACH_ASSIGN(rows, sweeper.at(bandwidth));
    sweep.points.push_back({bandwidth, std::move(rows)});
    if (bandwidth == range.last) {
      break;
    }
  }
  for (std::size_t index = 0; sweep.target_ps > 0 && index < plan.policies.size(); ++index) {
    PLEACH_ASSIGN(needed, sweeper.least(sweep, index));
    sweep.needed_bytes_per_s.push_back(needed);
  }
  return sweep;
}

}  // namespace pleach
