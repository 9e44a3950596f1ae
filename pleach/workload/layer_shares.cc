#include "pleach/workload/layer_shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "pleach/base/index.h"
#include "pleach/base/units.h"

namespace pleach {
namespace {

constexpr double kMostBytes = 0x1p60;  // of any buffer: sums of a few stay within 64 bits
constexpr auto kMostPs = static_cast<double>(kLongestPs);
constexpr double kMostNodes = 0x1p28;

int64_t divide_up(int64_t value, int64_t by) {
  return value / by + (value % by != 0 ? 1 : 0);
}

Status check_numbers(const Workload& workload, const Strategy& strategy) {
  const Model& model = workload.model;
  const std::pair<std::string_view, int32_t> counts[] = {
      {"dp", strategy.data},     {"tp", strategy.tensor}, {"pp", strategy.pipeline},
      {"sp", strategy.sequence}, {"ep", strategy.expert}, {"micro_batches", strategy.micro_batches},
  };
  double product = 1;
  for (const auto& [name, count] : counts) {
    if (count < 1) {
      return invalid(fmt::format("strategy: {}={} must be at least 1", name, count));
    }
    product *= name == "ep" || name == "micro_batches" ? 1 : count;
  }
  if (product > INT32_MAX) {
    return invalid(fmt::format("strategy {}: more ranks than {}", to_text(strategy), INT32_MAX));
  }
  if (strategy.zero < 0 || strategy.zero > 3 || strategy.stream_bytes_per_s < 0) {
    return invalid(fmt::format("strategy: there is no ZeRO stage {} or no bandwidth of {} bytes/s",
                               strategy.zero, strategy.stream_bytes_per_s));
  }
  if (strategy.stream_bytes_per_s > 0 && strategy.streams_by_io) {
    return invalid("strategy: weights stream at a bandwidth or by I/O nodes, not both");
  }
  if (!std::ranges::is_permutation(strategy.placement, Strategy().placement)) {
    return invalid("strategy: the placement does not name each dimension once");
  }
  if (strategy.placement_rule != PlacementRule::kGiven) {
    return invalid("strategy: a placement that is a rule, and no rank of each place yet");
  }
  PLEACH_TRY(check_placement(strategy));
  if (strategy.multicast_outputs && strategy.tensor_sequence) {
    return invalid(
        "strategy: outputs=multicast sends the whole of an output, of which each rank has a part "
        "with tensor_sequence=on");
  }
  if (workload.batch < 1 || workload.batch % strategy.micro_batches != 0) {
    return invalid(fmt::format("{}: a batch of {} does not divide into {} micro-batches",
                               model.name, workload.batch, strategy.micro_batches));
  }
  const auto* measured = std::get_if<MeasuredTimes>(&workload.times);
  if (measured != nullptr &&
      (measured->layers.size() != model.layers.size() || measured->batch < 1)) {
    return invalid(
        fmt::format("{}: times of {} layers, measured for a batch of {}, do not fit {} "
                    "layers",
                    model.name, measured->layers.size(), measured->batch, model.layers.size()));
  }
  const double nodes = 2.0 * static_cast<double>(model.layers.size()) * strategy.micro_batches;
  if (nodes > kMostNodes) {
    return invalid(fmt::format("{}: {} layers in {} micro-batches are too many to trace",
                               model.name, model.layers.size(), strategy.micro_batches));
  }
  return ok();
}

// That the model has what the strategy splits.
Status check_splits(const Model& model, const Strategy& strategy) {
  const auto some = [&](auto has) { return std::ranges::any_of(model.layers, has); };
  if (strategy.tensor > 1 && !some([](const ModelLayer& layer) { return layer.is_split; })) {
    return invalid(fmt::format("{} has no layers that tensor parallelism splits (tp={})",
                               model.name, strategy.tensor));
  }
  if (strategy.sequence > 1 &&
      !some([](const ModelLayer& layer) { return layer.sequence_exchange_elements > 0; })) {
    return invalid(fmt::format("{} has no layers that sequence parallelism splits (sp={})",
                               model.name, strategy.sequence));
  }
  if (strategy.expert > 1 &&
      !some([](const ModelLayer& layer) { return layer.expert_count > 0; })) {
    return invalid(fmt::format("{} has no experts that expert parallelism spreads (ep={})",
                               model.name, strategy.expert));
  }
  if (strategy.data % strategy.expert != 0) {
    return invalid(
        fmt::format("strategy: ep={} does not divide dp={}", strategy.expert, strategy.data));
  }
  for (const ModelLayer& layer : model.layers) {
    if (layer.expert_count % strategy.expert != 0) {
      return invalid(fmt::format("{}, layer {}: ep={} does not divide {} experts", model.name,
                                 layer.name, strategy.expert, layer.expert_count));
    }
    if (layer.sequence_exchange_elements % strategy.sequence != 0) {
      return invalid(
          fmt::format("{}, layer {}: sp={} does not divide the {} elements that it "
                      "exchanges",
                      model.name, layer.name, strategy.sequence, layer.sequence_exchange_elements));
    }
  }
  const int32_t blocks = 1 + model.layers.back().block - model.layers.front().block;
  if (strategy.pipeline > blocks) {
    return invalid(fmt::format("{} has {} blocks, too few for {} pipeline stages", model.name,
                               blocks, strategy.pipeline));
  }
  return ok();
}

class Splitter {
 public:
  Splitter(const Workload& workload, const Strategy& strategy)
      : workload_(workload),
        strategy_(strategy),
        samples_(static_cast<double>(workload.batch) / strategy.micro_batches / strategy.sequence) {
  }

  LayerShare share(int32_t index) {
    const Model& model = workload_.model;
    const ModelLayer& layer = model.layers[at(index)];
    // Inside the tensor group, layers that are not split have a part of the tokens each.
    const double scattered = strategy_.tensor_sequence ? 1.0 / strategy_.tensor : 1.0;
    const double replicated = layer.is_split ? 1.0 : scattered;
    LayerShare share;
    share.times =
        layer_times(workload_, index, samples_ * replicated, layer.is_split ? strategy_.tensor : 1);
    share.times.backward_ps += strategy_.recompute ? share.times.forward_ps : 0;
    share.is_expert = layer.expert_count > 0 && strategy_.expert > 1;
    share.tensor_bytes = tensor_bytes(layer, share.is_expert);
    share.parameter_bytes =
        std::reduce(share.tensor_bytes.begin(), share.tensor_bytes.end(), int64_t{0});
    share.forward_sum_bytes = buffer_bytes(layer.forward_sum_elements, 1);
    share.backward_sum_bytes = buffer_bytes(layer.backward_sum_elements, 1);
    // Heads are split where the layer is.
    share.sequence_exchange_bytes = buffer_bytes(
        layer.sequence_exchange_elements, layer.is_split ? 1.0 / strategy_.tensor : scattered);
    share.expert_exchange_bytes = buffer_bytes(layer.expert_exchange_elements, replicated);
    share.output_bytes = buffer_bytes(layer.output_elements, scattered);
    // What the group sums is scattered where it is summed by reduce_scatter.
    const bool is_part = layer.is_split && layer.forward_sum_elements == 0;
    const double kept = kept_elements(model, index, strategy_.tensor) * samples_ *
                        model.element_bytes * (is_part ? 1.0 : scattered);
    share.kept_bytes = static_cast<int64_t>(std::min(std::ceil(kept), kMostBytes));
    return share;
  }

  int64_t input_bytes() {
    const double bytes = static_cast<double>(workload_.model.input_bytes) * samples_;
    note(bytes);
    return overflows_ ? 0 : static_cast<int64_t>(std::ceil(bytes));
  }

  bool overflows() const { return overflows_; }

 private:
  std::vector<int64_t> tensor_bytes(const ModelLayer& layer, bool is_expert) {
    const int64_t split =
        int64_t{layer.is_split ? strategy_.tensor : 1} * (is_expert ? strategy_.expert : 1);
    std::vector<int64_t> bytes;
    for (const ModelTensor& tensor : layer.tensors) {
      const int64_t elements = divide_up(tensor.element_count, split);
      note(static_cast<double>(elements) * workload_.model.element_bytes);
      bytes.push_back(overflows_ ? 1 : elements * workload_.model.element_bytes);
    }
    return bytes;
  }

  // Of activations, `part` of which one rank has.
  int64_t buffer_bytes(int64_t elements, double part) {
    const double bytes = static_cast<double>(elements) * samples_ * part *
                         static_cast<double>(workload_.model.element_bytes);
    note(bytes);
    return overflows_ || elements == 0 ? 0 : std::max<int64_t>(1, std::llround(bytes));
  }

  void note(double bytes) { overflows_ = overflows_ || bytes > kMostBytes; }

  const Workload& workload_;
  const Strategy& strategy_;
  const double samples_;  // of one rank's micro-batch; sequences are split
  bool overflows_ = false;
};

// First block of each stage, greedily: how many stages there are when none takes over `limit`.
std::vector<std::size_t> fill(const std::vector<int64_t>& blocks, std::size_t stages,
                              int64_t limit) {
  std::vector<std::size_t> first = {0};
  int64_t sum = 0;
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    // The blocks that are left must do for the stages that are left.
    const bool must = blocks.size() - block == stages - first.size() && block > first.back();
    if (block > first.back() && (must || sum + blocks[block] > limit)) {
      first.push_back(block);
      sum = 0;
    }
    sum += blocks[block];
  }
  return first;
}

// First layer of each stage: the least limit with which the blocks fit, found by bisection, since
// fewer stages are needed the larger it is.
std::vector<int32_t> cut_stages(const Model& model, const std::vector<LayerShare>& layers,
                                int32_t stages) {
  std::vector<int64_t> blocks;
  std::vector<int32_t> first_layer;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    if (layer == 0 || model.layers[layer].block != model.layers[layer - 1].block) {
      blocks.push_back(0);
      first_layer.push_back(static_cast<int32_t>(layer));
    }
    blocks.back() += layers[layer].times.forward_ps + layers[layer].times.backward_ps;
  }
  int64_t least = *std::ranges::max_element(blocks);
  int64_t most = std::reduce(blocks.begin(), blocks.end(), int64_t{0});
  const auto count = at(stages);
  while (least < most) {
    const int64_t middle = least + (most - least) / 2;
    if (fill(blocks, count, middle).size() <= count) {
      most = middle;
    } else {
      least = middle + 1;
    }
  }
  std::vector<int32_t> result;
  for (const std::size_t block : fill(blocks, count, least)) {
    result.push_back(first_layer[block]);
  }
  result.push_back(count_of(layers));
  return result;
}

// Of the bytes of the largest layer, what a window has at least.
constexpr int64_t kLeastWindowPart = 16;

// One layer each; what is too small for a window by itself is part of the next one, or the last.
std::vector<int32_t> cut_windows_of_layers(const std::vector<LayerShare>& layers) {
  int64_t largest = 0;
  for (const LayerShare& layer : layers) {
    largest = std::max(largest, layer.parameter_bytes);
  }
  std::vector<int32_t> first_layer = {0};
  int64_t bytes = 0;  // of the window that was begun last
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    if (layer > 0 && bytes >= largest / kLeastWindowPart) {
      first_layer.push_back(static_cast<int32_t>(layer));
      bytes = 0;
    }
    bytes += layers[layer].parameter_bytes;
  }
  if (first_layer.size() > 1 && bytes < largest / kLeastWindowPart) {
    first_layer.pop_back();
  }
  first_layer.push_back(count_of(layers));
  return first_layer;
}

// Runs of streamed weights: as little as a stage can compute by itself. Recomputation needs all
// weights of a block, twice.
std::vector<int32_t> cut_windows(const Model& model, const std::vector<LayerShare>& layers,
                                 const Strategy& strategy) {
  if (strategy.pipeline == 1 && !strategy.recompute) {
    return cut_windows_of_layers(layers);
  }
  std::vector<int32_t> first_layer;
  for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
    if (layer == 0 || model.layers[layer].block != model.layers[layer - 1].block) {
      first_layer.push_back(static_cast<int32_t>(layer));
    }
  }
  first_layer.push_back(count_of(model.layers));
  return first_layer;
}

// Layers tied to the first compute with its tensors. A stage that does not hold the first has a
// copy, which belongs to the earliest such layer: its gradient is complete last.
void place_tied(const Model& model, bool streams, LayerShares& shares) {
  for (int32_t stage = 0; stage < shares.stage_count; ++stage) {
    bool has_copy = stage == 0;
    for (const int32_t index : shares.layers_of(stage)) {
      LayerShare& layer = shares.layers[at(index)];
      LayerShare& first = shares.layers.front();
      if (!model.layers[at(index)].is_tied_to_first || index == 0) {
        continue;
      }
      layer.parameter_bytes += first.parameter_bytes;
      if (!has_copy && !streams) {
        has_copy = true;
        layer.tensor_bytes.insert(layer.tensor_bytes.end(), first.tensor_bytes.begin(),
                                  first.tensor_bytes.end());
        layer.is_shared = true;
        first.is_shared = true;
      }
    }
  }
}

// Adam reads and writes a weight and two moments of 4 bytes, reads the gradient and writes the
// parameter: as many bytes as the accelerator's memory moves.
void time_updates(const Workload& workload, const Strategy& strategy, LayerShares& shares) {
  const auto* accelerator = std::get_if<Accelerator>(&workload.times);
  const auto* roof = accelerator == nullptr ? nullptr : std::get_if<Roofline>(&accelerator->rule);
  if (roof == nullptr || !strategy.optimizer || strategy.streams()) {
    return;
  }
  const double element_bytes = workload.model.element_bytes;
  for (LayerShare& layer : shares.layers) {
    const auto bytes = static_cast<double>(
        std::reduce(layer.tensor_bytes.begin(), layer.tensor_bytes.end(), int64_t{0}));
    const double moved_bytes = bytes / element_bytes * (2 * 3 * 4 + 2 * element_bytes);
    const double ranks = strategy.zero >= 1 ? replicas_of(layer, strategy) : 1;
    layer.update_ps =
        static_cast<int64_t>(std::min(std::ceil(moved_bytes / ranks / roof->memory_bytes_per_s *
                                                static_cast<double>(kPicosecondsPerSecond)),
                                      kMostPs));
  }
}

// Weights come in once for forward and once for backward, and gradients go once.
Status check_streams(const Model& model, const Strategy& strategy, const LayerShares& shares) {
  double bytes = 0;
  for (const LayerShare& layer : shares.layers) {
    bytes += 3.0 * static_cast<double>(layer.parameter_bytes);
  }
  const auto bandwidth = static_cast<double>(strategy.stream_bytes_per_s);
  if (bandwidth > 0 && bytes / bandwidth * static_cast<double>(kPicosecondsPerSecond) > kMostPs) {
    return invalid(fmt::format("{}: to stream {:.3g} bytes at {} bytes/s takes over {}", model.name,
                               bytes, strategy.stream_bytes_per_s, kLongestText));
  }
  return ok();
}

}  // namespace

int32_t replicas_of(const LayerShare& layer, const Strategy& strategy) {
  return strategy.data * strategy.sequence / (layer.is_expert ? strategy.expert : 1);
}

std::vector<int32_t> LayerShares::layers_of(int32_t stage) const {
  std::vector<int32_t> result;
  for (int32_t run = stage; run < run_count(); run += stage_count) {
    for (int32_t layer = first_layer[at(run)]; layer < first_layer[at(run) + 1]; ++layer) {
      result.push_back(layer);
    }
  }
  return result;
}

Result<LayerShares> share_layers(const Workload& workload, const Strategy& strategy) {
  const Model& model = workload.model;
  PLEACH_TRY(check_model(model));
  PLEACH_TRY(check_numbers(workload, strategy));
  PLEACH_TRY(check_splits(model, strategy));
  Splitter splitter(workload, strategy);
  LayerShares result;
  result.input_bytes = splitter.input_bytes();
  double total_ps = 0;
  for (std::size_t index = 0; index < model.layers.size(); ++index) {
    const LayerShare share = splitter.share(static_cast<int32_t>(index));
    total_ps +=
        static_cast<double>(share.times.forward_ps) + static_cast<double>(share.times.backward_ps);
    if (splitter.overflows() || total_ps * strategy.micro_batches > kMostPs) {
      return invalid(fmt::format("{}, layer {}: buffers beyond 2^60 bytes or times beyond {}",
                                 model.name, model.layers[index].name, kLongestText));
    }
    result.layers.push_back(share);
  }
  const bool streams = strategy.streams();
  result.stage_count = strategy.pipeline;
  result.first_layer = streams ? cut_windows(model, result.layers, strategy)
                               : cut_stages(model, result.layers, strategy.pipeline);
  place_tied(model, streams, result);
  time_updates(workload, strategy, result);
  PLEACH_TRY(check_streams(model, strategy, result));
  return result;
}

}  // namespace pleach
