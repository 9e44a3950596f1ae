#include "pleach/network/analytic/analytic.h"

#include <algorithm>

#include "pleach/base/index.h"
#include "pleach/base/units.h"
#include "pleach/network/job_checks.h"
#include "pleach/network/lowered_schedule.h"

namespace pleach {
namespace {

// One stream in its slot.
struct SlotUse {
  int64_t slot;
  int32_t stream;
  int32_t segment;
  auto operator<=>(const SlotUse&) const = default;
};

class StepTimes {
 public:
  StepTimes(const Topology& topology, const LoweredJob& plan, const SimulationOptions& options)
      : topology_(topology),
        plan_(plan),
        options_(options),
        load_bytes_(topology.links().size()),
        uses_(topology.links().size()) {}

  int64_t total_ps() {
    const Order& order = plan_.order();
    std::vector<SlotUse> all;
    for (int32_t stream = 0; stream < order.stream_count(); ++stream) {
      for (int32_t segment = 0; segment < options_.segment_count; ++segment) {
        const int64_t slot = int64_t{segment} * plan_.schedule().period + order.stream(stream).step;
        all.push_back({slot, stream, segment});
      }
    }
    std::sort(all.begin(), all.end());
    int64_t sum_ps = 0;
    for (std::size_t begin = 0, end = 0; begin < all.size(); begin = end) {
      while (end < all.size() && all[end].slot == all[begin].slot) {
        ++end;
      }
      sum_ps = add_times_ps(sum_ps, slot_ps(std::span(all).subspan(begin, end - begin)));
    }
    return sum_ps;
  }
  const std::vector<LinkUse>& uses() const { return uses_; }

 private:
  // With symmetry one class of connections stands for all its translates: the slowest of them.
  std::span<const LoweredConnection> translates(int32_t stream) const {
    const auto number = at(plan_.connection_of(stream, 0));
    if (plan_.instances() != Instances::kAll) {
      return std::span(plan_.connections()).subspan(number, 1);
    }
    const auto count = at(plan_.instance_count());
    return std::span(plan_.connections()).subspan(number / count * count, count);
  }

  int64_t slot_ps(std::span<const SlotUse> streams) {
    for (const SlotUse& use : streams) {
      const int64_t bytes = plan_.wire_bytes(plan_.payload_bytes(use.stream, use.segment, 0));
      for (const LoweredConnection& connection : translates(use.stream)) {
        for (const LinkId link : connection.links) {
          load_bytes_[link.index()] += bytes;
        }
      }
    }
    int64_t slowest_ps = 0;
    for (const SlotUse& use : streams) {
      slowest_ps = std::max(slowest_ps, stream_ps(use));
    }
    for (const SlotUse& use : streams) {
      for (const LoweredConnection& connection : translates(use.stream)) {
        for (const LinkId link : connection.links) {
          const int64_t bytes = std::exchange(load_bytes_[link.index()], 0);
          uses_[link.index()].wire_bytes += bytes;
          uses_[link.index()].busy_ps =
              add_times_ps(uses_[link.index()].busy_ps,
                           transmit_time_ps(bytes, topology_.link(link).bandwidth_bytes_per_s));
        }
      }
    }
    return slowest_ps;
  }

  int64_t stream_ps(const SlotUse& use) const {
    int64_t slowest_ps = 0;
    for (const LoweredConnection& connection : translates(use.stream)) {
      int64_t busiest_ps = 0;
      for (const LinkId link : connection.links) {
        busiest_ps =
            std::max(busiest_ps, transmit_time_ps(load_bytes_[link.index()],
                                                  topology_.link(link).bandwidth_bytes_per_s));
      }
      const int64_t start_ps = add_times_ps(connection.overhead_ps, connection.latency_ps);
      slowest_ps = std::max(slowest_ps, add_times_ps(start_ps, busiest_ps));
    }
    if (options_.reduce_bandwidth_bytes_per_s > 0 &&
        plan_.order().stream(use.stream).op == TransferOp::kReduce) {
      slowest_ps =
          add_times_ps(slowest_ps, transmit_time_ps(plan_.payload_bytes(use.stream, use.segment, 0),
                                                    options_.reduce_bandwidth_bytes_per_s));
    }
    return slowest_ps;
  }

  const Topology& topology_;
  const LoweredJob& plan_;
  const SimulationOptions& options_;
  std::vector<int64_t> load_bytes_;  // by link, of the slot at hand
  std::vector<LinkUse> uses_;
};

Result<Simulation> simulate_analytic(const Topology& topology, std::span<const Job> jobs,
                                     const SimulationOptions& options) {
  PLEACH_TRY(check_jobs(topology, jobs, options));
  if (options.landing_places > 0 || options.records != nullptr) {
    return Error{ErrorCode::kUnsupported,
                 "the analytic model knows no landing places and keeps no records; use flow"};
  }
  Simulation result;
  result.links.resize(topology.links().size());
  for (const Job& job : jobs) {
    PLEACH_ASSIGN(routed, with_routes(topology, *job.schedule));
    const Schedule& schedule = routed.has_value() ? *routed : *job.schedule;
    const bool folds = LoweredJob::can_fold(topology, schedule, job.size_bytes);
    const Instances instances = !schedule.symmetry.has_value() ? Instances::kNone
                                : folds                        ? Instances::kFolded
                                                               : Instances::kAll;
    PLEACH_ASSIGN(plan, LoweredJob::create(topology, schedule, job.size_bytes, options, instances));
    StepTimes times(topology, plan, options);
    result.job_finish_ps.push_back(add_times_ps(job.start_ps, times.total_ps()));
    if (result.job_finish_ps.back() > kLongestPs) {
      return takes_too_long();
    }
    result.finish_ps = std::max(result.finish_ps, result.job_finish_ps.back());
    Simulation alone;
    alone.links = times.uses();
    alone.event_count =
        int64_t{plan.order().stream_count()} * options.segment_count * plan.instance_count();
    if (folds) {
      plan.unfold(topology, alone);
    }
    result.event_count += alone.event_count;
    result.folded = result.folded || alone.folded;
    for (std::size_t link = 0; link < result.links.size(); ++link) {
      result.links[link].busy_ps += alone.links[link].busy_ps;
      result.links[link].wire_bytes += alone.links[link].wire_bytes;
    }
  }
  return result;
}

}  // namespace

extern const NetworkModel kAnalyticModel = {
    .name = "analytic",
    .summary = "alpha-beta per step: latency + the busiest link's bytes, step after step",
    .source = "Hockney 1994; Thakur et al., IJHPCA 2005",
    .simulate = simulate_analytic,
};

}  // namespace pleach
