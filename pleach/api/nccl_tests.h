// nccl-tests' text: what `pleach run` prints, so that scripts that read the one read the other.
#pragma once

#include <string>

#include "pleach/api/benchmark.h"

namespace pleach {

// The comment lines before the first row: configuration, devices, column titles.
//   source  nccl-tests 2.19, src/util.cu: writeDeviceReport and writeResultHeader
std::string nccl_tests_header(const BenchmarkReport& report, const BenchmarkOptions& options);

// One row. Bandwidths in GB/s (10^9), times in us, N/A where results were not checked.
std::string nccl_tests_row(const BenchmarkReport& report, const BenchmarkOptions& options,
                           const BenchmarkRow& row);

// The closing comment lines.
std::string nccl_tests_footer(const BenchmarkReport& report);

// The names nccl-tests has for what Pleach calls `float32`, `product`, `all_reduce`.
std::string nccl_tests_type(ElementType type);
std::string nccl_tests_op(CollectiveKind collective, ReduceOp op);  // "none" when it only moves
std::string nccl_tests_root(CollectiveKind collective, Rank root);  // "-1" when there is none
std::string nccl_tests_program(CollectiveKind collective);          // "all_reduce_perf"

}  // namespace pleach
