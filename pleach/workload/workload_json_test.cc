// The JSON form: what it accepts, what it says about the rest, and that nothing in it can crash.
#include <gtest/gtest.h>

#include <filesystem>

#include "pleach/base/files.h"
#include "pleach/base/rng.h"
#include "pleach/base/text.h"
#include "pleach/workload/json.h"
#include "pleach/workload/models/embedded.h"

namespace pleach {
namespace {

const std::string kHead =
    R"({"format": "pleach-workload", "version": 1, "name": "net", "layers": )";

std::string with_layer(const std::string& layer) {
  return kHead + "[" + layer + "]}";
}

TEST(WorkloadJson, ReadsWorkAndEveryField) {
  const auto file = parse_workload_json(R"({
    "format": "pleach-workload", "version": 1, "name": "net", "note": "for the reader",
    "batch": 8, "element_bytes": 2, "parameters": 160,
    "layers": [
      {"name": "a", "tensors": [100, {"name": "bias", "elements": 10}],
       "products": [[1, 2, 3], [4, 5, 6, 7]],
       "moved_elements": 11, "output_elements": 12, "is_split": true, "forward_sum_elements": 13,
       "backward_sum_elements": 14, "sequence_exchange_elements": 15},
      {"name": "b", "block": 1, "tensors": [50], "expert_count": 4, "expert_exchange_elements": 16},
      {"name": "c", "is_tied_to_first": true, "products": [[1, 1, 1, 1]]}]})",
                                        "net.json");
  ASSERT_TRUE(file) << file.error().message;
  Model model;
  model.name = "net";
  model.batch = 8;
  model.element_bytes = 2;
  model.layers.resize(3);
  model.layers[0] = {
      "a", {{"0", 100}, {"bias", 10}}, {{1, 2, 3, 1}, {4, 5, 6, 7}}, 11, 12, 0, true, 13, 14, 15};
  model.layers[1].name = "b";
  model.layers[1].block = 1;
  model.layers[1].tensors = {{"0", 50}};
  model.layers[1].expert_count = 4;
  model.layers[1].expert_exchange_elements = 16;
  model.layers[2].name = "c";
  model.layers[2].block = 1;
  model.layers[2].products = {{1, 1, 1, 1}};
  model.layers[2].is_tied_to_first = true;
  EXPECT_EQ(file->model, model);
  EXPECT_FALSE(file->times);
}

TEST(WorkloadJson, ReadsBareProfiles) {
  const auto file = parse_workload_json(
      R"({"model": "net", "batch": 32, "layers": [
          {"name": "a", "ff_us": 1.5, "bp_us": 3, "tensors": [10, 2]},
          {"ff_us": 0, "bp_us": 0.000001, "tensors": [7]}]})",
      "net.json");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->model.name, "net");
  EXPECT_EQ(file->model.batch, 32);
  EXPECT_EQ(file->model.layers[1].name, "layer1");
  EXPECT_EQ(file->model.layers[1].block, 1) << "each layer is a block where none is named";
  ASSERT_TRUE(file->times);
  EXPECT_EQ(*file->times, (MeasuredTimes{32, {{1'500'000, 3'000'000, 0}, {0, 1, 0}}}));
}

TEST(WorkloadJson, SaysWhatIsWrongAndWhere) {
  const std::string profile =
      R"({"model": "net", "layers": [{"name": "a", "ff_us": 1, "bp_us": 2, "tensors": [1]}, )";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "no JSON: parse error at line 1, column 1"},
      {"{\n\"name\": nan}", "no JSON: parse error at line 2, column 10"},
      {"[]", "an array is no object"},
      {"3", "'3' is no object"},
      {R"({"name": "a", "name": "b"})", "key 'name' is there twice"},
      {R"({"name": [[[[[[[[[[1]]]]]]]]]]})", "it is nested deeper than 8 levels"},
      {R"({"format": "pleach_schedule", "version": 1})",
       "key 'format': 'pleach_schedule' is not 'pleach-workload'"},
      {R"({"format": 3})", "key 'format': '3' is no text"},
      {R"({"format": "pleach-workload", "name": "a"})", "key 'version' is missing"},
      {R"({"version": 2, "name": "a"})", "key 'version': 2 is not 1"},
      {R"({"layers": []})", "key 'name' is missing"},
      {R"({"name": "net"})", "key 'layers' is missing"},
      {kHead + "[]}", "key 'layers': there are none"},
      {kHead + "3}", "key 'layers': '3' is no array"},
      {kHead + R"([], "layrs": 3})", "unknown key 'layrs'; did you mean 'layers'?"},
      {kHead + R"([], "batch": 0})", "key 'batch': '0' is no whole number from 1"},
      {kHead + R"([], "batch": 1.5})", "key 'batch': '1.5' is no whole number"},
      {kHead + R"([], "batch": 18446744073709551615})",
       "key 'batch': '18446744073709551615' is no"},
      {kHead + R"([], "batch": 1e400})", "no JSON: "},
      {kHead + R"([], "element_bytes": 9})", "key 'element_bytes': '9' is no whole number"},
      {with_layer("3"), "layers[0]: '3' is no object"},
      {with_layer(R"({"name": 3, "tensors": [1]})"), "layers[0]: key 'name': '3' is no text"},
      {with_layer(R"({"name": "a"})"), "layers[0] 'a': key 'tensors' is missing"},
      {with_layer(R"({"tensors": 4})"), "layers[0] 'layer0': key 'tensors': '4' is no array"},
      {with_layer(R"({"name": "a\nb", "tensors": [1.5]})"),
       R"(layers[0] 'a\x0ab': key 'tensors[0]': '1.5' is no whole number from 1)"},
      {with_layer(R"({"tensors": [1, -2]})"), "key 'tensors[1]': '-2' is no whole number from 1"},
      {with_layer(R"({"tensors": [{"elements": 2, "nam": "b"}]})"),
       "layers[0] 'layer0': tensors[0]: unknown key 'nam'"},
      {with_layer(R"({"tensors": [{"name": "b"}]})"), "tensors[0]: key 'elements' is missing"},
      {with_layer(R"({"tensors": [1], "product": 2})"), "unknown key 'product'; did you mean"},
      {with_layer(R"({"tensors": [1], "products": [1]})"),
       "key 'products[0]': '1' is not [m, n, k] or [m, n, k, count]"},
      {with_layer(R"({"tensors": [1], "products": [[1, 2]]})"), "an array is not [m, n, k]"},
      {with_layer(R"({"tensors": [1], "products": [[1, 2, 0]]})"), "'0' is no whole number from 1"},
      {with_layer(R"({"tensors": [1], "products": [[1e9, 1, 1]]})"), "is no whole number from 1"},
      {with_layer(R"({"tensors": [1], "products": [[1000000000, 1000000000, 1000]]})"),
       "with products[0] the model has more than"},
      {with_layer(R"({"tensors": [1], "moved_elements": -1})"),
       "key 'moved_elements': '-1' is no whole number from 0"},
      {with_layer(R"({"tensors": [1], "is_split": 1})"), "key 'is_split': '1' is neither true"},
      {with_layer(R"({"tensors": [1], "forward_us": -1, "backward_us": 1})"),
       "layers[0] 'layer0': key 'forward_us': '-1' is no time from 0 to 1000000000 us"},
      {with_layer(R"({"tensors": [1], "forward_us": 1, "backward_us": "2"})"),
       R"(key 'backward_us': '"2"' is no time)"},
      {with_layer(R"({"tensors": [1], "forward_us": 1, "backward_us": 1e300})"),
       "key 'backward_us': '1e+300' is no time"},
      {with_layer(R"({"tensors": [1], "forward_us": 1})"), "key 'backward_us' is missing"},
      {with_layer(R"({"tensors": [1], "weight_gradient_us": 1})"), "key 'forward_us' is missing"},
      {with_layer(R"({"tensors": [1], "ff_us": 1, "forward_us": 1, "bp_us": 1})"),
       "key 'ff_us': 'forward_us' says the same"},
      {with_layer(
           R"({"tensors": [1], "forward_us": 1, "backward_us": 1, "weight_gradient_us": 2})"),
       "key 'weight_gradient_us': '2' is more than 'backward_us', '1', which includes it"},
      {with_layer(R"({"tensors": [1]})"), "key 'layers': no layer has times or products"},
      {with_layer(R"({"tensors": [1], "products": [[1, 1, 1]], "block": 1})"),
       "layers[0] 'layer0': block is 1; the first is 0"},
      {profile + R"({"name": "b", "tensors": [1]}]})",
       "layers[1] 'b' has no times and layers[0] does; all layers have them or none"},
      {profile + R"({"tensors": [1], "ff_us": 1, "bp_us": 1}], "parameters": 3})",
       "key 'parameters': 3, but the tensors have 2 elements"},
      {profile + R"({"tensors": [1], "ff_us": 1, "bp_us": 1}], "measured_batch": 0})",
       "key 'measured_batch': '0' is no whole number from 1"},
      {"{\"name\": \"\xff\"}", "no JSON: "},
  };
  for (const auto& [text, expected] : cases) {
    SCOPED_TRACE(text);
    const auto file = parse_workload_json(text, "net.json");
    ASSERT_FALSE(file);
    const std::string& message = file.error().message;
    EXPECT_EQ(file.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(message.find("net.json: "), 0U) << message;
    EXPECT_NE(message.find(expected), std::string::npos) << message;
    EXPECT_EQ(message, one_line(message));
  }
}

TEST(WorkloadJson, KeepsTheBatchThatWasMeasured) {
  Workload workload;
  workload.model = parse_workload_json(embedded_workloads()[0].text, "data")->model;
  workload.batch = workload.model.batch = 12;
  workload.times =
      MeasuredTimes{5, std::vector<LayerTimes>(workload.model.layers.size(),
                                               {1, 1'000'000'000'000'000, 999'999'999'999'999})};
  const std::string path = testing::TempDir() + "workload_json_test.json";
  ASSERT_TRUE(write_file(path, workload_json(workload)));
  const auto read = load_workload(path, *parse_accelerator("a100"), 0);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->model, workload.model);
  EXPECT_EQ(read->batch, 12);
  EXPECT_EQ(std::get<MeasuredTimes>(read->times), std::get<MeasuredTimes>(workload.times));
  std::filesystem::remove(path);
}

TEST(WorkloadJson, NeverCrashesOnBrokenFiles) {
  const uint64_t seed = 11;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  const std::string valid =
      R"({"format": "pleach-workload", "version": 1, "name": "net",
 "batch": 4, "measured_batch": 2, "element_bytes": 4, "parameters": 8, "layers": [
 {"name": "a", "block": 0, "tensors": [{"name": "w", "elements": 3}, 4],
  "forward_us": 1.25, "backward_us": 2e0, "weight_gradient_us": 1, "products": [[1, 2, 3, 1]],
  "moved_elements": 5, "output_elements": 6, "is_split": true},
 {"tensors": [1], "ff_us": 1, "bp_us": 2}]})";
  ASSERT_TRUE(parse_workload_json(valid, "valid"));
  const std::string alphabet = "{}[]\",:0123456789.-+eEtfn \\u\xff\n";
  int32_t accepted = 0;
  for (int32_t round = 0; round < 20'000; ++round) {
    std::string text = valid;
    for (uint64_t change = 0; change <= rng.below(3); ++change) {
      const std::size_t at = rng.below(text.size());
      switch (rng.below(4)) {
        case 0:
          text[at] = alphabet[rng.below(alphabet.size())];
          break;
        case 1:
          text.erase(at, 1 + rng.below(8));
          break;
        case 2:
          text.insert(at, 1 + rng.below(3), alphabet[rng.below(alphabet.size())]);
          break;
        default:
          text.insert(at, text.substr(rng.below(text.size()), 1 + rng.below(20)));
      }
    }
    const auto file = parse_workload_json(text, "broken");
    if (!file) {
      ASSERT_EQ(file.error().message, one_line(file.error().message)) << text;
      continue;
    }
    ++accepted;
    ASSERT_TRUE(check_model(file->model));
    const Workload workload{
        file->model, file->model.batch,
        file->times.value_or(MeasuredTimes{1, std::vector<LayerTimes>(file->model.layers.size())})};
    const auto again = parse_workload_json(workload_json(workload), "again");
    ASSERT_TRUE(again) << again.error().message;
    ASSERT_EQ(again->model, file->model) << text;
  }
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, 15'000);
  EXPECT_FALSE(parse_workload_json(std::string(1'000'000, '['), "deep"));
  EXPECT_FALSE(parse_workload_json("{\"a\":" + std::string(1'000'000, '['), "deep"));
}

}  // namespace
}  // namespace pleach
