#include "pleach/api/inspect.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/base/units.h"
#include "pleach/collective/formats.h"
#include "pleach/collective/order.h"
#include "pleach/collective/program.h"
#include "pleach/collective/symmetry.h"
#include "pleach/fabric/switch_model.h"
#include "pleach/network/model.h"
#include "pleach/policy/policy.h"
#include "pleach/runtime/transport.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/topology/link_preset.h"
#include "pleach/topology/nodes_of_kind.h"
#include "pleach/topology/shapes.h"
#include "pleach/topology/switch_ports.h"
#include "pleach/workload/workload.h"

namespace pleach {

namespace {

void widen(std::optional<TopologySummary::Span>& span, int64_t value) {
  span = span ? TopologySummary::Span{std::min(span->least, value), std::max(span->most, value)}
              : TopologySummary::Span{value, value};
}

std::vector<TopologySummary::Switches> switches_of(const Topology& topology) {
  std::vector<TopologySummary::Switches> all;
  for (const NodeId node : nodes_of_kind(topology, NodeKind::kSwitch)) {
    const SwitchPorts ports(topology, node);
    const TopologySummary::Switches one{switch_model_of(topology.node(node)),
                                        std::max(ports.input_count(), ports.output_count()), 1};
    const auto alike = std::ranges::find_if(all, [&](const TopologySummary::Switches& other) {
      return other.model == one.model && other.ports == one.ports;
    });
    if (alike == all.end()) {
      all.push_back(one);
    } else {
      ++alike->count;
    }
  }
  return all;
}

}  // namespace

Result<TopologySummary> summarize(const Topology& topology, const PartsModel& parts) {
  TopologySummary summary;
  summary.name = topology.name();
  summary.rank_count = count_of(topology.rank_nodes());
  summary.node_count = count_of(topology.nodes());
  summary.link_count = count_of(topology.links());
  for (const Node& node : topology.nodes()) {
    if (node.kind == NodeKind::kSwitch) {
      widen(summary.switch_latency_ps, node.latency_ps);
    }
  }
  for (const Link& link : topology.links()) {
    widen(summary.lanes, link.lanes);
  }
  summary.switches = switches_of(topology);
  PLEACH_SET(summary.parts, parts_of(topology, parts));
  summary.bisection = bisection(topology);
  summary.proportional_bisection_bytes_per_s = proportional_bisection(topology, summary.bisection);
  summary.diameter = diameter(topology);
  for (const CollectiveKind collective : kAllCollectives) {
    BoundRequest request;
    request.collective = collective;
    request.participants = topology.rank_nodes();
    PLEACH_ASSIGN(bound, algbw_bound(topology, request));
    summary.bounds.push_back({collective, bound});
  }
  return summary;
}

namespace {

// The largest number of transfers that share a link in one step. A link class stands for all of its
// links: each of them carries one translate of every transfer that the class carries.
Result<int64_t> max_transfers_per_link_step(const Schedule& schedule, const Topology& topology) {
  std::vector<int32_t> place(topology.links().size());
  for (std::size_t link = 0; link < place.size(); ++link) {
    place[link] = static_cast<int32_t>(link);
  }
  if (schedule.symmetry) {
    PLEACH_ASSIGN(translation, LinkTranslation::create(schedule, topology, false));
    for (std::size_t link = 0; link < place.size(); ++link) {
      place[link] = translation.class_of(LinkId{static_cast<int32_t>(link)});
    }
  }
  std::vector<uint64_t> uses;
  for (const Transfer& transfer : schedule.transfers) {
    if (transfer.route == kNoRoute) {
      continue;
    }
    for (const LinkId link : schedule.routes[transfer.route]) {
      uses.push_back(static_cast<uint64_t>(transfer.step) << 32 |
                     static_cast<uint32_t>(place[link.index()]));
    }
  }
  std::sort(uses.begin(), uses.end());
  std::ptrdiff_t most = 0;
  for (auto first = uses.begin(); first != uses.end();) {
    const auto last = std::upper_bound(first, uses.end(), *first);
    most = std::max(most, last - first);
    first = last;
  }
  return static_cast<int64_t>(most);
}

}  // namespace

Result<ScheduleSummary> summarize(const Schedule& schedule, const Topology& topology) {
  ScheduleSummary summary;
  summary.provenance = schedule.provenance;
  summary.collective = schedule.collective;
  summary.rank_count = schedule.rank_count();
  summary.step_count = schedule.step_count();
  summary.phase_steps = schedule.phase_steps;
  summary.chunk_count = schedule.chunks.count();
  summary.transfer_count = schedule.transfer_count();
  PLEACH_SET(summary.max_transfers_per_link_step, max_transfers_per_link_step(schedule, topology));
  summary.period = schedule.period;
  summary.symmetric = schedule.symmetry.has_value();
  return summary;
}

Result<InterfaceTables> tabulate(std::shared_ptr<const Schedule> schedule,
                                 std::optional<int64_t> size_bytes) {
  PLEACH_TRY(check_switchless(*schedule));
  InterfaceTables tables;
  tables.schedule = std::move(schedule);
  if (tables.schedule->symmetry) {
    PLEACH_ASSIGN(written_out, expand(*tables.schedule, nullptr));
    tables.schedule = std::make_shared<const Schedule>(std::move(written_out));
  }
  if (size_bytes.has_value()) {
    PLEACH_SET(tables.placement, Placement::create(*tables.schedule, *size_bytes));
  }
  tables.table = ScheduleTable::build(*tables.schedule, Order::build(*tables.schedule));
  tables.widths = widths_of(tables.table, tables.placement ? &*tables.placement : nullptr);
  return tables;
}

int64_t estimate_time_ps(const Certificate& certificate, int64_t size_bytes) {
  const double time_ps =
      (certificate.alpha_s + certificate.beta_s_per_byte * static_cast<double>(size_bytes)) *
      static_cast<double>(kPicosecondsPerSecond);
  return static_cast<int64_t>(std::min(time_ps, static_cast<double>(kLongestPs)));
}

std::vector<RegistryListing> list_registries() {
  std::vector<RegistryListing> listings = {shapes().list(),         algorithms().list(),
                                           policies().list(),       workload_models().list(),
                                           accelerators().list(),   transports().list(),
                                           network_models().list(), schedule_formats().list(),
                                           switch_models().list(),  link_presets().list()};
  std::erase_if(listings, [](const RegistryListing& one) { return one.entries.size() < 2; });
  return listings;
}

Result<RegistryListing> list_registry(std::string_view name) {
  std::vector<std::string> known;
  for (RegistryListing& listing : list_registries()) {
    if (listing.registry == name) {
      return std::move(listing);
    }
    known.push_back(listing.registry);
  }
  return unknown_name("registry", name, known);
}

}  // namespace pleach
