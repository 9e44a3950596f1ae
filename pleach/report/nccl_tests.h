// nccl-tests' formats: what `pleach run` prints and writes, so that scripts that read the one read
// the other; and its result file, read.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pleach/base/collective_kind.h"
#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/report/benchmark.h"

namespace pleach {

// The comment lines before the first row: configuration, devices, column titles. At least one size.
//   source  nccl-tests 2.19, src/util.cu: writeDeviceReport and writeResultHeader
std::string nccl_tests_header(const BenchmarkReport& report);

// What does the last row, as a comment to stand before it, where that is not what does them all and
// not what did the row before; else nothing. There is a row.
std::string nccl_tests_choice(const BenchmarkReport& report);

// One row. Bandwidths in GB/s (10^9), times in us, N/A where results were not checked.
std::string nccl_tests_row(const BenchmarkReport& report, const BenchmarkRow& row);

// The closing comment lines.
std::string nccl_tests_footer(const BenchmarkReport& report);

// The result file, version 3, on one line. `arguments` is the command line; the environment stays
// out. At least one size.
//   source  nccl-tests 2.19, src/util.cu: jsonOutputInit and what follows it
std::string nccl_tests_json(const BenchmarkReport& report, std::span<const std::string> arguments);

// What a result file says of one collective.
struct NcclTestsFile {
  struct Row {
    int64_t size_bytes = 0;  // whole buffer, > 0
    double time_s = 0;       // of the out-of-place run where there is one, > 0
  };
  CollectiveKind collective = CollectiveKind::kAllReduce;
  int32_t rank_count = 0;
  std::vector<Row> rows;
};

// Reads the file that `pleach run --output-file` and nccl-tests' -J write; `wanted` are the
// collectives that it may be of.
//   errors  kIo; kInvalidArgument naming the file and the place: not the format, fewer than two
//           ranks, another collective, times that are not positive
Result<NcclTestsFile> read_nccl_tests(const std::string& path,
                                      std::span<const CollectiveKind> wanted);

// The names nccl-tests has for what Pleach calls `float32`, `product`, `all_reduce`.
std::string nccl_tests_type(ElementType type);
std::string nccl_tests_op(CollectiveKind collective, ReduceOp op);  // "none" when it only moves
std::string nccl_tests_root(CollectiveKind collective, Rank root);  // "-1" when there is none
std::string nccl_tests_program(CollectiveKind collective);          // "all_reduce_perf"

}  // namespace pleach
