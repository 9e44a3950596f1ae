// FlitOptions: what `--model flit,...` means on a topology.
#pragma once

#include <cstdint>
#include <vector>

#include "pleach/base/options.h"
#include "pleach/base/result.h"
#include "pleach/network/flit/flit_counters.h"
#include "pleach/network/flit/interfaces.h"
#include "pleach/network/flit/routers.h"
#include "pleach/network/session.h"
#include "pleach/topology/topology.h"

namespace pleach {

struct FlitOptions {
  RouterOptions routers;  // classes and shortest_packet are those of what is sent
  InterfaceShape shape;
  int32_t interfaces = 1;           // per rank
  bool binds_links = false;         // each interface sends over one link of its rank
  bool streams_reductions = false;  // what has come of a message is reduced while the rest comes
  bool is_published = false;        // the interfaces' turns and order: docs/network.md
  bool allow_deadlock = false;
  EventEnergies energies = {};  // none: nobody asked
};

std::vector<OptionDescriptor> flit_model_options();
// Errors: kInvalidArgument: an option of another kind of router than the one that is asked for.
Status check_router(const Options& own);
// Defaults are those of MultiTree's evaluation. Where an option says so they depend on whether the
// network is indirect: some rank has no router of its own.
// Errors: kInvalidArgument: a flit larger than a packet, a buffer that no packet fits in.
Result<FlitOptions> flit_options(const Topology& topology, FlowControl flow_control,
                                 const Options& own);

}  // namespace pleach
