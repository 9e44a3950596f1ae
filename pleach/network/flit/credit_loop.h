// What buffers cost that are emptier than the way of their credits is long.
#pragma once

#include <cstdint>
#include <string>

#include "pleach/network/flit/fabric.h"
#include "pleach/network/flit/routers.h"

namespace pleach {

// How long a flit keeps its place: from when it leaves in a VC until the next one may leave for the
// place that it had, on the channel between routers that has the longest latency, where nothing
// holds it up there.
//   of_heads  each is a packet of its own, which gets a VC there first
int64_t credit_round_trip_cycles(const Fabric& fabric, const RouterOptions& options, bool of_heads);

// What a buffer of so many flits costs where that takes longer than they do to come, for people;
// empty: nothing.
std::string credit_note(int32_t buffer_flits, int64_t round_trip_cycles);

}  // namespace pleach
