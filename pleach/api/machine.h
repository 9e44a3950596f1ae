// What this machine can run, and why not.
#pragma once

#include <cstdint>

#include "pleach/report/machine.h"

namespace pleach {

// Looks around: cores, memory, loopback, transports, process starters, namespaces. Changes nothing.
MachineReport inspect_machine();

// Memory that can be allocated without swapping [bytes]; 0: unknown.
int64_t available_memory_bytes();

}  // namespace pleach
