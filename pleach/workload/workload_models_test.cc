// Built-in models: their sizes, as published; and what every model must keep.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "pleach/base/files.h"
#include "pleach/base/text.h"
#include "pleach/workload/json.h"
#include "pleach/workload/workload.h"

namespace pleach {
namespace {

Workload load(const std::string& spec, const std::string& accelerator = "a100", int64_t batch = 0) {
  const Result<Accelerator> parsed = parse_accelerator(accelerator);
  EXPECT_TRUE(parsed) << parsed.error().message;
  Result<Workload> workload = load_workload(spec, *parsed, batch);
  EXPECT_TRUE(workload) << workload.error().message;
  return std::move(workload).value();
}

std::size_t tensor_count(const Model& model) {
  std::size_t count = 0;
  for (const ModelLayer& layer : model.layers) {
    count += layer.tensors.size();
  }
  return count;
}

std::string file_of_tree(const std::string& path) {
  const auto root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
  const Result<std::string> text = read_file((root / path).string());
  EXPECT_TRUE(text) << text.error().message;
  return *text;
}

// Parameters of each module in order, for benchmarks of data parallelism.
TEST(WorkloadModels, HaveThePublishedModulesInOrder) {
  const nlohmann::json sizes = nlohmann::json::parse(file_of_tree("tests/data/module_sizes.json"));
  const std::map<std::string, std::string> names = {{"inceptionv4", "inception_v4"}};
  EXPECT_EQ(sizes.size(), 5U);
  for (const auto& [key, modules] : sizes.items()) {
    SCOPED_TRACE(key);
    const Model model = load(names.contains(key) ? names.at(key) : key).model;
    std::vector<int64_t> got;
    for (const ModelLayer& layer : model.layers) {
      got.push_back(parameter_count(layer));
    }
    EXPECT_EQ(got, modules.get<std::vector<int64_t>>());
  }
}

struct Published {
  std::string spec;
  int64_t parameters = 0;
  std::size_t layers = 0;   // 0: not published
  std::size_t tensors = 0;  // 0: not published
  int64_t batch = 0;        // 0: not published
  int32_t element_bytes = 4;
};

TEST(WorkloadModels, HaveThePublishedSizes) {
  const std::vector<Published> cases = {
      {"resnet50", 25'557'032, 107, 161, 64},
      {"densenet201", 20'013'928, 402, 604, 32},
      {"inception_v4", 42'679'816, 299, 449, 64},
      {"bert_base", 110'111'042, 105, 206, 64},
      {"bert_large", 336'232'258, 201, 398, 32},
      {"bert_large,sequence=128", 336'232'258, 201, 398, 32},
      {"resnet152", 60'192'808, 311, 467, 16},
      {"vgg16", 138'357'544, 16, 32},
      {"alexnet", 61'100'840, 8, 16},
      {"googlenet", 6'624'904, 115, 173},
      // layers · (12·hidden² + 13·hidden) + (words + positions + 2) · hidden
      {"gpt3", 174'604'259'328, 0, 0, 0, 2},
      {"transformer_17b", 17'176'845'728, 0, 0, 0, 2},
      {"transformer_1t", 1'008'038'758'400, 0, 0, 0, 2},
      {"llama", 6'738'415'616, 291, 291, 0, 2},
      {"llama,parameters=13b", 13'015'864'320, 363, 363, 0, 2},
      {"llama,parameters=70b", 68'976'648'192, 723, 723, 0, 2},
      {"mixture_of_experts", 46'702'792'704, 0, 0, 0, 2},
      {"alphagozero", 1'573'620, 8, 8, 16},
      {"ncf", 11'042'704, 8, 8, 16},
      {"faster_rcnn", 13'258'944, 46, 46, 16},
      {"multitree_alexnet", 3'745'824, 5, 5, 16},
      {"multitree_resnet50", 25'502'912, 54, 54, 16},
  };
  for (const Published& published : cases) {
    SCOPED_TRACE(published.spec);
    const Model model = load(published.spec).model;
    EXPECT_EQ(parameter_count(model), published.parameters);
    EXPECT_EQ(model.name, published.spec);
    EXPECT_EQ(model.element_bytes, published.element_bytes);
    if (published.layers > 0) {
      EXPECT_EQ(model.layers.size(), published.layers);
      EXPECT_EQ(tensor_count(model), published.tensors);
    }
    if (published.batch > 0) {
      EXPECT_EQ(model.batch, published.batch);
    }
  }
}

TEST(WorkloadModels, ComeNearTheRoundedSizesOfMultitree) {
  const std::vector<std::pair<std::string, double>> cases = {
      {"multitree_alexnet", 3.75e6},   {"alphagozero", 1.57e6}, {"faster_rcnn", 13.26e6},
      {"multitree_googlenet", 6.85e6}, {"ncf", 11.04e6},        {"multitree_resnet50", 25.5e6},
      {"transformer", 77.4e6}};
  for (const auto& [spec, parameters] : cases) {
    SCOPED_TRACE(spec);
    const auto count = static_cast<double>(parameter_count(load(spec).model));
    EXPECT_NEAR(count / parameters, 1, 0.01);
  }
}

// Of forward for one sample.
int64_t multiply_adds(const ModelLayer& layer) {
  int64_t sum = 0;
  for (const MatrixProduct& product : layer.products) {
    sum += product.m * product.n * product.k * product.count;
  }
  return sum;
}

// Multiply-adds of one image: torchvision's documentation gives them in units of 10^9.
TEST(WorkloadModels, DeriveThePublishedWork) {
  const std::vector<std::pair<std::string, double>> cases = {
      {"resnet50", 4.09}, {"resnet152", 11.51}, {"densenet201", 4.29},
      {"vgg16", 15.47},   {"alexnet", 0.71},    {"googlenet", 1.50}};
  for (const auto& [spec, giga] : cases) {
    SCOPED_TRACE(spec);
    int64_t work = 0;
    for (const ModelLayer& layer : load(spec).model.layers) {
      work += multiply_adds(layer);
    }
    EXPECT_NEAR(static_cast<double>(work) * 1e-9, giga, 0.011);
  }
}

// ddl-benchmarks, one RTX 2080 Ti: 253.1 and 212.8 samples per second with batches of 64.
TEST(WorkloadModels, TakeAsLongAsPublished) {
  for (const auto& [spec, published_ms] :
       {std::pair("resnet50", 252.9), std::pair("bert_base", 300.8)}) {
    const Workload workload = load(spec, "rtx2080ti");
    double total_ps = 0;
    for (std::size_t i = 0; i < workload.model.layers.size(); ++i) {
      const LayerTimes times = layer_times(workload, static_cast<int32_t>(i), 64, 1);
      total_ps += static_cast<double>(times.forward_ps + times.backward_ps);
    }
    EXPECT_NEAR(total_ps * 1e-9 / published_ms, 1, 0.03) << spec;
  }
}

TEST(WorkloadModels, KnowWhatTensorParallelismSums) {
  // Two sums of sequence × hidden in forward and two in backward for each layer, and those of the
  // words before and after (Shoeybi et al., sec. 3).
  for (const auto& [spec, layers, extra, activations] :
       {std::tuple("gpt3", 96, 1, int64_t{2048} * 12288),
        std::tuple("bert_base", 12, 0, int64_t{64} * 768),
        std::tuple("llama", 32, 1, int64_t{4096} * 4096),
        std::tuple("mixture_of_experts", 32, 1, int64_t{4096} * 4096)}) {
    SCOPED_TRACE(spec);
    int64_t forward = 0;
    int64_t backward = 0;
    for (const ModelLayer& layer : load(spec).model.layers) {
      EXPECT_TRUE(layer.is_split || layer.forward_sum_elements + layer.backward_sum_elements == 0);
      forward += layer.forward_sum_elements;
      backward += layer.backward_sum_elements;
    }
    EXPECT_EQ(forward, (2 * layers + extra) * activations);
    EXPECT_EQ(backward, (2 * layers + extra) * activations);
  }
}

TEST(WorkloadModels, KnowExchangesAndTies) {
  int64_t sequence_exchange = 0;
  const Model gpt3 = load("gpt3,layers=3").model;
  for (const ModelLayer& layer : gpt3.layers) {
    sequence_exchange += layer.sequence_exchange_elements;
  }
  EXPECT_EQ(sequence_exchange, 3 * 4 * int64_t{2048} * 12288);
  EXPECT_TRUE(gpt3.layers.back().is_tied_to_first);
  EXPECT_TRUE(gpt3.layers.back().tensors.empty());
  EXPECT_EQ(gpt3.layers.front().tensors[0].element_count, int64_t{50257} * 12288);
  EXPECT_EQ(gpt3.layers.back().block, 2);

  const Model experts = load("mixture_of_experts,experts=16,top_k=3,layers=2").model;
  const auto layer = std::ranges::find_if(
      experts.layers, [](const ModelLayer& candidate) { return candidate.expert_count > 0; });
  ASSERT_NE(layer, experts.layers.end());
  EXPECT_EQ(layer->expert_count, 16);
  EXPECT_EQ(parameter_count(*layer), int64_t{16} * 3 * 4096 * 14336);
  EXPECT_EQ(layer->expert_exchange_elements, int64_t{3} * 4096 * 4096);
  EXPECT_EQ(multiply_adds(*layer), int64_t{3} * 4096 * 3 * 4096 * 14336);

  // 8 of 64 heads have keys and values of their own.
  const Model llama = load("llama,parameters=70b,layers=1").model;
  int64_t exchange = 0;
  for (const ModelLayer& candidate : llama.layers) {
    exchange += candidate.sequence_exchange_elements;
  }
  EXPECT_EQ(exchange, 2 * int64_t{4096} * (8192 + 1024));
}

std::string with_commas(int64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

TEST(WorkloadModels, AreDocumented) {
  const std::string text = file_of_tree("docs/workloads.md");
  for (const WorkloadDescriptor* descriptor : workload_models()) {
    const Model model = load(descriptor->name).model;
    const int64_t parameters = parameter_count(model);
    const double size_bytes = static_cast<double>(parameters) * model.element_bytes;
    const std::string row = fmt::format(
        "| `{}` | {} | {} | {} | {:.1f} | {} |", descriptor->name, model.layers.size(),
        tensor_count(model), with_commas(parameters), size_bytes / (1 << 20), model.batch);
    EXPECT_NE(text.find(row), std::string::npos) << row;
    for (const OptionDescriptor& option : descriptor->options) {
      EXPECT_NE(text.find("`" + option.name + "`"), std::string::npos) << option.name;
    }
  }
  for (const Accelerator* accelerator : accelerators()) {
    EXPECT_NE(text.find("| `" + accelerator->name + "` |"), std::string::npos) << accelerator->name;
  }
  int32_t examples = 0;
  const std::string fence = "```json\n";
  for (std::size_t at = text.find(fence); at != std::string::npos; at = text.find(fence, at)) {
    at += fence.size();
    const auto file = parse_workload_json(text.substr(at, text.find("```", at) - at), "example");
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(parameter_count(file->model), 74'536);
    EXPECT_EQ(file->times.has_value(), examples == 0);
    ++examples;
  }
  EXPECT_EQ(examples, 2);
}

class EveryModel : public testing::TestWithParam<const WorkloadDescriptor*> {};

TEST_P(EveryModel, IsWellFormedAndComputes) {
  const WorkloadDescriptor& descriptor = *GetParam();
  EXPECT_FALSE(descriptor.summary.empty());
  EXPECT_FALSE(descriptor.source.empty());
  const Workload workload = load(descriptor.name);
  const Status status = check_model(workload.model);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(workload.model.name, descriptor.name);
  EXPECT_EQ(workload.batch, workload.model.batch);
  int32_t block = 0;
  for (const ModelLayer& layer : workload.model.layers) {
    EXPECT_TRUE(layer.block == block || layer.block == block + 1) << layer.name;
    block = layer.block;
  }
  EXPECT_GE(block, 1);
  for (const Accelerator* accelerator : accelerators()) {
    SCOPED_TRACE(accelerator->name);
    const Workload placed = load(descriptor.name, accelerator->name);
    const bool is_roofline = std::holds_alternative<Roofline>(accelerator->rule);
    for (std::size_t i = 0; i < placed.model.layers.size(); ++i) {
      const ModelLayer& layer = placed.model.layers[i];
      LayerTimes last;
      for (const double samples : {0.5, 1.0, 2.0, 17.0, 64.0}) {
        const LayerTimes times = layer_times(placed, static_cast<int32_t>(i), samples, 1);
        if (is_roofline || !layer.products.empty()) {
          EXPECT_GT(times.forward_ps, 0) << layer.name;
          EXPECT_GT(times.backward_ps, 0) << layer.name;
        }
        EXPECT_EQ(times.weight_gradient_ps > 0, !layer.products.empty()) << layer.name;
        EXPECT_LE(times.weight_gradient_ps, times.backward_ps);
        EXPECT_GE(times.forward_ps, last.forward_ps) << layer.name << " for " << samples;
        EXPECT_GE(times.backward_ps, last.backward_ps) << layer.name << " for " << samples;
        const LayerTimes split = layer_times(placed, static_cast<int32_t>(i), samples, 2);
        EXPECT_LE(split.forward_ps, times.forward_ps) << layer.name;
        last = times;
      }
    }
  }
}

TEST_P(EveryModel, SurvivesItsJson) {
  const Workload workload = load(GetParam()->name);
  const auto file = parse_workload_json(workload_json(workload), "text");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->model, workload.model);
  EXPECT_FALSE(file->times);

  const auto scaled = scaled_to(workload, 123'456'789'012'345);
  ASSERT_TRUE(scaled) << scaled.error().message;
  const auto measured = parse_workload_json(workload_json(*scaled), "text");
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_EQ(measured->model, workload.model);
  ASSERT_TRUE(measured->times);
  EXPECT_EQ(*measured->times, std::get<MeasuredTimes>(scaled->times));
  EXPECT_EQ(workload_json({measured->model, measured->model.batch, *measured->times}),
            workload_json(*scaled));
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryModel,
                         testing::ValuesIn(workload_models().begin(), workload_models().end()),
                         [](const testing::TestParamInfo<const WorkloadDescriptor*>& model) {
                           return model.param->name;
                         });

// Any of them, of a file too.
TEST(WorkloadModels, TakeAnElementsBytes) {
  const Workload half = load("resnet152,element_bytes=2");
  EXPECT_EQ(half.model.name, "resnet152,element_bytes=2");
  EXPECT_EQ(parameter_count(half.model) * half.model.element_bytes, 120'385'616);
  for (const WorkloadDescriptor* workload : workload_models()) {
    Model model = load(workload->name).model;
    const Model wide = load(workload->name + ",element_bytes=8").model;
    model.name += ",element_bytes=8";
    model.element_bytes = 8;
    EXPECT_EQ(wide, model);
  }
  const std::string path = testing::TempDir() + "/workload_models_test,x.json";
  ASSERT_TRUE(write_file(path, workload_json(half)));
  EXPECT_EQ(load(path).model.element_bytes, 2);
  const Model four = load(path + ",element_bytes=4").model;
  EXPECT_EQ(four.element_bytes, 4);
  EXPECT_EQ(four.name, "resnet152,element_bytes=2,element_bytes=4");
  const std::pair<std::string, std::string> cases[] = {
      {"resnet152,element_bytes=0", "workload resnet152: option 'element_bytes': value '0'"},
      {"resnet152,element_bytes=9", "workload resnet152: option 'element_bytes': value '9'"},
      {"resnet152,element_bytes=2,element_bytes=2",
       "workload resnet152: option 'element_bytes' is"},
      {path + ",element_bytes=x", "workload " + path + ": option 'element_bytes': value 'x'"},
      {path + ",layers=2", "workload " + path + ": unknown option 'layers'"},
  };
  for (const auto& [spec, message] : cases) {
    const auto refused = load_workload(spec, *parse_accelerator("a100"), 0);
    ASSERT_FALSE(refused) << spec;
    EXPECT_TRUE(refused.error().message.starts_with(message)) << refused.error().message;
  }
  std::filesystem::remove(path);
}

TEST(WorkloadModels, RefuseWhatTheyCannotBe) {
  const Accelerator accelerator = *parse_accelerator("a100");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"resnet51", "unknown workload 'resnet51'; did you mean 'resnet50'?"},
      {"resnet50:3", "workload resnet50 takes options after a comma, not ':3'"},
      {"resnet50,batch=3", "unknown option 'batch'"},
      {"llama,parameters=8b", "unknown value '8b'"},
      {"llama,hidden=1000", "llama: option 'hidden': 1000 is no multiple of 128"},
      {"mixture_of_experts,top_k=9", "option 'top_k': 9 is more than 8 experts"},
      {"bert_base,sequence=0", "value '0' is outside 1 to 512"},
      {"mixture_of_experts,layers=1024,hidden=65536,experts=1024,top_k=1024,sequence=1048576",
       "the model has more than"},
      {"missing.json", "cannot read 'missing.json'"},
      {"", "has no name"}};
  for (const auto& [spec, expected] : cases) {
    const auto workload = load_workload(spec, accelerator, 0);
    ASSERT_FALSE(workload) << spec;
    EXPECT_NE(workload.error().message.find(expected), std::string::npos)
        << workload.error().message;
    EXPECT_EQ(workload.error().message.find('\n'), std::string::npos);
  }
  EXPECT_FALSE(load_workload("resnet50", accelerator, -1));
  EXPECT_EQ(load("resnet50", "a100", 7).batch, 7);
}

struct BadModel {
  std::string expected;
  void (*change)(Model&);
};

TEST(WorkloadModels, AreCheckedBeforeUse) {
  const std::vector<BadModel> cases = {
      {"it has no layers", [](Model& model) { model.layers.clear(); }},
      {"batch is 0", [](Model& model) { model.batch = 0; }},
      {"element_bytes is 0", [](Model& model) { model.element_bytes = 0; }},
      {"layers[1] 'b': tensors[0] has 0 elements",
       [](Model& model) { model.layers[1].tensors[0].element_count = 0; }},
      {"layers[1] 'b': with tensors[0] the model has more than",
       [](Model& model) { model.layers[1].tensors[0].element_count = INT64_MAX; }},
      {"layers[0] 'a': products[0] is [1, 0, 1, 1]",
       [](Model& model) {
         model.layers[0].products = {{1, 0, 1, 1}};
       }},
      {"layers[0] 'a': with products[1] the model has more than",
       [](Model& model) {
         model.layers[0].products = {{1, 1, 1, 1}, {1L << 31, 1L << 31, 4, 1}};
       }},
      {"layers[0] 'a': moved_elements is -1",
       [](Model& model) { model.layers[0].moved_elements = -1; }},
      {"layers[0] 'a': block is 1; the first is 0",
       [](Model& model) { model.layers[0].block = 1; }},
      {"layers[1] 'b': block is 2 after 0", [](Model& model) { model.layers[1].block = 2; }},
      {"layers[1] 'b': block is -1 after 0", [](Model& model) { model.layers[1].block = -1; }},
      {"layers[0] 'a': the first layer cannot be tied",
       [](Model& model) { model.layers[0].is_tied_to_first = true; }}};
  Model model;
  model.name = "model";
  model.layers.resize(2);
  model.layers[0].name = "a";
  model.layers[1].name = "b";
  model.layers[0].tensors = model.layers[1].tensors = {{"weight", 4}};
  ASSERT_TRUE(check_model(model));
  for (const BadModel& bad : cases) {
    Model changed = model;
    bad.change(changed);
    const Status status = check_model(changed);
    ASSERT_FALSE(status) << bad.expected;
    EXPECT_EQ(status.error().message.find("model: " + bad.expected), 0U) << status.error().message;
  }
}

}  // namespace
}  // namespace pleach
