#include "pleach/runtime/rendezvous/interfaces.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "pleach/base/text.h"

namespace pleach {
namespace {

// Which of the choice's names admits the interface, by its place; empty: none does.
std::optional<std::ptrdiff_t> admitted_by(std::string_view name, std::string_view choice) {
  const bool excludes = choice.starts_with('^');
  choice.remove_prefix(excludes ? 1 : 0);
  const bool is_exact = choice.starts_with('=');
  choice.remove_prefix(is_exact ? 1 : 0);
  const std::vector<std::string_view> names = split(choice, ',');
  const auto found = std::ranges::find_if(names, [&](std::string_view one) {
    return !one.empty() && (is_exact ? name == one : name.starts_with(one));
  });
  if ((found != names.end()) == excludes) {
    return std::nullopt;
  }
  return excludes ? 0 : found - names.begin();
}

bool is_ipv6(std::string_view address) {
  return address.find(':') != std::string_view::npos;
}

std::vector<std::string> find(std::span<const Interface> interfaces, std::string_view choice,
                              bool wants_ipv6) {
  std::vector<std::pair<std::ptrdiff_t, const Interface*>> found;
  for (const Interface& one : interfaces) {
    const std::optional<std::ptrdiff_t> place = admitted_by(one.name, choice);
    const bool is_new = std::ranges::none_of(
        found, [&](const auto& entry) { return entry.second->name == one.name; });
    if (place && is_new && is_ipv6(one.address) == wants_ipv6) {
      found.emplace_back(*place, &one);
    }
  }
  std::ranges::stable_sort(found, {}, [](const auto& entry) { return entry.first; });
  std::vector<std::string> addresses;
  addresses.reserve(found.size());
  for (const auto& [place, one] : found) {
    addresses.push_back(one->address);
  }
  return addresses;
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

Result<std::vector<std::string>> choose_addresses(std::span<const Interface> interfaces,
                                                  std::string_view choice, std::string_view like) {
  const std::vector<std::string_view> choices =
      choice.empty() ? std::vector<std::string_view>{"^lo,docker,br-,virbr,veth", "^lo"}
                     : std::vector<std::string_view>{choice};
  for (const std::string_view one : choices) {
    for (const bool wants_ipv6 : {is_ipv6(like), !is_ipv6(like)}) {
      std::vector<std::string> found = find(interfaces, one, wants_ipv6);
      if (!found.empty()) {
        return found;
      }
    }
  }
  std::vector<std::string> known;
  for (const Interface& one : interfaces) {
    known.push_back(fmt::format("{} ({})", one.name, one.address));
  }
  return invalid(fmt::format("PLEACH_SOCKET_IFNAME {} admits no interface; there are: {}",
                             pleach::quoted(choice), known.empty() ? "none" : join(known, ", ")));
}

}  // namespace pleach
