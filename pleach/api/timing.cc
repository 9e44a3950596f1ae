#include "pleach/api/timing.h"

#include <fmt/core.h>

#include <algorithm>

#include "pleach/base/units.h"
#include "pleach/planning/best_segments.h"

namespace pleach {
namespace {

void add_links(const Topology& topology, Timing& timing) {
  const std::vector<LinkUse>& links = timing.simulation.use.links;
  LinksInUse& use = timing.links;
  std::size_t busiest = 0;
  double busy_ps = 0;
  for (std::size_t link = 0; link < links.size(); ++link) {
    use.bytes += links[link].wire_bytes;
    busy_ps += static_cast<double>(links[link].busy_ps);
    if (links[link].busy_ps > links[busiest].busy_ps) {
      busiest = link;
    }
  }
  if (links.empty() || timing.time_ps <= 0) {
    return;
  }
  const double time_ps = static_cast<double>(timing.time_ps);
  use.utilization_mean = busy_ps / static_cast<double>(links.size()) / time_ps;
  use.bottleneck = link_name(topology, LinkId{static_cast<int32_t>(busiest)});
  use.bottleneck_utilization = static_cast<double>(links[busiest].busy_ps) / time_ps;
}

Timing finish(const Topology& topology, const Schedule& schedule, const TimingRequest& request,
              Simulation simulation) {
  Timing timing;
  timing.model = request.model;
  timing.size_bytes = request.size_bytes;
  timing.simulation = std::move(simulation);
  timing.time_ps = timing.simulation.finish_ps;
  timing.cycles = timing.simulation.use.cycles.value_or(timing.time_ps / request.cycle_ps +
                                                        (timing.time_ps % request.cycle_ps > 0));
  if (timing.time_ps > 0) {
    timing.algbw_bytes_per_s = static_cast<double>(request.size_bytes) /
                               static_cast<double>(timing.time_ps) *
                               static_cast<double>(kPicosecondsPerSecond);
  }
  timing.busbw_bytes_per_s =
      timing.algbw_bytes_per_s * bus_bandwidth_factor(schedule.collective, schedule.rank_count());
  add_links(topology, timing);
  return timing;
}

}  // namespace

std::string link_name(const Topology& topology, LinkId link) {
  const Link& ends = topology.link(link);
  return fmt::format("{}->{}", topology.node(ends.source).name, topology.node(ends.target).name);
}

Result<Timing> time_schedule(const Topology& topology,
                             const std::shared_ptr<const Schedule>& schedule,
                             const TimingRequest& request) {
  const Job job = {schedule, request.size_bytes, 0};
  if (request.choose_segments) {
    PLEACH_ASSIGN(best,
                  find_best_segments(request.model, topology, std::span(&job, 1), request.options));
    Timing timing = finish(topology, *schedule, request, std::move(best.simulation));
    timing.segment_count = best.segment_count;
    return timing;
  }
  PLEACH_ASSIGN(simulation, simulate(request.model, topology, std::span(&job, 1), request.options));
  Timing timing = finish(topology, *schedule, request, std::move(simulation));
  timing.segment_count = request.options.segment_count;
  return timing;
}

}  // namespace pleach
