// Inception-v4. Branch by branch, in the order in which the blocks' figures list them; images of
// 224×224, as data-parallel benchmarks use, not the paper's 299×299.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "pleach/workload/model.h"
#include "pleach/workload/models/network_builder.h"

namespace pleach {
namespace {

// A convolution that keeps the size, then batch norm and ReLU.
struct Step {
  std::string name;
  int64_t channels = 0;
  Extent kernel = {1, 1};
};

constexpr Extent kOne = {1, 1};
constexpr Extent kThree = {3, 3};
constexpr Extent kRow = {1, 7};
constexpr Extent kColumn = {7, 1};

void add_same(NetworkBuilder& network, const std::string& name, int64_t channels,
              const Extent& kernel) {
  const Extent padding = {(kernel.height - 1) / 2, (kernel.width - 1) / 2};
  network.convolution_norm_relu(name, {channels, kernel, 1, padding});
}

// 3×3 without padding, which shrinks the map.
void add_valid(NetworkBuilder& network, const std::string& name, int64_t channels, int64_t stride) {
  network.convolution_norm_relu(name, {channels, kThree, stride});
}

void add_branch(NetworkBuilder& network, const FeatureMap& input, const std::string& prefix,
                const std::vector<Step>& steps) {
  network.restart(input);
  for (const Step& step : steps) {
    add_same(network, prefix + step.name, step.channels, step.kernel);
  }
}

void add_stem(NetworkBuilder& network) {
  add_valid(network, "features.0", 32, 2);
  add_valid(network, "features.1", 32, 1);
  add_same(network, "features.2", 64, kThree);
  add_valid(network, "features.3.conv", 96, 2);  // beside a pooling of the same map
  network.concatenate(64 + 96);
  network.end_block();

  const FeatureMap input = network.shape();
  add_same(network, "features.4.branch0.0", 64, kOne);
  add_valid(network, "features.4.branch0.1", 96, 1);
  add_branch(network, input, "features.4.branch1.",
             {{"0", 64, kOne}, {"1", 64, kRow}, {"2", 64, kColumn}});
  add_valid(network, "features.4.branch1.3", 96, 1);
  network.concatenate(96 + 96);
  network.end_block();

  add_valid(network, "features.5.conv", 192, 2);
  network.concatenate(192 + 192);
  network.end_block();
}

void add_inception_a(NetworkBuilder& network, const std::string& prefix) {
  const FeatureMap input = network.shape();
  add_branch(network, input, prefix, {{"branch0", 96, kOne}});
  add_branch(network, input, prefix + "branch1.", {{"0", 64, kOne}, {"1", 96, kThree}});
  add_branch(network, input, prefix + "branch2.",
             {{"0", 64, kOne}, {"1", 96, kThree}, {"2", 96, kThree}});
  add_branch(network, input, prefix, {{"branch3.1", 96, kOne}});
  network.concatenate(int64_t{4} * 96);
  network.end_block();
}

void add_reduction_a(NetworkBuilder& network, const std::string& prefix) {
  const FeatureMap input = network.shape();
  add_valid(network, prefix + "branch0", 384, 2);
  add_branch(network, input, prefix + "branch1.", {{"0", 192, kOne}, {"1", 224, kThree}});
  add_valid(network, prefix + "branch1.2", 256, 2);
  network.concatenate(384 + 256 + input.channels);
  network.end_block();
}

void add_inception_b(NetworkBuilder& network, const std::string& prefix) {
  const FeatureMap input = network.shape();
  add_branch(network, input, prefix, {{"branch0", 384, kOne}});
  add_branch(network, input, prefix + "branch1.",
             {{"0", 192, kOne}, {"1", 224, kRow}, {"2", 256, kColumn}});
  add_branch(network, input, prefix + "branch2.",
             {{"0", 192, kOne},
              {"1", 192, kColumn},
              {"2", 224, kRow},
              {"3", 224, kColumn},
              {"4", 256, kRow}});
  add_branch(network, input, prefix, {{"branch3.1", 128, kOne}});
  network.concatenate(384 + 256 + 256 + 128);
  network.end_block();
}

void add_reduction_b(NetworkBuilder& network, const std::string& prefix) {
  const FeatureMap input = network.shape();
  add_branch(network, input, prefix + "branch0.", {{"0", 192, kOne}});
  add_valid(network, prefix + "branch0.1", 192, 2);
  add_branch(network, input, prefix + "branch1.",
             {{"0", 256, kOne}, {"1", 256, kRow}, {"2", 320, kColumn}});
  add_valid(network, prefix + "branch1.3", 320, 2);
  network.concatenate(192 + 320 + input.channels);
  network.end_block();
}

// Two branches end in two convolutions of the same map each.
void add_inception_c(NetworkBuilder& network, const std::string& prefix) {
  const FeatureMap input = network.shape();
  add_branch(network, input, prefix, {{"branch0", 256, kOne}});
  add_branch(network, input, prefix, {{"branch1_0", 384, kOne}});
  const FeatureMap first_fork = network.shape();
  add_same(network, prefix + "branch1_1a", 256, {1, 3});
  network.restart(first_fork);
  add_same(network, prefix + "branch1_1b", 256, {3, 1});
  add_branch(network, input, prefix,
             {{"branch2_0", 384, kOne}, {"branch2_1", 448, {3, 1}}, {"branch2_2", 512, {1, 3}}});
  const FeatureMap second_fork = network.shape();
  add_same(network, prefix + "branch2_3a", 256, {1, 3});
  network.restart(second_fork);
  add_same(network, prefix + "branch2_3b", 256, {3, 1});
  add_branch(network, input, prefix, {{"branch3.1", 256, kOne}});
  network.concatenate(int64_t{6} * 256);
  network.end_block();
}

Result<Model> make_inception_v4(const Options&) {
  NetworkBuilder network("inception_v4", 64, {3, 224, 224});
  add_stem(network);
  int32_t block = 6;
  const auto prefix = [&] { return fmt::format("features.{}.", block++); };
  for (int32_t i = 0; i < 4; ++i) {
    add_inception_a(network, prefix());
  }
  add_reduction_a(network, prefix());
  for (int32_t i = 0; i < 7; ++i) {
    add_inception_b(network, prefix());
  }
  add_reduction_b(network, prefix());
  for (int32_t i = 0; i < 3; ++i) {
    add_inception_c(network, prefix());
  }
  network.average_pool(1);
  network.linear("last_linear", 1000, true);
  return std::move(network).finish();
}

}  // namespace

extern const WorkloadDescriptor kInceptionV4 = {"inception_v4",
                                                "Inception-v4, images of 224x224",
                                                "Szegedy et al., AAAI 2017, sec. 3 (Inception-v4)",
                                                {},
                                                make_inception_v4};

}  // namespace pleach
