// The patterns of communication, as flows through one switch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/fabric/port_flow.h"

namespace pleach {

enum class FlowPattern : uint8_t {
  kUnicast,
  kMulticast,
  kReduce,
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kGather,
  kScatter,
  kAllToAll,
};
std::string_view to_text(FlowPattern pattern);  // "unicast", ... "all_to_all"
std::vector<std::string> flow_pattern_names();
Result<FlowPattern> parse_flow_pattern(std::string_view text);

// Who takes part. `outputs` empty: where there are many on both sides, the inputs; where there is
// one on a side, the first of `ports` is that one, and the others, or all, are the other side: see
// pattern_phases().
struct PatternPorts {
  std::vector<int32_t> inputs;
  std::vector<int32_t> outputs = {};
  bool without_own = false;  // leaves out what a port would only send to itself
};

// One entry per serial phase, each of flows that run at once.
//   unicast         inputs[0] -> outputs[0]; of two inputs alone: the first to the second
//   multicast       inputs[0] -> outputs; of inputs alone: the first to the others
//   reduce          inputs -> outputs[0]; of inputs alone: all to the first
//   all_reduce      inputs -> outputs
//   reduce_scatter  phase j: inputs -> outputs[j]
//   all_gather      phase j: inputs[j] -> outputs
//   gather          phase j: inputs[j] -> outputs[0]; of inputs alone: to the first
//   scatter         phase j: inputs[0] -> outputs[j]; of inputs alone: from the first
//   all_to_all      phase k: inputs[s] -> outputs[(s + k) mod n] of all s; phase 0 stays at home
//   errors  kInvalidArgument: a port below 0 or twice on a side; sides that the pattern does not
//           take; more than kMostPatternPorts ports in all flows
//   source  FRED, table 2
constexpr int64_t kMostPatternPorts = 10'000'000;
Result<std::vector<std::vector<PortFlow>>> pattern_phases(FlowPattern pattern,
                                                          const PatternPorts& ports);

}  // namespace pleach
