#include "pleach/report/timing.h"

#include <fmt/core.h>

#include <iterator>
#include <utility>

#include "pleach/base/units.h"
#include "pleach/report/json.h"

namespace pleach {

double utilization(const LinkUse& use, const Link& link, int64_t time_ps) {
  const double capacity_bytes = static_cast<double>(link.bandwidth_bytes_per_s) *
                                static_cast<double>(time_ps) /
                                static_cast<double>(kPicosecondsPerSecond);
  return time_ps > 0 ? static_cast<double>(use.wire_bytes) / capacity_bytes : 0;
}

namespace {

Json admission_json(const AdmissionUse& admission, const Topology& topology) {
  Json conflicts = Json::array();
  for (const SwitchConflict& conflict : admission.conflicts) {
    conflicts.push_back({{"switch", topology.node(conflict.node).name},
                         {"groups", conflict.jobs},
                         {"level", conflict.level ? Json(*conflict.level) : Json()},
                         {"count", conflict.count}});
  }
  return admission_json(admission, std::move(conflicts));
}

Json groups_json(const Timing& timing, std::span<const GroupTiming> groups) {
  Json json = Json::array();
  for (const GroupTiming& group : groups) {
    json.push_back({{"nodes", group.nodes},
                    {"time_ps", group.time_ps},
                    {"algbw_bytes_per_s", algbw_bytes_per_s(timing.size_bytes, group.time_ps)}});
    if (!group.root.empty()) {
      json.back()["root"] = group.root;
    }
  }
  return json;
}

}  // namespace

double algbw_bytes_per_s(int64_t size_bytes, int64_t time_ps) {
  return time_ps > 0 ? static_cast<double>(size_bytes) / static_cast<double>(time_ps) *
                           static_cast<double>(kPicosecondsPerSecond)
                     : 0;
}

std::string to_json(const ScheduleSummary& schedule, const Timing& timing, double wall_s,
                    const Topology& topology, std::span<const GroupTiming> groups) {
  Json json = {{"algorithm", schedule.provenance.algorithm},
               {"collective", to_text(schedule.collective)},
               {"model", timing.model},
               {"size_bytes", timing.size_bytes},
               {"segments", timing.segment_count},
               {"time_ps", timing.time_ps},
               {"cycles", timing.cycles},
               {"algbw_bytes_per_s", timing.algbw_bytes_per_s},
               {"busbw_bytes_per_s", timing.busbw_bytes_per_s},
               {"bytes_on_wire", timing.links.bytes},
               {"link_utilization_mean", timing.links.utilization_mean},
               {"link_busy_mean", timing.links.busy_mean},
               {"bottleneck_link", timing.links.bottleneck},
               {"bottleneck_utilization", timing.links.bottleneck_utilization},
               {"bottleneck_busy", timing.links.bottleneck_busy},
               {"messages_are_free", timing.messages_are_free},
               {"events", timing.simulation.use.event_count},
               {"folded", timing.simulation.use.folded},
               {"certificate", certificate_json(schedule.provenance.certificate)},
               {"wall_s", wall_s}};
  add_counters(json, timing.simulation.use.counters, timing.simulation.use.energy_j);
  if (!groups.empty()) {
    json["groups"] = groups_json(timing, groups);
  }
  if (const auto& admission = timing.simulation.use.admission) {
    json["admission"] = admission_json(*admission, topology);
  }
  if (!timing.simulation.use.note.empty()) {
    json["note"] = timing.simulation.use.note;
  }
  return line_of(json);
}

std::string links_csv(const Topology& topology, const Timing& timing) {
  const NetworkUse& use = timing.simulation.use;
  std::string text = "link,source,target,bandwidth_bytes_per_s,busy_ps,wire_bytes,utilization";
  text += use.cycles.has_value() ? ",cycles" : "";
  for (const LinkCounter& counter : use.link_counters) {
    text += fmt::format(",{}", counter.name);
  }
  text += '\n';
  const auto end = std::back_inserter(text);
  for (std::size_t index = 0; index < use.links.size(); ++index) {
    const Link& link = topology.links()[index];
    const LinkUse& one = use.links[index];
    fmt::format_to(end, "{},{},{},{},{},{},{:.6f}", index, topology.node(link.source).name,
                   topology.node(link.target).name, link.bandwidth_bytes_per_s, one.busy_ps,
                   one.wire_bytes, utilization(one, link, timing.time_ps));
    if (use.cycles.has_value()) {
      fmt::format_to(end, ",{}", *use.cycles);
    }
    for (const LinkCounter& counter : use.link_counters) {
      fmt::format_to(end, ",{}", counter.counts[index]);
    }
    text += '\n';
  }
  return text;
}

std::string collectives_csv(const Schedule& schedule, const Timing& timing) {
  return fmt::format(
      "collective,algorithm,size_bytes,segments,start_ps,finish_ps,algbw_bytes_per_s,"
      "busbw_bytes_per_s\n{},{},{},{},0,{},{:.0f},{:.0f}\n",
      to_text(schedule.collective), schedule.provenance.algorithm, timing.size_bytes,
      timing.segment_count, timing.time_ps, timing.algbw_bytes_per_s, timing.busbw_bytes_per_s);
}

}  // namespace pleach
