// The transports, each defined in transports/NAME.cc.
#include "pleach/runtime/transport.h"

namespace pleach {

PLEACH_REGISTRY(transports, TransportKind, "transport", "transports", kTcpTransport,
                kInprocTransport)

}  // namespace pleach
