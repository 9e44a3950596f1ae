#include "pleach/report/topology.h"

#include <utility>

#include "pleach/report/json.h"

namespace pleach {
namespace {

Json parts_json(const SwitchParts& parts) {
  Json chiplets = Json::array();
  for (const ChipletKind& kind : parts.chiplets) {
    chiplets.push_back({{"model", kind.model},
                        {"ports", kind.ports},
                        {"count", kind.count},
                        {"bandwidth_bytes_per_s", kind.bytes_per_s},
                        {"area_mm2", kind.area_mm2},
                        {"cell_count", kind.cells},
                        {"configuration_bits", kind.configuration_bits},
                        {"phases", kind.phases()}});
  }
  return {{"planes", parts.planes},
          {"chiplet_count", parts.chiplet_count()},
          {"cell_count", parts.cell_count()},
          {"area_mm2", parts.area_mm2()},
          {"density_share", parts.density_share},
          {"wire_w", parts.wire_w},
          {"memory_bytes", parts.memory_bytes()},
          {"ranks_and_io_mm2", parts.ranks_and_io_mm2},
          {"wafer_mm2", kWaferMm2},
          {"chiplets", std::move(chiplets)},
          {"published",
           {{"chiplet_count", kPublishedChiplets},
            {"area_mm2", kPublishedMm2},
            {"power_w", kPublishedWatts}}}};
}

}  // namespace

std::string to_json(const TopologySummary& summary) {
  const auto span_of = [](const std::optional<TopologySummary::Span>& span) {
    return span ? Json::array({span->least, span->most}) : Json();
  };
  Json bounds = Json::object();
  for (const CollectiveBound& entry : summary.bounds) {
    bounds[std::string(to_text(entry.collective))] = {
        {"algbw_bytes_per_s", entry.bound.algbw_bytes_per_s},
        {"exact", entry.bound.exact},
        {"witness", entry.bound.witness}};
  }
  Json switches = Json::array();
  for (const TopologySummary::Switches& alike : summary.switches) {
    switches.push_back({{"model", alike.model}, {"ports", alike.ports}, {"count", alike.count}});
  }
  return line_of(
      {{"name", summary.name},
       {"rank_count", summary.rank_count},
       {"node_count", summary.node_count},
       {"link_count", summary.link_count},
       {"switch_latency_ps", span_of(summary.switch_latency_ps)},
       {"lanes", span_of(summary.lanes)},
       {"switches", std::move(switches)},
       {"parts", summary.parts ? parts_json(*summary.parts) : Json()},
       {"bisection_bytes_per_s", summary.bisection.bytes_per_s},
       {"bisection_exact", summary.bisection.exact},
       {"proportional_bisection_bytes_per_s", summary.proportional_bisection_bytes_per_s},
       {"diameter", summary.diameter.link_count},
       {"bounds", bounds}});
}

}  // namespace pleach
