// Models of more layers than a gradient group has atoms.
#include <gtest/gtest.h>

#include <string>

#include "pleach/policy/policy.h"
#include "pleach/training/training.h"
#include "tests/support/trainings.h"

namespace pleach {
namespace {

// The iteration of a GPT-3 of so many blocks, of six layers each.
double iteration_of_blocks_ps(int32_t blocks, const std::string& strategy,
                              const std::string& policy) {
  const auto accelerator = parse_accelerator("a100");
  const auto workload = load_workload("gpt3,layers=" + std::to_string(blocks), *accelerator, 2);
  EXPECT_TRUE(workload) << workload.error().message;
  const Strategy parsed = strategy_of(strategy, 4);
  const auto rows = train({.workload = *workload,
                           .strategy = parsed,
                           .network = alpha_beta(10 * kUs, 2e9),
                           .policies = {policy},
                           .iteration = {.most_iterations = 30}});
  EXPECT_TRUE(rows) << rows.error().message;
  return rows ? static_cast<double>(rows->front().run.iteration_ps) : 0.0;
}

// Beyond 768 layers neighbours share atoms, and are reduced together.
TEST(Layers, OfAnyNumberTrainUnderEveryPolicy) {
  for (const PolicyDescriptor* one : policies()) {
    SCOPED_TRACE(one->name);
    const std::string strategy = one->name == "fsdp" ? "zero=3" : "";
    const std::string policy =
        one->name == "work_conserving" ? one->name + ",effort=20" : one->name;
    const double few_ps = iteration_of_blocks_ps(126, strategy, policy);
    const double many_ps = iteration_of_blocks_ps(132, strategy, policy);
    EXPECT_GT(many_ps, few_ps * 1.02);
    EXPECT_LT(many_ps, few_ps * 1.08);
  }
  EXPECT_GT(iteration_of_blocks_ps(270, "pp=2,micro_batches=2", "dear"), 0);
}

}  // namespace
}  // namespace pleach
