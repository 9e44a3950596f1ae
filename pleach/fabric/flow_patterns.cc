#include "pleach/fabric/flow_patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "pleach/base/check.h"
#include "pleach/base/index.h"
#include "pleach/base/text.h"

namespace pleach {
namespace {

using Ports = std::vector<int32_t>;
using Phases = std::vector<std::vector<PortFlow>>;

constexpr std::array<std::string_view, 9> kNames = {"unicast",    "multicast",      "reduce",
                                                    "all_reduce", "reduce_scatter", "all_gather",
                                                    "gather",     "scatter",        "all_to_all"};

Ports sorted(Ports ports) {
  std::ranges::sort(ports);
  return ports;
}

Status check_side(const Ports& ports, std::string_view what) {
  const Ports ascending = sorted(ports);
  const auto twice = std::ranges::adjacent_find(ascending);
  if (twice != ascending.end()) {
    return invalid(fmt::format("{} port {} is named twice", what, *twice));
  }
  if (!ascending.empty() && ascending.front() < 0) {
    return invalid(fmt::format("{} port {} is below 0", what, ascending.front()));
  }
  return ok();
}

bool has_one_input(FlowPattern pattern) {
  return pattern == FlowPattern::kUnicast || pattern == FlowPattern::kMulticast ||
         pattern == FlowPattern::kScatter;
}

bool has_one_output(FlowPattern pattern) {
  return pattern == FlowPattern::kUnicast || pattern == FlowPattern::kReduce ||
         pattern == FlowPattern::kGather;
}

// Both sides, filled in.
Result<PatternPorts> sides_of(FlowPattern pattern, PatternPorts ports) {
  const std::string_view name = to_text(pattern);
  if (ports.inputs.empty()) {
    return invalid(fmt::format("{} of no ports", name));
  }
  if (ports.outputs.empty()) {
    const Ports all = ports.inputs;
    const bool is_one_to_one = pattern == FlowPattern::kUnicast;
    if ((is_one_to_one && all.size() != 2) ||
        (pattern == FlowPattern::kMulticast && all.size() < 2)) {
      return invalid(fmt::format("{} of {} port{}: it takes {}", name, all.size(),
                                 all.size() == 1 ? "" : "s",
                                 is_one_to_one ? "two" : "two or more"));
    }
    ports.outputs = all;
    if (is_one_to_one || pattern == FlowPattern::kMulticast) {
      ports.outputs.erase(ports.outputs.begin());
    }
    if (has_one_input(pattern)) {
      ports.inputs.resize(1);
    }
    if (has_one_output(pattern)) {
      ports.outputs.resize(1);
    }
    return ports;
  }
  if (has_one_input(pattern) && ports.inputs.size() != 1) {
    return invalid(fmt::format("{} from {} ports: it is from one", name, ports.inputs.size()));
  }
  if (has_one_output(pattern) && ports.outputs.size() != 1) {
    return invalid(fmt::format("{} to {} ports: it is to one", name, ports.outputs.size()));
  }
  if (pattern == FlowPattern::kAllToAll && ports.inputs.size() != ports.outputs.size()) {
    return invalid(fmt::format("{} from {} ports to {}: it is to as many", name,
                               ports.inputs.size(), ports.outputs.size()));
  }
  return ports;
}

// That all flows of all phases name.
int64_t port_count(FlowPattern pattern, const PatternPorts& sides) {
  const auto inputs = static_cast<int64_t>(sides.inputs.size());
  const auto outputs = static_cast<int64_t>(sides.outputs.size());
  switch (pattern) {
    case FlowPattern::kReduceScatter:
    case FlowPattern::kScatter:
      return outputs * (inputs + 1);
    case FlowPattern::kAllGather:
    case FlowPattern::kGather:
      return inputs * (outputs + 1);
    case FlowPattern::kAllToAll:
      return inputs * outputs * 2;
    default:
      return inputs + outputs;
  }
}

Phases all_to_all(const Ports& inputs, const Ports& outputs) {
  Phases phases(inputs.size());
  for (std::size_t shift = 0; shift < inputs.size(); ++shift) {
    for (std::size_t source = 0; source < inputs.size(); ++source) {
      phases[shift].push_back({{inputs[source]}, {outputs[(source + shift) % outputs.size()]}});
    }
  }
  return phases;
}

Phases phases_between(FlowPattern pattern, const Ports& inputs, const Ports& outputs) {
  Phases phases;
  switch (pattern) {
    case FlowPattern::kUnicast:
    case FlowPattern::kMulticast:
    case FlowPattern::kReduce:
    case FlowPattern::kAllReduce:
      phases.push_back({{sorted(inputs), sorted(outputs)}});
      return phases;
    case FlowPattern::kReduceScatter:
    case FlowPattern::kScatter:
      for (const int32_t output : outputs) {
        phases.push_back({{sorted(inputs), {output}}});
      }
      return phases;
    case FlowPattern::kAllGather:
    case FlowPattern::kGather:
      for (const int32_t input : inputs) {
        phases.push_back({{{input}, sorted(outputs)}});
      }
      return phases;
    case FlowPattern::kAllToAll:
      return all_to_all(inputs, outputs);
  }
  PLEACH_CHECK(false, "no such pattern");
}

}  // namespace

std::string_view to_text(FlowPattern pattern) {
  return kNames[at(pattern)];
}

std::vector<std::string> flow_pattern_names() {
  return {kNames.begin(), kNames.end()};
}

Result<FlowPattern> parse_flow_pattern(std::string_view text) {
  const auto found = std::ranges::find(kNames, text);
  if (found == kNames.end()) {
    return unknown_name("pattern", text, flow_pattern_names(),
                        text == "broadcast" ? "multicast" : "");
  }
  return static_cast<FlowPattern>(found - kNames.begin());
}

Result<Phases> pattern_phases(FlowPattern pattern, const PatternPorts& ports) {
  PLEACH_TRY(check_side(ports.inputs, "input"));
  PLEACH_TRY(check_side(ports.outputs, "output"));
  PLEACH_ASSIGN(sides, sides_of(pattern, ports));
  if (const int64_t count = port_count(pattern, sides); count > kMostPatternPorts) {
    return invalid(fmt::format("{} of {} ports to {} takes flows of {} ports in all: at most {}",
                               to_text(pattern), sides.inputs.size(), sides.outputs.size(), count,
                               kMostPatternPorts));
  }
  Phases phases = phases_between(pattern, sides.inputs, sides.outputs);
  if (ports.without_own) {
    for (std::vector<PortFlow>& flows : phases) {
      std::erase_if(flows, [](const PortFlow& flow) {
        return flow.inputs.size() == 1 && flow.inputs == flow.outputs;
      });
    }
    std::erase_if(phases, [](const std::vector<PortFlow>& flows) { return flows.empty(); });
  }
  return phases;
}

}  // namespace pleach
