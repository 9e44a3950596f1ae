// The JSON form of workloads; docs/workloads.md.
#pragma once

#include <optional>
#include <string_view>

#include "pleach/base/result.h"
#include "pleach/workload/workload.h"

namespace pleach {

struct WorkloadFile {
  Model model;
  std::optional<MeasuredTimes> times;  // of every layer
};

// Reads a workload or a bare profile; the model passes check_model. Errors: kInvalidArgument in one
// line that starts with `where` and names the layer, the key and the value.
Result<WorkloadFile> parse_workload_json(std::string_view text, std::string_view where);

}  // namespace pleach
