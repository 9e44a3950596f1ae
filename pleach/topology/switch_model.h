// SwitchModel: which sets of streams a switch carries at once.
#pragma once

#include <memory>
#include <span>

#include "pleach/base/id.h"
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
  // Whether the switch can carry all of `streams` at the same time. Pure; thread safe.
  virtual bool admits(std::span<const SwitchStream> streams) const = 0;
};

// A crossbar, or a switch that reduces in its pipeline (SHARP-like): admits every set.
class UnlimitedSwitch final : public SwitchModel {
 public:
  bool admits(std::span<const SwitchStream> /*streams*/) const override { return true; }
};

// The model of one switch node of `topology`. One line per kind of switch.
std::unique_ptr<SwitchModel> make_switch_model(const Topology& topology, NodeId node);

}  // namespace pleach
