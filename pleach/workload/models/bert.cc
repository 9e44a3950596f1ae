// BERT for pre-training. Modules in the order in which Hugging Face's implementation registers
// them, which is that of published per-module sizes: the bias of the word scores comes first,
// though it is added last. The scores themselves use the embedding's matrix, have no module of
// their own, and are work of the layer before them; tensor parallelism leaves both whole.
#include <fmt/format.h>

#include "pleach/workload/model.h"
#include "pleach/workload/models/transformer.h"

namespace pleach {
namespace {

// 30,522 word pieces, padded to a multiple of 64.
constexpr int64_t kVocabulary = 30528;
constexpr int64_t kPositions = 512;

struct BertSize {
  std::string name;
  int64_t hidden = 0;
  int64_t heads = 0;
  int32_t layers = 0;
  int64_t batch = 0;
};

void add_layer(TransformerBuilder& builder, const std::string& prefix) {
  const std::string attention = prefix + "attention.";
  builder.attention({attention + "self.query", attention + "self.key", attention + "self.value",
                     attention + "output.dense"});
  builder.norm(attention + "output.LayerNorm");
  builder.feed_forward(prefix + "intermediate.dense", prefix + "output.dense");
  builder.norm(prefix + "output.LayerNorm");
}

// Of the first token.
void add_pooled_linear(TransformerBuilder& builder, const std::string& name, int64_t input,
                       int64_t output) {
  ModelLayer& layer = builder.linear(name, input, output);
  layer.products[0].m = 1;
  layer.output_elements = output;
}

Result<Model> make_bert(const BertSize& size, const Options& options) {
  const int64_t sequence = options.integer("sequence");
  const TransformerShape shape = {.hidden = size.hidden,
                                  .heads = size.heads,
                                  .key_value_heads = size.heads,
                                  .feed_forward = 4 * size.hidden,
                                  .sequence = sequence,
                                  .vocabulary = kVocabulary};
  TransformerBuilder builder(size.name, size.batch, 4, shape);
  ModelLayer& bias = builder.model().layers.emplace_back();
  bias.name = "cls.predictions";
  bias.tensors = {{"bias", kVocabulary}};

  builder.embedding("bert.embeddings.word_embeddings", kVocabulary);
  builder.embedding("bert.embeddings.position_embeddings", kPositions);
  builder.embedding("bert.embeddings.token_type_embeddings", 2);
  builder.norm("bert.embeddings.LayerNorm");
  for (int32_t layer = 0; layer < size.layers; ++layer) {
    add_layer(builder, fmt::format("bert.encoder.layer.{}.", layer));
    if (layer + 1 < size.layers) {
      builder.end_block();
    }
  }
  // The sentence's head reads one token; the words' head reads all of them again.
  const int64_t states = sequence * size.hidden;
  add_pooled_linear(builder, "bert.pooler.dense", size.hidden, size.hidden);
  builder.model().layers.back().output_elements = states;
  ModelLayer& transform =
      builder.linear("cls.predictions.transform.dense", size.hidden, size.hidden);
  transform.moved_elements = 2 * states;
  builder.norm("cls.predictions.transform.LayerNorm");
  ModelLayer& scores = builder.model().layers.back();
  scores.products = {{sequence, kVocabulary, size.hidden, 1}};
  scores.moved_elements += 2 * sequence * kVocabulary;
  scores.output_elements = sequence * kVocabulary;
  add_pooled_linear(builder, "cls.seq_relationship", size.hidden, 2);
  return std::move(builder).finish();
}

Result<Model> make_bert_base(const Options& options) {
  return make_bert({"bert_base", 768, 12, 12, 64}, options);
}

Result<Model> make_bert_large(const Options& options) {
  return make_bert({"bert_large", 1024, 16, 24, 32}, options);
}

std::vector<OptionDescriptor> bert_options() {
  return {{"sequence",
           OptionDescriptor::Kind::kInteger,
           "64",
           "tokens of a sample",
           {},
           1,
           kPositions}};
}

constexpr const char* kSource = "Devlin et al., NAACL 2019, sec. 3; Hugging Face's modules";

}  // namespace

extern const WorkloadDescriptor kBertBase = {"bert_base", "BERT-Base, pre-training", kSource,
                                             bert_options(), make_bert_base};
extern const WorkloadDescriptor kBertLarge = {"bert_large", "BERT-Large, pre-training", kSource,
                                              bert_options(), make_bert_large};

}  // namespace pleach
