// NetworkBuilder: writes a convolutional network module by module and keeps track of what flows
// through it, so that the work of each layer is derived.
#pragma once

#include <cstdint>
#include <string>

#include "pleach/workload/model.h"

namespace pleach {

// The activations of one sample.
struct FeatureMap {
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;

  int64_t element_count() const { return channels * height * width; }
};

struct Extent {
  int64_t height = 1;
  int64_t width = 1;
};

struct Convolution {
  int64_t channels = 0;  // of the result
  Extent kernel = {1, 1};
  int64_t stride = 1;
  Extent padding = {0, 0};
  bool has_bias = false;
};

struct Pooling {
  int64_t kernel = 2;
  int64_t stride = 2;
  int64_t padding = 0;
  bool rounds_up = false;  // whether a window may reach beyond the padding
};

// Methods append a layer, or add to the last one the activations that a module without parameters
// moves. Assumed passes over memory: batch norm 3 (statistics, read, write), ReLU 2, pooling its
// input and output, a residual sum 3, a concatenation 2.
class NetworkBuilder {
 public:
  NetworkBuilder(std::string name, int64_t batch, const FeatureMap& input);

  const FeatureMap& shape() const { return shape_; }
  // Goes back to an earlier map: the next branch starts there.
  void restart(const FeatureMap& shape) { shape_ = shape; }

  void convolution(const std::string& name, const Convolution& convolution);
  void batch_norm(const std::string& name);
  void relu();
  // Without bias, NAME.conv; then NAME.bn and ReLU.
  void convolution_norm_relu(const std::string& name, Convolution convolution);
  void linear(const std::string& name, int64_t features, bool has_bias);
  void pool(const Pooling& pooling);
  void average_pool(int64_t size);
  void add_residual();
  // The map gets `channels` channels: branches, put together.
  void concatenate(int64_t channels);
  void end_block();

  Model finish() &&;

 private:
  ModelLayer& append(const std::string& name);
  void move(int64_t elements);
  void set_output();

  Model model_;
  FeatureMap shape_;
  int32_t block_ = 0;
};

}  // namespace pleach
