// GPT-like transformers: GPT-3, Turing-NLG 17B and a model of a trillion parameters.
#include <fmt/format.h>

#include "pleach/workload/model.h"
#include "pleach/workload/models/transformer.h"

namespace pleach {
namespace {

constexpr int64_t kBatch = 16;
constexpr int32_t kElementBytes = 2;

struct GptSize {
  std::string name;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t vocabulary = 0;
};

Result<Model> make_gpt(const GptSize& size, const Options& options) {
  const int64_t sequence = options.integer("sequence");
  const int64_t layers = options.integer("layers");
  const TransformerShape shape = {.hidden = size.hidden,
                                  .heads = size.heads,
                                  .key_value_heads = size.heads,
                                  .feed_forward = 4 * size.hidden,
                                  .sequence = sequence,
                                  .vocabulary = size.vocabulary};
  TransformerBuilder builder(size.name, kBatch, kElementBytes, shape);
  builder.split_embedding("embedding.word");
  builder.embedding("embedding.position", sequence);
  for (int64_t layer = 0; layer < layers; ++layer) {
    const std::string prefix = fmt::format("layers.{}.", layer);
    builder.norm(prefix + "input_norm");
    builder.fused_attention(prefix + "attention.");
    builder.norm(prefix + "post_attention_norm");
    builder.feed_forward(prefix + "feed_forward.up", prefix + "feed_forward.down");
    if (layer + 1 < layers) {
      builder.end_block();
    }
  }
  builder.norm("final_norm");
  builder.output("output", true);
  return std::move(builder).finish();
}

Result<Model> make_gpt3(const Options& options) {
  return make_gpt({"gpt3", 12288, 96, 50257}, options);
}

Result<Model> make_transformer_17b(const Options& options) {
  return make_gpt({"transformer_17b", 4256, 28, 50257}, options);
}

Result<Model> make_transformer_1t(const Options& options) {
  return make_gpt({"transformer_1t", 25600, 160, 51200}, options);
}

std::vector<OptionDescriptor> gpt_options(const std::string& layers, const std::string& sequence) {
  using Kind = OptionDescriptor::Kind;
  return {{"layers", Kind::kInteger, layers, "transformer layers", {}, 1, 1024},
          {"sequence", Kind::kInteger, sequence, "tokens of a sample", {}, 1, 1 << 20}};
}

}  // namespace

extern const WorkloadDescriptor kGpt3 = {"gpt3", "GPT-3, 175 billion parameters",
                                         "Brown et al., NeurIPS 2020, table 2.1",
                                         gpt_options("96", "2048"), make_gpt3};
extern const WorkloadDescriptor kTransformer17b = {
    "transformer_17b", "Turing-NLG, 17 billion parameters",
    "Rosset, Turing-NLG, Microsoft Research blog, 2020", gpt_options("78", "1024"),
    make_transformer_17b};
extern const WorkloadDescriptor kTransformer1t = {
    "transformer_1t", "a GPT of 1 trillion parameters", "Narayanan et al., SC 2021, table 1",
    gpt_options("128", "2048"), make_transformer_1t};

}  // namespace pleach
