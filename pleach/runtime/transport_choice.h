// Which transport a job uses where nobody says.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/runtime/rendezvous/agreement.h"

namespace pleach {

inline constexpr const char* kAutoTransport = "auto";

// "shm" where all ranks are on one host, "tcp" where each has its own, else "host".
//   hosts  by rank
std::string best_transport(std::span<const int32_t> hosts);

// The hosts of some of the ranks, numbered anew. None are known: none.
std::vector<int32_t> hosts_of(std::span<const int32_t> hosts, std::span<const Rank> ranks);

struct TransportChoice {
  std::string transport;
  std::vector<int32_t> hosts;  // by rank; numbered in the order of their first ranks
};

// Errors: kInvalidArgument: it is none, listing the known names; kAutoTransport with options.
Status check_transport(const std::string& wanted);
// Errors: kInvalidArgument: ranks on so many hosts are not within its reach.
Status check_hosts(const std::string& wanted, int32_t host_count);

// Collective: all ranks say where they are. `wanted`: a transport, or kAutoTransport.
//   name       as the agreements'
//   host_name  OwnHost's; none: PLEACH_HOST
//   errors     as the agreements; kInvalidArgument: PLEACH_HOST is no name
Result<TransportChoice> choose_transport(const GroupOfRanks& group, const std::string& name,
                                         const std::string& wanted,
                                         std::optional<std::string> host_name = {});

}  // namespace pleach
