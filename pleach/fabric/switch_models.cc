// The models of switches, each defined in switches/NAME.cc.
#include "pleach/fabric/switch_model.h"

namespace pleach {

PLEACH_REGISTRY(switch_models, SwitchModel, "switch model", "switches", kUnlimitedSwitch,
                kTailDropSwitch, kFredSwitch)

}  // namespace pleach
