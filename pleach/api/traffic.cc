#include "pleach/api/traffic.h"

#include <fmt/format.h>

#include <ctime>

#include "pleach/base/registry.h"
#include "pleach/base/text.h"

namespace pleach {

Result<TrafficOptions> traffic_options(const std::string& model, TrafficOptions options) {
  PLEACH_ASSIGN(spec, parse_spec(model));
  if (spec.name != "flit") {
    return invalid(fmt::format("{} has no routers: traffic takes flit, flit,vcs=8, ...",
                               pleach::quoted(spec.name)));
  }
  PLEACH_ASSIGN(own, options_of(spec, "flit", traffic_model_options()));
  PLEACH_TRY(set_traffic_options(own, options));
  return options;
}

Result<RouterTraffic> simulate_traffic(const Topology& topology, const std::string& model,
                                       const TrafficOptions& options, const RunProgress& progress) {
  const std::clock_t start = std::clock();
  PLEACH_ASSIGN(result, run_traffic(topology, options, progress));
  const double cpu_s = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  return RouterTraffic{topology.name(), model, options, std::move(result), cpu_s};
}

}  // namespace pleach
