// Workloads that everything splits, and training them in a line.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/training/training.h"

namespace pleach {

inline constexpr int64_t kUs = 1'000'000;
inline constexpr int64_t kMs = 1'000'000'000;
inline constexpr int64_t kBatch = 16;

// Eight blocks of two layers that everything splits: tensors, sequences, experts in every other.
inline Workload small_workload() {
  Workload workload;
  workload.model.name = "small";
  workload.batch = kBatch;
  workload.model.batch = kBatch;
  MeasuredTimes times;
  times.batch = kBatch;
  for (int32_t index = 0; index < 16; ++index) {
    ModelLayer layer;
    layer.name = "layer" + std::to_string(index);
    layer.tensors = {{"weight", 131'072 + 65'536 * (index % 3)}, {"bias", 1024}};
    layer.output_elements = 4096;
    layer.block = index / 2;
    layer.is_split = true;
    layer.forward_sum_elements = 4096;
    layer.backward_sum_elements = 4096;
    layer.sequence_exchange_elements = index % 2 == 0 ? 8192 : 0;
    layer.expert_count = index % 4 == 3 ? 4 : 0;
    layer.expert_exchange_elements = index % 4 == 3 ? 4096 : 0;
    workload.model.layers.push_back(std::move(layer));
    times.layers.push_back({.forward_ps = (200 + 10 * index) * kUs,
                            .backward_ps = (400 + 20 * index) * kUs,
                            .weight_gradient_ps = (200 + 10 * index) * kUs});
  }
  workload.times = std::move(times);
  return workload;
}

// `blocks` layers of `forward_ps` and `backward_ps` each, nothing else.
inline Workload plain_workload(int32_t blocks, int64_t forward_ps, int64_t backward_ps,
                               int64_t elements = 1000) {
  Workload workload;
  workload.model.name = "plain";
  workload.batch = kBatch;
  MeasuredTimes times;
  times.batch = kBatch;
  for (int32_t index = 0; index < blocks; ++index) {
    ModelLayer layer;
    layer.name = "layer" + std::to_string(index);
    layer.tensors = {{"weight", elements}};
    layer.block = index;
    workload.model.layers.push_back(std::move(layer));
    times.layers.push_back({.forward_ps = forward_ps, .backward_ps = backward_ps});
  }
  workload.times = std::move(times);
  return workload;
}

inline NetworkChoice alpha_beta(int64_t alpha_ps, double bandwidth_bytes_per_s) {
  return {.source = CostSource::kAlphaBeta,
          .alpha_ps = alpha_ps,
          .bandwidth_bytes_per_s = bandwidth_bytes_per_s};
}

inline Strategy strategy_of(const std::string& text, int32_t ranks) {
  const auto strategy = parse_strategy(text, ranks);
  EXPECT_TRUE(strategy) << text << ": " << strategy.error().message;
  return *strategy;
}

inline TrainingRow only_row(const TrainingRequest& request) {
  const auto rows = train(request);
  EXPECT_TRUE(rows) << rows.error().message;
  return rows ? rows->front() : TrainingRow{};
}

inline std::vector<std::string> all_policies() {
  std::vector<std::string> names;
  for (const PolicyDescriptor* policy : policies()) {
    names.push_back(policy->name);
  }
  return names;
}

inline double ratio(int64_t one, int64_t other) {
  return static_cast<double>(one) / static_cast<double>(other);
}

inline TrainingRequest compute_bound(const Workload& workload, const Strategy& strategy) {
  return {.workload = workload,
          .strategy = strategy,
          .network = alpha_beta(0, 1e15),
          .policies = {"wfbp"}};
}

}  // namespace pleach
