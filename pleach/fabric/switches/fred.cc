// FRED's switch of tiny cells: it carries what routes together through FRED_m(P), P its ports. A
// port belongs to one flow at a time, at either side.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/fabric/fred_faults.h"
#include "pleach/fabric/fred_router.h"
#include "pleach/fabric/fred_switch.h"
#include "pleach/fabric/switch_model.h"

namespace pleach {
namespace {

class FredCore final : public SwitchCore {
 public:
  explicit FredCore(FredSize size) : size_(std::move(size)) {}

  // Where the search gives up, all are in each other's way.
  std::vector<int32_t> conflict(std::span<const PortFlow> flows) const override {
    std::vector<int32_t> sharing = shared_port(flows);
    if (!sharing.empty()) {
      return sharing;
    }
    FlowRouting routing = route_flows(size_, flows);
    if (routing.routed) {
      return {};
    }
    if (!routing.conflicts.empty()) {
      return std::move(routing.conflicts.front().flows);
    }
    std::vector<int32_t> all;
    for (int32_t flow = 0; flow < count_of(flows); ++flow) {
      all.push_back(flow);
    }
    return all;
  }
  std::optional<int32_t> conflict_level(std::span<const PortFlow> flows) const override {
    if (!shared_port(flows).empty()) {
      return std::nullopt;
    }
    const FlowRouting routing = route_flows(size_, flows);
    return routing.conflicts.empty() ? std::nullopt
                                     : std::optional(routing.conflicts.front().level);
  }
  // Of one outermost cell: what is dead is so for both.
  int32_t port_group(int32_t port) const override { return port / 2; }
  std::string dead_in_the_way(std::span<const PortFlow> flows) const override {
    if (size_.dead.empty() || !shared_port(flows).empty()) {
      return {};
    }
    return faults_text(size_, faults_in_the_way(size_, flows));
  }
  const FredSize* cells() const override { return &size_; }

 private:
  // Two flows that enter by one port or leave by one; none: there are none.
  std::vector<int32_t> shared_port(std::span<const PortFlow> flows) const {
    for (const auto side : {&PortFlow::inputs, &PortFlow::outputs}) {
      std::vector<int32_t> owner(at(size_.ports), -1);
      for (int32_t flow = 0; flow < count_of(flows); ++flow) {
        for (const int32_t port : flows[at(flow)].*side) {
          if (owner[at(port)] >= 0) {
            return {owner[at(port)], flow};
          }
          owner[at(port)] = flow;
        }
      }
    }
    return {};
  }

  const FredSize size_;
};

Result<std::unique_ptr<SwitchCore>> create(int32_t ports, const Options& options) {
  FredSize size = {std::max(ports, 2), static_cast<int32_t>(options.integer("middle"))};
  PLEACH_TRY(count_cells(size));
  PLEACH_SET(size.dead,
             parse_faults(size, options.text("without_cell"), options.text("without_subnetwork")));
  return std::unique_ptr<SwitchCore>(std::make_unique<FredCore>(std::move(size)));
}

}  // namespace

extern const SwitchModel kFredSwitch = {
    .name = "fred",
    .summary =
        "FRED_m(P) of P ports: carries flows that route together, each with ports of its own",
    .source = "FRED, ISCA 2025, sec. 5",
    .options = {{.name = "middle",
                 .default_value = "3",
                 .summary = "subnetworks in the middle of every level, m",
                 .least = 2},
                {.name = "without_cell",
                 .kind = OptionDescriptor::Kind::kText,
                 .default_value = "",
                 .summary = "cells that are dead, as `pleach fred show` names them: R3+2.0/D1"},
                {.name = "without_subnetwork",
                 .kind = OptionDescriptor::Kind::kText,
                 .default_value = "",
                 .summary = "subnetworks that are dead: 1+2.0"}},
    .create = create,
};

}  // namespace pleach
