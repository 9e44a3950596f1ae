// Exported iterations: policies' collectives in a trace, through Chakra files, and replayed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/training/training.h"
#include "pleach/workload/chakra.h"

namespace pleach {
namespace {

constexpr int64_t kUs = 1'000'000;
constexpr int32_t kRanks = 4;

// Computation in whole microseconds, which Chakra holds exactly.
Workload small_workload() {
  Workload workload;
  workload.model.name = "small";
  workload.batch = 1;
  MeasuredTimes times;
  times.batch = 1;
  for (int32_t index = 0; index < 12; ++index) {
    ModelLayer layer;
    layer.name = "layer" + std::to_string(index);
    layer.tensors = {{"weight", 100'000 + 40'000 * (index % 5)}, {"bias", 500}};
    layer.output_elements = 1000;
    layer.block = index;
    workload.model.layers.push_back(std::move(layer));
    times.layers.push_back(
        {.forward_ps = (100 + 7 * index) * kUs, .backward_ps = (200 + 13 * index) * kUs});
  }
  workload.times = std::move(times);
  return workload;
}

NetworkChoice network_of(double bandwidth_bytes_per_s) {
  return {.source = CostSource::kAlphaBeta,
          .alpha_ps = 20 * kUs,
          .bandwidth_bytes_per_s = bandwidth_bytes_per_s};
}

class Export : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = testing::TempDir() + "/pleach-export-XXXXXX";
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::vector<TrainingRow> rows(const std::vector<std::string>& policies,
                                       const std::string& strategy, double bandwidth) {
    const Workload workload = small_workload();
    const auto parsed = parse_strategy(strategy, kRanks);
    EXPECT_TRUE(parsed) << parsed.error().message;
    auto result = train({.workload = workload,
                         .strategy = *parsed,
                         .network = network_of(bandwidth),
                         .policies = policies,
                         .iteration = {.most_iterations = 100}});
    EXPECT_TRUE(result) << result.error().message;
    return std::move(result).value();
  }

  Result<Trace> through_chakra(const Trace& trace, const std::string& name) const {
    const std::string prefix = folder_ + "/" + name;
    PLEACH_TRY(write_chakra(trace, prefix));
    PLEACH_ASSIGN(groups, read_chakra_groups(prefix + ".groups.json", trace.rank_count));
    return read_chakra(prefix, {.groups = std::move(groups)});
  }

  static int64_t replayed_ps(const Trace& trace, double bandwidth) {
    const auto row = replay(trace, network_of(bandwidth), {});
    EXPECT_TRUE(row) << row.error().message;
    return row ? row->run.iteration_ps : 0;
  }

  std::string folder_;
};

int64_t longest_collective(const TrainingRow& row) {
  int64_t longest_ps = 0;
  for (const BucketReport& bucket : explain(row)) {
    longest_ps = std::max(longest_ps, bucket.finished_ps - bucket.started_ps);
  }
  return longest_ps;
}

// Where forward waits for everything that is under way when backward ends, nothing is lost by
// ending the iteration with its last collective: the trace takes what the policy took.
TEST_F(Export, RepeatsPoliciesWhoseForwardWaits) {
  for (const double bandwidth : {20e9, 2e9, 0.5e9}) {
    for (const TrainingRow& row : rows({"wfbp", "ddp", "mg_wfbp", "dear"}, "", bandwidth)) {
      SCOPED_TRACE(row.policy + " at " + std::to_string(bandwidth));
      const Trace whole = with_gradient_collectives(row);
      ASSERT_TRUE(check_trace(whole));
      EXPECT_TRUE(whole.gradient_groups.empty());
      EXPECT_NEAR(static_cast<double>(replayed_ps(whole, bandwidth)),
                  static_cast<double>(row.run.iteration_ps), 10.0);
      const auto read = through_chakra(whole, row.policy + std::to_string(bandwidth));
      ASSERT_TRUE(read) << read.error().message;
      EXPECT_EQ(read->rank_count, kRanks);
      EXPECT_NEAR(static_cast<double>(replayed_ps(*read, bandwidth)),
                  static_cast<double>(row.run.iteration_ps), 2.0 * kUs);
    }
  }
}

// Others let forward start while a collective is on the wire. The trace ends the iteration with its
// last collective, so at most that one's time is lost; nothing else is.
TEST_F(Export, LosesAtMostTheCollectiveAtTheSeam) {
  for (const double bandwidth : {20e9, 2e9, 0.5e9}) {
    for (const TrainingRow& row : rows({"work_conserving", "dear,bucket=100KiB"}, "", bandwidth)) {
      SCOPED_TRACE(row.policy + " at " + std::to_string(bandwidth));
      const Trace whole = with_gradient_collectives(row);
      const auto read = through_chakra(whole, row.policy.substr(0, 4) + std::to_string(bandwidth));
      ASSERT_TRUE(read) << read.error().message;
      for (const Trace* trace : std::initializer_list<const Trace*>{&whole, &*read}) {
        const int64_t iteration_ps = replayed_ps(*trace, bandwidth);
        EXPECT_GE(iteration_ps, row.compute_ps - kUs);
        EXPECT_GE(iteration_ps, row.run.iteration_ps - 2 * kUs);
        EXPECT_LE(iteration_ps, row.run.iteration_ps + longest_collective(row) + 2 * kUs);
      }
    }
  }
}

// Every policy's trace can be read and runs; each collective of the log is there once.
TEST_F(Export, EveryPolicyGivesATraceThatRuns) {
  std::vector<std::string> names;
  for (const PolicyDescriptor* policy : policies()) {
    names.push_back(policy->name);
  }
  for (const char* strategy : {"", "pp=2,micro_batches=1"}) {
    for (const TrainingRow& row : rows(names, strategy, 2e9)) {
      SCOPED_TRACE(row.policy + " " + strategy);
      const Trace whole = with_gradient_collectives(row);
      const Status valid = check_trace(whole);
      ASSERT_TRUE(valid) << valid.error().message;
      std::size_t expected = 0;
      std::size_t found = 0;
      for (std::size_t group = 0; group < row.run.logs.size(); ++group) {
        expected += row.run.logs[group].size() * row.trace->gradient_groups[group].workers.size();
      }
      for (const WorkerTrace& worker : whole.workers) {
        found +=
            at(std::count_if(worker.nodes.begin(), worker.nodes.end(), [](const TraceNode& node) {
              return node.kind == TraceNodeKind::kCollective;
            }));
      }
      EXPECT_EQ(found, expected);
      EXPECT_GT(found, 0U);
      const auto read =
          through_chakra(whole, row.policy + std::to_string(row.trace->workers.size()));
      ASSERT_TRUE(read) << read.error().message;
      EXPECT_GE(replayed_ps(*read, 2e9), row.compute_ps - kUs);
    }
  }
}

TEST_F(Export, ATraceWithGradientGroupsIsNotReplayed) {
  const std::vector<TrainingRow> made = rows({"ddp"}, "", 2e9);
  const auto row = replay(*made.front().trace, network_of(2e9), {});
  ASSERT_FALSE(row);
  EXPECT_EQ(row.error().message, "a trace with gradient groups needs policies");
}

}  // namespace
}  // namespace pleach
