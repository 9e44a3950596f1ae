// What a measured network is worth: two numbers from nccl-tests' result file.
#pragma once

#include <cstdint>
#include <string>

#include "pleach/base/collective_kind.h"
#include "pleach/base/result.h"

namespace pleach {

struct Calibration {
  CollectiveKind collective = CollectiveKind::kAllReduce;
  int32_t rank_count = 0;
  int64_t alpha_ps = 0;              // per hop of a ring, ≥ 0
  double bandwidth_bytes_per_s = 0;  // bus bandwidth for large sizes
  double worst_error = 0;            // |predicted / measured − 1|, over all rows
  int32_t rows = 0;
};

// Fits AlphaBeta to the rows of a result file of nccl-tests: least squares of relative errors, so
// that small sizes fix alpha and large ones the bandwidth.
//   errors  those of read_nccl_tests, of a collective without the ring's closed form too;
//           kInvalidArgument naming the file: fewer than two sizes, times that do not grow
Result<Calibration> read_calibration(const std::string& path);

}  // namespace pleach
