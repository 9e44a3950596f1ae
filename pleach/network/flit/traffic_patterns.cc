// The traffic patterns, defined in patterns.cc.
#include "pleach/network/flit/patterns.h"

namespace pleach {

PLEACH_REGISTRY(traffic_patterns, TrafficPattern, "pattern", "patterns", kUniformPattern,
                kTransposePattern, kBitComplementPattern, kTornadoPattern, kNeighbourPattern)

}  // namespace pleach
