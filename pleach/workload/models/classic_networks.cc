// AlexNet, VGG-16 and GoogLeNet, as torchvision builds them.
#include <fmt/format.h>

#include <array>
#include <vector>

#include "pleach/workload/model.h"
#include "pleach/workload/models/network_builder.h"

namespace pleach {
namespace {

Result<Model> make_alexnet(const Options&) {
  NetworkBuilder network("alexnet", 64, {3, 224, 224});
  const Pooling pooling = {.kernel = 3, .stride = 2};
  const auto add = [&](int32_t index, const Convolution& convolution, bool is_pooled) {
    network.convolution(fmt::format("features.{}", index), convolution);
    network.relu();
    if (is_pooled) {
      network.pool(pooling);
    }
    network.end_block();
  };
  add(0, {64, {11, 11}, 4, {2, 2}, true}, true);
  add(3, {192, {5, 5}, 1, {2, 2}, true}, true);
  add(6, {384, {3, 3}, 1, {1, 1}, true}, false);
  add(8, {256, {3, 3}, 1, {1, 1}, true}, false);
  add(10, {256, {3, 3}, 1, {1, 1}, true}, true);
  network.linear("classifier.1", 4096, true);
  network.relu();
  network.linear("classifier.4", 4096, true);
  network.relu();
  network.linear("classifier.6", 1000, true);
  return std::move(network).finish();
}

Result<Model> make_vgg16(const Options&) {
  NetworkBuilder network("vgg16", 64, {3, 224, 224});
  const std::vector<std::vector<int64_t>> stages = {
      {64, 64}, {128, 128}, {256, 256, 256}, {512, 512, 512}, {512, 512, 512}};
  int32_t index = 0;
  for (const std::vector<int64_t>& stage : stages) {
    for (const int64_t channels : stage) {
      network.convolution(fmt::format("features.{}", index), {channels, {3, 3}, 1, {1, 1}, true});
      network.relu();
      index += 2;
    }
    network.pool({.kernel = 2, .stride = 2});
    network.end_block();
    ++index;
  }
  network.linear("classifier.0", 4096, true);
  network.relu();
  network.linear("classifier.3", 4096, true);
  network.relu();
  network.linear("classifier.6", 1000, true);
  return std::move(network).finish();
}

struct Inception {
  std::string name;
  int64_t direct = 0;
  std::array<int64_t, 2> second = {};  // 1×1, then 3×3
  std::array<int64_t, 2> third = {};   // 1×1, then 3×3: torchvision has no 5×5
  int64_t pooled = 0;
};

void add_inception(NetworkBuilder& network, const Inception& inception) {
  const FeatureMap input = network.shape();
  const std::string& name = inception.name;
  network.convolution_norm_relu(name + ".branch1", {.channels = inception.direct});
  const auto add_branch = [&](const std::string& branch, const std::array<int64_t, 2>& channels) {
    network.restart(input);
    network.convolution_norm_relu(branch + ".0", {.channels = channels[0]});
    network.convolution_norm_relu(branch + ".1", {channels[1], {3, 3}, 1, {1, 1}});
  };
  add_branch(name + ".branch2", inception.second);
  add_branch(name + ".branch3", inception.third);
  network.restart(input);
  network.convolution_norm_relu(name + ".branch4.1", {.channels = inception.pooled});
  network.concatenate(inception.direct + inception.second[1] + inception.third[1] +
                      inception.pooled);
}

Result<Model> make_googlenet(const Options&) {
  const std::vector<Inception> blocks = {{"inception3a", 64, {96, 128}, {16, 32}, 32},
                                         {"inception3b", 128, {128, 192}, {32, 96}, 64},
                                         {"inception4a", 192, {96, 208}, {16, 48}, 64},
                                         {"inception4b", 160, {112, 224}, {24, 64}, 64},
                                         {"inception4c", 128, {128, 256}, {24, 64}, 64},
                                         {"inception4d", 112, {144, 288}, {32, 64}, 64},
                                         {"inception4e", 256, {160, 320}, {32, 128}, 128},
                                         {"inception5a", 256, {160, 320}, {32, 128}, 128},
                                         {"inception5b", 384, {192, 384}, {48, 128}, 128}};
  const Pooling pooling = {.kernel = 3, .stride = 2, .rounds_up = true};
  NetworkBuilder network("googlenet", 64, {3, 224, 224});
  network.convolution_norm_relu("conv1", {64, {7, 7}, 2, {3, 3}});
  network.pool(pooling);
  network.convolution_norm_relu("conv2", {.channels = 64});
  network.convolution_norm_relu("conv3", {192, {3, 3}, 1, {1, 1}});
  network.pool(pooling);
  network.end_block();
  for (const Inception& block : blocks) {
    add_inception(network, block);
    if (block.name == "inception3b") {
      network.pool(pooling);
    } else if (block.name == "inception4e") {
      network.pool({.kernel = 2, .stride = 2, .rounds_up = true});
    }
    network.end_block();
  }
  network.average_pool(1);
  network.linear("fc", 1000, true);
  return std::move(network).finish();
}

}  // namespace

extern const WorkloadDescriptor kAlexnet = {"alexnet",
                                            "AlexNet on one device, images of 224x224",
                                            "Krizhevsky, arXiv 1404.5997; torchvision's modules",
                                            {},
                                            make_alexnet};
extern const WorkloadDescriptor kVgg16 = {"vgg16",
                                          "VGG-16, images of 224x224",
                                          "Simonyan & Zisserman, ICLR 2015, table 1 D",
                                          {},
                                          make_vgg16};
extern const WorkloadDescriptor kGooglenet = {
    "googlenet",
    "GoogLeNet with batch norm and without auxiliary heads, images of 224x224",
    "Szegedy et al., CVPR 2015, table 1; torchvision's modules",
    {},
    make_googlenet};

}  // namespace pleach
