// The well-known kinds of links, all defined in link_preset.cc.
#include "pleach/topology/link_preset.h"

namespace pleach {

PLEACH_REGISTRY(link_presets, LinkPreset, "kind of link", "links", kNvlink3, kNvlink4, kNvlink5,
                kInfinibandHdr, kInfinibandNdr, kInfinibandXdr, kEthernet10, kEthernet25,
                kEthernet100, kEthernet400, kPcie4, kPcie5, kWafer)

}  // namespace pleach
