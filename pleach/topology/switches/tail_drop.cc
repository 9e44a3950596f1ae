// An Ethernet switch that drops what its queues do not hold: TCP's senders find their rates by
// that, and where several meet at an output they lose part of it, as they drop together, and shares
// are uneven for as long as a collective takes.
#include "pleach/topology/switch_model.h"

namespace pleach {
namespace {

class TailDropSwitch final : public SwitchModel {
 public:
  bool admits(std::span<const SwitchStream> /*streams*/) const override { return true; }
  double crowding() const override { return kCrowding; }

 private:
  static constexpr double kCrowding = 0.25;
};

std::unique_ptr<SwitchModel> create(const Topology& /*topology*/, NodeId /*node*/) {
  return std::make_unique<TailDropSwitch>();
}

}  // namespace

extern const SwitchKind kTailDropSwitch = {
    .name = "tail_drop",
    .summary = "carries whatever enters; streams of several inputs lose up to a fifth of an output",
    .source =
        "Phanishayee et al., FAST 2008: TCP throughput collapse (incast); the figure: measured",
    .create = create,
};

}  // namespace pleach
