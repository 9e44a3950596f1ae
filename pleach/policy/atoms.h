// Atoms: the smallest pieces of the flat parameter space that collectives move. They are fixed
// when a training is set up; each is sharded over all ranks, or owned by one, so that another plan
// of collectives moves no state.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pleach/base/result.h"

namespace pleach {

inline constexpr int32_t kMostAtoms = 1024;
// Sums of a model's bytes stay this far from the end of int64.
inline constexpr int64_t kMostProfileBytes = INT64_MAX / 64;

// A tensor of the flat space, as far as it matters for cutting it.
struct AtomTensor {
  int64_t size_bytes = 0;     // > 0
  int32_t layer = 0;          // that needs it first; never less than that of the tensor before
  int64_t quantum_bytes = 1;  // may be cut after multiples of it: an element, or one for each rank
  int32_t buffer = 0;         // no atom holds tensors of two: of two types, say
};

struct AtomRules {
  int64_t least_bytes = 1;  // that a cut leaves on both of its sides
  int64_t join_bytes = 0;   // neighbours of one layer are joined to atoms of at most this
  int32_t most_atoms = kMostAtoms;
};

// Cuts the flat space. Every atom holds whole tensors, or a part of one. Parts of a tensor are
// alike, to a quantum. Where there would be more than `most_atoms`, cuts become coarser; where
// there are more tensors than three quarters of that, the smallest neighbours are joined, first
// those of one layer, then any. Only tensors of more buffers than that, taking turns, need more.
//   returns  their sizes, in the order of the tensors, which they add up to
//   errors   kInvalidArgument naming the tensor: no bytes, a quantum below 1, a layer that goes
//            back; a rule below its least
//   cost     O(tensors log bytes + atoms)
Result<std::vector<int64_t>> cut_atoms(std::span<const AtomTensor> tensors, const AtomRules& rules);

// Who owns which atom, where ranks own whole ones: the largest first, each to the rank that has
// least by then, so that nobody has more than 4/3 of the least that the fullest rank can have.
//   returns  a rank by atom; the same on every rank
//   source   Graham, SIAM J. Appl. Math. 17 (1969): longest processing time first
std::vector<int32_t> own_atoms(std::span<const int64_t> atom_bytes, int32_t rank_count);

}  // namespace pleach
