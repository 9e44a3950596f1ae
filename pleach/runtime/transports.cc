// The transports, each defined in transports/NAME.cc.
#include <unistd.h>

#include "pleach/base/hash.h"
#include "pleach/runtime/transport.h"

namespace pleach {

uint64_t make_nonce(const TransportContext& context) {
  Fingerprint nonce;
  nonce.add(static_cast<int64_t>(getpid()));
  nonce.add(static_cast<int64_t>(context.clock->now().time_since_epoch().count()));
  nonce.add(context.key_prefix);
  return nonce.value();
}

PLEACH_REGISTRY(transports, TransportKind, "transport", "transports", kTcpTransport, kShmTransport,
                kHostTransport, kInprocTransport)

}  // namespace pleach
