// How transports whose peers come to them are created.
#pragma once

#include <memory>
#include <utility>

#include "pleach/base/result.h"
#include "pleach/runtime/transport.h"

namespace pleach {

// As TransportKind's create(): one that listens from its beginning on.
template <typename Listening>
Result<std::unique_ptr<Transport>> create_listening(const TransportContext& context) {
  auto transport = std::make_unique<Listening>(context);
  PLEACH_TRY(transport->listen());
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace pleach
