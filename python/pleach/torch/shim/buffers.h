// Tensors of this host as the C interface wants them: end to end in memory, where they stand or
// copied.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace pleach_torch {

using Tensors = std::vector<at::Tensor>;

// What is to be copied to a tensor when an operation is done.
struct Landing {
  at::Tensor source;  // contiguous
  at::Tensor target;  // of as many elements and the same type
};

// Tensors of one type that lie end to end, or are treated as if they did.
struct Flat {
  void* data = nullptr;
  int64_t size = 0;   // elements
  at::Tensor memory;  // what owns it, if it was allocated
};

// Refuses what no collective here takes, by name: none; sparse; of mixed types or devices.
//   what  for errors: "all_reduce"
void check_tensors(const char* what, const Tensors& tensors);

// The one tensor of a list that has one.
const at::Tensor& only(const char* what, const Tensors& tensors);

// Whether they lie end to end as they are.
bool are_adjacent(const Tensors& tensors);

// They where they stand if they lie end to end, otherwise a copy.
Flat flat_input(const Tensors& tensors);
// Always a copy.
Flat flat_copy(const Tensors& tensors);
// They where they stand, otherwise new memory, which the landings copy to them.
Flat flat_output(const Tensors& tensors, std::vector<Landing>& landings);
// As an output that begins with what is in it.
Flat flat_in_place(const Tensors& tensors, std::vector<Landing>& landings);

// Takes a copy of the inputs where they lie partly where results are written. The one that is
// smaller may be its rank's part of the other, which then begins with so many elements of others.
void separate(Flat& from, const Flat& to, int64_t others, const Tensors& inputs);

// In any thread; touches no gradients.
void land(const Landing& landing);

int64_t total_size(const Tensors& tensors);
// Of each [elements].
std::vector<int64_t> sizes_in(const Tensors& tensors);

}  // namespace pleach_torch
