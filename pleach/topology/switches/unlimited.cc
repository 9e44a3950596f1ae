// A crossbar, or a switch that reduces in its pipeline (SHARP-like): admits every set.
#include "pleach/topology/switch_model.h"

namespace pleach {
namespace {

class UnlimitedSwitch final : public SwitchModel {
 public:
  bool admits(std::span<const SwitchStream> /*streams*/) const override { return true; }
};

std::unique_ptr<SwitchModel> create(const Topology& /*topology*/, NodeId /*node*/) {
  return std::make_unique<UnlimitedSwitch>();
}

}  // namespace

extern const SwitchKind kUnlimitedSwitch = {
    .name = "unlimited",
    .summary = "carries whatever enters, at once",
    .source = {},
    .create = create,
};

}  // namespace pleach
