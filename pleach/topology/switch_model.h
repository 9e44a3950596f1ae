// SwitchModel: which sets of streams a switch carries at once. The registry of kinds of switches.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "pleach/base/id.h"
#include "pleach/base/registry.h"
#include "pleach/topology/topology.h"

namespace pleach {

// One stream as a switch sees it: the links it enters by and the links it leaves by.
struct SwitchStream {
  std::span<const LinkId> inputs;
  std::span<const LinkId> outputs;
};

class SwitchModel {
 public:
  virtual ~SwitchModel() = default;
  // Whether the switch can carry all of `streams` at the same time; any single one it can. Pure;
  // thread safe.
  virtual bool admits(std::span<const SwitchStream> streams) const = 0;
  // What streams lose that meet at an output: those that come by k links and leave by one at once
  // have its bandwidth / (1 + crowding · (1 − 1/k)), together. What comes by one link has met
  // before, where nothing is lost. ≥ 0; models that know no shares leave it out.
  virtual double crowding() const { return 0; }
};

struct SwitchKind {
  std::string name;
  std::string summary;
  std::string source;
  std::unique_ptr<SwitchModel> (*create)(const Topology& topology, NodeId node);
};

// The first is that of nodes that name none.
Registry<SwitchKind> switch_kinds();

// The model of one switch node of `topology`.
std::unique_ptr<SwitchModel> make_switch_model(const Topology& topology, NodeId node);

}  // namespace pleach
