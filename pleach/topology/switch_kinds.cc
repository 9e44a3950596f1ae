// The kinds of switches, each defined in switches/NAME.cc.
#include "pleach/topology/switch_model.h"

namespace pleach {

PLEACH_REGISTRY(switch_kinds, SwitchKind, "kind of switch", "switches", kUnlimitedSwitch,
                kTailDropSwitch)

}  // namespace pleach
