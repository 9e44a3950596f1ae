#include "pleach/report/topology.h"

#include "pleach/report/json.h"

namespace pleach {

std::string to_json(const TopologySummary& summary) {
  Json bounds = Json::object();
  for (const CollectiveBound& entry : summary.bounds) {
    bounds[std::string(to_text(entry.collective))] = {
        {"algbw_bytes_per_s", entry.bound.algbw_bytes_per_s},
        {"exact", entry.bound.exact},
        {"witness", entry.bound.witness}};
  }
  return line_of({{"name", summary.name},
                  {"rank_count", summary.rank_count},
                  {"node_count", summary.node_count},
                  {"link_count", summary.link_count},
                  {"bisection_bytes_per_s", summary.bisection.bytes_per_s},
                  {"bisection_exact", summary.bisection.exact},
                  {"diameter", summary.diameter.link_count},
                  {"bounds", bounds}});
}

}  // namespace pleach
