#include "pleach/workload/models/network_builder.h"

#include <utility>

#include "pleach/base/check.h"

namespace pleach {
namespace {

int64_t slid(int64_t size, int64_t kernel, int64_t stride, int64_t padding) {
  return (size + 2 * padding - kernel) / stride + 1;
}

}  // namespace

NetworkBuilder::NetworkBuilder(std::string name, int64_t batch, const FeatureMap& input)
    : shape_(input) {
  model_.name = std::move(name);
  model_.batch = batch;
  model_.input_bytes = input.element_count() * kInputElementBytes;
}

ModelLayer& NetworkBuilder::append(const std::string& name) {
  ModelLayer& layer = model_.layers.emplace_back();
  layer.name = name;
  layer.block = block_;
  return layer;
}

void NetworkBuilder::move(int64_t elements) {
  PLEACH_CHECK(!model_.layers.empty(), "no layer that could do the work");
  model_.layers.back().moved_elements += elements;
}

void NetworkBuilder::set_output() {
  model_.layers.back().output_elements = shape_.element_count();
}

void NetworkBuilder::convolution(const std::string& name, const Convolution& convolution) {
  ModelLayer& layer = append(name);
  const int64_t depth = shape_.channels * convolution.kernel.height * convolution.kernel.width;
  layer.tensors.push_back({"weight", convolution.channels * depth});
  if (convolution.has_bias) {
    layer.tensors.push_back({"bias", convolution.channels});
  }
  shape_ = {
      convolution.channels,
      slid(shape_.height, convolution.kernel.height, convolution.stride,
           convolution.padding.height),
      slid(shape_.width, convolution.kernel.width, convolution.stride, convolution.padding.width)};
  layer.products.push_back({shape_.height * shape_.width, convolution.channels, depth, 1});
  set_output();
}

void NetworkBuilder::batch_norm(const std::string& name) {
  ModelLayer& layer = append(name);
  layer.tensors = {{"weight", shape_.channels}, {"bias", shape_.channels}};
  move(3 * shape_.element_count());
  set_output();
}

void NetworkBuilder::relu() {
  move(2 * shape_.element_count());
}

void NetworkBuilder::convolution_norm_relu(const std::string& name, Convolution convolution) {
  this->convolution(name + ".conv", convolution);
  batch_norm(name + ".bn");
  relu();
}

void NetworkBuilder::linear(const std::string& name, int64_t features, bool has_bias) {
  ModelLayer& layer = append(name);
  const int64_t depth = shape_.element_count();
  layer.tensors.push_back({"weight", features * depth});
  if (has_bias) {
    layer.tensors.push_back({"bias", features});
  }
  layer.products.push_back({1, features, depth, 1});
  shape_ = {features, 1, 1};
  set_output();
}

void NetworkBuilder::pool(const Pooling& pooling) {
  const int64_t before = shape_.element_count();
  const auto size = [&](int64_t side) {
    const int64_t reach = side + 2 * pooling.padding - pooling.kernel;
    return (reach + (pooling.rounds_up ? pooling.stride - 1 : 0)) / pooling.stride + 1;
  };
  shape_ = {shape_.channels, size(shape_.height), size(shape_.width)};
  move(before + shape_.element_count());
  set_output();
}

void NetworkBuilder::average_pool(int64_t size) {
  const int64_t before = shape_.element_count();
  shape_ = {shape_.channels, size, size};
  move(before + shape_.element_count());
  set_output();
}

void NetworkBuilder::add_residual() {
  move(3 * shape_.element_count());
}

void NetworkBuilder::concatenate(int64_t channels) {
  shape_.channels = channels;
  move(2 * shape_.element_count());
  set_output();
}

void NetworkBuilder::end_block() {
  ++block_;
}

Model NetworkBuilder::finish() && {
  return std::move(model_);
}

}  // namespace pleach
