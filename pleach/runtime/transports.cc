// The transports, each defined in transports/NAME.cc.
#include <unistd.h>

#include <utility>

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

Result<std::unique_ptr<Transport>> create_transport(std::string_view spec,
                                                    TransportContext context) {
  PLEACH_ASSIGN(selected, transports().select(spec));
  context.options = std::move(selected.options);
  return selected.entry->create(context);
}

std::string transport_name(std::string_view spec) {
  return std::string(spec.substr(0, spec.find(',')));
}

#ifdef PLEACH_HAS_UCX
PLEACH_REGISTRY(transports, TransportKind, "transport", "transports", kTcpTransport, kShmTransport,
                kHostTransport, kInprocTransport, kUcxTransport)
#else
PLEACH_REGISTRY(transports, TransportKind, "transport", "transports", kTcpTransport, kShmTransport,
                kHostTransport, kInprocTransport)
#endif

}  // namespace pleach
