// Residual networks, as torchvision builds them: the stride is in the 3×3 convolution.
#include <fmt/format.h>

#include <array>

#include "pleach/workload/model.h"
#include "pleach/workload/models/network_builder.h"

namespace pleach {
namespace {

constexpr int64_t kExpansion = 4;

struct Bottleneck {
  int64_t width = 0;
  int64_t stride = 1;
};

void add_bottleneck(NetworkBuilder& network, const std::string& name,
                    const Bottleneck& bottleneck) {
  const FeatureMap input = network.shape();
  const auto [width, stride] = bottleneck;
  network.convolution(name + ".conv1", {.channels = width});
  network.batch_norm(name + ".bn1");
  network.relu();
  network.convolution(name + ".conv2", {width, {3, 3}, stride, {1, 1}});
  network.batch_norm(name + ".bn2");
  network.relu();
  network.convolution(name + ".conv3", {.channels = width * kExpansion});
  network.batch_norm(name + ".bn3");
  if (stride != 1 || input.channels != width * kExpansion) {
    network.restart(input);
    network.convolution(name + ".downsample.0", {.channels = width * kExpansion, .stride = stride});
    network.batch_norm(name + ".downsample.1");
  }
  network.add_residual();
  network.relu();
  network.end_block();
}

Model make_resnet(const std::string& name, int64_t batch, const std::array<int32_t, 4>& blocks) {
  NetworkBuilder network(name, batch, {3, 224, 224});
  network.convolution("conv1", {64, {7, 7}, 2, {3, 3}});
  network.batch_norm("bn1");
  network.relu();
  network.pool({.kernel = 3, .stride = 2, .padding = 1});
  network.end_block();
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    for (int32_t block = 0; block < blocks[stage]; ++block) {
      add_bottleneck(network, fmt::format("layer{}.{}", stage + 1, block),
                     {int64_t{64} << stage, block == 0 && stage > 0 ? 2 : 1});
    }
  }
  network.average_pool(1);
  network.linear("fc", 1000, true);
  return std::move(network).finish();
}

Result<Model> make_resnet50(const Options&) {
  return make_resnet("resnet50", 64, {3, 4, 6, 3});
}

Result<Model> make_resnet152(const Options&) {
  return make_resnet("resnet152", 16, {3, 8, 36, 3});
}

constexpr const char* kSource = "He et al., CVPR 2016, table 1; torchvision's modules";

}  // namespace

extern const WorkloadDescriptor kResnet50 = {
    "resnet50", "ResNet-50, images of 224x224", kSource, {}, make_resnet50};
extern const WorkloadDescriptor kResnet152 = {
    "resnet152", "ResNet-152, images of 224x224", kSource, {}, make_resnet152};

}  // namespace pleach
