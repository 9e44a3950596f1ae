#include "pleach/policy/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "pleach/base/units.h"
#include "pleach/policy/atoms.h"

namespace pleach {
namespace {

Status check_layer(const PolicyLayer& layer, std::size_t index) {
  for (const auto& [name, value, most] :
       {std::tuple{"forward time", layer.forward_ps, kLongestPs},
        {"backward time", layer.backward_ps, kLongestPs},
        {"weight gradient time", layer.weight_gradient_ps, kLongestPs},
        {"exchange", layer.exchange_bytes, kMostProfileBytes}}) {
    if (value < 0 || value > most) {
      return invalid(fmt::format("layer {}: {} of {} is out of range", index, name, value));
    }
  }
  if (layer.weight_gradient_ps > layer.backward_ps) {
    return invalid(
        fmt::format("layer {}: weight gradient time of {} ps exceeds its backward's {} ps", index,
                    layer.weight_gradient_ps, layer.backward_ps));
  }
  for (const int64_t bytes : layer.tensor_bytes) {
    if (bytes <= 0 || bytes > kMostProfileBytes) {
      return invalid(fmt::format("layer {}: a tensor of {} bytes", index, bytes));
    }
  }
  return ok();
}

// `total_bytes` of all tensors.
Status check_atoms(const std::vector<int64_t>& atom_bytes, int64_t total_bytes) {
  int64_t end_bytes = 0;
  for (std::size_t index = 0; index < atom_bytes.size(); ++index) {
    if (atom_bytes[index] <= 0 || atom_bytes[index] > total_bytes - end_bytes) {
      return invalid(fmt::format("atom {} of {} bytes, from byte {} of {} on", index,
                                 atom_bytes[index], end_bytes, total_bytes));
    }
    end_bytes += atom_bytes[index];
  }
  if (!atom_bytes.empty() && end_bytes < total_bytes) {
    return invalid(
        fmt::format("the atoms have {} of the tensors' {} bytes", end_bytes, total_bytes));
  }
  return ok();
}

// The atoms of a profile that says nothing of them.
std::vector<int64_t> default_atoms(const TrainingProfile& profile) {
  // An element of any type for each rank.
  const int64_t quantum_bytes = int64_t{8} * profile.rank_count;
  std::vector<AtomTensor> tensors;
  for (std::size_t layer = 0; layer < profile.layers.size(); ++layer) {
    for (const int64_t bytes : profile.layers[layer].tensor_bytes) {
      tensors.push_back({.size_bytes = bytes,
                         .layer = static_cast<int32_t>(layer),
                         .quantum_bytes = quantum_bytes});
    }
  }
  return cut_atoms(tensors, {}).value();
}

}  // namespace

Status check_profile(const TrainingProfile& profile) {
  if (profile.layers.empty()) {
    return invalid("a profile without layers");
  }
  if (profile.rank_count < 1) {
    return invalid(fmt::format("a group of {} ranks", profile.rank_count));
  }
  int64_t bytes = 0;
  int64_t time_ps = 0;
  for (std::size_t index = 0; index < profile.layers.size(); ++index) {
    const PolicyLayer& layer = profile.layers[index];
    PLEACH_TRY(check_layer(layer, index));
    for (const int64_t more : layer.tensor_bytes) {
      bytes = std::min(kMostProfileBytes, bytes) + more;
    }
    time_ps = add_times_ps(time_ps, add_times_ps(layer.forward_ps, layer.backward_ps));
    if (bytes > kMostProfileBytes || time_ps > kLongestPs) {
      return invalid(fmt::format("layer {}: the {} of the layers so far is out of range", index,
                                 bytes > kMostProfileBytes ? "sum of bytes" : "time"));
    }
  }
  return check_atoms(profile.atom_bytes, bytes);
}

ParameterSpace::ParameterSpace(const TrainingProfile& profile) {
  int64_t at = 0;
  for (const PolicyLayer& layer : profile.layers) {
    layer_begin_.push_back(at);
    for (const int64_t bytes : layer.tensor_bytes) {
      tensors_.push_back({at, at + bytes});
      at += bytes;
    }
  }
  layer_begin_.push_back(at);
  cuts_.push_back(0);
  for (const int64_t bytes :
       profile.atom_bytes.empty() ? default_atoms(profile) : profile.atom_bytes) {
    cuts_.push_back(cuts_.back() + bytes);
  }
  tensors_ = at_atoms(tensors_);
}

int32_t ParameterSpace::atom_at(int64_t byte) const {
  const auto cut = std::ranges::lower_bound(cuts_, byte);
  return cut == cuts_.end() || *cut != byte ? -1 : static_cast<int32_t>(cut - cuts_.begin());
}

int64_t ParameterSpace::nearest_cut(int64_t byte) const {
  const auto above = std::ranges::lower_bound(cuts_, byte);
  if (above == cuts_.begin()) {
    return *above;
  }
  const auto below = above - 1;
  return above == cuts_.end() || byte - *below <= *above - byte ? *below : *above;
}

std::vector<ByteRange> ParameterSpace::at_atoms(std::span<const ByteRange> ranges) const {
  std::vector<ByteRange> moved;
  for (const ByteRange& range : ranges) {
    const ByteRange nearest{nearest_cut(range.begin), nearest_cut(range.end)};
    if (nearest.size() > 0) {
      moved.push_back(nearest);
    }
  }
  return moved;
}

int32_t ParameterSpace::layer_of(int64_t byte) const {
  const auto next = std::upper_bound(layer_begin_.begin(), layer_begin_.end(), byte);
  return static_cast<int32_t>(next - layer_begin_.begin()) - 1;
}

}  // namespace pleach
