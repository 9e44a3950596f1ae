// SwitchModel: what a switch carries at once. The registry of models, by name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/options.h"
#include "pleach/base/registry.h"
#include "pleach/base/result.h"
#include "pleach/fabric/port_flow.h"
#include "pleach/topology/topology.h"

namespace pleach {

struct FredSize;

// One switch that does not carry whatever enters.
class SwitchCore {
 public:
  virtual ~SwitchCore() = default;
  // Flows between its ports that it cannot carry at once, by their numbers; none: it carries all of
  // them. What carries some flows carries any part of them. Flows may name ports of others. Pure.
  virtual std::vector<int32_t> conflict(std::span<const PortFlow> flows) const = 0;
  // Of flows that conflict: at which of its levels, from 0. None: at a port, or it has no levels.
  virtual std::optional<int32_t> conflict_level(std::span<const PortFlow> /*flows*/) const {
    return std::nullopt;
  }
  // Ports of one group may change places with one another, at either side: what is carried stays
  // the same.
  virtual int32_t port_group(int32_t port) const { return port; }
  // What of it is dead and has a part in a conflict of `flows`, in words; empty: nothing has.
  virtual std::string dead_in_the_way(std::span<const PortFlow> /*flows*/) const { return {}; }
  // The cells that are configured for flows; null: it has none.
  virtual const FredSize* cells() const { return nullptr; }
};

// A node says NAME[,key=value...] (Node::switch_model).
struct SwitchModel {
  std::string name;
  std::string summary;
  std::string source;
  std::vector<OptionDescriptor> options;
  // What streams lose that meet at an output: those that come by k links and leave by one at once
  // have its bandwidth / (1 + crowding · (1 − 1/k)), together. What comes by one link has met
  // before, where nothing is lost. ≥ 0; network models that know no shares leave it out.
  double crowding = 0;
  // Of so many ports; null: it carries whatever enters.
  //   errors  kInvalidArgument: ports or options that it cannot have
  Result<std::unique_ptr<SwitchCore>> (*create)(int32_t ports, const Options& options) = nullptr;
};

// The first is that of nodes that name none.
Registry<SwitchModel> switch_models();

// What a switch node names, or the first of them.
const std::string& switch_model_of(const Node& node);

// Whether each switch names a model that there is, and can be one.
//   errors  kInvalidArgument naming the node
Status check_switches(const Topology& topology);
// parse_topology() and check_switches().
Result<Topology> load_topology(std::string_view spec);

// Of a switch node; check_switches() found nothing. Null: it carries whatever enters.
std::unique_ptr<SwitchCore> make_switch(const Topology& topology, NodeId node);
double crowding_of(const Topology& topology, NodeId node);

}  // namespace pleach
