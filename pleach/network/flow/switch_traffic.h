// SwitchTraffic: which streams are inside which switch, and who waits for admission.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pleach/topology/switch_model.h"
#include "pleach/topology/topology.h"

namespace pleach {

// A connection is a number from 0. Costs nothing without switches.
class SwitchTraffic {
 public:
  explicit SwitchTraffic(const Topology& topology);

  // The next connection number gets these links.
  void add(std::span<const LinkId> links);

  bool empty() const { return switches_.empty(); }
  // Enters all switches on the connection's way, or none: then it is remembered as waiting there.
  bool enter(int32_t connection);
  // Leaves them; appends to `woken` the connections that waited at any of them.
  void leave(int32_t connection, std::vector<int32_t>& woken);

 private:
  struct State {
    std::unique_ptr<SwitchModel> model;
    std::vector<SwitchStream> streams;  // inside now
    std::vector<int32_t> connections;   // theirs, in the same order
    std::vector<int32_t> waiting;
  };
  struct Pass {  // a connection's links at one switch
    std::size_t at_switch = 0;
    std::vector<LinkId> inputs, outputs;
  };

  const Topology& topology_;
  std::vector<State> switches_;
  std::vector<std::size_t> switch_of_;     // by node, where it is a switch
  std::vector<std::vector<Pass>> passes_;  // by connection
};

}  // namespace pleach
