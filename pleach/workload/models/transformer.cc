#include "pleach/workload/models/transformer.h"

#include <utility>

namespace pleach {

TransformerBuilder::TransformerBuilder(std::string name, int64_t batch, int32_t element_bytes,
                                       const TransformerShape& shape)
    : shape_(shape) {
  model_.name = std::move(name);
  model_.batch = batch;
  model_.element_bytes = element_bytes;
  model_.tokens_per_sample = shape.sequence;
  model_.input_bytes = shape.sequence * kInputElementBytes;
}

ModelLayer& TransformerBuilder::append(const std::string& name) {
  ModelLayer& layer = model_.layers.emplace_back();
  layer.name = name;
  layer.block = block_;
  layer.output_elements = shape_.sequence * shape_.hidden;
  return layer;
}

void TransformerBuilder::embedding(const std::string& name, int64_t rows) {
  ModelLayer& layer = append(name);
  layer.tensors = {{"weight", rows * shape_.hidden}};
  layer.moved_elements = 2 * layer.output_elements;
}

void TransformerBuilder::split_embedding(const std::string& name) {
  embedding(name, shape_.vocabulary);
  ModelLayer& layer = model_.layers.back();
  layer.is_split = true;
  layer.forward_sum_elements = layer.output_elements;
}

void TransformerBuilder::norm(const std::string& name) {
  ModelLayer& layer = append(name);
  layer.tensors = {{"weight", shape_.hidden}};
  if (shape_.has_bias) {
    layer.tensors.push_back({"bias", shape_.hidden});
  }
  layer.moved_elements = 2 * layer.output_elements;
}

ModelLayer& TransformerBuilder::linear(const std::string& name, int64_t input, int64_t output) {
  ModelLayer& layer = append(name);
  layer.tensors = {{"weight", input * output}};
  if (shape_.has_bias) {
    layer.tensors.push_back({"bias", output});
  }
  layer.products = {{shape_.sequence, output, input, 1}};
  layer.output_elements = shape_.sequence * output;
  return layer;
}

// Of the matrices that read the same input, the gradients of that input are summed once.
ModelLayer& TransformerBuilder::column_linear(const std::string& name, int64_t output,
                                              bool is_first) {
  ModelLayer& layer = linear(name, shape_.hidden, output);
  layer.is_split = true;
  layer.backward_sum_elements = is_first ? shape_.sequence * shape_.hidden : 0;
  return layer;
}

// Joins the residual stream again.
void TransformerBuilder::row_linear(const std::string& name, int64_t input) {
  ModelLayer& layer = linear(name, input, shape_.hidden);
  layer.is_split = true;
  layer.forward_sum_elements = layer.output_elements;
  layer.moved_elements = 3 * layer.output_elements;
}

// Query times key, softmax, and scores times value, on the layer that comes before them.
void TransformerBuilder::add_scores(ModelLayer& layer) const {
  const int64_t sequence = shape_.sequence;
  const int64_t width = shape_.hidden / shape_.heads;
  layer.products.push_back({sequence, sequence, width, shape_.heads});
  layer.products.push_back({sequence, width, sequence, shape_.heads});
  layer.moved_elements = 2 * shape_.heads * sequence * sequence;
  layer.output_elements = sequence * shape_.hidden;
  // Query, key and value go to whole sequences of some heads; the result comes back.
  layer.sequence_exchange_elements =
      2 * sequence * (shape_.hidden + shape_.key_value_heads * width);
}

void TransformerBuilder::fused_attention(const std::string& prefix) {
  const int64_t key_value = shape_.hidden / shape_.heads * shape_.key_value_heads;
  add_scores(column_linear(prefix + "query_key_value", shape_.hidden + 2 * key_value, true));
  row_linear(prefix + "projection", shape_.hidden);
}

void TransformerBuilder::attention(const AttentionNames& names) {
  const int64_t key_value = shape_.hidden / shape_.heads * shape_.key_value_heads;
  column_linear(names.query, shape_.hidden, true);
  column_linear(names.key, key_value, false);
  add_scores(column_linear(names.value, key_value, false));
  row_linear(names.projection, shape_.hidden);
}

void TransformerBuilder::feed_forward(const std::string& up, const std::string& down) {
  ModelLayer& layer = column_linear(up, shape_.feed_forward, true);
  layer.moved_elements = 2 * layer.output_elements;
  row_linear(down, shape_.feed_forward);
}

void TransformerBuilder::gated_feed_forward(const std::string& prefix) {
  column_linear(prefix + "gate_proj", shape_.feed_forward, true);
  ModelLayer& up = column_linear(prefix + "up_proj", shape_.feed_forward, false);
  up.moved_elements = 3 * up.output_elements;
  row_linear(prefix + "down_proj", shape_.feed_forward);
}

void TransformerBuilder::experts(const std::string& prefix, const ExpertShape& experts) {
  linear(prefix + "gate", shape_.hidden, experts.expert_count);
  ModelLayer& layer = append(prefix + "experts");
  const int64_t elements = experts.expert_count * shape_.hidden * shape_.feed_forward;
  const int64_t tokens = shape_.sequence * experts.top_k;
  layer.tensors = {{"gate_proj", elements}, {"up_proj", elements}, {"down_proj", elements}};
  layer.products = {{tokens, shape_.feed_forward, shape_.hidden, 1},
                    {tokens, shape_.feed_forward, shape_.hidden, 1},
                    {tokens, shape_.hidden, shape_.feed_forward, 1}};
  layer.moved_elements = 3 * tokens * shape_.feed_forward + 3 * layer.output_elements;
  layer.is_split = true;
  layer.forward_sum_elements = layer.output_elements;
  layer.backward_sum_elements = layer.output_elements;
  layer.expert_count = static_cast<int32_t>(experts.expert_count);
  layer.expert_exchange_elements = tokens * shape_.hidden;
}

void TransformerBuilder::output(const std::string& name, bool is_tied) {
  ModelLayer& layer = column_linear(name, shape_.vocabulary, true);
  layer.moved_elements = 2 * layer.output_elements;
  if (is_tied) {
    layer.tensors.clear();
    layer.is_tied_to_first = true;
  }
}

Model TransformerBuilder::finish() && {
  return std::move(model_);
}

}  // namespace pleach
