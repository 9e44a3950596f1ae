// An Ethernet switch that drops what its queues do not hold: TCP's senders find their rates by
// that, and where several meet at an output they lose part of it, as they drop together, and shares
// are uneven for as long as a collective takes.
#include "pleach/fabric/switch_model.h"

namespace pleach {

extern const SwitchModel kTailDropSwitch = {
    .name = "tail_drop",
    .summary = "carries whatever enters; streams of several inputs lose up to a fifth of an output",
    .source =
        "Phanishayee et al., FAST 2008: TCP throughput collapse (incast); the figure: measured",
    .options = {},
    .crowding = 0.25,
};

}  // namespace pleach
