#include "pleach/policy/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "pleach/base/units.h"

namespace pleach {
namespace {

// Sums of bytes stay far from the end of int64.
constexpr int64_t kMostBytes = INT64_MAX / 64;

Status check_layer(const PolicyLayer& layer, std::size_t index) {
  for (const auto& [name, value, most] :
       {std::tuple{"forward time", layer.forward_ps, kLongestPs},
        {"backward time", layer.backward_ps, kLongestPs},
        {"weight gradient time", layer.weight_gradient_ps, kLongestPs},
        {"exchange", layer.exchange_bytes, kMostBytes}}) {
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
    if (bytes <= 0 || bytes > kMostBytes) {
      return invalid(fmt::format("layer {}: a tensor of {} bytes", index, bytes));
    }
  }
  return ok();
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
      bytes = std::min(kMostBytes, bytes) + more;
    }
    time_ps = add_times_ps(time_ps, add_times_ps(layer.forward_ps, layer.backward_ps));
    if (bytes > kMostBytes || time_ps > kLongestPs) {
      return invalid(fmt::format("layer {}: the {} of the layers so far is out of range", index,
                                 bytes > kMostBytes ? "sum of bytes" : "time"));
    }
  }
  return ok();
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
}

int32_t ParameterSpace::layer_of(int64_t byte) const {
  const auto next = std::upper_bound(layer_begin_.begin(), layer_begin_.end(), byte);
  return static_cast<int32_t>(next - layer_begin_.begin()) - 1;
}

}  // namespace pleach
