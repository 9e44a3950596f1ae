#include "pleach/network/flit/credit_loop.h"

#include <fmt/format.h>

#include <algorithm>

namespace pleach {

int64_t credit_round_trip_cycles(const Fabric& fabric, const RouterOptions& options,
                                 bool of_heads) {
  int64_t both_ways = 2;
  for (const FabricChannel& channel : fabric.channels) {
    if (channel.source.router >= 0 && channel.target.router >= 0) {
      both_ways =
          std::max(both_ways, 2 * (1 + int64_t{channel.latency_cycles}) + channel.passing_cycles);
    }
  }
  return both_ways + options.switch_delay + options.credit_delay +
         (of_heads ? options.routing_delay + options.vc_delay : 0);
}

std::string credit_note(int32_t buffer_flits, int64_t round_trip_cycles) {
  if (buffer_flits >= round_trip_cycles) {
    return "";
  }
  return fmt::format(
      "buffers of {} flits wait for credits, which come back after {} cycles: a VC alone passes at "
      "most {:.2f} flits per cycle",
      buffer_flits, round_trip_cycles,
      static_cast<double>(buffer_flits) / static_cast<double>(round_trip_cycles));
}

}  // namespace pleach
