#include "pleach/runtime/rendezvous/interfaces.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>

#include "pleach/base/text.h"

namespace pleach {
namespace {

bool is_admitted(std::string_view name, std::string_view choice) {
  const bool excludes = choice.starts_with('^');
  choice.remove_prefix(excludes ? 1 : 0);
  const bool is_exact = choice.starts_with('=');
  choice.remove_prefix(is_exact ? 1 : 0);
  const std::vector<std::string_view> names = split(choice, ',');
  const bool is_named = std::ranges::any_of(names, [&](std::string_view one) {
    return !one.empty() && (is_exact ? name == one : name.starts_with(one));
  });
  return is_named != excludes;
}

bool is_ipv6(std::string_view address) {
  return address.find(':') != std::string_view::npos;
}

// Null: there is none.
const Interface* find(std::span<const Interface> interfaces, std::string_view choice,
                      std::string_view like) {
  const Interface* first = nullptr;
  for (const Interface& one : interfaces) {
    if (!is_admitted(one.name, choice)) {
      continue;
    }
    if (is_ipv6(one.address) == is_ipv6(like)) {
      return &one;
    }
    first = first == nullptr ? &one : first;
  }
  return first;
}

}  // namespace

std::vector<Interface> list_interfaces() {
  ifaddrs* all = nullptr;
  std::vector<Interface> found;
  if (getifaddrs(&all) != 0) {
    return found;
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, &freeifaddrs);
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) {
      continue;
    }
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) {
      continue;
    }
    if (family == AF_INET6 &&
        IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr)) {
      continue;
    }
    const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    char host[NI_MAXHOST] = {};
    if (getnameinfo(one->ifa_addr, length, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) == 0) {
      found.push_back({one->ifa_name, host});
    }
  }
  return found;
}

Result<std::string> choose_address(std::span<const Interface> interfaces, std::string_view choice,
                                   std::string_view like) {
  const std::vector<std::string_view> choices =
      choice.empty() ? std::vector<std::string_view>{"^lo,docker,br-,virbr,veth", "^lo"}
                     : std::vector<std::string_view>{choice};
  for (const std::string_view one : choices) {
    if (const Interface* const found = find(interfaces, one, like)) {
      return found->address;
    }
  }
  std::vector<std::string> known;
  for (const Interface& one : interfaces) {
    known.push_back(fmt::format("{} ({})", one.name, one.address));
  }
  return invalid(fmt::format("PLEACH_SOCKET_IFNAME {} admits no interface; there are: {}",
                             quoted(choice), known.empty() ? "none" : join(known, ", ")));
}

}  // namespace pleach
