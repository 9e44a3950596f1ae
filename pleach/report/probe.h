// What messages on a host were measured to cost.
#pragma once

#include <cstdint>
#include <string>

#include "pleach/topology/host_model.h"

namespace pleach {

struct ProbeReport {
  std::string transport;
  int32_t rank_count = 0;
  int32_t core_count = 0;
  HostModel model;
};

// One line: the JSON object of docs/cli.md, "probe".
std::string to_json(const ProbeReport& report);

}  // namespace pleach
