// The policies, each defined in policies/NAME.cc.
#include "pleach/policy/policy.h"

namespace pleach {

PLEACH_REGISTRY(policies, PolicyDescriptor, "policy", "policies", kSequentialPolicy, kWfbpPolicy,
                kDdpPolicy, kHorovodPolicy, kMgWfbpPolicy, kP3Policy, kByteSchedulerPolicy,
                kProphetPolicy, kDearPolicy, kDearBoPolicy, kZero1Policy, kFsdpPolicy,
                kLancetPolicy, kWorkConservingPolicy)

}  // namespace pleach
