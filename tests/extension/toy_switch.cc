// A switch that carries one stream at a time.
#include "pleach/fabric/switch_model.h"

namespace pleach {
namespace {

class ToySwitch final : public SwitchCore {
 public:
  std::vector<int32_t> conflict(std::span<const PortFlow> flows) const override {
    return flows.size() < 2 ? std::vector<int32_t>() : std::vector<int32_t>{0, 1};
  }
};

Result<std::unique_ptr<SwitchCore>> create(int32_t /*ports*/, const Options& /*options*/) {
  return std::unique_ptr<SwitchCore>(std::make_unique<ToySwitch>());
}

}  // namespace

extern const SwitchModel kToySwitch = {
    .name = "toy",
    .summary = "carries one stream at a time",
    .source = {},
    .options = {},
    .create = create,
};

}  // namespace pleach
