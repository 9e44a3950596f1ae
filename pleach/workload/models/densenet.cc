// DenseNet-201, as torchvision builds it. A stage may end after any dense layer and sends on all
// that the block has gathered so far.
#include <fmt/format.h>

#include <array>

#include "pleach/workload/model.h"
#include "pleach/workload/models/network_builder.h"

namespace pleach {
namespace {

constexpr int64_t kGrowth = 32;
constexpr int64_t kBottleneck = 4 * kGrowth;
constexpr std::array<int32_t, 4> kLayers = {6, 12, 48, 32};

void add_dense_layer(NetworkBuilder& network, const std::string& name) {
  const int64_t gathered = network.shape().channels;
  network.batch_norm(name + ".norm1");
  network.relu();
  network.convolution(name + ".conv1", {.channels = kBottleneck});
  network.batch_norm(name + ".norm2");
  network.relu();
  network.convolution(name + ".conv2", {kGrowth, {3, 3}, 1, {1, 1}});
  network.concatenate(gathered + kGrowth);
  network.end_block();
}

Result<Model> make_densenet201(const Options&) {
  NetworkBuilder network("densenet201", 32, {3, 224, 224});
  network.convolution("features.conv0", {64, {7, 7}, 2, {3, 3}});
  network.batch_norm("features.norm0");
  network.relu();
  network.pool({.kernel = 3, .stride = 2, .padding = 1});
  network.end_block();
  for (std::size_t block = 1; block <= kLayers.size(); ++block) {
    for (int32_t layer = 1; layer <= kLayers[block - 1]; ++layer) {
      add_dense_layer(network, fmt::format("features.denseblock{}.denselayer{}", block, layer));
    }
    if (block < kLayers.size()) {
      const std::string transition = fmt::format("features.transition{}", block);
      network.batch_norm(transition + ".norm");
      network.relu();
      network.convolution(transition + ".conv", {.channels = network.shape().channels / 2});
      network.pool({.kernel = 2, .stride = 2});
      network.end_block();
    }
  }
  network.batch_norm("features.norm5");
  network.relu();
  network.average_pool(1);
  network.linear("classifier", 1000, true);
  return std::move(network).finish();
}

}  // namespace

extern const WorkloadDescriptor kDensenet201 = {
    "densenet201",
    "DenseNet-201, images of 224x224",
    "Huang et al., CVPR 2017, table 1; torchvision's modules",
    {},
    make_densenet201};

}  // namespace pleach
