// Memory for tensors that the other ranks of a host may read where it stands.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace pleach_torch {

// A one-dimensional CPU tensor, not initialised, in memory of pleach_alloc(). What is let go is
// kept for the next of its size class, as each new block costs every rank a descriptor and faults:
// at most 512 MiB, of the classes that were used last.
//   throws  OutOfMemoryError: there is none
at::Tensor allocate(int64_t size, at::ScalarType type);

// Gives back what is kept and not in use.
void let_go_of_idle_memory();

}  // namespace pleach_torch
