// The public face of the C++ library: everything that a program needs to describe a topology, to
// obtain, write by hand and prove a schedule, to time it, run it on real ranks, and simulate
// training over it. What is installed is this header and what it includes.
#pragma once

#include "pleach/api/benchmark.h"             // IWYU pragma: export
#include "pleach/api/calibration.h"           // IWYU pragma: export
#include "pleach/api/collectives.h"           // IWYU pragma: export
#include "pleach/api/compare.h"               // IWYU pragma: export
#include "pleach/api/flight.h"                // IWYU pragma: export
#include "pleach/api/host.h"                  // IWYU pragma: export
#include "pleach/api/inspect.h"               // IWYU pragma: export
#include "pleach/api/job_book.h"              // IWYU pragma: export
#include "pleach/api/machine.h"               // IWYU pragma: export
#include "pleach/api/probe.h"                 // IWYU pragma: export
#include "pleach/api/schedule_source.h"       // IWYU pragma: export
#include "pleach/api/timing.h"                // IWYU pragma: export
#include "pleach/api/traffic.h"               // IWYU pragma: export
#include "pleach/api/tune.h"                  // IWYU pragma: export
#include "pleach/base/units.h"                // IWYU pragma: export
#include "pleach/base/version.h"              // IWYU pragma: export
#include "pleach/collective/formats.h"        // IWYU pragma: export
#include "pleach/collective/verify.h"         // IWYU pragma: export
#include "pleach/fabric/switch_cores.h"       // IWYU pragma: export
#include "pleach/fabric/switch_model.h"       // IWYU pragma: export
#include "pleach/network/model.h"             // IWYU pragma: export
#include "pleach/policy/policy.h"             // IWYU pragma: export
#include "pleach/report/benchmark.h"          // IWYU pragma: export
#include "pleach/report/comparison.h"         // IWYU pragma: export
#include "pleach/report/machine.h"            // IWYU pragma: export
#include "pleach/report/nccl_tests.h"         // IWYU pragma: export
#include "pleach/report/plan.h"               // IWYU pragma: export
#include "pleach/report/probe.h"              // IWYU pragma: export
#include "pleach/report/registries.h"         // IWYU pragma: export
#include "pleach/report/schedule.h"           // IWYU pragma: export
#include "pleach/report/schedule_table.h"     // IWYU pragma: export
#include "pleach/report/sweep.h"              // IWYU pragma: export
#include "pleach/report/timing.h"             // IWYU pragma: export
#include "pleach/report/topology.h"           // IWYU pragma: export
#include "pleach/report/traffic.h"            // IWYU pragma: export
#include "pleach/report/training.h"           // IWYU pragma: export
#include "pleach/report/verification.h"       // IWYU pragma: export
#include "pleach/runtime/communicator.h"      // IWYU pragma: export
#include "pleach/runtime/launch/launch.h"     // IWYU pragma: export
#include "pleach/runtime/peer_memory.h"       // IWYU pragma: export
#include "pleach/runtime/transport_choice.h"  // IWYU pragma: export
#include "pleach/synthesis/algorithm.h"       // IWYU pragma: export
#include "pleach/synthesis/builder.h"         // IWYU pragma: export
#include "pleach/topology/changes.h"          // IWYU pragma: export
#include "pleach/topology/link_classes.h"     // IWYU pragma: export
#include "pleach/topology/shapes.h"           // IWYU pragma: export
#include "pleach/training/sweep.h"            // IWYU pragma: export
#include "pleach/training/training.h"         // IWYU pragma: export
#include "pleach/workload/chakra.h"           // IWYU pragma: export
#include "pleach/workload/workload.h"         // IWYU pragma: export
