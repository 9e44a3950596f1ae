// The named accelerators, each defined in accelerator.cc.
#include "pleach/workload/workload.h"

namespace pleach {

PLEACH_REGISTRY(accelerators, Accelerator, "accelerator", "accelerators", kA100, kH100, kV100,
                kRtx2080ti, kTpuV4, kSystolic)

}  // namespace pleach
