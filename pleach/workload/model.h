// Model: what is trained: its layers, their tensors, and the work of each for one sample.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pleach/base/options.h"
#include "pleach/base/registry.h"
#include "pleach/base/result.h"

namespace pleach {

struct ModelTensor {
  std::string name;
  int64_t element_count = 0;  // > 0

  bool operator==(const ModelTensor&) const = default;
};

// `count` products of an m×k by a k×n matrix.
struct MatrixProduct {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t count = 1;

  bool operator==(const MatrixProduct&) const = default;
};

// A module that owns parameters. Work of modules without any belongs to the layer before them.
struct ModelLayer {
  std::string name;
  std::vector<ModelTensor> tensors;     // in registration order
  std::vector<MatrixProduct> products;  // of forward, for one sample
  int64_t moved_elements = 0;   // read and written by forward outside matrix products, one sample
  int64_t output_elements = 0;  // of one sample: what a pipeline stage that ends here sends on
  int32_t block = 0;            // stages are cut between blocks; ascending from 0

  // Tensor parallelism (Shoeybi et al., Megatron-LM, sec. 3): whether tensors and products are
  // split over the group, and the activations of one sample that it sums after forward and after
  // backward; 0: none.
  bool is_split = false;
  int64_t forward_sum_elements = 0;
  int64_t backward_sum_elements = 0;
  // Sequence parallelism (Jacobs et al., DeepSpeed-Ulysses, sec. 3): activations of one sample that
  // all_to_alls move around the layer's attention in forward; the same in backward.
  int64_t sequence_exchange_elements = 0;
  // Mixture of experts: experts whose tensors these are (0: a dense layer), and the activations of
  // one sample that an all_to_all moves before the layer and again after it.
  int32_t expert_count = 0;
  int64_t expert_exchange_elements = 0;
  // Uses the first layer's tensors (tied embeddings): its gradient completes that layer's.
  bool is_tied_to_first = false;

  bool operator==(const ModelLayer&) const = default;
};

struct Model {
  std::string name;
  std::vector<ModelLayer> layers;  // in forward order
  int64_t batch = 1;               // samples per rank and iteration, unless the user says otherwise
  int32_t element_bytes = 4;       // of parameters, gradients and activations
  int64_t tokens_per_sample = 0;   // 0: samples are not made of tokens
  int64_t input_bytes = 0;         // of one sample, as it comes in

  bool operator==(const Model&) const = default;
};

// Of a token, or of a value of an image: what samples are taken to be made of.
inline constexpr int64_t kInputElementBytes = 4;

int64_t parameter_count(const ModelLayer& layer);
int64_t parameter_count(const Model& model);
// Of all products of one sample's forward and backward, multiply and add counting two.
double product_operations(const Model& model);
// Errors: kInvalidArgument naming the layer: no layers, empty tensors, negative work, blocks out of
// order, sums that overflow.
Status check_model(const Model& model);

// Of every model, in place of its own element_bytes.
inline const OptionDescriptor kElementBytesOption = {
    .name = "element_bytes",
    .default_value = "0",
    .summary = "of parameters, gradients and activations; 0: the model's own",
    .least = 1,
    .most = 8};

struct WorkloadDescriptor {
  std::string name;
  std::string summary;
  std::string source;
  std::vector<OptionDescriptor> options;  // its own
  Result<Model> (*create)(const Options& options);

  std::vector<OptionDescriptor> all_options() const;
  std::string details() const { return option_details(all_options()); }
};

Registry<WorkloadDescriptor> workload_models();

}  // namespace pleach
