// What a machine can run, and why not.
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

// One line: the JSON object of docs/cli.md, "doctor".
std::string to_json(const MachineReport& report);

}  // namespace pleach
