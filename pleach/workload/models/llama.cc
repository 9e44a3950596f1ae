// LLaMA 2, and the mixture of experts with its attention.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "pleach/workload/model.h"
#include "pleach/workload/models/transformer.h"

namespace pleach {
namespace {

using Kind = OptionDescriptor::Kind;

constexpr int32_t kElementBytes = 2;
constexpr int64_t kBatch = 8;
constexpr int64_t kVocabulary = 32000;
constexpr int64_t kHeadWidth = 128;

struct LlamaSize {
  std::string_view parameters;
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads_per_key_value = 1;
  int64_t feed_forward = 0;
};

constexpr std::array<LlamaSize, 3> kSizes = {
    {{"7b", 32, 4096, 1, 11008}, {"13b", 40, 5120, 1, 13824}, {"70b", 80, 8192, 8, 28672}}};

// Two thirds of 4 · hidden, up to a multiple of 256 (Touvron et al., LLaMA, sec. 2.2).
int64_t default_feed_forward(int64_t hidden) {
  constexpr int64_t kMultiple = 256;
  return (8 * hidden / 3 + kMultiple - 1) / kMultiple * kMultiple;
}

// Heads are 128 wide, and `group` of them share key and value.
Result<TransformerShape> shape_of(const std::string& name, int64_t hidden, int64_t group,
                                  int64_t sequence) {
  if (hidden % (kHeadWidth * group) != 0) {
    return invalid(fmt::format("{}: option 'hidden': {} is no multiple of {}", name, hidden,
                               kHeadWidth * group));
  }
  const int64_t heads = hidden / kHeadWidth;
  return TransformerShape{.hidden = hidden,
                          .heads = heads,
                          .key_value_heads = heads / group,
                          .feed_forward = default_feed_forward(hidden),
                          .sequence = sequence,
                          .vocabulary = kVocabulary,
                          .has_bias = false};
}

void add_attention(TransformerBuilder& builder, const std::string& prefix) {
  const std::string attention = prefix + "self_attn.";
  builder.norm(prefix + "input_layernorm");
  builder.attention(
      {attention + "q_proj", attention + "k_proj", attention + "v_proj", attention + "o_proj"});
  builder.norm(prefix + "post_attention_layernorm");
}

// The layers between embedding and output, each a block; `add_feed_forward` gets their prefix.
template <typename AddFeedForward>
Model build(TransformerBuilder& builder, int64_t layers, AddFeedForward add_feed_forward) {
  builder.split_embedding("model.embed_tokens");
  for (int64_t layer = 0; layer < layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    add_attention(builder, prefix);
    add_feed_forward(prefix);
    if (layer + 1 < layers) {
      builder.end_block();
    }
  }
  builder.norm("model.norm");
  builder.output("lm_head", false);
  return std::move(builder).finish();
}

Result<Model> make_llama(const Options& options) {
  const LlamaSize& size =
      *std::ranges::find(kSizes, options.text("parameters"), &LlamaSize::parameters);
  const int64_t hidden = options.integer("hidden");
  const int64_t layers = options.integer("layers");
  PLEACH_ASSIGN(shape, shape_of("llama", hidden > 0 ? hidden : size.hidden,
                                size.heads_per_key_value, options.integer("sequence")));
  if (hidden == 0 || hidden == size.hidden) {
    shape.feed_forward = size.feed_forward;
  }
  TransformerBuilder builder("llama", kBatch, kElementBytes, shape);
  return build(builder, layers > 0 ? layers : size.layers,
               [&](const std::string& prefix) { builder.gated_feed_forward(prefix + "mlp."); });
}

Result<Model> make_mixture_of_experts(const Options& options) {
  const ExpertShape experts = {options.integer("experts"), options.integer("top_k")};
  if (experts.top_k > experts.expert_count) {
    return invalid(fmt::format("mixture_of_experts: option 'top_k': {} is more than {} experts",
                               experts.top_k, experts.expert_count));
  }
  PLEACH_ASSIGN(shape, shape_of("mixture_of_experts", options.integer("hidden"), 4,
                                options.integer("sequence")));
  shape.feed_forward = 7 * shape.hidden / 2;
  TransformerBuilder builder("mixture_of_experts", kBatch, kElementBytes, shape);
  return build(builder, options.integer("layers"), [&](const std::string& prefix) {
    builder.experts(prefix + "block_sparse_moe.", experts);
  });
}

OptionDescriptor integer_option(const std::string& name, const std::string& value,
                                const std::string& summary, int64_t least, int64_t most) {
  return {name, Kind::kInteger, value, summary, {}, least, most};
}

}  // namespace

extern const WorkloadDescriptor kLlama = {
    "llama",
    "LLaMA 2",
    "Touvron et al., Llama 2, 2023, sec. 2.2 and table 1",
    {{"parameters", Kind::kChoice, "7b", "size", {"7b", "13b", "70b"}},
     integer_option("layers", "0", "transformer layers; 0: the size's", 0, 1024),
     integer_option("hidden", "0", "width, 128 for each head; 0: the size's", 0, 65536),
     integer_option("sequence", "4096", "tokens of a sample", 1, 1 << 20)},
    make_llama};
extern const WorkloadDescriptor kMixtureOfExperts = {
    "mixture_of_experts",
    "a transformer whose feed-forward networks are experts; as it comes, Mixtral 8x7B",
    "Jiang et al., Mixtral of Experts, 2024, sec. 2 and table 1",
    {integer_option("layers", "32", "transformer layers", 1, 1024),
     integer_option("hidden", "4096", "width, a multiple of 512", 512, 65536),
     integer_option("experts", "8", "experts of each layer", 1, 1024),
     integer_option("top_k", "2", "experts that each token goes to", 1, 1024),
     integer_option("sequence", "4096", "tokens of a sample", 1, 1 << 20)},
    make_mixture_of_experts};

}  // namespace pleach
