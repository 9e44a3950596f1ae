// What is known of messages on a host where nobody has measured.
#pragma once

#include <cstdint>
#include <string_view>

#include "pleach/topology/host_model.h"

namespace pleach {

// Cores that this process may run on, at least 1.
int32_t core_count();

// Figures of some machine of today, per transport: a message through shared memory or over TCP, and
// what a rank that shares its core waits until it has it. Which algorithm is the fastest depends on
// their ratios; `pleach probe` measures them.
HostModel default_host_model(std::string_view transport, int32_t rank_count, int32_t core_count);

}  // namespace pleach
