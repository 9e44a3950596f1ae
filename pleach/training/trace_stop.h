// Why a trace stops before its end: which workers wait for each other.
#pragma once

#include <span>

#include "pleach/base/result.h"
#include "pleach/training/trace_index.h"

namespace pleach {

// A worker waits in one of its nodes, a collective or a receive, for another worker.
struct TraceWait {
  WorkerNode node;
  int32_t worker = 0;
  auto operator<=>(const TraceWait&) const = default;
};

// kInvalidArgument in one line: the ranks, nodes and files of a cycle among the waits, which begins
// with its lowest worker; where there is none, the first wait.
Error trace_stop(const Trace& trace, std::span<const TraceWait> waits);

}  // namespace pleach
