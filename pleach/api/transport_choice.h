// Which transport a job uses where nobody says.
#pragma once

#include <string>

#include "pleach/base/result.h"
#include "pleach/runtime/rendezvous/agreement.h"

namespace pleach {

// Shared memory where all ranks are on one host, else TCP.
inline constexpr const char* kAutoTransport = "auto";

struct TransportChoice {
  std::string transport;
  bool spans_hosts = false;  // ranks are on several
};

// Collective: all ranks say where they are. `wanted`: a transport, or kAutoTransport.
//   name    as the agreements'
//   errors  as the agreements
Result<TransportChoice> choose_transport(const GroupOfRanks& group, const std::string& name,
                                         const std::string& wanted);

}  // namespace pleach
