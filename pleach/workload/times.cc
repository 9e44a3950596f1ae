// How long a layer computes: estimated from its work, or measured.
#include <algorithm>
#include <cmath>
#include <limits>

#include "pleach/base/check.h"
#include "pleach/base/index.h"
#include "pleach/base/units.h"
#include "pleach/workload/workload.h"

namespace pleach {
namespace {

constexpr double kPicoseconds = static_cast<double>(kPicosecondsPerSecond);

// Rounded to the nearest; saturates.
int64_t whole_ps(double time_ps) {
  constexpr auto kMost = static_cast<double>(std::numeric_limits<int64_t>::max());
  return time_ps >= kMost ? std::numeric_limits<int64_t>::max()
                          : static_cast<int64_t>(std::llround(time_ps));
}

// A layer's share of its work for `samples`.
struct Share {
  const Model& model;
  std::size_t layer = 0;
  double samples = 1;
  int32_t split = 1;  // 1 where the layer is not split
};

int64_t divided(int64_t amount, int32_t split) {
  return (amount - 1) / split + 1;
}

// Several products of a kind (heads) go whole to the ranks. A single one is split by columns or,
// where the group sums the results, by rows of its second matrix.
MatrixProduct split_product(const MatrixProduct& product, const ModelLayer& layer, int32_t split) {
  MatrixProduct part = product;
  const bool is_summed = layer.forward_sum_elements > 0 && layer.backward_sum_elements == 0;
  int64_t& side = product.count > 1 ? part.count : is_summed ? part.k : part.n;
  side = divided(side, split);
  return part;
}

double results_of(const MatrixProduct& product) {
  return static_cast<double>(product.m) * static_cast<double>(product.n) *
         static_cast<double>(product.count);
}

LayerTimes times_on(const Roofline& roofline, const Share& share) {
  const ModelLayer& layer = share.model.layers[share.layer];
  double work = 0;
  double elements = static_cast<double>(layer.moved_elements) / share.split * share.samples;
  for (const MatrixProduct& product : layer.products) {
    const MatrixProduct part = split_product(product, layer, share.split);
    work += results_of(part) * static_cast<double>(part.k);
    elements += results_of(part) * share.samples;
  }
  if (!layer.products.empty()) {
    const int64_t input = share.layer > 0 ? share.model.layers[share.layer - 1].output_elements : 0;
    elements += static_cast<double>(input) * share.samples;
    const ModelLayer& weights = layer.is_tied_to_first ? share.model.layers.front() : layer;
    elements += static_cast<double>(parameter_count(weights)) / share.split;
  }
  const double compute_s =
      2 * work * share.samples / (roofline.operations_per_s * roofline.efficiency);
  const double memory_s = elements * share.model.element_bytes / roofline.memory_bytes_per_s;
  const double forward_ps =
      std::max(compute_s, memory_s) * kPicoseconds + static_cast<double>(roofline.overhead_ps);
  // Backward has two products for each of forward's: for the gradient of the input and of the
  // weight.
  return {whole_ps(forward_ps), whole_ps(2 * forward_ps),
          layer.products.empty() ? 0 : whole_ps(forward_ps)};
}

double cycles_of(const SystolicArray& array, int64_t m, int64_t n, int64_t k) {
  const auto tiles = [](int64_t size, int32_t side) {
    const int64_t whole_tiles = (size - 1) / side + 1;
    return static_cast<double>(whole_tiles);
  };
  const double cycles_per_tile = 2.0 * array.rows + array.columns + static_cast<double>(k) - 2.0;
  return tiles(m, array.rows) * tiles(n, array.columns) * cycles_per_tile;
}

LayerTimes times_on(const SystolicArray& array, const Share& share) {
  const ModelLayer& layer = share.model.layers[share.layer];
  double forward = 0;
  double input_gradient = 0;
  double weight_gradient = 0;
  for (const MatrixProduct& product : layer.products) {
    const auto [m, n, k, count] = split_product(product, layer, share.split);
    const auto times = static_cast<double>(count);
    forward += times * cycles_of(array, m, n, k);
    input_gradient += times * cycles_of(array, m, k, n);
    weight_gradient += times * cycles_of(array, k, n, m);
  }
  // Whole samples go to one array each; a part of one sample is that part of the cycles.
  const double rounds =
      share.samples < 1 ? share.samples : std::ceil(share.samples / array.array_count);
  const double scale_ps = rounds / array.clock_hz * kPicoseconds;
  return {whole_ps(forward * scale_ps), whole_ps((input_gradient + weight_gradient) * scale_ps),
          whole_ps(weight_gradient * scale_ps)};
}

LayerTimes scaled(const LayerTimes& times, double factor) {
  return {whole_ps(static_cast<double>(times.forward_ps) * factor),
          whole_ps(static_cast<double>(times.backward_ps) * factor),
          whole_ps(static_cast<double>(times.weight_gradient_ps) * factor)};
}

// Rounds running sums, so that the parts add up to `total`.
class ExactScale {
 public:
  ExactScale(double sum, int64_t total) : sum_(sum), total_(total) {}

  int64_t operator()(int64_t part) {
    done_ += static_cast<double>(part);
    const int64_t reached =
        done_ >= sum_ ? total_
                      : std::min(total_, whole_ps(done_ / sum_ * static_cast<double>(total_)));
    const int64_t result = reached - reached_;
    reached_ = reached;
    return result;
  }

 private:
  double sum_;
  int64_t total_;
  double done_ = 0;
  int64_t reached_ = 0;
};

}  // namespace

LayerTimes layer_times(const Workload& workload, int32_t layer, double samples, int32_t split) {
  const auto index = at(layer);
  PLEACH_CHECK(layer >= 0 && index < workload.model.layers.size(), "no such layer");
  PLEACH_CHECK(samples > 0 && split >= 1, "no work for a layer");
  const int32_t used_split = workload.model.layers[index].is_split ? split : 1;
  if (const auto* measured = std::get_if<MeasuredTimes>(&workload.times)) {
    return scaled(measured->layers[index],
                  samples / static_cast<double>(measured->batch) / used_split);
  }
  const Accelerator& accelerator = std::get<Accelerator>(workload.times);
  const Share share = {workload.model, index, samples, used_split};
  return std::visit([&](const auto& rule) { return times_on(rule, share); }, accelerator.rule);
}

double kept_elements(const Model& model, int32_t layer, int32_t split) {
  PLEACH_CHECK(layer >= 0 && at(layer) < model.layers.size() && split >= 1, "no such layer");
  const ModelLayer& own = model.layers[at(layer)];
  const int32_t used_split = own.is_split ? split : 1;
  // The group's sum is whole on every rank, and so is what is made of it.
  const int32_t output_split = own.forward_sum_elements > 0 ? 1 : used_split;
  double results = static_cast<double>(own.moved_elements) / 3 / output_split;
  for (const MatrixProduct& product : own.products) {
    results += results_of(split_product(product, own, used_split));
  }
  return std::max(results, static_cast<double>(own.output_elements) / output_split);
}

Result<Workload> scaled_to(const Workload& workload, int64_t total_ps) {
  if (total_ps <= 0) {
    return invalid("the time of an iteration, " + std::to_string(total_ps) + " ps, is not above 0");
  }
  MeasuredTimes measured{workload.batch, {}};
  double sum = 0;
  for (std::size_t layer = 0; layer < workload.model.layers.size(); ++layer) {
    measured.layers.push_back(
        layer_times(workload, static_cast<int32_t>(layer), static_cast<double>(workload.batch), 1));
    sum += static_cast<double>(measured.layers.back().forward_ps) +
           static_cast<double>(measured.layers.back().backward_ps);
  }
  if (sum <= 0) {
    return invalid(workload.model.name + ": its layers take no time that could be scaled");
  }
  ExactScale scale(sum, total_ps);
  for (LayerTimes& times : measured.layers) {
    const double share = times.backward_ps > 0 ? static_cast<double>(times.weight_gradient_ps) /
                                                     static_cast<double>(times.backward_ps)
                                               : 0;
    times.forward_ps = scale(times.forward_ps);
    times.backward_ps = scale(times.backward_ps);
    times.weight_gradient_ps = whole_ps(share * static_cast<double>(times.backward_ps));
  }
  Workload result = workload;
  result.times = std::move(measured);
  return result;
}

}  // namespace pleach
