#include "pleach/api/timing.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/units.h"
#include "pleach/network/flit/packet_options.h"
#include "pleach/planning/best_segments.h"
#include "pleach/topology/metrics.h"

namespace pleach {
namespace {

void add_links(const Topology& topology, Timing& timing) {
  const std::vector<LinkUse>& links = timing.simulation.use.links;
  LinksInUse& use = timing.links;
  if (links.empty() || timing.time_ps <= 0) {
    return;
  }
  const double time_ps = static_cast<double>(timing.time_ps);
  LinkId bottleneck{0};
  int64_t longest_ps = 0;
  for (int32_t index = 0; index < count_of(links); ++index) {
    const Link& link = topology.link(LinkId{index});
    const LinkUse& one = links[at(index)];
    use.bytes += one.wire_bytes;
    use.utilization_mean += utilization(one, link, timing.time_ps);
    use.busy_mean += static_cast<double>(one.busy_ps) / time_ps;
    const int64_t needed_ps = transmit_time_ps(one.wire_bytes, link.bandwidth_bytes_per_s);
    if (needed_ps > longest_ps) {
      longest_ps = needed_ps;
      bottleneck = LinkId{index};
    }
  }
  use.utilization_mean /= static_cast<double>(links.size());
  use.busy_mean /= static_cast<double>(links.size());
  const LinkUse& most = links[bottleneck.index()];
  use.bottleneck = link_name(topology, bottleneck);
  use.bottleneck_utilization = utilization(most, topology.link(bottleneck), timing.time_ps);
  use.bottleneck_busy = static_cast<double>(most.busy_ps) / time_ps;
}

Timing finish(const Topology& topology, const Schedule& schedule, const TimingRequest& request,
              Simulation simulation) {
  Timing timing;
  timing.model = request.model;
  timing.size_bytes = request.size_bytes;
  timing.simulation = std::move(simulation);
  timing.time_ps = timing.simulation.finish_ps;
  const int64_t cycle_ps = request.cycle_ps.value_or(1000);
  timing.cycles = timing.simulation.use.cycles.value_or(timing.time_ps / cycle_ps +
                                                        (timing.time_ps % cycle_ps > 0));
  timing.algbw_bytes_per_s = algbw_bytes_per_s(request.size_bytes, timing.time_ps);
  timing.busbw_bytes_per_s =
      timing.algbw_bytes_per_s * bus_bandwidth_factor(schedule.collective, schedule.rank_count());
  timing.messages_are_free = messages_are_free(topology);
  add_links(topology, timing);
  return timing;
}

// FRED's switches are a kind of flit's routers without one.
bool has_clock(const Selection<NetworkModel>& model) {
  return model.entry->has_clock &&
         !(model.entry->name == "flit" && has_packet_routers(model.options));
}

}  // namespace

Status check_cycle(const TimingRequest& request) {
  if (!request.cycle_ps) {
    return ok();
  }
  if (*request.cycle_ps < 1) {
    return invalid("a cycle takes time");
  }
  const auto model = network_models().select(request.model);
  if (model && has_clock(*model)) {
    return invalid(
        fmt::format("{}: the clock of {} is the bytes of a flit over the fastest link's bandwidth",
                    format_time(*request.cycle_ps), model->entry->name));
  }
  return ok();
}

PlannerOptions planner_options(const TimingRequest& request) {
  PlannerOptions options;
  options.model = request.model;
  options.simulation = request.options;
  options.segment_count = request.options.segment_count;
  if (request.choose_segments) {
    options.segment_count = std::nullopt;
  }
  return options;
}

Result<Timing> time_together(const Topology& topology,
                             std::span<const std::shared_ptr<const Schedule>> schedules,
                             const TimingRequest& request) {
  if (const Status status = check_cycle(request); !status) {
    return prefixed("cycle", status.error());
  }
  std::vector<Job> jobs;
  for (const std::shared_ptr<const Schedule>& schedule : schedules) {
    jobs.push_back({schedule, request.size_bytes, 0});
  }
  const Schedule& first = *schedules.front();
  if (request.choose_segments) {
    PLEACH_ASSIGN(best,
                  find_best_segments(topology, jobs,
                                     {.model = request.model, .simulation = request.options}));
    Timing timing = finish(topology, first, request, std::move(best.simulation));
    timing.segment_count = best.segment_count;
    return timing;
  }
  PLEACH_ASSIGN(simulation, simulate(request.model, topology, jobs, request.options));
  Timing timing = finish(topology, first, request, std::move(simulation));
  timing.segment_count = request.options.segment_count;
  return timing;
}

Result<Timing> time_schedule(const Topology& topology,
                             const std::shared_ptr<const Schedule>& schedule,
                             const TimingRequest& request) {
  return time_together(topology, std::span(&schedule, 1), request);
}

}  // namespace pleach
