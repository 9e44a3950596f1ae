// What this machine can run, and why not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pleach {

struct MachineCheck {
  std::string name;
  bool available = false;
  std::string detail;  // a value, or the reason why not
};

struct MachineReport {
  int32_t core_count = 0;       // that this process may use
  int64_t memory_bytes = 0;     // 0: unknown
  int64_t available_bytes = 0;  // without swapping; 0: unknown
  std::vector<MachineCheck> checks;
};

// Looks around: cores, memory, loopback, transports, process starters, namespaces. Changes nothing.
MachineReport inspect_machine();

// Memory that can be allocated without swapping [bytes]; 0: unknown.
int64_t available_memory_bytes();

}  // namespace pleach
