// tcp: one connection per pair of ranks that talk, landing places granted over it.
#pragma once

#include "pleach/runtime/transport.h"

namespace pleach {

extern const TransportKind kTcpTransport;

}  // namespace pleach
