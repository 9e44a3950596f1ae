#include "pleach/training/sweep.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "pleach/topology/link_classes.h"
#include "pleach/topology/shapes.h"

namespace pleach {
namespace {

constexpr int64_t kMs = 1'000'000'000;

// Four layers of 4 MB and 3 ms each.
Workload small_workload() {
  Workload workload;
  workload.model.name = "small";
  workload.batch = 4;
  MeasuredTimes times;
  times.batch = 4;
  for (int32_t index = 0; index < 4; ++index) {
    ModelLayer layer;
    layer.name = "layer" + std::to_string(index);
    layer.tensors = {{"weight", 1'000'000}};
    layer.block = index;
    workload.model.layers.push_back(std::move(layer));
    times.layers.push_back({.forward_ps = kMs, .backward_ps = 2 * kMs});
  }
  workload.times = std::move(times);
  return workload;
}

class Sweeps : public testing::Test {
 protected:
  SweepRequest request(const Topology& topology, std::vector<int64_t> bandwidths) const {
    return {.training = {.workload = workload_,
                         .strategy = strategy_,
                         .network = {.source = CostSource::kCurves, .topology = &topology},
                         .policies = {"ddp", "dear"}},
            .links = links_of_class(topology, kAllLinks).value(),
            .bandwidths_bytes_per_s = std::move(bandwidths)};
  }
  // The iterations of a training on the topology as it is.
  std::vector<int64_t> iterations_on(const std::string& spec) const {
    const Topology topology = parse_topology(spec).value();
    return iterations_of(train(request(topology, {}).training).value());
  }
  static std::vector<int64_t> iterations_of(const std::vector<TrainingRow>& rows) {
    std::vector<int64_t> iterations;
    iterations.reserve(rows.size());
    for (const TrainingRow& row : rows) {
      iterations.push_back(row.run.iteration_ps);
    }
    return iterations;
  }

  const Workload workload_ = small_workload();
  const Strategy strategy_ = parse_strategy("dp=4", 4).value();
};

TEST_F(Sweeps, TrainAsOnATopologyOfThatBandwidth) {
  for (const std::string spec : {"ring:4", "ring:4,bandwidth=3GB/s", "switch:4,latency=2us"}) {
    const Topology topology = parse_topology(spec).value();
    const auto sweep = sweep_bandwidths(request(topology, {500'000'000, 4'000'000'000}));
    ASSERT_TRUE(sweep) << sweep.error().message;
    ASSERT_EQ(sweep->points.size(), 2U);
    EXPECT_TRUE(sweep->needed_bytes_per_s.empty());
    const std::string base = spec.substr(0, spec.find(",bandwidth"));
    for (const SweepPoint& point : sweep->points) {
      const std::string at =
          base + ",bandwidth=" + std::to_string(point.bandwidth_bytes_per_s) + "B/s";
      EXPECT_EQ(iterations_of(point.rows), iterations_on(at)) << at;
    }
    EXPECT_GT(sweep->points[0].rows[0].run.iteration_ps, sweep->points[1].rows[0].run.iteration_ps);
  }
}

TEST_F(Sweeps, ChangeOneClassOfLinks) {
  // Two slow cables in a ring: only they are swept, in a file that names their class.
  const auto file = [](const std::string& bandwidth) {
    return parse_topology_toml(
               "shape = 'ring:4'\n[[cable]]\nsource = 0\ntarget = 1\nclass = "
               "'wan'\nbandwidth = '" +
                   bandwidth + "'\n",
               "x.toml")
        .value();
  };
  const Topology original = file("1GB/s");
  SweepRequest swept = request(original, {200'000'000});
  swept.links = links_of_class(original, "wan").value();
  const auto sweep = sweep_bandwidths(swept);
  ASSERT_TRUE(sweep) << sweep.error().message;
  const Topology expected = file("200MB/s");
  EXPECT_EQ(iterations_of(sweep->points[0].rows),
            iterations_of(train(request(expected, {}).training).value()));
}

TEST_F(Sweeps, FindTheLeastThatMeetsTheTarget) {
  const Topology topology = parse_topology("ring:4").value();
  SweepRequest swept = request(topology, {100'000'000, 1'000'000'000, 10'000'000'000});
  const auto time_at = [&](int64_t bandwidth, std::size_t policy) {
    return iterations_on("ring:4,bandwidth=" + std::to_string(bandwidth) + "B/s")[policy];
  };
  // Between the first two, and out of reach.
  for (const int64_t target_ps : {time_at(400'000'000, 0), 12 * kMs, 11 * kMs}) {
    swept.target_ps = target_ps;
    const auto sweep = sweep_bandwidths(swept);
    ASSERT_TRUE(sweep) << sweep.error().message;
    EXPECT_EQ(sweep->target_ps, target_ps);
    ASSERT_EQ(sweep->needed_bytes_per_s.size(), 2U);
    for (std::size_t policy = 0; policy < 2; ++policy) {
      const int64_t needed = sweep->needed_bytes_per_s[policy];
      if (needed == 0) {
        EXPECT_GT(time_at(10'000'000'000, policy), target_ps);
        continue;
      }
      EXPECT_LE(time_at(needed, policy), target_ps);
      const auto less = static_cast<int64_t>(static_cast<double>(needed) / 1.01) - 1;
      EXPECT_GT(time_at(less, policy), target_ps) << needed;
    }
  }
  swept.target_ps = 1000 * kMs;  // the first bandwidth is not undercut
  EXPECT_EQ(sweep_bandwidths(swept)->needed_bytes_per_s,
            (std::vector<int64_t>{100'000'000, 100'000'000}));
}

TEST_F(Sweeps, ScaleTwoNumbersByTheEfficiency) {
  const auto two_numbers = [&](double bandwidth) {
    return TrainingRequest{.workload = workload_,
                           .strategy = strategy_,
                           .network = {.source = CostSource::kAlphaBeta,
                                       .alpha_ps = 1'000'000,
                                       .bandwidth_bytes_per_s = bandwidth},
                           .policies = {"ddp"}};
  };
  const auto sweep = sweep_bandwidths(
      {.training = two_numbers(1), .bandwidths_bytes_per_s = {1'000'000'000}, .efficiency = 0.5});
  ASSERT_TRUE(sweep) << sweep.error().message;
  EXPECT_EQ(iterations_of(sweep->points[0].rows), iterations_of(train(two_numbers(5e8)).value()));
}

TEST_F(Sweeps, SayWhereTheyFail) {
  const Topology topology = parse_topology("ring:4").value();
  SweepRequest swept = request(topology, {1'000'000'000});
  swept.training.network.fabric.algorithm = "ring_2d";
  std::vector<std::string> steps;
  swept.training.progress = [&](const std::string& step) { steps.push_back(step); };
  const auto refused = sweep_bandwidths(swept);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("ring:4,bandwidth=1000000000B/s"), std::string::npos)
      << refused.error().message;
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(steps.front(), "links of 1.00 GB/s");
  swept.links = {LinkId{8}};
  EXPECT_EQ(sweep_bandwidths(swept).error().message, "no link 8: there are 8");
}

}  // namespace
}  // namespace pleach
