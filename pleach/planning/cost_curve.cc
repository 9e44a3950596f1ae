#include "pleach/planning/cost_curve.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "pleach/base/check.h"
#include "pleach/collective/schedule.h"
#include "pleach/network/model.h"
#include "pleach/synthesis/algorithm.h"

namespace pleach {
namespace {

constexpr int32_t kMostSegments = 64;
// Besides the first ones; each is a simulation, and a piece that needs more is close to its chord.
constexpr int32_t kMostProbes = 40;

// Schedules that run together, simulated at one size after another.
class Workbench {
 public:
  Workbench(const Topology& topology, const NetworkModel& model, int32_t segment_count)
      : topology_(topology), model_(model), segment_count_(segment_count) {}

  Status add(Schedule schedule) {
    PLEACH_TRY(fill_routes(schedule, topology_));
    schedules_.push_back(std::move(schedule));
    return ok();
  }

  Result<int64_t> time_ps(int64_t size_bytes) const {
    if (segment_count_ > 0) {
      return simulate(size_bytes, segment_count_);
    }
    int64_t best_ps = std::numeric_limits<int64_t>::max();
    for (int32_t segments = 1; segments <= kMostSegments; segments *= 2) {
      PLEACH_ASSIGN(time_ps, simulate(size_bytes, segments));
      best_ps = std::min(best_ps, time_ps);
    }
    return best_ps;
  }

 private:
  Result<int64_t> simulate(int64_t size_bytes, int32_t segments) const {
    std::vector<Job> jobs;
    jobs.reserve(schedules_.size());
    for (const Schedule& schedule : schedules_) {
      jobs.push_back({.schedule = &schedule, .size_bytes = size_bytes});
    }
    PLEACH_ASSIGN(simulation, model_.simulate(topology_, jobs, {.segment_count = segments}));
    return simulation.finish_ps;
  }

  const Topology& topology_;
  const NetworkModel& model_;
  int32_t segment_count_;
  std::vector<Schedule> schedules_;
};

int64_t between(const CostCurve::Sample& low, const CostCurve::Sample& high, int64_t size_bytes) {
  const auto rise = static_cast<double>(high.time_ps - low.time_ps) /
                    static_cast<double>(high.size_bytes - low.size_bytes);
  return low.time_ps + std::llround(rise * static_cast<double>(size_bytes - low.size_bytes));
}

// Cuts pieces at their geometric middle until each is straight, the widest time first come.
Result<CostCurve> sample(const Workbench& bench, int64_t largest_bytes, double tolerance) {
  std::vector<CostCurve::Sample> samples;
  for (const int64_t size : {int64_t{1}, int64_t{16} << 10, int64_t{1} << 20, largest_bytes}) {
    if (size <= largest_bytes && (samples.empty() || samples.back().size_bytes < size)) {
      PLEACH_ASSIGN(time_ps, bench.time_ps(size));
      samples.push_back({size, time_ps});
    }
  }
  std::vector<std::pair<CostCurve::Sample, CostCurve::Sample>> pieces;
  for (std::size_t index = 0; index + 1 < samples.size(); ++index) {
    pieces.emplace_back(samples[index], samples[index + 1]);
  }
  for (std::size_t next = 0; next < pieces.size() && next < kMostProbes; ++next) {
    const auto [low, high] = pieces[next];
    const auto middle = static_cast<int64_t>(std::sqrt(static_cast<double>(low.size_bytes)) *
                                             std::sqrt(static_cast<double>(high.size_bytes)));
    if (middle <= low.size_bytes || middle >= high.size_bytes) {
      continue;
    }
    PLEACH_ASSIGN(time_ps, bench.time_ps(middle));
    const CostCurve::Sample probe = {middle, time_ps};
    samples.push_back(probe);
    const auto off = static_cast<double>(std::abs(between(low, high, middle) - time_ps));
    if (off > tolerance * static_cast<double>(time_ps)) {
      pieces.emplace_back(low, probe);
      pieces.emplace_back(probe, high);
    }
  }
  std::sort(samples.begin(), samples.end(),
            [](const auto& left, const auto& right) { return left.size_bytes < right.size_bytes; });
  return CostCurve::from_samples(std::move(samples));
}

}  // namespace

Result<CostCurve> CostCurve::measure(const CurveRequest& request) {
  PLEACH_ASSIGN(model, find_network_model(request.model));
  Workbench bench(request.topology, *model, request.segment_count);
  bool any = false;
  for (const std::vector<NodeId>& group : request.groups) {
    if (group.size() < 2) {
      continue;
    }
    PLEACH_ASSIGN(schedule, synthesize({.topology = request.topology,
                                        .participants = group,
                                        .collective = request.collective},
                                       request.algorithm));
    PLEACH_TRY(bench.add(std::move(schedule)));
    any = true;
  }
  if (!any) {
    return from_samples({{1, 0}});
  }
  return sample(bench, std::max<int64_t>(request.largest_bytes, 2), request.tolerance);
}

Result<CostCurve> measure_send(const SendRequest& request) {
  PLEACH_ASSIGN(model, find_network_model(request.model));
  Workbench bench(request.topology, *model, 1);
  for (const auto& [source, target] : request.pairs) {
    PLEACH_ASSIGN(schedule, synthesize({.topology = request.topology,
                                        .participants = {source, target},
                                        .collective = CollectiveKind::kBroadcast},
                                       "direct"));
    PLEACH_TRY(bench.add(std::move(schedule)));
  }
  constexpr double kTolerance = 0.005;
  return sample(bench, std::max<int64_t>(request.largest_bytes, 2), kTolerance);
}

// Time never decreases with size: where it does in the simulation, a larger message stands in.
CostCurve CostCurve::from_samples(std::vector<Sample> samples) {
  PLEACH_CHECK(!samples.empty(), "a curve needs a sample");
  for (std::size_t index = 1; index < samples.size(); ++index) {
    PLEACH_CHECK(samples[index - 1].size_bytes < samples[index].size_bytes, "samples ascend");
    samples[index].time_ps = std::max(samples[index].time_ps, samples[index - 1].time_ps);
  }
  CostCurve curve;
  curve.samples_ = std::move(samples);
  return curve;
}

int64_t CostCurve::time_ps(int64_t size_bytes) const {
  if (size_bytes <= 0) {
    return 0;
  }
  const auto next =
      std::upper_bound(samples_.begin(), samples_.end(), size_bytes,
                       [](int64_t size, const Sample& sample) { return size < sample.size_bytes; });
  if (next == samples_.begin() || samples_.size() == 1) {
    return samples_.front().time_ps;
  }
  const auto high = next == samples_.end() ? std::prev(next) : next;
  return between(*std::prev(high), *high, size_bytes);
}

}  // namespace pleach
