// The network interfaces of this host, and which of them the ranks are reached by.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/result.h"

namespace pleach {

// An address of an interface that is up.
struct Interface {
  std::string name;     // "eth0"
  std::string address;  // a number: "10.0.0.5", "fd00::2"
};

// In the system's order; link-local IPv6 addresses, which name an interface of this host only, are
// left out.
std::vector<Interface> list_interfaces();

// An address of every interface that the choice admits: those of the same family as `like`, where
// there are any. In the order of the choice's names, then of the interfaces.
//   choice  names as NCCL_SOCKET_IFNAME has them: "eth,ib" (what begins so), "=eth0,eth1" (exactly
//           these), "^docker,lo", "^=eth1" (all but those); empty: all but the loopback, and
//           containers' bridges only where there is nothing else
//   errors  kInvalidArgument: none; it lists those there are
Result<std::vector<std::string>> choose_addresses(std::span<const Interface> interfaces,
                                                  std::string_view choice, std::string_view like);

}  // namespace pleach
