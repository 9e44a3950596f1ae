// The shapes, each defined in shapes/NAME.cc.
#include "pleach/topology/shapes.h"

namespace pleach {

PLEACH_REGISTRY(shapes, Shape, "topology", "topologies", kRingShape, kFullyConnectedShape,
                kSwitchShape, kMeshShape, kTorusShape, kHypercubeShape, kFatTreeShape,
                kLeafSpineShape, kBigraphShape, kTwinSwitchShape, kDragonflyShape, kDgxA100Shape,
                kDgxH100Shape, kDgxB200Shape, kWaferMeshShape, kFredShape, kSwitchTreeShape)

}  // namespace pleach
