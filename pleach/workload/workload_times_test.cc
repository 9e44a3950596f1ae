// Estimates by hand, measured times, and accelerators.
#include <gtest/gtest.h>

#include "pleach/workload/workload.h"

namespace pleach {
namespace {

// A norm of 12 outputs, then a product of 2×6 by 6×5.
Model small_model() {
  Model model;
  model.name = "small";
  model.layers.resize(2);
  model.layers[0].name = "norm";
  model.layers[0].tensors = {{"weight", 3}};
  model.layers[0].moved_elements = 40;
  model.layers[0].output_elements = 12;
  model.layers[1].name = "linear";
  model.layers[1].tensors = {{"weight", 30}, {"bias", 5}};
  model.layers[1].products = {{2, 5, 6, 1}};
  model.layers[1].output_elements = 10;
  model.layers[1].is_split = true;
  return model;
}

Workload with(const Model& model, const decltype(Accelerator::rule)& rule) {
  return {model, 4, Accelerator{"test", "", "", rule}};
}

TEST(WorkloadTimes, FollowTheRooflineOfComputation) {
  // 60 multiply-adds, 4 samples, 2 · 60 · 4 / (1000 · 0.5) = 0.96 s; the memory is fast.
  const Workload workload = with(small_model(), Roofline{1000, 1e12, 0.5, 1'000'000});
  const LayerTimes times = layer_times(workload, 1, 4, 1);
  EXPECT_EQ(times.forward_ps, 960'001'000'000);
  EXPECT_EQ(times.backward_ps, 2 * times.forward_ps);
  EXPECT_EQ(times.weight_gradient_ps, times.forward_ps);
}

TEST(WorkloadTimes, FollowTheRooflineOfMemory) {
  // 35 parameters once, and 12 read and 10 written for each of 4 samples: 123 elements of 4 bytes.
  const Workload workload = with(small_model(), Roofline{1e12, 100, 1, 0});
  EXPECT_EQ(layer_times(workload, 1, 4, 1).forward_ps, 4'920'000'000'000);
  EXPECT_EQ(layer_times(workload, 1, 0.5, 1).forward_ps, (35 + 11) * 40'000'000'000);
  // A layer without products moves its activations and no more.
  const LayerTimes norm = layer_times(workload, 0, 4, 2);
  EXPECT_EQ(norm, (LayerTimes{6'400'000'000'000, 12'800'000'000'000, 0}));
}

struct SplitCase {
  int32_t split = 1;
  bool is_split = true;
  int64_t forward_sum = 0;
  MatrixProduct product = {};
  int64_t multiply_adds = 0;
};

TEST(WorkloadTimes, SplitProductsOverTheGroup) {
  const std::vector<SplitCase> cases = {
      {1, true, 0, {2, 5, 6, 1}, 60},  {2, true, 0, {2, 5, 6, 1}, 36},
      {9, true, 0, {2, 5, 6, 1}, 12},  {2, false, 0, {2, 5, 6, 1}, 60},
      {4, true, 10, {2, 5, 6, 1}, 20},  // by rows: 2 of 6
      {2, true, 0, {2, 5, 6, 3}, 120},  // 2 of 3 heads
      {2, true, 10, {2, 5, 6, 3}, 120}};
  for (const SplitCase& c : cases) {
    Model model = small_model();
    model.layers[1].products = {c.product};
    model.layers[1].is_split = c.is_split;
    model.layers[1].forward_sum_elements = c.forward_sum;
    const Workload workload = with(model, Roofline{2, 1e15, 1, 0});
    EXPECT_EQ(layer_times(workload, 1, 1, c.split).forward_ps, c.multiply_adds * 1'000'000'000'000);
  }
}

TEST(WorkloadTimes, CountTheCyclesOfSystolicArrays) {
  // Tiles of 2×4 on the result, each 2·2 + 4 + k − 2 cycles: forward 2×5, k = 6: 2 tiles of 12;
  // input gradient 2×6, k = 5: 2 of 11; weight gradient 6×5, k = 2: 3·2 of 8.
  const Workload workload = with(small_model(), SystolicArray{2, 4, 3, 1e12});
  EXPECT_EQ(layer_times(workload, 1, 1, 1), (LayerTimes{24, 22 + 48, 48}));
  EXPECT_EQ(layer_times(workload, 1, 3, 1), layer_times(workload, 1, 1, 1));
  EXPECT_EQ(layer_times(workload, 1, 4, 1), (LayerTimes{48, 140, 96}));
  EXPECT_EQ(layer_times(workload, 1, 0.5, 1), (LayerTimes{12, 35, 24}));
  // Split by columns: 2×3, k = 6: 1 tile of 12; 2×6, k = 3: 2 of 9; 6×3, k = 2: 3 of 8.
  EXPECT_EQ(layer_times(workload, 1, 1, 2), (LayerTimes{12, 18 + 24, 24}));
  EXPECT_EQ(layer_times(workload, 0, 4, 1), LayerTimes{});
}

TEST(WorkloadTimes, ScaleWhatWasMeasured) {
  Workload workload = with(small_model(), SystolicArray{});
  workload.times = MeasuredTimes{4, {{100, 200, 0}, {1000, 3000, 1600}}};
  EXPECT_EQ(layer_times(workload, 1, 4, 1), (LayerTimes{1000, 3000, 1600}));
  EXPECT_EQ(layer_times(workload, 1, 1, 1), (LayerTimes{250, 750, 400}));
  EXPECT_EQ(layer_times(workload, 1, 4, 2), (LayerTimes{500, 1500, 800}));
  EXPECT_EQ(layer_times(workload, 0, 4, 2), (LayerTimes{100, 200, 0})) << "it is not split";
}

TEST(WorkloadTimes, SaturateInsteadOfWrapping) {
  const Workload workload = with(small_model(), Roofline{1e-9, 1e-9, 1, 0});
  EXPECT_EQ(layer_times(workload, 1, 1e9, 1).backward_ps, INT64_MAX);
}

TEST(WorkloadTimes, ScaleToAnIteration) {
  for (const char* name : {"resnet50", "bert_base", "ncf"}) {
    const Workload workload = *load_workload(name, *parse_accelerator("rtx2080ti"), 0);
    for (const int64_t total : {int64_t{1}, int64_t{1000}, int64_t{252'900'000'000}}) {
      const auto scaled = scaled_to(workload, total);
      ASSERT_TRUE(scaled) << scaled.error().message;
      int64_t sum = 0;
      for (std::size_t i = 0; i < scaled->model.layers.size(); ++i) {
        const LayerTimes times =
            layer_times(*scaled, static_cast<int32_t>(i), static_cast<double>(scaled->batch), 1);
        EXPECT_GE(times.forward_ps, 0);
        EXPECT_LE(times.weight_gradient_ps, times.backward_ps);
        sum += times.forward_ps + times.backward_ps;
      }
      EXPECT_EQ(sum, total);
    }
    EXPECT_FALSE(scaled_to(workload, 0));
  }
  Workload idle = with(small_model(), SystolicArray{});
  idle.times = MeasuredTimes{4, {{}, {}}};
  const auto scaled = scaled_to(idle, 5);
  ASSERT_FALSE(scaled);
  EXPECT_EQ(scaled.error().message, "small: its layers take no time that could be scaled");
}

TEST(Accelerators, AreFoundByName) {
  EXPECT_EQ(accelerators().size(), 6U);
  for (const Accelerator* accelerator : accelerators()) {
    const auto parsed = parse_accelerator(accelerator->name);
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(parsed->name, accelerator->name);
    EXPECT_FALSE(parsed->summary.empty());
    EXPECT_FALSE(parsed->source.empty());
    EXPECT_EQ(parsed->rule.index(), accelerator->rule.index());
  }
}

TEST(Accelerators, TakeOptions) {
  const auto systolic = parse_accelerator("systolic,rows=8,columns=16,arrays=2,clock=1500000000");
  ASSERT_TRUE(systolic) << systolic.error().message;
  const auto& array = std::get<SystolicArray>(systolic->rule);
  EXPECT_EQ(array.rows, 8);
  EXPECT_EQ(array.columns, 16);
  EXPECT_EQ(array.array_count, 2);
  EXPECT_EQ(array.clock_hz, 1.5e9);
  EXPECT_EQ(std::get<SystolicArray>(parse_accelerator("systolic,clock=0.5GHz")->rule).clock_hz,
            5e8);

  const auto own =
      parse_accelerator("roofline,operations=312e12,memory=2TB/s,efficiency=0.5,overhead=5us");
  ASSERT_TRUE(own) << own.error().message;
  const auto& roofline = std::get<Roofline>(own->rule);
  EXPECT_EQ(roofline.operations_per_s, 312e12);
  EXPECT_EQ(roofline.memory_bytes_per_s, 2e12);
  EXPECT_EQ(roofline.efficiency, 0.5);
  EXPECT_EQ(roofline.overhead_ps, 5'000'000);

  const auto changed = parse_accelerator("a100,operations=156e12");
  ASSERT_TRUE(changed) << changed.error().message;
  EXPECT_EQ(changed->name, "a100,operations=156e12");
  EXPECT_EQ(std::get<Roofline>(changed->rule).operations_per_s, 156e12);
  EXPECT_EQ(std::get<Roofline>(changed->rule).memory_bytes_per_s, 2.039e12);
}

TEST(Accelerators, RefuseWhatTheyCannotBe) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a10", "unknown accelerator 'a10'; did you mean 'a100'?"},
      {"a100:2", "takes options after a comma"},
      {"a100,rows=3", "accelerator a100: unknown option 'rows'"},
      {"a100,efficiency=1.5", "accelerator a100: option 'efficiency': '1.5' is not above 0 and"},
      {"a100,efficiency=0", "option 'efficiency': '0' is not above 0"},
      {"a100,efficiency=nan", "option 'efficiency': 'nan' is not above 0"},
      {"a100,operations=-1", "option 'operations': '-1' is not above 0"},
      {"a100,operations=1e999", "option 'operations': '1e999' is not a number"},
      {"a100,operations=12x", "option 'operations': '12x' is not a number"},
      {"a100,memory=12", "option 'memory': '12' is not a bandwidth"},
      {"a100,overhead=3", "option 'overhead': '3' is not a time"},
      {"roofline", "options 'operations' and 'memory' are required"},
      {"roofline,operations=1e12", "options 'operations' and 'memory' are required"},
      {"systolic,rows=0", "value '0' is outside 1"},
      {"systolic,clock=1THz", "option 'clock': '1T' is not a number"}};
  for (const auto& [spec, expected] : cases) {
    const auto accelerator = parse_accelerator(spec);
    ASSERT_FALSE(accelerator) << spec;
    EXPECT_NE(accelerator.error().message.find(expected), std::string::npos)
        << accelerator.error().message;
  }
}

}  // namespace
}  // namespace pleach
