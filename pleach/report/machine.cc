#include "pleach/report/machine.h"

#include "pleach/report/json.h"

namespace pleach {

std::string to_json(const MachineReport& report) {
  Json checks = Json::array();
  for (const MachineCheck& check : report.checks) {
    checks.push_back(
        {{"name", check.name}, {"available", check.available}, {"detail", check.detail}});
  }
  return line_of({{"core_count", report.core_count},
                  {"memory_bytes", report.memory_bytes},
                  {"available_bytes", report.available_bytes},
                  {"checks", checks}});
}

}  // namespace pleach
