// The transports, each defined in transports/NAME.cc.
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "pleach/base/text.h"
#include "pleach/runtime/rendezvous/secret.h"
#include "pleach/runtime/transport.h"

namespace pleach {

Error no_address(Rank peer, std::string_view address) {
  return {ErrorCode::kIo,
          fmt::format("rank {} told {}, which is no address", peer.value, pleach::quoted(address))};
}

uint64_t make_nonce() {
  uint64_t nonce = 0;
  const Digest digest = random_digest();
  std::memcpy(&nonce, digest.data(), sizeof(nonce));
  return nonce;
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
