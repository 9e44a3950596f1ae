// The workload files of data/.
#pragma once

#include <span>
#include <string_view>

namespace pleach {

// Written into the library by the build.
struct EmbeddedWorkload {
  std::string_view name;
  std::string_view text;
};
std::span<const EmbeddedWorkload> embedded_workloads();

}  // namespace pleach
