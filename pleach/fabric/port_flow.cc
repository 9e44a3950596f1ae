#include "pleach/fabric/port_flow.h"

#include <fmt/format.h>

#include <algorithm>

#include "pleach/base/index.h"
#include "pleach/base/text.h"

namespace pleach {
namespace {

constexpr std::string_view kArrow = "->";

// The ports of one side, ascending. `what` is "flow 1: input port".
Result<std::vector<int32_t>> parse_side(std::string_view text, const std::string& what,
                                        int32_t ports) {
  std::vector<int32_t> found;
  if (trim(text).empty()) {
    return found;
  }
  for (const std::string_view piece : split(text, ',')) {
    const auto dash = piece.find('-');
    const std::string_view first_text = trim(piece.substr(0, dash));
    PLEACH_ASSIGN(first, parse_count(first_text, what, 0, ports - 1));
    int32_t last = first;
    if (dash != std::string_view::npos) {
      PLEACH_SET(last, parse_count(trim(piece.substr(dash + 1)), what, first, ports - 1));
    }
    for (int32_t port = first; port <= last; ++port) {
      found.push_back(port);
    }
    if (found.size() > 2 * at(ports)) {
      break;  // there are more than there can be, and some twice
    }
  }
  std::ranges::sort(found);
  const auto twice = std::ranges::adjacent_find(found);
  if (twice != found.end()) {
    return invalid(fmt::format("{} {} is named twice", what, *twice));
  }
  return found;
}

// Marks who uses the ports of one side, and refuses a second user.
Status take(std::span<const int32_t> side, int32_t flow, std::string_view what,
            std::vector<int32_t>& users) {
  for (const int32_t port : side) {
    int32_t& user = users[at(port)];
    if (user == flow) {
      return invalid(fmt::format("flow {}: {} port {} is named twice", flow, what, port));
    }
    if (user >= 0) {
      return invalid(
          fmt::format("flow {}: {} port {} is one of flow {} already", flow, what, port, user));
    }
    user = flow;
  }
  return ok();
}

Status check_range(std::span<const int32_t> side, int32_t flow, std::string_view what,
                   int32_t ports) {
  if (side.empty()) {
    return invalid(fmt::format("flow {} has no {} port", flow, what));
  }
  for (const int32_t port : side) {
    if (port < 0 || port >= ports) {
      return invalid(
          fmt::format("flow {}: {} port {} is outside 0 to {}", flow, what, port, ports - 1));
    }
  }
  return ok();
}

std::string side_text(std::span<const int32_t> side) {
  std::vector<std::string> words;
  for (const int32_t port : side) {
    words.push_back(std::to_string(port));
  }
  return join(words, ",");
}

}  // namespace

Status check_flows(std::span<const PortFlow> flows, int32_t ports) {
  std::vector<int32_t> input_users(at(ports), -1);
  std::vector<int32_t> output_users(at(ports), -1);
  for (int32_t flow = 0; flow < count_of(flows); ++flow) {
    const auto& [inputs, outputs] = flows[at(flow)];
    PLEACH_TRY(check_range(inputs, flow, "input", ports));
    PLEACH_TRY(check_range(outputs, flow, "output", ports));
    PLEACH_TRY(take(inputs, flow, "input", input_users));
    PLEACH_TRY(take(outputs, flow, "output", output_users));
  }
  return ok();
}

Result<std::vector<PortFlow>> parse_flows(std::string_view text, int32_t ports) {
  std::vector<PortFlow> flows;
  if (trim(text).empty()) {
    return flows;
  }
  for (const std::string_view piece : split(text, ';')) {
    const std::string name = fmt::format("flow {}", flows.size());
    const auto arrow = piece.find(kArrow);
    if (arrow == std::string_view::npos) {
      return invalid(name, fmt::format("{} is no flow: it reads INPUTS->OUTPUTS, as 0,2->0,2",
                                       pleach::quoted(trim(piece))));
    }
    PortFlow flow;
    PLEACH_SET(flow.inputs, parse_side(piece.substr(0, arrow), name + ": input port", ports));
    PLEACH_SET(flow.outputs,
               parse_side(piece.substr(arrow + kArrow.size()), name + ": output port", ports));
    flows.push_back(std::move(flow));
  }
  PLEACH_TRY(check_flows(flows, ports));
  return flows;
}

std::string flow_text(const PortFlow& flow) {
  return side_text(flow.inputs) + std::string(kArrow) + side_text(flow.outputs);
}

std::string flows_text(std::span<const PortFlow> flows) {
  std::vector<std::string> texts;
  for (const PortFlow& flow : flows) {
    texts.push_back(flow_text(flow));
  }
  return join(texts, "; ");
}

}  // namespace pleach
