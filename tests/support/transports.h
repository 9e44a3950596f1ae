// Transports of tests: by name, as if the ranks were on several hosts.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "pleach/runtime/transport.h"

namespace pleach::support {

// "host/2": two ranks on each host. No number: all are on one.
struct TransportSpec {
  explicit TransportSpec(const std::string& text)
      : name(text.substr(0, text.find('/'))),
        ranks_per_host(text == name ? 0 : std::stoi(text.substr(name.size() + 1))) {}
  std::string host_of(Rank rank) const {
    return ranks_per_host == 0 ? "" : std::to_string(rank.value / ranks_per_host);
  }

  std::string name;
  int32_t ranks_per_host;
};

inline std::unique_ptr<Transport> make_transport(const std::string& text,
                                                 TransportContext context) {
  const TransportSpec spec(text);
  context.host.name = spec.host_of(context.rank);
  return create_transport(spec.name, std::move(context)).value();
}

}  // namespace pleach::support
