#include "pleach/api/transport_choice.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "pleach/runtime/net.h"

namespace pleach {
Result<TransportChoice> choose_transport(const GroupOfRanks& group, const std::string& name,
                                         const std::string& wanted) {
  // Who may share memory: the host, the network namespace and the user are the same.
  const std::string place = host_identity("");
  PLEACH_ASSIGN(hosts, gather(group, name + "/hosts", place));
  const auto judge = [&]() -> Result<std::string> {
    return std::string(
        std::ranges::adjacent_find(hosts, std::not_equal_to()) == hosts.end() ? "one" : "more");
  };
  PLEACH_ASSIGN(said, broadcast(group, name, judge));
  PLEACH_ASSIGN(word, std::move(said));
  const bool spans_hosts = word == "more";
  return TransportChoice{wanted != kAutoTransport ? wanted
                         : spans_hosts            ? "tcp"
                                                  : "shm",
                         spans_hosts};
}

}  // namespace pleach
