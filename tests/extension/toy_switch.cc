// A switch that carries one stream at a time.
#include "pleach/topology/switch_model.h"

namespace pleach {
namespace {

class ToySwitch final : public SwitchModel {
 public:
  bool admits(std::span<const SwitchStream> streams) const override { return streams.size() < 2; }
};

std::unique_ptr<SwitchModel> create(const Topology& /*topology*/, NodeId /*node*/) {
  return std::make_unique<ToySwitch>();
}

}  // namespace

extern const SwitchKind kToySwitch = {
    .name = "toy",
    .summary = "carries one stream at a time",
    .source = {},
    .create = create,
};

}  // namespace pleach
