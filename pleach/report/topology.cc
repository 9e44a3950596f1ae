#include "pleach/report/topology.h"

#include <utility>

#include "pleach/report/json.h"

namespace pleach {

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
  return line_of({{"name", summary.name},
                  {"rank_count", summary.rank_count},
                  {"node_count", summary.node_count},
                  {"link_count", summary.link_count},
                  {"switch_latency_ps", span_of(summary.switch_latency_ps)},
                  {"lanes", span_of(summary.lanes)},
                  {"switches", std::move(switches)},
                  {"bisection_bytes_per_s", summary.bisection.bytes_per_s},
                  {"bisection_exact", summary.bisection.exact},
                  {"diameter", summary.diameter.link_count},
                  {"bounds", bounds}});
}

}  // namespace pleach
