// PyTorch's element types and reductions, as the C interface has them.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "pleach/api/pleach_types.h"

namespace pleach_torch {

// An element is `per_element` of `type`.
struct Elements {
  pleach_type type = PLEACH_UINT8;
  int64_t per_element = 1;
};

struct Reduction {
  Elements elements;
  pleach_reduction reduction = PLEACH_SUM;
};

// For what is only moved: any type, as bytes where there is none of that width.
Elements moved_elements(c10::ScalarType type);

// For what is reduced. A bool is a byte of 0 or 1: sum and max are "or", product and min "and".
// Complex numbers are added, or averaged, as pairs of floats.
//   collective  for errors: "all_reduce"
//   throws      NotImplementedError: PREMUL_SUM; a type that is not reduced so, naming both
Reduction reduction_of(c10::ScalarType type, const c10d::ReduceOp& op, const char* collective);

// "SUM", "AVG", ...
const char* name_of(const c10d::ReduceOp& op);

}  // namespace pleach_torch
