#include "pleach/workload/memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/support/chain.h"

namespace pleach {
namespace {

using support::chain;

Workload built_in(const std::string& spec, int64_t batch = 1) {
  const auto accelerator = parse_accelerator("h100");
  EXPECT_TRUE(accelerator);
  Result<Workload> workload = load_workload(spec, *accelerator, batch);
  EXPECT_TRUE(workload) << workload.error().message;
  return *workload;
}

double activations(const std::string& spec, const Strategy& strategy) {
  return static_cast<double>(memory_use(built_in(spec), strategy).activation_bytes);
}

TEST(MemoryUse, SharesStatesByZeroStage) {
  const Workload workload = chain(3);
  const int64_t expected[] = {300 * (4 + 4 + 12), 300 * (4 + 4 + 3), 300 * (4 + 1 + 3),
                              300 * (1 + 1 + 3)};
  for (int32_t stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(memory_use(workload, {.data = 4, .zero = stage}).state_bytes, expected[stage]);
  }
  EXPECT_EQ(memory_use(workload, {.pipeline = 2}).state_bytes, 200 * 20);
  EXPECT_EQ(memory_use(workload, {.optimizer = false}).state_bytes, 300 * 8);
  Workload experts = chain(3);
  experts.model.layers[1].expert_count = 4;
  EXPECT_EQ(memory_use(experts, {.data = 2, .expert = 2, .zero = 1}).state_bytes,
            200 * (4 + 4 + 6) + 50 * (4 + 4 + 12));
}

// Two runs' weights and two runs' gradients: the run that computes, the next one's weights, and the
// gradients of the one before.
TEST(MemoryUse, HoldsTwoRunsOfStreamedWeights) {
  const auto held = [](int32_t layers, Strategy strategy) {
    strategy.stream_bytes_per_s = 1'000'000;
    return memory_use(chain(layers, 8), strategy);
  };
  EXPECT_EQ(held(1, {}).state_bytes, 2 * 400);
  EXPECT_EQ(held(2, {}).state_bytes, 3 * 400);
  EXPECT_EQ(held(3, {}).state_bytes, 4 * 400);
  EXPECT_EQ(held(3, {.zero = 3}).state_bytes, 4 * 400);
  EXPECT_EQ(held(7, {.pipeline = 3}).state_bytes, 4 * 400);  // layers 0, 3 and 6
  EXPECT_EQ(held(6, {.pipeline = 3}).state_bytes, 3 * 400);
  // All micro-batches pass a window before the next.
  EXPECT_EQ(held(7, {.pipeline = 3, .micro_batches = 4}).activation_bytes, 8 * 3 * 40);
  Workload blocks = chain(4);
  for (std::size_t layer = 0; layer < 4; ++layer) {
    blocks.model.layers[layer].block = static_cast<int32_t>(layer / 2);
  }
  blocks.model.layers[3].tensors = {{"weight", 200}};
  const auto of_blocks = [&](const Strategy& strategy) {
    return memory_use(blocks, strategy).state_bytes;
  };
  // By layers: 400 of the second and 800 of the last, whose gradients are whole as the second's
  // weights come.
  EXPECT_EQ(of_blocks({.stream_bytes_per_s = 1}), 2 * 400 + 400 + 800);
  // By blocks of 800 and 1200 bytes: in backward of the second the first one's weights come.
  EXPECT_EQ(of_blocks({.recompute = true, .stream_bytes_per_s = 1}), 2 * 1200 + 800);
  EXPECT_EQ(of_blocks({.pipeline = 2, .stream_bytes_per_s = 1}), 2 * 1200);
  // By I/O nodes the same, and on the first stage what all micro-batches are computed from.
  EXPECT_EQ(of_blocks({.streams_by_io = true}), 2 * 400 + 400 + 800);
  blocks.model.input_bytes = 9;
  const int64_t input_bytes = 9 * blocks.batch;
  for (const int32_t micro_batches : {1, static_cast<int32_t>(blocks.batch)}) {
    const Strategy strategy = {
        .pipeline = 2, .micro_batches = micro_batches, .streams_by_io = true};
    const std::vector<MemoryUse> stages = memory_by_stage(blocks, strategy);
    EXPECT_EQ(stages[0].state_bytes, 2 * 800 + input_bytes);
    EXPECT_EQ(stages[1].state_bytes, 2 * 1200);
  }
}

TEST(MemoryUse, KeepsTheActivationsOfMicroBatchesInFlight) {
  const auto kept = [](int32_t layers, const Strategy& strategy) {
    return memory_use(chain(layers, 8), strategy).activation_bytes;
  };
  const auto gpipe = PipelineSchedule::kGpipe;
  EXPECT_EQ(kept(3, {}), 8 * 3 * 40);
  EXPECT_EQ(kept(3, {.data = 4}), 8 * 3 * 40);  // the batch is a replica's
  EXPECT_EQ(kept(3, {.micro_batches = 4}), 2 * 3 * 40);
  EXPECT_EQ(kept(3, {.micro_batches = 4, .schedule = gpipe}), 8 * 3 * 40);
  EXPECT_EQ(kept(4, {.pipeline = 4, .micro_batches = 8}), 4 * 40);
  EXPECT_EQ(kept(4, {.pipeline = 4, .micro_batches = 2}), 2 * 4 * 40);
  EXPECT_EQ(kept(4, {.pipeline = 4, .micro_batches = 8, .schedule = gpipe}), 8 * 40);
  // What enters the second and the third block, and all of one.
  EXPECT_EQ(kept(3, {.recompute = true}), 8 * (2 * 20 + 40));
  EXPECT_EQ(kept(3, {.micro_batches = 4, .schedule = gpipe, .recompute = true}),
            4 * 2 * (2 * 20) + 2 * 40);
}

// A block of a transformer keeps between 32 b·s·h + 2 a·b·s² bytes, all that is read again where
// nothing is dropped out, and 34 and 5 with dropout (Korthikanti et al., sec. 4.1).
TEST(MemoryUse, KeepsWhatATransformersBlockReadsAgain) {
  const auto block = [](const Strategy& strategy) {
    return activations("gpt3,layers=3", strategy) - activations("gpt3,layers=2", strategy);
  };
  const double width = 2048.0 * 12288, scores = 96 * 2048.0 * 2048;
  EXPECT_GT(block({}), 32 * width + 2 * scores);
  EXPECT_LT(block({}), 34 * width + 5 * scores);
  // Ten of them are not split by tensor parallelism; with its sequences split nothing is whole.
  EXPECT_GT(block({.tensor = 8}), 10 * width + (22 * width + 2 * scores) / 8);
  EXPECT_LT(block({.tensor = 8}), 10 * width + (24 * width + 5 * scores) / 8);
  EXPECT_NEAR(block({.tensor = 8, .tensor_sequence = true}), block({}) / 8, block({}) * 1e-6);
}

// ResNet-50: 11.1 million results of convolutions, as many of the norms after them, and of the
// rectifiers, where these do not work in place.
TEST(MemoryUse, KeepsWhatConvolutionsAndNormsLeave) {
  EXPECT_GT(activations("resnet50", {}), 4 * 2 * 11.1e6);
  EXPECT_LT(activations("resnet50", {}), 4 * 3.2 * 11.1e6);
}

TEST(MemoryUse, AddsUpToNoMoreThanThereIs) {
  EXPECT_EQ((MemoryUse{1, 2, 3}).total_bytes(), 6);
  EXPECT_EQ((MemoryUse{INT64_MAX, INT64_MAX, 1}).total_bytes(), INT64_MAX);
}

}  // namespace
}  // namespace pleach
