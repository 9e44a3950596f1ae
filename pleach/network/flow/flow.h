// flow: fluid simulation, one segment at a time per connection, max-min shares of links.
#pragma once

#include "pleach/network/model.h"

namespace pleach {

// Landing places are taken and given back without delay; headers as options.flow_control says.
//   cost     O(log) per segment of a transfer where links are not shared; a solve of the connected
//            part of the network per change where they are. Memory: 4 bytes per slot, segment and
//            translate, and the schedule's tables.
//   source   docs/architecture.md, "Network models"
extern const NetworkModel kFlowModel;

}  // namespace pleach
