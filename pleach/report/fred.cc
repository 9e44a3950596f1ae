#include "pleach/report/fred.h"

#include <algorithm>

#include "pleach/base/index.h"
#include "pleach/fabric/control_unit.h"
#include "pleach/fabric/fred_faults.h"
#include "pleach/report/json.h"

namespace pleach {
namespace {

bool is_multiplexer(const FredCell& cell) {
  return cell.kind == CellKind::kDemux || cell.kind == CellKind::kMux;
}

Json cell_json(const FredSwitch& fred, const FredCell& cell) {
  return {{"cell", fred.name_of(cell)},       {"kind", to_text(cell.kind)},
          {"stage", fred.stage_of(cell)},     {"level", cell.level},
          {"subnetwork", fred.path_of(cell)}, {"index", cell.index}};
}

Json flow_json(const PortFlow& flow) {
  return {{"inputs", flow.inputs}, {"outputs", flow.outputs}};
}

Json flows_json(std::span<const PortFlow> flows) {
  Json json = Json::array();
  for (const PortFlow& flow : flows) {
    json.push_back(flow_json(flow));
  }
  return json;
}

Json faults_json(const FredSize& size, const FredFaults& faults) {
  Json json = {{"cells", Json::array()}, {"subnetworks", Json::array()}};
  for (const FredCell& cell : faults.cells) {
    json["cells"].push_back(name_of(size, cell));
  }
  for (const FredSubnetwork& subnetwork : faults.subnetworks) {
    json["subnetworks"].push_back(name_of(size, subnetwork));
  }
  return json;
}

void add_size(Json& json, const FredSwitch& fred) {
  json["ports"] = fred.size().ports;
  json["middle"] = fred.size().middle;
  json["stages"] = fred.size().stages();
  json["microswitch_count"] = fred.count().cells;
  json["multiplexer_count"] = fred.count().multiplexers;
  json["dead"] = faults_json(fred.size(), fred.size().dead);
}

// Cells, or multiplexers, each with its mode.
Json modes_json(const FredRouting& routing, bool of_multiplexers) {
  Json json = Json::array();
  for (std::size_t index = 0; index < routing.modes.size(); ++index) {
    const FredCell& cell = routing.fred->cells()[index];
    if (is_multiplexer(cell) == of_multiplexers) {
      Json entry = cell_json(*routing.fred, cell);
      entry["mode"] = mode_text(cell.kind, routing.modes[index]);
      json.push_back(std::move(entry));
    }
  }
  return json;
}

void add_routing(Json& json, const FredRouting& routing) {
  const FlowRouting& found = routing.routing;
  json["routed"] = found.routed;
  json["proved"] = found.proved;
  json["conflict"] = Json::array();
  for (std::size_t index = 0; index < found.conflicts.size(); ++index) {
    const FlowConflict& conflict = found.conflicts[index];
    json["conflict"].push_back(
        {{"level", conflict.level},
         {"flows", conflict.flows},
         {"minimal", conflict.is_least},
         {"dead", faults_json(routing.fred->size(), routing.in_the_way[index])}});
  }
  json["flows"] = flows_json(routing.flows);
  json["subnetworks"] = Json::array();
  const std::size_t levels = at(routing.fred->size().levels());
  for (std::size_t flow = 0; found.routed && flow < routing.flows.size(); ++flow) {
    json["subnetworks"].push_back(std::span(found.choices).subspan(flow * levels, levels));
  }
  json["steps"] = found.steps;
}

}  // namespace

FredMemory memory_of(const FredSize& size, int64_t bytes) {
  return {bytes, configuration_bits(size, BitCount::kPublished),
          configuration_bits(size, BitCount::kExact)};
}

std::string to_json(const FredRouting& routing) {
  Json json;
  add_size(json, *routing.fred);
  add_routing(json, routing);
  json["configuration"] = modes_json(routing, false);
  json["multiplexers"] = modes_json(routing, true);
  return line_of(json);
}

std::string to_json(const FredSwitch& fred, const FredMemory& memory, const FredRouting* routing) {
  Json json;
  add_size(json, fred);
  json["wire_count"] = fred.wire_count();
  json["configuration_bits"] = memory.published_bits;
  json["configuration_bits_exact"] = memory.exact_bits;
  json["memory_bytes"] = memory.bytes;
  json["phases"] = memory.published_phases();
  json["phases_exact"] = memory.exact_phases();
  json["cells"] = Json::array();
  for (int32_t index = 0; index < count_of(fred.cells()); ++index) {
    Json entry = cell_json(fred, fred.cells()[at(index)]);
    entry["dead"] = fred.is_dead(index);
    entry["inputs"] = fred.inputs_of(index);
    entry["outputs"] = Json::array();
    for (int32_t output = 0; output < fred.output_count_of(index); ++output) {
      entry["outputs"].push_back(fred.first_output_of(index) + output);
    }
    if (routing != nullptr && routing->routing.routed) {
      entry["mode"] = mode_text(fred.cells()[at(index)].kind, routing->modes[at(index)]);
    }
    json["cells"].push_back(std::move(entry));
  }
  json["output_wires"] = fred.output_wires();
  if (routing != nullptr) {
    add_routing(json, *routing);
    json["ways"] = Json::array();
    if (routing->routing.routed) {
      for (const std::vector<int32_t>& way : ways_of(fred, routing->flows, routing->modes)) {
        Json names = Json::array();
        for (const int32_t cell : way) {
          names.push_back(fred.name_of(fred.cells()[at(cell)]));
        }
        json["ways"].push_back(std::move(names));
      }
    }
  }
  return line_of(json);
}

std::string flows_json(const std::string& pattern, std::span<const std::vector<PortFlow>> phases) {
  Json json = {{"pattern", pattern}, {"phases", Json::array()}};
  for (const std::vector<PortFlow>& flows : phases) {
    json["phases"].push_back({{"text", flows_text(flows)}, {"flows", flows_json(flows)}});
  }
  return line_of(json);
}

Share FredStudyRow::share() const {
  Share share = share_of(count.routed, count.sets);
  if (!is_sample) {
    share.low = share.high = share.value;
  }
  return share;
}

std::vector<LeastAliveRow> least_alive(std::span<const FredStudyRow> rows) {
  // By what they have in common, in the order of the first of each.
  std::vector<std::vector<const FredStudyRow*>> alike;
  for (const FredStudyRow& row : rows) {
    if (row.faults.empty()) {
      continue;
    }
    const auto own = std::ranges::find_if(alike, [&](const auto& others) {
      const FredStudyRow& other = *others.front();
      return other.size.ports == row.size.ports && other.of == row.of && other.faults == row.faults;
    });
    (own == alike.end() ? alike.emplace_back() : *own).push_back(&row);
  }
  std::vector<LeastAliveRow> result;
  for (std::vector<const FredStudyRow*>& same : alike) {
    LeastAliveRow least = {same.front()};
    std::ranges::sort(same, std::ranges::greater(),
                      [](const FredStudyRow* row) { return row->size.middle; });
    for (const FredStudyRow* row : same) {
      if (row->count.routed + row->count.cut_off < row->count.sets) {
        break;
      }
      least.middle = row->size.middle;
    }
    result.push_back(least);
  }
  return result;
}

std::string study_json(const std::string& study, std::span<const FredStudyRow> rows) {
  Json json = {{"study", study}, {"rows", Json::array()}};
  for (const FredStudyRow& row : rows) {
    const RouteCount& count = row.count;
    const Share share = row.share();
    json["rows"].push_back({{"ports", row.size.ports},
                            {"middle", row.size.middle},
                            {"of", row.of},
                            {"sets", count.sets},
                            {"routed", count.routed},
                            {"refused", count.refused},
                            {"given_up", count.given_up()},
                            {"dead_cells", row.faults.cells},
                            {"dead_subnetworks", row.faults.subnetworks},
                            {"cut_off", count.cut_off},
                            {"first_routed", count.first_routed},
                            {"share", share.value},
                            {"share_low", share.low},
                            {"share_high", share.high},
                            {"most_steps", count.most_steps},
                            {"refused_example", flows_text(count.refused_example)},
                            {"refused_dead", faults_json(row.size, count.refused_dead)},
                            {"refused_phases", row.refused},
                            {"wall_s", row.wall_s},
                            {"most_wall_s", row.most_wall_s}});
  }
  json["least_middle"] = Json::array();
  for (const LeastAliveRow& least : least_alive(rows)) {
    json["least_middle"].push_back({{"ports", least.row->size.ports},
                                    {"of", least.row->of},
                                    {"dead_cells", least.row->faults.cells},
                                    {"dead_subnetworks", least.row->faults.subnetworks},
                                    {"middle", least.middle}});
  }
  return line_of(json);
}

std::string least_middle_json(int32_t ports, std::span<const LeastMiddleRow> rows) {
  Json json = {{"study", "workloads"}, {"ports", ports}, {"rows", Json::array()}};
  for (const auto& [workload, least] : rows) {
    Json random = Json::array();
    for (const auto& [middle, sets] : least.random) {
      random.push_back({{"middle", middle}, {"sets", sets}});
    }
    json["rows"].push_back({{"workload", workload.workload},
                            {"strategy", to_text(workload.strategy)},
                            {"in_order", least.in_order},
                            {"random", std::move(random)}});
  }
  return line_of(json);
}

std::vector<int32_t> flows_on_wires(const FredSwitch& fred, const FredRouting* routing) {
  std::vector<int32_t> on(at(fred.wire_count()), -1);
  if (routing == nullptr || !routing->routing.routed) {
    return on;
  }
  for (int32_t flow = 0; flow < count_of(routing->flows); ++flow) {
    for (const int32_t port : routing->flows[at(flow)].inputs) {
      on[at(port)] = flow;
    }
  }
  for (int32_t index = 0; index < count_of(fred.cells()); ++index) {
    const std::span<const int32_t> inputs = fred.inputs_of(index);
    const CellKind kind = fred.cells()[at(index)].kind;
    for (const auto& [input, output] : moves_of(kind, routing->modes[at(index)])) {
      int32_t& out = on[at(fred.first_output_of(index) + output)];
      out = std::max(out, on[at(inputs[at(input)])]);
    }
  }
  return on;
}

}  // namespace pleach
