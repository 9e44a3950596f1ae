// The flit model against a second one that loops over everything: to the cycle, on random small
// schedules, networks and options.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/collective/schedule.h"
#include "pleach/network/model.h"
#include "tests/support/random_schedules.h"
#include "tests/support/slow_interfaces.h"
#include "tests/support/small_schedules.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

using support::pick;
using support::SlowFlit;
using support::SlowFlitOptions;

// One of some, by a draw.
template <typename Value, std::size_t kCount>
Value any_of(Rng& rng, const std::array<Value, kCount>& values) {
  return values[rng.below(kCount)];
}

SlowFlitOptions draw_options(Rng& rng, bool is_indirect) {
  SlowFlitOptions options;
  options.routers.vcs = 2 + pick(rng, 3);
  options.routers.iterations = 1 + pick(rng, 2);
  options.routers.routing_delay = pick(rng, 2);
  options.routers.vc_delay = 1 + pick(rng, 2);
  options.routers.credit_delay = pick(rng, 2);
  options.routers.by_priority = rng.below(2) == 0;
  options.gate =
      any_of<Gate, 4>(rng, {Gate::kDataflow, Gate::kInOrder, Gate::kLockstep, Gate::kOracle});
  options.flow_control = rng.below(2) == 0 ? FlowControl::kPacket : FlowControl::kMessage;
  options.segments = 1 + pick(rng, 2);
  options.packet = any_of<int64_t, 3>(rng, {64, 128, 256});
  options.header = pick(rng, 3);
  options.message_buffer = any_of<int64_t, 3>(rng, {1, 2, 32});
  options.send_buffer = any_of<int64_t, 3>(rng, {1, 2, 16});
  options.queue = any_of<int64_t, 3>(rng, {1, 20, 80});
  options.binds_links = !is_indirect && rng.below(3) == 0;
  options.interfaces = 1 + pick(rng, 3);
  options.reductions_take_time = rng.below(4) > 0;
  options.streams_reductions = rng.below(3) == 0;
  const int64_t least = options.packet / 16 + options.header;
  options.routers.buffer = static_cast<int32_t>(least) + pick(rng, 30);
  return options;
}

std::string model_of(const SlowFlitOptions& options) {
  return fmt::format(
      "flit,vcs={},buffer={},packet={}B,header={},routing_delay={},vc_delay={},credit_delay={},"
      "iterations={},priority={},message_buffer={},send_buffer={},queue={},reduction={},"
      "deadlock=allow,{}",
      options.routers.vcs, options.routers.buffer, options.packet, options.header,
      options.routers.routing_delay, options.routers.vc_delay, options.routers.credit_delay,
      options.routers.iterations, options.routers.by_priority ? "step" : "none",
      options.message_buffer, options.send_buffer, options.queue,
      options.streams_reductions ? "streamed" : "whole",
      options.binds_links ? "binding=link" : fmt::format("interfaces={}", options.interfaces));
}

// Runs the jobs in both. Returns whether they finish at all.
bool compare(const Topology& topology, const std::vector<Job>& jobs,
             const SlowFlitOptions& options) {
  SimulationOptions simulation{.segment_count = options.segments,
                               .gate = options.gate,
                               .flow_control = options.flow_control};
  if (!options.reductions_take_time) {
    simulation.reduce_bandwidth_bytes_per_s = 0;
  }
  const auto result = simulate(model_of(options), topology, jobs, simulation);
  std::vector<SlowFlit::Job> slow;
  for (const Job& job : jobs) {
    slow.push_back({job.schedule.get(), job.size_bytes, job.start_ps / 1000});
  }
  const int64_t most = result ? result->finish_ps / 1000 + 100 : 3'000;
  const auto finishes = SlowFlit(topology, slow, options).run(most);
  if (!result) {
    EXPECT_TRUE(finishes.empty()) << result.error().message;
    return false;
  }
  std::vector<int64_t> fast;
  for (const int64_t finish_ps : result->job_finish_ps) {
    fast.push_back(finish_ps / 1000);
  }
  EXPECT_EQ(fast, finishes);
  return true;
}

Schedule routed(Schedule schedule, const Topology& topology) {
  const Status filled = fill_routes(schedule, topology);
  EXPECT_TRUE(filled) << filled.error().message;
  return schedule;
}

TEST(FlitReference, AgreesOnRandomSchedules) {
  constexpr std::array kNetworks = {
      "ring:5",    "torus:3x3",          "mesh:2x3", "fully_connected:5",
      "torus:2x3", "fat_tree:8,radix=4", "switch:5", "bigraph:4x2"};
  int32_t finished = 0;
  for (int32_t seed = 1; seed <= support::repeated(160) && !HasFailure(); ++seed) {
    Rng rng(static_cast<uint64_t>(seed));
    const std::string network = kNetworks[at(seed) % kNetworks.size()];
    const std::string spec = network + fmt::format(",bandwidth=16GB/s,latency={}ns,overhead={}ns",
                                                   pick(rng, 6), rng.below(3) == 0 ? 7 : 0);
    const Topology topology = support::topology_of(spec);
    SlowFlitOptions options = draw_options(rng, topology.grid().empty());
    if (options.binds_links) {
      options.interfaces = 1;
      for (const NodeId node : topology.rank_nodes()) {
        options.interfaces = std::max(options.interfaces, count_of(topology.links_out(node)));
      }
    }
    std::vector<Job> jobs;
    for (int32_t count = 1 + pick(rng, 2); count > 0; --count) {
      const Schedule schedule =
          rng.below(3) == 0
              ? support::ring_schedule(CollectiveKind::kAllReduce, 2 + pick(rng, 4))
              : support::random_schedule({.most_ranks = 5, .most_steps = 3, .most_moves = 8}, rng);
      const int64_t unit = schedule.rank_count();
      jobs.push_back({std::make_shared<const Schedule>(routed(schedule, topology)),
                      unit * pick(rng, rng.below(3) == 0 ? 2'000 : 300),
                      int64_t{1'000} * pick(rng, 40)});
    }
    SCOPED_TRACE(fmt::format("seed {}: {} {} gate {} flow control {} segments {}", seed, spec,
                             model_of(options), static_cast<int32_t>(options.gate),
                             static_cast<int32_t>(options.flow_control), options.segments));
    finished += compare(topology, jobs, options) ? 1 : 0;
  }
  EXPECT_GT(finished, 100);
}

}  // namespace
}  // namespace pleach
