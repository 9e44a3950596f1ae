#include "pleach/policy/atoms.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "pleach/base/index.h"

namespace pleach {
namespace {

Status check(std::span<const AtomTensor> tensors, const AtomRules& rules) {
  if (rules.least_bytes < 1 || rules.join_bytes < 0 || rules.most_atoms < 1) {
    return invalid(fmt::format("atoms of at least {} bytes, joined to {} bytes, {} at most",
                               rules.least_bytes, rules.join_bytes, rules.most_atoms));
  }
  int64_t total_bytes = 0;
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    const AtomTensor& one = tensors[index];
    if (one.size_bytes <= 0 || one.size_bytes > kMostProfileBytes - total_bytes) {
      return invalid(
          fmt::format("tensor {}: its {} bytes are out of range", index, one.size_bytes));
    }
    if (one.quantum_bytes < 1) {
      return invalid(
          fmt::format("tensor {}: it cannot be cut every {} bytes", index, one.quantum_bytes));
    }
    if (index > 0 && one.layer < tensors[index - 1].layer) {
      return invalid(fmt::format("tensor {}: it is of layer {}, and the one before of layer {}",
                                 index, one.layer, tensors[index - 1].layer));
    }
    total_bytes += one.size_bytes;
  }
  return ok();
}

// Joins neighbours to pieces of at most `most_bytes`. A piece of several can be cut no more.
using Pieces = std::vector<AtomTensor>;
Pieces join(std::span<const AtomTensor> tensors, int64_t most_bytes, bool joins_layers) {
  Pieces pieces;
  for (const AtomTensor& one : tensors) {
    if (!pieces.empty() && one.buffer == pieces.back().buffer &&
        (joins_layers || one.layer == pieces.back().layer) &&
        one.size_bytes <= most_bytes - pieces.back().size_bytes) {
      pieces.back() = {.size_bytes = pieces.back().size_bytes + one.size_bytes,
                       .layer = one.layer,
                       .quantum_bytes = kMostProfileBytes,
                       .buffer = one.buffer};
    } else {
      pieces.push_back(one);
    }
  }
  return pieces;
}

// The least value in [least, most] for which `holds` does, which then holds for all greater ones;
// `most` if it holds for none.
template <typename Predicate>
int64_t least_value(int64_t least, int64_t most, Predicate holds) {
  while (least < most) {
    const int64_t middle = least + (most - least) / 2;
    if (holds(middle)) {
      most = middle;
    } else {
      least = middle + 1;
    }
  }
  return least;
}

// Joins as little as brings them down to `most_count`.
Pieces join_to(const Pieces& tensors, int64_t total_bytes, int32_t most_count, bool joins_layers) {
  const int64_t most_bytes = least_value(0, total_bytes, [&](int64_t bytes) {
    return count_of(join(tensors, bytes, joins_layers)) <= most_count;
  });
  return join(tensors, most_bytes, joins_layers);
}

// Parts of a tensor none of which has less than `least_bytes`.
int64_t parts_of(const AtomTensor& tensor, int64_t least_bytes) {
  const int64_t quanta = tensor.size_bytes / tensor.quantum_bytes;
  const int64_t least_quanta = (least_bytes - 1) / tensor.quantum_bytes + 1;
  return std::max<int64_t>(1, quanta / least_quanta);
}

// Alike, to a quantum.
void cut(const AtomTensor& tensor, int64_t parts, std::vector<int64_t>& atom_bytes) {
  const int64_t quanta = tensor.size_bytes / tensor.quantum_bytes;
  int64_t begin_bytes = 0;
  for (int64_t part = 1; part < parts; ++part) {
    const int64_t end_bytes =
        (quanta / parts * part + quanta % parts * part / parts) * tensor.quantum_bytes;
    atom_bytes.push_back(end_bytes - begin_bytes);
    begin_bytes = end_bytes;
  }
  atom_bytes.push_back(tensor.size_bytes - begin_bytes);
}

}  // namespace

Result<std::vector<int64_t>> cut_atoms(std::span<const AtomTensor> tensors,
                                       const AtomRules& rules) {
  PLEACH_TRY(check(tensors, rules));
  int64_t total_bytes = 0;
  for (const AtomTensor& one : tensors) {
    total_bytes += one.size_bytes;
  }
  Pieces pieces = join(tensors, rules.join_bytes, false);
  // Some are left for the parts of large tensors.
  const int32_t most_joined = rules.most_atoms - rules.most_atoms / 4;
  for (const bool joins_layers : {false, true}) {
    if (count_of(pieces) > most_joined) {
      pieces = join_to(pieces, total_bytes, most_joined, joins_layers);
    }
  }
  const int64_t least_bytes =
      least_value(rules.least_bytes, std::max(rules.least_bytes, total_bytes), [&](int64_t bytes) {
        int64_t count = 0;
        for (const AtomTensor& one : pieces) {
          count += parts_of(one, bytes);
        }
        return count <= rules.most_atoms;
      });
  std::vector<int64_t> atom_bytes;
  for (const AtomTensor& one : pieces) {
    cut(one, parts_of(one, least_bytes), atom_bytes);
  }
  return atom_bytes;
}

std::vector<int32_t> own_atoms(std::span<const int64_t> atom_bytes, int32_t rank_count) {
  std::vector<std::size_t> by_size(atom_bytes.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::ranges::stable_sort(by_size, std::greater<>(),
                           [&](std::size_t atom) { return atom_bytes[atom]; });
  using Load = std::pair<int64_t, int32_t>;  // bytes of a rank
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (int32_t rank = 0; rank < rank_count; ++rank) {
    loads.emplace(0, rank);
  }
  std::vector<int32_t> owners(atom_bytes.size());
  for (const std::size_t atom : by_size) {
    const auto [bytes, rank] = loads.top();
    loads.pop();
    owners[atom] = rank;
    loads.emplace(bytes + atom_bytes[atom], rank);
  }
  return owners;
}

}  // namespace pleach
