#include "pleach/report/traffic.h"

#include <fmt/format.h>

#include <iterator>

#include "pleach/report/json.h"

namespace pleach {

std::string to_json(const RouterTraffic& traffic) {
  const TrafficResult& result = traffic.result;
  Json json = {{"topology", traffic.topology},
               {"model", traffic.model},
               {"pattern", traffic.options.pattern},
               {"rate_flits_per_node_cycle", traffic.options.rate},
               {"packet_flits", traffic.options.packet_flits},
               {"accepted_flits_per_node_cycle", result.accepted},
               {"mean_latency_cycles", result.mean_latency_cycles},
               {"p99_latency_cycles", result.p99_latency_cycles},
               {"mean_hops", result.mean_hops},
               {"packets", result.packets},
               {"cycles", result.cycles},
               {"flits", result.flits},
               {"credit_round_trip_cycles", result.credit_round_trip_cycles},
               {"seed", traffic.options.seed},
               {"cpu_s", traffic.cpu_s},
               {"cycles_per_cpu_s", traffic.cycles_per_cpu_s()}};
  add_counters(json, result.counters, result.energy_j);
  return line_of(json);
}

std::string latencies_csv(const RouterTraffic& traffic) {
  std::string text = "latency_cycles,packets\n";
  for (std::size_t latency = 0; latency < traffic.result.latencies.size(); ++latency) {
    if (traffic.result.latencies[latency] > 0) {
      fmt::format_to(std::back_inserter(text), "{},{}\n", latency,
                     traffic.result.latencies[latency]);
    }
  }
  return text;
}

}  // namespace pleach
