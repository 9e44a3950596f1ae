// The policies of this folder, one file each.
#pragma once

#include "pleach/policy/policy.h"

namespace pleach {

extern const PolicyDescriptor kByteSchedulerPolicy;
extern const PolicyDescriptor kDdpPolicy;
extern const PolicyDescriptor kDearBoPolicy;
extern const PolicyDescriptor kDearPolicy;
extern const PolicyDescriptor kFsdpPolicy;
extern const PolicyDescriptor kHorovodPolicy;
extern const PolicyDescriptor kLancetPolicy;
extern const PolicyDescriptor kMgWfbpPolicy;
extern const PolicyDescriptor kP3Policy;
extern const PolicyDescriptor kProphetPolicy;
extern const PolicyDescriptor kSequentialPolicy;
extern const PolicyDescriptor kWfbpPolicy;
extern const PolicyDescriptor kWorkConservingPolicy;
extern const PolicyDescriptor kZero1Policy;

}  // namespace pleach
