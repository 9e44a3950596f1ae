// The plainest workload there is.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "pleach/workload/workload.h"

namespace pleach::support {

// `count` layers, each a block of its own, with one tensor of 100 elements of 4 bytes, a product of
// 10 elements and an output of 5; 10 ps forward and 20 ps backward (half of it weight gradient) for
// one sample.
inline Workload chain(int32_t count, int64_t batch = 1) {
  Workload workload;
  workload.model.name = "chain";
  workload.batch = batch;
  MeasuredTimes times;
  for (int32_t layer = 0; layer < count; ++layer) {
    workload.model.layers.push_back({.name = "l" + std::to_string(layer),
                                     .tensors = {{"weight", 100}},
                                     .products = {{1, 10, 10, 1}},
                                     .output_elements = 5,
                                     .block = layer});
    times.layers.push_back({10, 20, 10});
  }
  workload.times = std::move(times);
  return workload;
}

}  // namespace pleach::support
