#include "pleach/workload/model.h"

#include <fmt/format.h>

#include <limits>

#include "pleach/base/text.h"

namespace pleach {
namespace {

// Sums stay below this, so that bytes and operations (two per multiply-add) fit int64.
constexpr int64_t kSumLimit = std::numeric_limits<int64_t>::max() / 16;

Error in_layer(const Model& model, std::size_t layer, std::string_view what) {
  return invalid(fmt::format("{}: layers[{}] {}: {}", one_line(model.name), layer,
                             pleach::quoted(model.layers[layer].name), what));
}

// The product of four counts, each ≥ 0, capped at a value above kSumLimit.
int64_t capped_product(const MatrixProduct& product) {
  int64_t result = 1;
  for (const int64_t factor : {product.m, product.n, product.k, product.count}) {
    if (__builtin_mul_overflow(result, factor, &result)) {
      return std::numeric_limits<int64_t>::max();
    }
  }
  return result;
}

// Adds where the sum stays within the limit.
bool add_within_limit(int64_t amount, int64_t& sum) {
  if (amount > kSumLimit - sum) {
    return false;
  }
  sum += amount;
  return true;
}

Status check_tensors(const Model& model, std::size_t index, int64_t& sum) {
  const ModelLayer& layer = model.layers[index];
  if (layer.is_tied_to_first && index == 0) {
    return in_layer(model, index, "the first layer cannot be tied to itself");
  }
  for (std::size_t i = 0; i < layer.tensors.size(); ++i) {
    const int64_t count = layer.tensors[i].element_count;
    if (count <= 0) {
      return in_layer(model, index,
                      fmt::format("tensors[{}] has {} elements, not at least 1", i, count));
    }
    if (!add_within_limit(count, sum)) {
      return in_layer(
          model, index,
          fmt::format("with tensors[{}] the model has more than {} parameters", i, kSumLimit));
    }
  }
  return ok();
}

Status check_work(const Model& model, std::size_t index, int64_t& sum) {
  const ModelLayer& layer = model.layers[index];
  for (std::size_t i = 0; i < layer.products.size(); ++i) {
    const MatrixProduct& product = layer.products[i];
    if (product.m <= 0 || product.n <= 0 || product.k <= 0 || product.count <= 0) {
      return in_layer(model, index,
                      fmt::format("products[{}] is [{}, {}, {}, {}]; all are at least 1", i,
                                  product.m, product.n, product.k, product.count));
    }
    if (!add_within_limit(capped_product(product), sum)) {
      return in_layer(
          model, index,
          fmt::format("with products[{}] the model has more than {} multiply-adds", i, kSumLimit));
    }
  }
  const std::pair<std::string_view, int64_t> amounts[] = {
      {"moved_elements", layer.moved_elements},
      {"output_elements", layer.output_elements},
      {"forward_sum_elements", layer.forward_sum_elements},
      {"backward_sum_elements", layer.backward_sum_elements},
      {"sequence_exchange_elements", layer.sequence_exchange_elements},
      {"expert_count", layer.expert_count},
      {"expert_exchange_elements", layer.expert_exchange_elements}};
  for (const auto& [name, amount] : amounts) {
    if (amount < 0 || amount > kSumLimit) {
      return in_layer(model, index,
                      fmt::format("{} is {}, outside 0 to {}", name, amount, kSumLimit));
    }
  }
  return ok();
}

}  // namespace

std::vector<OptionDescriptor> WorkloadDescriptor::all_options() const {
  std::vector<OptionDescriptor> all = options;
  all.push_back(kElementBytesOption);
  return all;
}

int64_t parameter_count(const ModelLayer& layer) {
  int64_t sum = 0;
  for (const ModelTensor& tensor : layer.tensors) {
    sum += tensor.element_count;
  }
  return sum;
}

int64_t parameter_count(const Model& model) {
  int64_t sum = 0;
  for (const ModelLayer& layer : model.layers) {
    sum += parameter_count(layer);
  }
  return sum;
}

double product_operations(const Model& model) {
  constexpr double kPasses = 3;  // backward has two products for each of forward
  double operations = 0;
  for (const ModelLayer& layer : model.layers) {
    for (const MatrixProduct& one : layer.products) {
      operations += kPasses * 2 * static_cast<double>(one.m) * static_cast<double>(one.n) *
                    static_cast<double>(one.k) * static_cast<double>(one.count);
    }
  }
  return operations;
}

Status check_model(const Model& model) {
  const auto refused = [&](const std::string& what) { return invalid(one_line(model.name), what); };
  constexpr std::size_t kMostLayers = 1 << 16;
  constexpr std::size_t kMostTensors = 1 << 20;
  std::size_t tensors = 0;
  for (const ModelLayer& layer : model.layers) {
    tensors += layer.tensors.size();
  }
  if (model.layers.size() > kMostLayers || tensors > kMostTensors) {
    return refused(fmt::format("{} layers with {} tensors: at most {} and {}", model.layers.size(),
                               tensors, kMostLayers, kMostTensors));
  }
  if (model.layers.empty()) {
    return refused("it has no layers");
  }
  if (model.batch < 1) {
    return refused(fmt::format("batch is {}, not at least 1", model.batch));
  }
  if (model.element_bytes < 1 || model.element_bytes > 8) {
    return refused(fmt::format("element_bytes is {}, outside 1 to 8", model.element_bytes));
  }
  if (model.input_bytes < 0 || model.input_bytes > kSumLimit) {
    return refused(fmt::format("input_bytes is {}, outside 0 to {}", model.input_bytes, kSumLimit));
  }
  int64_t parameters = 0;
  int64_t work = 0;
  int32_t block = -1;
  for (std::size_t index = 0; index < model.layers.size(); ++index) {
    PLEACH_TRY(check_tensors(model, index, parameters));
    PLEACH_TRY(check_work(model, index, work));
    const int32_t next = model.layers[index].block;
    const bool follows = next == block + 1 || (index > 0 && next == block);
    if (!follows) {
      return in_layer(
          model, index,
          index == 0 ? fmt::format("block is {}; the first is 0", next)
                     : fmt::format("block is {} after {}; blocks ascend one by one", next, block));
    }
    block = next;
  }
  return ok();
}

}  // namespace pleach
