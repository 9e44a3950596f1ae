// inproc: the ranks are threads of one process; segments are copied through queues.
#pragma once

#include "pleach/runtime/transport.h"

namespace pleach {

extern const TransportKind kInprocTransport;

}  // namespace pleach
