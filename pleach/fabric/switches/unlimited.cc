// A crossbar, or a switch that reduces in its pipeline (SHARP-like): admits every set.
#include "pleach/fabric/switch_model.h"

namespace pleach {

extern const SwitchModel kUnlimitedSwitch = {
    .name = "unlimited",
    .summary = "carries whatever enters, at once",
    .source = {},
    .options = {},
};

}  // namespace pleach
