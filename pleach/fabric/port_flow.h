// PortFlow: what enters a switch by some ports, is reduced, and leaves by some ports.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/result.h"

namespace pleach {

// The sum of what enters by `inputs` leaves by each of `outputs`: one to one is a unicast, one to
// many a multicast, many to one a reduction. Both are ascending; what flows share is checked by
// check_flows().
struct PortFlow {
  std::vector<int32_t> inputs;
  std::vector<int32_t> outputs;
  bool operator==(const PortFlow&) const = default;
};

// "0,2->0,2; 1->3": flows of a switch of `ports` ports, numbered from 0 in this order; "4-7" are
// four ports; "" is no flow. Ports of a side come out ascending.
//   errors  kInvalidArgument naming the flow and the port: one out of range, or twice on a side,
//           also of two flows; a flow without input or output; what is no number, no flow
Result<std::vector<PortFlow>> parse_flows(std::string_view text, int32_t ports);

// The same backwards; port by port.
std::string flow_text(const PortFlow& flow);
std::string flows_text(std::span<const PortFlow> flows);

// Whether `flows` may be asked of a switch of `ports` ports; errors as parse_flows().
Status check_flows(std::span<const PortFlow> flows, int32_t ports);

}  // namespace pleach
