// SwitchPass: what a stream asks of a switch in one pass.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "pleach/base/id.h"

namespace pleach {

// What enters by `inputs` is added, and leaves by each of `outputs`.
struct SwitchPass {
  NodeId node;
  std::vector<LinkId> inputs;   // ascending, not empty
  std::vector<LinkId> outputs;  // likewise
  bool operator==(const SwitchPass&) const = default;
};

// Of passes of one switch, the numbers of some that it cannot carry at once; none: it carries them.
using SwitchJudge =
    std::function<std::vector<int32_t>(NodeId node, std::span<const SwitchPass* const> passes)>;

}  // namespace pleach
