// The algorithms, each defined in algorithms/NAME.cc.
#include "pleach/synthesis/algorithm.h"

namespace pleach {

PLEACH_REGISTRY(algorithms, Algorithm, "algorithm", "algorithms", kRing, kBidirectionalRing,
                kRing2d, kRecursiveDoubling, kHalvingDoubling, kHdrm, kDirect, kInSwitch,
                kMultitree, kHierarchical, kMultiRing, kTree, kIoTree, kDoubleBinaryTree, kPairwise,
                kBruck)

}  // namespace pleach
