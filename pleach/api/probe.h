// Probe: what messages between the ranks of this host cost, measured by running them.
#pragma once

#include <cstdint>

#include "pleach/base/result.h"
#include "pleach/runtime/endpoint.h"
#include "pleach/topology/host_model.h"

namespace pleach {

// What is timed: messages of these sizes (the larger one fits a place), and exchanges in one part
// and in several.
inline constexpr int64_t kProbeSmallBytes = 256;
inline constexpr int64_t kProbeLargeBytes = int64_t{128} * 1024;
inline constexpr int32_t kProbeSegments = 17;

// Of one operation [s]. In a chain messages follow each other, up the ranks and down again; in an
// exchange all n(n−1) meet.
struct ProbeTimes {
  double small_chain = 0, large_chain = 0;
  double small_exchange = 0, large_exchange = 0, exchange_in_parts = 0;
};

// The model by which a chain takes 2(n−1)·(latency + (message + size)/rank bandwidth), an exchange
// n(n−1)·(message + size)/host bandwidth + latency, and each further part of one
// n(n−1)·message/host bandwidth.
//   errors  kInvalidArgument: larger messages take no longer
Result<HostModel> fit_host_model(const ProbeTimes& times, int64_t rank_count);

// Collective: all ranks of a host run chains of messages, one at a time, and exchanges of all with
// all, of small and of large ones, of few and of many; HostModel's figures follow from how long
// they take. Takes about a second.
//   rounds   of which the fastest counts
//   returns  on rank 0 the model; elsewhere one that says nothing
//   errors   those of endpoints, communicators and fit_host_model()
Result<HostModel> probe_host(EndpointOptions options, int32_t rounds = 60);

}  // namespace pleach
