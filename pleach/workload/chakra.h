// Chakra execution traces: PREFIX.RANK.et, one per rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "pleach/base/result.h"
#include "pleach/workload/chakra_groups.h"
#include "pleach/workload/trace.h"

namespace pleach {

struct ChakraOptions {
  std::optional<ChakraGroups> groups = {};  // none: those of METADATA nodes
  // Computation without a duration takes max(num_ops / peak, tensor_size / memory bandwidth).
  double operations_per_s = 0;  // 0: such nodes are refused
  double memory_bytes_per_s = 0;
};

// How many of PREFIX.0.et, PREFIX.1.et, ... there are. Errors: kIo: none, or one is missing in the
// middle.
Result<int32_t> count_chakra_ranks(const std::string& prefix);

// Reads PREFIX.0.et, PREFIX.1.et, ... (gzip is told by its first bytes), none of which is missing.
//   errors  kIo; kInvalidArgument in one line with file and node: malformed bytes, unknown kinds,
//           cyclic dependencies (names the cycle's nodes), dependencies that are not there, groups
//           that do not hold the rank, a collective without a kind or a size
Result<Trace> read_chakra(const std::string& prefix, const ChakraOptions& options);

// Writes one file per rank, and the groups as PREFIX.groups.json, each beside its target and
// renamed. Gradients and gates are left out; a send to several ranks is a broadcast that all of
// them come to. Computation is rounded to whole microseconds, which is all the format holds; the
// remainder is carried into the next node, so that sums stay right within 1 us.
//   errors  kIo, also where a file of an earlier trace would be read as one rank more; those of
//           check_trace; kInvalidArgument: a rank in no worker
Status write_chakra(const Trace& trace, const std::string& prefix);

}  // namespace pleach
