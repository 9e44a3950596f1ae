#include "pleach/workload/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/workload/json_text.h"

namespace pleach {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kFormatName = "pleach-workload";
constexpr int64_t kFormatVersion = 1;
constexpr double kMostMicroseconds = 1e9;  // whole picoseconds up to here are exact in a double
constexpr double kPicosecondsPerMicrosecond = 1e6;
constexpr int64_t kMostElements = int64_t{1} << 60;
constexpr int64_t kMostBatch = int64_t{1} << 40;

Error error_at(std::string_view where, std::string_view what) {
  return invalid(fmt::format("{}: {}", where, what));
}

// Reading.

// The members of one object, each asked for by name.
class ObjectReader {
 public:
  ObjectReader(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  bool has(const char* key) const { return object_.contains(key); }
  const Json& at(const char* key) const { return *object_.find(key); }

  Error error(std::string_view key, std::string_view what) const {
    return error_at(where_, fmt::format("key '{}': {}", key, what));
  }
  Error missing(std::string_view key) const {
    return error_at(where_, fmt::format("key '{}' is missing", key));
  }

  Status check_keys(std::span<const std::string> known) const {
    for (const auto& [key, value] : object_.items()) {
      if (std::ranges::find(known, key) == known.end()) {
        return error_at(where_, unknown_name("key", key, known).message);
      }
    }
    return ok();
  }

  // Sets `value` where the key is there.
  template <typename Integer>
  Status read_integer(const char* key, int64_t least, int64_t most, Integer& value) const {
    if (!has(key)) {
      return ok();
    }
    const Json& given = at(key);
    const bool is_large =
        given.is_number_unsigned() && given.get<uint64_t>() > static_cast<uint64_t>(most);
    if (!given.is_number_integer() || is_large || given.get<int64_t>() < least ||
        given.get<int64_t>() > most) {
      return error(key,
                   fmt::format("{} is no whole number from {} to {}", shown(given), least, most));
    }
    value = static_cast<Integer>(given.get<int64_t>());
    return ok();
  }

  Status read_boolean(const char* key, bool& value) const {
    if (!has(key)) {
      return ok();
    }
    if (!at(key).is_boolean()) {
      return error(key, fmt::format("{} is neither true nor false", shown(at(key))));
    }
    value = at(key).get<bool>();
    return ok();
  }

  Status read_text(const char* key, std::string& value) const {
    if (!has(key)) {
      return ok();
    }
    if (!at(key).is_string()) {
      return error(key, fmt::format("{} is no text", shown(at(key))));
    }
    value = at(key).get<std::string>();
    return ok();
  }

  Status read_time(const char* key, int64_t& time_ps) const {
    if (!has(key)) {
      return ok();
    }
    const Json& given = at(key);
    const double time_us = given.is_number() ? given.get<double>() : -1;
    if (!(time_us >= 0 && time_us <= kMostMicroseconds)) {
      return error(
          key, fmt::format("{} is no time from 0 to {:.0f} us", shown(given), kMostMicroseconds));
    }
    time_ps = std::llround(time_us * kPicosecondsPerMicrosecond);
    return ok();
  }

 private:
  const Json& object_;
  std::string where_;
};

// One whole number of an array, named by its place in it.
Result<int64_t> read_entry(const ObjectReader& reader, std::string_view key, const Json& entry,
                           int64_t least) {
  const bool is_large =
      entry.is_number_unsigned() && entry.get<uint64_t>() > static_cast<uint64_t>(kMostElements);
  if (!entry.is_number_integer() || is_large || entry.get<int64_t>() < least) {
    return reader.error(key, fmt::format("{} is no whole number from {} to {}", shown(entry), least,
                                         kMostElements));
  }
  return entry.get<int64_t>();
}

// Tensors without a name are called by their number.
Status read_tensors(const ObjectReader& reader, ModelLayer& layer) {
  if (!reader.has("tensors")) {
    return layer.is_tied_to_first ? ok() : Status(reader.missing("tensors"));
  }
  const Json& tensors = reader.at("tensors");
  if (!tensors.is_array()) {
    return reader.error("tensors", fmt::format("{} is no array", shown(tensors)));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    ModelTensor tensor{fmt::format("{}", i), 0};
    const std::string place = fmt::format("tensors[{}]", i);
    if (tensors[i].is_object()) {
      const ObjectReader inner(tensors[i], fmt::format("{}: {}", reader.where(), place));
      PLEACH_TRY(inner.check_keys(std::array<std::string, 2>{"name", "elements"}));
      PLEACH_TRY(inner.read_text("name", tensor.name));
      PLEACH_TRY(inner.read_integer("elements", 1, kMostElements, tensor.element_count));
      if (tensor.element_count == 0) {
        return inner.missing("elements");
      }
    } else {
      PLEACH_SET(tensor.element_count, read_entry(reader, place, tensors[i], 1));
    }
    layer.tensors.push_back(std::move(tensor));
  }
  return ok();
}

// [m, n, k] or [m, n, k, count].
Status read_products(const ObjectReader& reader, ModelLayer& layer) {
  if (!reader.has("products")) {
    return ok();
  }
  const Json& products = reader.at("products");
  if (!products.is_array()) {
    return reader.error("products", fmt::format("{} is no array", shown(products)));
  }
  for (std::size_t i = 0; i < products.size(); ++i) {
    const std::string place = fmt::format("products[{}]", i);
    const Json& given = products[i];
    if (!given.is_array() || given.size() < 3 || given.size() > 4) {
      return reader.error(place,
                          fmt::format("{} is not [m, n, k] or [m, n, k, count]", shown(given)));
    }
    std::array<int64_t, 4> numbers = {1, 1, 1, 1};
    for (std::size_t j = 0; j < given.size(); ++j) {
      PLEACH_SET(numbers[j], read_entry(reader, place, given[j], 1));
    }
    layer.products.push_back({numbers[0], numbers[1], numbers[2], numbers[3]});
  }
  return ok();
}

// Times of a layer under either name; nothing where it has none.
Result<std::optional<LayerTimes>> read_times(const ObjectReader& reader) {
  const auto pick = [&](const char* name, const char* other) {
    return reader.has(other) ? other : name;
  };
  for (const auto& [name, other] :
       {std::pair("forward_us", "ff_us"), std::pair("backward_us", "bp_us")}) {
    if (reader.has(name) && reader.has(other)) {
      return reader.error(other, fmt::format("'{}' says the same", name));
    }
  }
  const char* forward = pick("forward_us", "ff_us");
  const char* backward = pick("backward_us", "bp_us");
  const bool has_weight_gradient = reader.has("weight_gradient_us");
  if (!reader.has(forward) && !reader.has(backward) && !has_weight_gradient) {
    return std::optional<LayerTimes>();
  }
  for (const char* key : {forward, backward}) {
    if (!reader.has(key)) {
      return reader.missing(key);
    }
  }
  LayerTimes times;
  PLEACH_TRY(reader.read_time(forward, times.forward_ps));
  PLEACH_TRY(reader.read_time(backward, times.backward_ps));
  PLEACH_TRY(reader.read_time("weight_gradient_us", times.weight_gradient_ps));
  if (times.weight_gradient_ps > times.backward_ps) {
    return reader.error(
        "weight_gradient_us",
        fmt::format("{} is more than '{}', {}, which includes it",
                    shown(reader.at("weight_gradient_us")), backward, shown(reader.at(backward))));
  }
  return std::optional(times);
}

struct FileLayer {
  ModelLayer layer;
  std::optional<LayerTimes> times;
  bool has_block = false;
};

Result<FileLayer> read_layer(const Json& json, std::string_view where, std::size_t index) {
  static const std::array<std::string, 17> known_keys = {"name",
                                                         "tensors",
                                                         "forward_us",
                                                         "backward_us",
                                                         "weight_gradient_us",
                                                         "ff_us",
                                                         "bp_us",
                                                         "products",
                                                         "moved_elements",
                                                         "output_elements",
                                                         "block",
                                                         "is_split",
                                                         "forward_sum_elements",
                                                         "backward_sum_elements",
                                                         "sequence_exchange_elements",
                                                         "expert_count",
                                                         "expert_exchange_elements"};
  static const std::string tied_key = "is_tied_to_first";
  std::string place = fmt::format("{}: layers[{}]", where, index);
  if (!json.is_object()) {
    return error_at(place, fmt::format("{} is no object", shown(json)));
  }
  FileLayer result;
  ModelLayer& layer = result.layer;
  layer.name = fmt::format("layer{}", index);
  PLEACH_TRY(ObjectReader(json, place).read_text("name", layer.name));
  const ObjectReader reader(json, place + " " + pleach::quoted(layer.name));
  std::vector<std::string> known(known_keys.begin(), known_keys.end());
  known.push_back(tied_key);
  PLEACH_TRY(reader.check_keys(known));
  PLEACH_TRY(reader.read_boolean("is_split", layer.is_split));
  PLEACH_TRY(reader.read_boolean("is_tied_to_first", layer.is_tied_to_first));
  PLEACH_TRY(read_tensors(reader, layer));
  PLEACH_TRY(read_products(reader, layer));
  for (const auto& [key, value] :
       {std::pair("moved_elements", &layer.moved_elements),
        std::pair("output_elements", &layer.output_elements),
        std::pair("forward_sum_elements", &layer.forward_sum_elements),
        std::pair("backward_sum_elements", &layer.backward_sum_elements),
        std::pair("sequence_exchange_elements", &layer.sequence_exchange_elements),
        std::pair("expert_exchange_elements", &layer.expert_exchange_elements)}) {
    PLEACH_TRY(reader.read_integer(key, 0, kMostElements, *value));
  }
  PLEACH_TRY(reader.read_integer("block", 0, INT32_MAX, layer.block));
  PLEACH_TRY(reader.read_integer("expert_count", 0, INT32_MAX, layer.expert_count));
  result.has_block = reader.has("block");
  PLEACH_SET(result.times, read_times(reader));
  return result;
}

// Without any block each layer is one; a layer without has that of the layer before.
void complete_blocks(std::vector<FileLayer>& layers) {
  const bool has_blocks = std::ranges::any_of(layers, &FileLayer::has_block);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!has_blocks) {
      layers[i].layer.block = static_cast<int32_t>(i);
    } else if (!layers[i].has_block && i > 0) {
      layers[i].layer.block = layers[i - 1].layer.block;
    }
  }
}

Status take_layers(const ObjectReader& reader, WorkloadFile& file) {
  if (!reader.has("layers")) {
    return reader.missing("layers");
  }
  const Json& json = reader.at("layers");
  if (!json.is_array() || json.empty()) {
    return reader.error(
        "layers", json.is_array() ? "there are none" : fmt::format("{} is no array", shown(json)));
  }
  std::vector<FileLayer> layers;
  bool has_products = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    PLEACH_ASSIGN(layer, read_layer(json[i], reader.where(), i));
    layers.push_back(std::move(layer));
    has_products = has_products || !layers.back().layer.products.empty();
    if (layers[i].times.has_value() != layers[0].times.has_value()) {
      return error_at(reader.where(),
                      fmt::format("layers[{}] {} has {}times and layers[0] {}; all layers have "
                                  "them or none",
                                  i, pleach::quoted(layers[i].layer.name),
                                  layers[i].times ? "" : "no ", layers[i].times ? "none" : "does"));
    }
  }
  if (!layers[0].times && !has_products) {
    return reader.error("layers", "no layer has times or products");
  }
  complete_blocks(layers);
  if (layers[0].times) {
    file.times = MeasuredTimes{file.model.batch, {}};
    PLEACH_TRY(reader.read_integer("measured_batch", 1, kMostBatch, file.times->batch));
  }
  for (FileLayer& layer : layers) {
    file.model.layers.push_back(std::move(layer.layer));
    if (layer.times) {
      file.times->layers.push_back(*layer.times);
    }
  }
  return ok();
}

// A bare profile has neither format nor version, and its name is its model's.
Status take_head(const ObjectReader& reader, Model& model) {
  std::string format(kFormatName);
  PLEACH_TRY(reader.read_text("format", format));
  if (format != kFormatName) {
    return reader.error("format",
                        fmt::format("{} is not '{}'", pleach::quoted(format), kFormatName));
  }
  int64_t version = kFormatVersion;
  PLEACH_TRY(reader.read_integer("version", 0, INT32_MAX, version));
  if (reader.has("format") && !reader.has("version")) {
    return reader.missing("version");
  }
  if (version != kFormatVersion) {
    return reader.error("version", fmt::format("{} is not {}, the only one that this program reads",
                                               version, kFormatVersion));
  }
  const char* name = reader.has("model") ? "model" : "name";
  if (!reader.has(name)) {
    return reader.missing(name);
  }
  std::string note;
  PLEACH_TRY(reader.read_text(name, model.name));
  PLEACH_TRY(reader.read_text("note", note));
  PLEACH_TRY(reader.read_integer("batch", 1, kMostBatch, model.batch));
  PLEACH_TRY(reader.read_integer("tokens_per_sample", 0, kMostBatch, model.tokens_per_sample));
  model.input_bytes = model.tokens_per_sample * kInputElementBytes;
  PLEACH_TRY(reader.read_integer("input_bytes", 0, kMostElements, model.input_bytes));
  return reader.read_integer("element_bytes", 1, 8, model.element_bytes);
}

// Writing.

std::string escaped(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string microseconds(int64_t time_ps) {
  return fmt::format("{}", static_cast<double>(time_ps) / kPicosecondsPerMicrosecond);
}

template <typename Range, typename Project>
std::string list(const Range& range, Project project) {
  std::string text = "[";
  for (std::size_t i = 0; i < range.size(); ++i) {
    text += (i > 0 ? ", " : "") + project(range[i], i);
  }
  return text + "]";
}

void write_layer(const ModelLayer& layer, const LayerTimes* times, std::string& text) {
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "    {{\"name\": {}, \"block\": {}, \"tensors\": {}", escaped(layer.name),
                 layer.block, list(layer.tensors, [](const ModelTensor& tensor, std::size_t i) {
                   return tensor.name == std::to_string(i)
                              ? std::to_string(tensor.element_count)
                              : fmt::format("{{\"name\": {}, \"elements\": {}}}",
                                            escaped(tensor.name), tensor.element_count);
                 }));
  if (times != nullptr) {
    fmt::format_to(out, ", \"forward_us\": {}, \"backward_us\": {}, \"weight_gradient_us\": {}",
                   microseconds(times->forward_ps), microseconds(times->backward_ps),
                   microseconds(times->weight_gradient_ps));
  }
  if (!layer.products.empty()) {
    fmt::format_to(out, ", \"products\": {}",
                   list(layer.products, [](const MatrixProduct& product, std::size_t) {
                     return fmt::format("[{}, {}, {}, {}]", product.m, product.n, product.k,
                                        product.count);
                   }));
  }
  for (const auto& [key, value] :
       {std::pair("moved_elements", layer.moved_elements),
        std::pair("output_elements", layer.output_elements),
        std::pair("forward_sum_elements", layer.forward_sum_elements),
        std::pair("backward_sum_elements", layer.backward_sum_elements),
        std::pair("sequence_exchange_elements", layer.sequence_exchange_elements),
        std::pair("expert_count", int64_t{layer.expert_count}),
        std::pair("expert_exchange_elements", layer.expert_exchange_elements)}) {
    if (value != 0) {
      fmt::format_to(out, ", \"{}\": {}", key, value);
    }
  }
  for (const auto& [key, value] : {std::pair("is_split", layer.is_split),
                                   std::pair("is_tied_to_first", layer.is_tied_to_first)}) {
    if (value) {
      fmt::format_to(out, ", \"{}\": true", key);
    }
  }
  text += "}";
}

}  // namespace

Result<WorkloadFile> parse_workload_json(std::string_view text, std::string_view where) {
  static const std::array<std::string, 12> known_keys = {"format",
                                                         "version",
                                                         "name",
                                                         "model",
                                                         "note",
                                                         "batch",
                                                         "measured_batch",
                                                         "element_bytes",
                                                         "parameters",
                                                         "layers",
                                                         "tokens_per_sample",
                                                         "input_bytes"};
  PLEACH_ASSIGN(json, parse_json(text, where));
  if (!json.is_object()) {
    return error_at(where, fmt::format("{} is no object", shown(json)));
  }
  const ObjectReader reader(json, std::string(where));
  PLEACH_TRY(reader.check_keys(known_keys));
  WorkloadFile file;
  PLEACH_TRY(take_head(reader, file.model));
  PLEACH_TRY(take_layers(reader, file));
  if (Status status = check_model(file.model); !status) {
    return error_at(where, status.error().message);
  }
  const int64_t count = parameter_count(file.model);
  int64_t expected = count;
  PLEACH_TRY(reader.read_integer("parameters", 0, kMostElements, expected));
  if (expected != count) {
    return reader.error("parameters",
                        fmt::format("{}, but the tensors have {} elements", expected, count));
  }
  return file;
}

std::string workload_json(const Workload& workload) {
  const Model& model = workload.model;
  const auto* measured = std::get_if<MeasuredTimes>(&workload.times);
  std::string text = fmt::format(
      "{{\n  \"format\": \"{}\",\n  \"version\": {},\n  \"name\": {},\n  \"batch\": {},\n",
      kFormatName, kFormatVersion, escaped(model.name), workload.batch);
  if (measured != nullptr && measured->batch != workload.batch) {
    text += fmt::format("  \"measured_batch\": {},\n", measured->batch);
  }
  if (model.tokens_per_sample > 0) {
    text += fmt::format("  \"tokens_per_sample\": {},\n", model.tokens_per_sample);
  }
  if (model.input_bytes != model.tokens_per_sample * kInputElementBytes) {
    text += fmt::format("  \"input_bytes\": {},\n", model.input_bytes);
  }
  text += fmt::format("  \"element_bytes\": {},\n  \"parameters\": {},\n  \"layers\": [\n",
                      model.element_bytes, parameter_count(model));
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    write_layer(model.layers[i], measured == nullptr ? nullptr : &measured->layers[i], text);
    text += i + 1 < model.layers.size() ? ",\n" : "\n";
  }
  return text + "  ]\n}\n";
}

}  // namespace pleach
