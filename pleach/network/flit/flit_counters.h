// What routers and interfaces have done, and the energy of it, from a file of the user's.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/network/flit/routers.h"
#include "pleach/network/session.h"

namespace pleach {

// What has an energy: counters of the model flit, in their order there.
inline constexpr std::array<const char*, 8> kFlitEvents = {
    "buffer_writes",  "buffer_reads", "vc_grants",       "switch_grants",
    "crossbar_flits", "link_flits",   "interface_flits", "header_flits"};

// kFlitEvents, then stalls by cause and the deepest buffer.
//   link_flits    of all links
//   header_flits  of the flits that interfaces have sent
std::vector<Counter> flit_counters(const RouterCounts& counts, int64_t link_flits,
                                   int64_t header_flits);

// By name of a counter, picojoules for each.
using EventEnergies = std::vector<std::pair<std::string, double>>;

// A TOML file of lines such as `buffer_writes = 1.5`. There are no default values.
// Errors: kNotFound, kIo; kInvalidArgument: no TOML, a name that is none of kFlitEvents, a value
// that is no number ≥ 0: with the file and the line.
Result<EventEnergies> read_event_energies(const std::string& path);
// Joules.
double energy_of(const EventEnergies& energies, std::span<const Counter> counters);

}  // namespace pleach
