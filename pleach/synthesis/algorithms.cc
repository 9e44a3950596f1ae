// The algorithms, each defined in algorithms/NAME.cc.
#include "pleach/synthesis/algorithm.h"

namespace pleach {

PLEACH_REGISTRY(algorithms, Algorithm, "algorithm", "algorithms", kRing, kBidirectionalRing,
                kRing2d, kRecursiveDoubling, kHalvingDoubling, kDirect, kInSwitch, kMultitree,
                kHierarchical, kMultiRing, kTree, kPairwise, kBruck)

}  // namespace pleach
