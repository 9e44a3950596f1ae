#include "pleach/policy/buckets.h"

#include <fmt/format.h>

#include <algorithm>

#include "pleach/base/index.h"

namespace pleach {

std::vector<ByteRange> blocks_of(const TrainingProfile& profile) {
  const ParameterSpace space(profile);
  std::vector<ByteRange> blocks;
  for (int32_t layer = 0; layer < space.layer_count(); ++layer) {
    if (blocks.empty() || !profile.layers[at(layer)].continues_block) {
      blocks.push_back(space.layer(layer));
    }
    blocks.back().end = space.layer(layer).end;
  }
  return space.at_atoms(blocks);
}

std::vector<ByteRange> fuse_by_threshold(std::span<const ByteRange> parts,
                                         int64_t threshold_bytes) {
  std::vector<ByteRange> groups;
  for (const ByteRange& part : parts) {
    if (groups.empty() || groups.back().size() + part.size() >= threshold_bytes) {
      groups.push_back(part);
    } else {
      groups.back().end = part.end;
    }
  }
  return groups;
}

std::vector<ByteRange> fuse_by_threshold(const ParameterSpace& space, int64_t threshold_bytes) {
  std::vector<ByteRange> layers;
  for (int32_t layer = 0; layer < space.layer_count(); ++layer) {
    layers.push_back(space.layer(layer));
  }
  return fuse_by_threshold(space.at_atoms(layers), threshold_bytes);
}

std::vector<ByteRange> fuse_backward(const ParameterSpace& space, int64_t first_cap_bytes,
                                     int64_t cap_bytes) {
  std::vector<ByteRange> buckets;
  bool is_open = false;
  const std::vector<ByteRange>& tensors = space.tensors();
  for (auto tensor = tensors.rbegin(); tensor != tensors.rend(); ++tensor) {
    if (is_open) {
      buckets.back().begin = tensor->begin;
    } else {
      buckets.push_back(*tensor);
    }
    is_open = buckets.back().size() < (buckets.size() == 1 ? first_cap_bytes : cap_bytes);
  }
  return buckets;
}

std::vector<ByteRange> cut_range(const ParameterSpace& space, ByteRange range,
                                 int64_t piece_bytes) {
  std::vector<ByteRange> pieces;
  while (range.size() > piece_bytes) {
    pieces.push_back({range.begin, range.begin + piece_bytes});
    range.begin += piece_bytes;
  }
  pieces.push_back(range);
  return space.at_atoms(pieces);
}

std::vector<TimedTensor> backward_order(const TrainingProfile& profile) {
  const ParameterSpace space(profile);
  std::vector<int64_t> ready_ps(profile.layers.size());
  int64_t now_ps = 0;
  for (std::size_t layer = profile.layers.size(); layer-- > 0;) {
    now_ps += profile.layers[layer].backward_ps;
    ready_ps[layer] = now_ps;
  }
  std::vector<TimedTensor> tensors;
  for (auto tensor = space.tensors().rbegin(); tensor != space.tensors().rend(); ++tensor) {
    const auto layer = at(space.layer_of(tensor->begin));
    tensors.push_back({*tensor, ready_ps[layer]});
  }
  return tensors;
}

std::vector<ByteRange> merge_greedily(std::span<const TimedTensor> tensors,
                                      const CostModel& costs) {
  const int64_t startup_ps = costs.time_ps(CollectiveKind::kAllReduce, 1);
  std::vector<ByteRange> groups;
  int64_t start_ps = 0;  // of the last group's all_reduce
  int64_t time_ps = 0;
  for (const TimedTensor& tensor : tensors) {
    const bool joins = !groups.empty() && tensor.ready_ps < start_ps + time_ps &&
                       (tensor.ready_ps < start_ps || tensor.ready_ps - start_ps < startup_ps);
    if (joins) {
      groups.back().begin = tensor.range.begin;
      start_ps = std::max(start_ps, tensor.ready_ps);
    } else {
      groups.push_back(tensor.range);
      start_ps = std::max(start_ps + time_ps, tensor.ready_ps);
    }
    time_ps = costs.time_ps(CollectiveKind::kAllReduce, groups.back().size());
  }
  return groups;
}

std::vector<ByteRange> merge_optimally(std::span<const TimedTensor> tensors,
                                       const CostModel& costs) {
  struct Best {
    int64_t end_ps = 0;      // of the all_reduces of the first tensors
    std::size_t before = 0;  // how many of them precede the last group
  };
  std::vector<Best> best(tensors.size() + 1);
  for (std::size_t count = 1; count <= tensors.size(); ++count) {
    const TimedTensor& last = tensors[count - 1];
    best[count].end_ps = INT64_MAX;
    for (std::size_t before = 0; before < count; ++before) {
      const int64_t bytes = tensors[before].range.end - last.range.begin;
      const int64_t end_ps = std::max(best[before].end_ps, last.ready_ps) +
                             costs.time_ps(CollectiveKind::kAllReduce, bytes);
      if (end_ps < best[count].end_ps) {
        best[count] = {end_ps, before};
      }
    }
  }
  std::vector<ByteRange> groups;
  for (std::size_t count = tensors.size(); count > 0; count = best[count].before) {
    groups.push_back({tensors[count - 1].range.begin, tensors[best[count].before].range.end});
  }
  std::ranges::reverse(groups);
  return groups;
}

OptionDescriptor group_size_option() {
  return {.name = "bucket",
          .kind = OptionDescriptor::Kind::kSize,
          .default_value = "25MiB",
          .summary = "bytes at which a group of layers closes; 0: every layer by itself"};
}

std::vector<OptionDescriptor> backward_size_options() {
  return {{.name = "first_bucket",
           .kind = OptionDescriptor::Kind::kSize,
           .default_value = "1MiB",
           .summary = "bytes at which the first bucket closes"},
          {.name = "bucket",
           .kind = OptionDescriptor::Kind::kSize,
           .default_value = "25MiB",
           .summary = "bytes at which every other bucket closes"}};
}

std::vector<ByteRange> fuse_backward(const ParameterSpace& space, const Options& options) {
  return fuse_backward(space, options.number("first_bucket"), options.number("bucket"));
}

Result<int64_t> positive_option(const Options& options, const std::string& name,
                                std::string_view policy) {
  const int64_t value = options.number(name);
  if (value <= 0) {
    return invalid(fmt::format("policy {}: {} of {} must be more than 0", policy, name, value));
  }
  return value;
}

}  // namespace pleach
