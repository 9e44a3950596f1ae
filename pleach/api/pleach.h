// The public face of the library: everything that a program needs to describe a topology, obtain
// and prove a schedule, time it, run it on real ranks, and simulate training over it.
#pragma once

#include "pleach/api/benchmark.h"          // IWYU pragma: export
#include "pleach/api/calibration.h"        // IWYU pragma: export
#include "pleach/api/inspect.h"            // IWYU pragma: export
#include "pleach/api/json.h"               // IWYU pragma: export
#include "pleach/api/machine.h"            // IWYU pragma: export
#include "pleach/api/nccl_tests.h"         // IWYU pragma: export
#include "pleach/api/schedule_source.h"    // IWYU pragma: export
#include "pleach/api/timing.h"             // IWYU pragma: export
#include "pleach/base/units.h"             // IWYU pragma: export
#include "pleach/collective/formats.h"     // IWYU pragma: export
#include "pleach/collective/verify.h"      // IWYU pragma: export
#include "pleach/network/model.h"          // IWYU pragma: export
#include "pleach/policy/policy.h"          // IWYU pragma: export
#include "pleach/runtime/communicator.h"   // IWYU pragma: export
#include "pleach/runtime/launch/launch.h"  // IWYU pragma: export
#include "pleach/synthesis/algorithm.h"    // IWYU pragma: export
#include "pleach/topology/shapes.h"        // IWYU pragma: export
#include "pleach/training/training.h"      // IWYU pragma: export
#include "pleach/workload/chakra.h"        // IWYU pragma: export
#include "pleach/workload/workload.h"      // IWYU pragma: export
