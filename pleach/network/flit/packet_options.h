// The options of the kind of routers that FRED's switches are: `--model flit,router=fred,...`.
#pragma once

#include <vector>

#include "pleach/base/options.h"
#include "pleach/base/result.h"
#include "pleach/network/flit/packet_shape.h"
#include "pleach/network/session.h"
#include "pleach/topology/topology.h"

namespace pleach {

// Whether `own` asks for them.
bool has_packet_routers(const Options& own);
std::vector<OptionDescriptor> packet_options();
// The paper's where nothing else is said; the topology's framing, where it has one.
// Errors: kInvalidArgument: a value out of range, a buffer that no packet fits in; kUnsupported:
// one header for a whole message.
Result<PacketShape> packet_shape(const Topology& topology, FlowControl flow_control,
                                 const Options& own);

}  // namespace pleach
