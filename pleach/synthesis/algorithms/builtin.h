// The algorithms of this folder, one file each; algorithms.cc lists them.
#pragma once

#include "pleach/synthesis/algorithm.h"

namespace pleach {

extern const Algorithm kRing;
extern const Algorithm kBidirectionalRing;
extern const Algorithm kRing2d;
extern const Algorithm kRecursiveDoubling;
extern const Algorithm kHalvingDoubling;
extern const Algorithm kDirect;
extern const Algorithm kInSwitch;
extern const Algorithm kMultitree;

}  // namespace pleach
