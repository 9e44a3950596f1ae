// The schedule of one message.
#pragma once

#include <memory>

#include "pleach/base/id.h"
#include "pleach/collective/schedule.h"

namespace pleach {

// A broadcast from one node to another, along the route that the network takes.
std::shared_ptr<const Schedule> message_schedule(NodeId source, NodeId target);

}  // namespace pleach
