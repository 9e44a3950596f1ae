// Synthetic traffic: packets drawn at a rate, through routers, and how long they take.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pleach/base/options.h"
#include "pleach/base/result.h"
#include "pleach/network/flit/flit_counters.h"
#include "pleach/network/flit/routers.h"
#include "pleach/network/session.h"
#include "pleach/topology/topology.h"

namespace pleach {

struct TrafficOptions {
  RouterOptions routers;  // classes, room and shortest_packet are derived
  int64_t flit_bytes = 16;
  bool needs_room = true;  // a head waits for room for its packet; false: only for a VC
  bool datelines = true;   // TrafficRouteOptions
  bool draw_ties = true;
  bool allow_deadlock = false;
  std::string pattern = "uniform";
  double rate = 0.1;              // flits per rank and cycle that are offered, in (0, 1]
  int32_t packet_flits = 1;       // ≥ 1
  int64_t cycles = 30000;         // measured
  int64_t warmup_cycles = 10000;  // before
  uint64_t seed = 1;
  EventEnergies energies = {};  // none: nobody asked
};

struct TrafficResult {
  int64_t cycles = 0;  // simulated, the first ones included
  int64_t flits = 0;   // delivered in all of them
  // In the measured cycles:
  double accepted = 0;             // flits delivered per rank and cycle
  double mean_latency_cycles = 0;  // of the packets delivered, from creation to the last flit
  int64_t p99_latency_cycles = 0;
  double mean_hops = 0;            // channels between routers
  int64_t packets = 0;             // delivered
  std::vector<int64_t> latencies;  // how many packets took so many cycles
  // What a VC's buffer has to last for (credit_loop.h).
  int64_t credit_round_trip_cycles = 0;
  std::vector<Counter> counters;  // of the whole run
  std::optional<double> energy_j = {};
};

// The options of `--model flit,...` that traffic has.
std::vector<OptionDescriptor> traffic_model_options();
// Sets what they say.
// Errors: those of read_event_energies().
Status set_traffic_options(const Options& model, TrafficOptions& options);

// Draws, for each rank and cycle, whether it creates a packet (the pattern says for whom), queues
// it there without bound, and sends it. Deterministic.
//   progress  in cycles, now and then; may be empty
//   errors    kInvalidArgument: an option out of range, a pattern that the topology cannot have, a
//             buffer smaller than a packet, too few VCs, more than 2^44 flits times hops to come;
//             kInfeasible: packets wait for each other in a circle (only where that is allowed)
//   cost      about 0.1 µs per flit and hop; idle cycles and routers cost nothing
Result<TrafficResult> run_traffic(const Topology& topology, const TrafficOptions& options,
                                  const RunProgress& progress);

}  // namespace pleach
