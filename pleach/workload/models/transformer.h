// TransformerBuilder: writes a transformer module by module and fills in what tensor, sequence and
// expert parallelism need.
#pragma once

#include <cstdint>
#include <string>

#include "pleach/workload/model.h"

namespace pleach {

struct TransformerShape {
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t key_value_heads = 0;  // fewer than `heads`: grouped-query attention
  int64_t feed_forward = 0;     // width of the hidden layer of the feed-forward network
  int64_t sequence = 0;
  int64_t vocabulary = 0;
  bool has_bias = true;  // of linear layers; a norm without has only a weight
};

struct ExpertShape {
  int64_t expert_count = 0;
  int64_t top_k = 0;  // experts that each token goes to
};

// Splits as Megatron-LM does (Shoeybi et al., sec. 3): the first matrix of a pair by columns, the
// second by rows, with a sum over the group after the second in forward and after the first in
// backward; embeddings and the output matrix by vocabulary. Assumed passes over memory: norm 2,
// softmax 2, activation function 2 (gated 3), residual sum 3.
class TransformerBuilder {
 public:
  TransformerBuilder(std::string name, int64_t batch, int32_t element_bytes,
                     const TransformerShape& shape);

  Model& model() { return model_; }
  void end_block() { ++block_; }

  void embedding(const std::string& name, int64_t rows);
  void split_embedding(const std::string& name);  // `vocabulary` rows
  void norm(const std::string& name);
  // Query, key and value in one matrix.
  void fused_attention(const std::string& prefix);
  struct AttentionNames {
    std::string query;
    std::string key;
    std::string value;
    std::string projection;
  };
  void attention(const AttentionNames& names);
  void feed_forward(const std::string& up, const std::string& down);
  // down(activation(gate(x)) · up(x)).
  void gated_feed_forward(const std::string& prefix);
  void experts(const std::string& prefix, const ExpertShape& experts);
  // A matrix that every rank has whole.
  ModelLayer& linear(const std::string& name, int64_t input, int64_t output);
  // Scores of every word, with a matrix of their own or the first layer's.
  void output(const std::string& name, bool is_tied);

  Model finish() &&;

 private:
  ModelLayer& append(const std::string& name);
  ModelLayer& column_linear(const std::string& name, int64_t output, bool is_first);
  void row_linear(const std::string& name, int64_t input);
  void add_scores(ModelLayer& layer) const;

  Model model_;
  TransformerShape shape_;
  int32_t block_ = 0;
};

}  // namespace pleach
