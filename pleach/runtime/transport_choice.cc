#include "pleach/runtime/transport_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/runtime/net.h"
#include "pleach/runtime/transport.h"

namespace pleach {
namespace {

// Equal places have equal numbers, in the order of their first ranks.
template <typename Place>
std::vector<int32_t> number(const std::vector<Place>& places) {
  std::vector<Place> known;
  std::vector<int32_t> numbers;
  for (const Place& place : places) {
    const auto found = std::ranges::find(known, place);
    numbers.push_back(static_cast<int32_t>(found - known.begin()));
    if (found == known.end()) {
      known.push_back(place);
    }
  }
  return numbers;
}

}  // namespace

std::string best_transport(std::span<const int32_t> hosts) {
  const int32_t last = hosts.empty() ? 0 : *std::ranges::max_element(hosts);
  return last == 0 ? "shm" : last + 1 == std::ssize(hosts) ? "tcp" : "host";
}

std::vector<int32_t> hosts_of(std::span<const int32_t> hosts, std::span<const Rank> ranks) {
  std::vector<int32_t> some;
  for (const Rank rank : ranks) {
    if (!hosts.empty()) {
      some.push_back(hosts[rank.index()]);
    }
  }
  return number(some);
}

Status check_transport(const std::string& wanted) {
  std::vector<std::string> known = transports().names();
  known.insert(known.begin(), kAutoTransport);
  const std::string name = transport_name(wanted);
  if (std::ranges::find(known, name) == known.end()) {
    return unknown_name("transport", name, known);
  }
  if (name == kAutoTransport && wanted != name) {
    return invalid(fmt::format("{} takes no options, as {} has", name, pleach::quoted(wanted)));
  }
  if (wanted != kAutoTransport) {
    PLEACH_TRY(transports().select(wanted));
  }
  return ok();
}

Status check_hosts(const std::string& wanted, int32_t host_count) {
  if (host_count == 1 || wanted == kAutoTransport) {
    return ok();
  }
  PLEACH_ASSIGN(kind, transports().select(wanted));
  if (kind.entry->spans_hosts) {
    return ok();
  }
  return invalid(fmt::format("{} keeps all ranks {}", wanted,
                             kind.entry->spans_processes ? "on one host" : "in one process"));
}

Result<TransportChoice> choose_transport(const GroupOfRanks& group, const std::string& name,
                                         const std::string& wanted,
                                         std::optional<std::string> host_name) {
  if (!host_name) {
    PLEACH_SET(host_name, given_host_name());
  }
  // "=HOST", or "!" and why this rank cannot tell.
  const Result<std::string> place = host_identity(*host_name);
  const std::string word = place ? "=" + *place : "!" + place.error().message;
  const auto judge = [&](const std::vector<std::string>& places) -> Result<std::string> {
    for (int32_t rank = 0; rank < group.rank_count; ++rank) {
      if (places[at(rank)].starts_with('!')) {
        return Error{ErrorCode::kInfeasible,
                     fmt::format("rank {}: {}", group.name_of(rank), places[at(rank)].substr(1))};
      }
    }
    return fmt::format("{}", fmt::join(number(places), " "));
  };
  PLEACH_ASSIGN(said, settle(group, name, word, judge));
  PLEACH_ASSIGN(numbers, std::move(said));
  TransportChoice choice;
  for (const std::string_view number : split(numbers, ' ')) {
    PLEACH_ASSIGN(host, parse_integer(number, "host of a rank", 0, group.rank_count - 1));
    choice.hosts.push_back(static_cast<int32_t>(host));
  }
  choice.transport = wanted != kAutoTransport ? wanted : best_transport(choice.hosts);
  return choice;
}

}  // namespace pleach
