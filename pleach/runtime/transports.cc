#include <array>
#include <string>
#include <vector>

#include "pleach/base/text.h"
#include "pleach/runtime/transport.h"
#include "pleach/runtime/transports/inproc.h"
#include "pleach/runtime/transports/tcp.h"

namespace pleach {

std::span<const TransportKind* const> transports() {
  static constexpr std::array kAll = {&kTcpTransport, &kInprocTransport};
  return kAll;
}

Result<const TransportKind*> find_transport(std::string_view name) {
  std::vector<std::string> known;
  for (const TransportKind* kind : transports()) {
    if (kind->name == name) {
      return kind;
    }
    known.push_back(kind->name);
  }
  return unknown_name("transport", name, known);
}

}  // namespace pleach
