// Workload: a model, a batch, and how long its layers compute.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "pleach/base/registry.h"
#include "pleach/base/result.h"
#include "pleach/workload/model.h"

namespace pleach {

// max(operations / (peak · efficiency), bytes / memory bandwidth) + overhead, per kernel.
//   source  Williams et al., Roofline, CACM 2009
struct Roofline {
  double operations_per_s = 0;  // multiply and add are two
  double memory_bytes_per_s = 0;
  double efficiency = 1;    // share of the peak that matrix products attain, in (0, 1]
  int64_t overhead_ps = 0;  // of each layer's kernels
};

// Output-stationary systolic arrays: a rows×columns tile of the result needs 2·rows + columns + k −
// 2 cycles; samples are spread over the arrays.
//   source  Samajdar et al., SCALE-Sim, sec. III
struct SystolicArray {
  int32_t rows = 32;
  int32_t columns = 32;
  int32_t array_count = 16;
  double clock_hz = 1e9;
};

struct LayerTimes {
  int64_t forward_ps = 0;
  int64_t backward_ps = 0;
  int64_t weight_gradient_ps = 0;  // part of backward_ps

  bool operator==(const LayerTimes&) const = default;
};

// Measured for `batch` samples on one rank, by layer.
struct MeasuredTimes {
  int64_t batch = 1;
  std::vector<LayerTimes> layers;

  bool operator==(const MeasuredTimes&) const = default;
};

struct Accelerator {
  std::string name;
  std::string summary;
  std::string source;
  std::variant<Roofline, SystolicArray> rule;
  int64_t capacity_bytes = 0;  // of its memory; 0: unknown
};

Registry<Accelerator> accelerators();
// "a100", "systolic,rows=32,columns=32,arrays=16,clock=1GHz" (clock as an integer of Hz),
// "roofline,operations=312e12,memory=2TB/s,efficiency=0.5,overhead=5us".
Result<Accelerator> parse_accelerator(std::string_view spec);

struct Workload {
  Model model;
  int64_t batch = 1;  // samples per replica and iteration, all micro-batches together
  std::variant<Accelerator, MeasuredTimes> times;
};

// Time of one layer for `samples` (> 0, may be a fraction: sequence parallelism splits them) when
// its products are split `split` ways (≥ 1; ignored where the layer is not split).
// Measured times are scaled linearly.
LayerTimes layer_times(const Workload& workload, int32_t layer, double samples, int32_t split);

// Activations of one sample that a layer keeps for its backward, split likewise: the results of its
// products and a third of what else it moves, as modules without parameters move about three times
// what they leave; at least its output.
//   source  a transformer's block comes to 33 b·s·h + 3.3 a·b·s² bytes at 2 bytes, between the sums
//           with and without dropout of Korthikanti et al., Reducing Activation Recomputation in
//           Large Transformer Models, MLSys 2023, sec. 4.1
double kept_elements(const Model& model, int32_t layer, int32_t split);

// "resnet50", "bert_large,sequence=128", or a JSON file (docs/workloads.md), which may carry
// measured times; any of them with element_bytes=2; `batch` 0: the model's own.
//   errors  kInvalidArgument naming the value and its place: unknown names, missing layers,
//           negative times, tensors that do not match; kIo
Result<Workload> load_workload(std::string_view spec, const Accelerator& accelerator,
                               int64_t batch);
// The JSON text that load_workload reads.
std::string workload_json(const Workload& workload);

// The whole workload with times scaled so that one iteration of one replica computes for
// `total_ps`.
Result<Workload> scaled_to(const Workload& workload, int64_t total_ps);

}  // namespace pleach
