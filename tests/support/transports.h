// Transports of tests: by name, as if the ranks were on several hosts.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/check.h"
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

// Each to each.
inline void introduce_all(const std::vector<std::unique_ptr<Transport>>& ranks) {
  for (std::size_t one = 0; one < ranks.size(); ++one) {
    for (std::size_t other = 0; other < ranks.size(); ++other) {
      if (one != other) {
        const Rank peer{static_cast<int32_t>(other)};
        PLEACH_CHECK(ranks[one]->introduce(peer, ranks[other]->address()), "no address");
      }
    }
  }
}

}  // namespace pleach::support
