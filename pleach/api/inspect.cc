#include "pleach/api/inspect.h"

#include <fmt/core.h>

#include <algorithm>

#include "pleach/base/text.h"
#include "pleach/collective/formats.h"
#include "pleach/collective/symmetry.h"
#include "pleach/network/model.h"
#include "pleach/policy/policy.h"
#include "pleach/runtime/transport.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/topology/shapes.h"
#include "pleach/workload/workload.h"

namespace pleach {

Result<TopologySummary> summarize(const Topology& topology) {
  TopologySummary summary;
  summary.name = topology.name();
  summary.rank_count = static_cast<int32_t>(topology.rank_nodes().size());
  summary.node_count = static_cast<int32_t>(topology.nodes().size());
  summary.link_count = static_cast<int32_t>(topology.links().size());
  summary.bisection = bisection(topology);
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
  summary.algorithm = schedule.provenance.algorithm;
  summary.options = schedule.provenance.options;
  summary.collective = schedule.collective;
  summary.rank_count = schedule.rank_count();
  summary.step_count = schedule.step_count();
  summary.phase_steps = schedule.phase_steps;
  summary.chunk_count = schedule.chunks.count();
  summary.transfer_count = schedule.transfer_count();
  PLEACH_ASSIGN(most, max_transfers_per_link_step(schedule, topology));
  summary.max_transfers_per_link_step = most;
  summary.period = schedule.period;
  summary.symmetric = schedule.symmetry.has_value();
  summary.certificate = schedule.provenance.certificate;
  return summary;
}

namespace {

// "step_rule=complete|published (complete), interfaces=N (0)".
std::string describe_options(std::span<const OptionDescriptor> options) {
  std::vector<std::string> words;
  for (const OptionDescriptor& option : options) {
    std::string values = option.allowed.empty() ? "VALUE" : join(option.allowed, "|");
    if (option.allowed.empty() && option.kind == OptionDescriptor::Kind::kInteger) {
      values = "N";
    }
    const std::string standard =
        option.default_value.empty() ? "" : fmt::format(" (default {})", option.default_value);
    words.push_back(fmt::format("{}={}{}", option.name, values, standard));
  }
  return join(words, ", ");
}

RegistryListing list_topologies() {
  RegistryListing listing = {"topologies", {}};
  for (const Shape* shape : shapes()) {
    listing.entries.push_back(
        {fmt::format("{}:{}", shape->name, shape->argument), shape->summary, "",
         shape->options.empty() ? "" : "options: " + describe_options(shape->options)});
  }
  return listing;
}

RegistryListing list_algorithms() {
  RegistryListing listing = {"algorithms", {}};
  for (const Algorithm* algorithm : algorithms()) {
    std::vector<std::string> names;
    for (const CollectiveKind collective : algorithm->collectives) {
      names.emplace_back(to_text(collective));
    }
    std::string details = join(names, ", ");
    if (!algorithm->options.empty()) {
      details += "; options: " + describe_options(algorithm->options);
    }
    listing.entries.push_back({algorithm->name, algorithm->summary, algorithm->source, details});
  }
  return listing;
}

RegistryListing list_transports() {
  RegistryListing listing = {"transports", {}};
  for (const TransportKind* transport : transports()) {
    listing.entries.push_back(
        {transport->name, transport->summary, "",
         transport->spans_processes ? "ranks are processes" : "ranks are threads of one process"});
  }
  return listing;
}

RegistryListing list_models() {
  RegistryListing listing = {"models", {}};
  for (const NetworkModel* model : network_models()) {
    listing.entries.push_back({model->name, model->summary, model->source, ""});
  }
  return listing;
}

RegistryListing list_policies() {
  RegistryListing listing = {"policies", {}};
  for (const PolicyDescriptor* policy : policies()) {
    listing.entries.push_back(
        {policy->name, policy->summary, policy->source,
         policy->options.empty() ? "" : "options: " + describe_options(policy->options)});
  }
  return listing;
}

RegistryListing list_workloads() {
  RegistryListing listing = {"workloads", {}};
  for (const WorkloadDescriptor* workload : workload_models()) {
    listing.entries.push_back(
        {workload->name, workload->summary, workload->source,
         workload->options.empty() ? "" : "options: " + describe_options(workload->options)});
  }
  return listing;
}

RegistryListing list_accelerators() {
  RegistryListing listing = {"accelerators", {}};
  for (const Accelerator& accelerator : accelerators()) {
    listing.entries.push_back({accelerator.name, accelerator.summary, accelerator.source, ""});
  }
  return listing;
}

RegistryListing list_formats() {
  RegistryListing listing = {"formats", {}};
  for (const ScheduleFormat* format : schedule_formats()) {
    listing.entries.push_back({format->name, format->summary, "", "files *" + format->extension});
  }
  return listing;
}

}  // namespace

std::vector<RegistryListing> list_registries() {
  return {list_topologies(),   list_algorithms(), list_policies(), list_workloads(),
          list_accelerators(), list_transports(), list_models(),   list_formats()};
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
