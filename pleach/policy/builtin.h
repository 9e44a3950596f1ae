// The policies of this folder, one file each.
#pragma once

#include "pleach/policy/policy.h"

namespace pleach {

extern const PolicyDescriptor kDearPolicy;
extern const PolicyDescriptor kWfbpPolicy;

}  // namespace pleach
