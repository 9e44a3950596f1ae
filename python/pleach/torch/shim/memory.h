// Memory for tensors that the other ranks of a host may read where it stands.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace pleach_torch {

// A one-dimensional CPU tensor, not initialised, in memory of pleach_alloc(). What is let go is
// kept for the next of its size class, as each new block costs every rank a descriptor and faults.
//   throws  OutOfMemoryError: there is none
at::Tensor allocate(int64_t size, at::ScalarType type);

}  // namespace pleach_torch
