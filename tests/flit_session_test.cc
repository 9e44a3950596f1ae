// The flit model as a session: every algorithm and setting ends with a record that replays and not
// before the bound, jobs share routers, and what cannot run says why.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/collective/record.h"
#include "pleach/collective/schedule.h"
#include "pleach/network/flit/flit_engine.h"
#include "pleach/network/flit/flit_options.h"
#include "pleach/network/model.h"
#include "pleach/network/schedule_forms.h"
#include "pleach/synthesis/algorithm.h"
#include "tests/support/algorithms.h"
#include "tests/support/random_schedules.h"
#include "tests/support/small_schedules.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

using support::kCopy;
using support::kReduce;
using support::make_schedule;
using support::topology_of;

constexpr std::array kAllGates = {Gate::kDataflow, Gate::kInOrder, Gate::kLockstep, Gate::kOracle};

struct Way {
  std::string model;
  SimulationOptions options;
  std::string text() const {
    return fmt::format("{} gate {} flow control {} segments {}", model,
                       static_cast<int32_t>(options.gate),
                       static_cast<int32_t>(options.flow_control), options.segment_count);
  }
};

// Gates, flow controls, bindings and segment counts in turn; `number` chooses.
Way way_of(int32_t number) {
  constexpr std::array kModels = {"flit", "flit,binding=link",
                                  "flit,interfaces=2,vcs=8,buffer=19,packet=256B,header=1",
                                  "flit,flit=7B,packet=100B,header=2,reduction=streamed"};
  Way way;
  way.model = kModels[at(number) % kModels.size()];
  way.options.gate = kAllGates[at(number) / 4 % 4];
  way.options.flow_control = number / 16 % 2 == 0 ? FlowControl::kPacket : FlowControl::kMessage;
  way.options.segment_count = number % 3 == 2 ? 3 : 1;
  way.options.keep_records = true;
  return way;
}

Result<Simulation> run(const Topology& topology, const Schedule& schedule, int64_t size_bytes,
                       const Way& way) {
  const Job job{borrowed(schedule), size_bytes, 0};
  return simulate(way.model, topology, {&job, 1}, way.options);
}

// Ends, with a record that replays on the schedule, written out where it is symmetric.
void expect_ends(const Topology& topology, const Schedule& schedule, int64_t size_bytes,
                 const Way& way) {
  const auto result = run(topology, schedule, size_bytes, way);
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_EQ(result->use.records.size(), 1U);
  const Schedule plain =
      schedule.symmetry ? std::move(expand(schedule, &topology)).value() : schedule;
  const auto replayed = replay(Order::build(plain), result->use.records, way.options.segment_count);
  EXPECT_TRUE(replayed) << replayed.error().message;
  const double bound = schedule.provenance.certificate.bound_algbw_bytes_per_s;
  if (bound > 0) {
    EXPECT_GE(static_cast<double>(result->finish_ps) * (1 + 1e-9),
              static_cast<double>(size_bytes) * 1e12 / bound);
  }
}

TEST(FlitSession, EveryAlgorithmEndsInEverySetting) {
  constexpr std::array<int64_t, 8> kSizes = {0, 1, 255, 256, 257, 1'000, 4'099, 20'011};
  int32_t number = 0, count = 0;
  for (const char* spec :
       {"torus:3x3", "mesh:2x4", "fat_tree:8,radix=4", "bigraph:4x2", "torus:4x2x2", "ring:5"}) {
    for (const char* more : {"", ",latency_spread=30%,latency=20ns"}) {
      const Topology topology = topology_of(std::string(spec) + more);
      for (const Algorithm* algorithm : algorithms()) {
        for (const CollectiveKind collective : algorithm->collectives) {
          const auto schedule =
              synthesize({.topology = topology, .participants = {}, .collective = collective},
                         algorithm->name);
          if (!schedule) {
            continue;
          }
          for (int32_t turn = 0; turn < support::repeated(1); ++turn, ++number, ++count) {
            const Way way = way_of(5 * number + number / 32);
            int64_t size_bytes = kSizes[at(number) % kSizes.size()];
            if (part_count(collective, schedule->rank_count()) > 1) {  // blocks of equal length
              size_bytes += (schedule->rank_count() - size_bytes % schedule->rank_count()) %
                            schedule->rank_count();
            }
            SCOPED_TRACE(fmt::format("{}{} {} {} {} B {}", spec, more, algorithm->name,
                                     to_text(collective), size_bytes, way.text()));
            expect_ends(topology, *schedule, size_bytes, way);
          }
        }
      }
    }
  }
  EXPECT_GT(count, 200);
}

// A rank that takes 5 us for a message: longer than any buffer of an interface lasts.
TEST(FlitSession, OverheadsLastBeforeEachMessage) {
  const Schedule chain = make_schedule({.collective = CollectiveKind::kBroadcast, .rank_count = 3},
                                       {{0, 1, 0, 1, kCopy}, {0, 1, 1, 2, kCopy, 1}});
  const auto time_ps = [&](const std::string& overhead) {
    const auto result = run(topology_of("fully_connected:3,latency=10ns,overhead=" + overhead),
                            chain, 1'000, {.model = "flit", .options = {}});
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    return result->finish_ps;
  };
  for (const int64_t ns : {1, 100, 127, 128, 5'000, 1'000'000}) {
    EXPECT_EQ(time_ps(fmt::format("{}ns", ns)), time_ps("0s") + 2 * ns * 1'000) << ns;
  }
}

// All ranks of a ring send half way round with one VC: interfaces with more to send never rest, and
// the run ends all the same.
TEST(FlitSession, ADeadlockEndsWithItsCircle) {
  const Topology topology = topology_of("ring:8,latency=1ns");
  const auto schedule = synthesize(
      {.topology = topology, .participants = {}, .collective = CollectiveKind::kAllReduce},
      "direct");
  ASSERT_TRUE(schedule);
  for (const FlowControl flow_control : {FlowControl::kPacket, FlowControl::kMessage}) {
    for (const int64_t size_bytes : {8 << 10, 256 << 10}) {
      const auto result = run(topology, *schedule, size_bytes,
                              {.model = "flit,vcs=1,buffer=17,deadlock=allow",
                               .options = {.flow_control = flow_control}});
      ASSERT_FALSE(result) << size_bytes;
      EXPECT_EQ(result.error().code, ErrorCode::kInfeasible);
      EXPECT_EQ(result.error().message.substr(0, 25), "deadlock, found in cycle ");
      EXPECT_NE(result.error().message.find("0->7 VC 0"), std::string::npos)
          << result.error().message;
    }
  }
}

// What is counted of runs one after the other: sums, and the deepest buffer of either. Each link's
// flits are the counters' parts.
TEST(FlitSession, CountersAddUpOverRuns) {
  const Topology topology = topology_of("torus:4x4");
  const auto schedule = synthesize(
      {.topology = topology, .participants = {}, .collective = CollectiveKind::kAllReduce},
      "direct");
  ASSERT_TRUE(schedule);
  const auto use_of = [&](const std::vector<int64_t>& sizes_bytes) {
    auto session = open_network("flit", topology, {});
    int64_t now_ps = 0;
    for (const int64_t size_bytes : sizes_bytes) {
      EXPECT_TRUE((*session)->start({borrowed(*schedule), size_bytes, now_ps}));
      while ((*session)->next_ps().has_value()) {
        const auto finished = (*session)->advance(INT64_MAX);
        EXPECT_TRUE(finished) << finished.error().message;
        now_ps = finished->empty() ? now_ps : finished->back().time_ps;
      }
    }
    return std::move((*session)->use()).value();
  };
  const NetworkUse large = use_of({64 << 10}), small = use_of({4 << 10});
  const NetworkUse both = use_of({64 << 10, 4 << 10});
  ASSERT_EQ(both.counters.size(), 12U);
  for (std::size_t i = 0; i < both.counters.size(); ++i) {
    const int64_t one = large.counters[i].count, other = small.counters[i].count;
    const bool is_deepest = std::string(both.counters[i].name) == "deepest_buffer";
    EXPECT_EQ(both.counters[i].count, is_deepest ? std::max(one, other) : one + other)
        << both.counters[i].name;
    EXPECT_GE(one, other) << both.counters[i].name;
  }
  for (const auto& [name, counts] : both.link_counters) {
    ASSERT_EQ(counts.size(), topology.links().size());
    const int64_t sum = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    if (std::string(name) == "flits") {
      EXPECT_EQ(sum, both.counters[5].count) << "link_flits";
    } else {
      EXPECT_EQ(sum, both.counters[5].count / 17) << "of 16 flits and a header";
    }
  }
}

// In every cycle flits, credits and places in buffers are as many as there were. Of every fourth
// algorithm; PLEACH_LONG: of all.
TEST(FlitSession, FlitsAndCreditsAreConservedInEveryCycle) {
  int32_t number = 0;
  for (const char* spec : {"torus:3x3", "mesh:2x3", "bigraph:4x2"}) {
    const Topology topology = topology_of(spec);
    for (const Algorithm* algorithm : algorithms()) {
      if (++number % 4 != 0 && !support::is_long()) {
        continue;
      }
      const auto schedule = synthesize(
          {.topology = topology, .participants = {}, .collective = CollectiveKind::kAllReduce},
          algorithm->name);
      if (!schedule) {
        continue;
      }
      const Way way = way_of(7 * number);
      SCOPED_TRACE(fmt::format("{} {} {}", spec, algorithm->name, way.text()));
      const auto model = network_models().select(way.model);
      ASSERT_TRUE(model);
      const auto options = flit_options(topology, way.options.flow_control, model->options);
      ASSERT_TRUE(options) << options.error().message;
      const Schedule plain =
          schedule->symmetry ? std::move(expand(*schedule, &topology)).value() : *schedule;
      KnownSchedules known(topology, way.options);
      auto lowered = (*known.find(borrowed(plain)))->whole(1'000);
      ASSERT_TRUE(lowered) << lowered.error().message;
      std::vector<FlitEngine::Job> jobs;
      jobs.push_back({std::move(*lowered), 0});
      auto engine = FlitEngine::create(topology, way.options, *options, std::move(jobs));
      ASSERT_TRUE(engine) << engine.error().message;
      int32_t cycles = 0;
      while (!(*engine)->is_idle()) {
        ASSERT_TRUE((*engine)->advance((*engine)->next_ps()));
        ASSERT_EQ((*engine)->inconsistency(), "") << "in the cycle " << cycles << " that is run";
        ++cycles;
      }
      EXPECT_GT(cycles, 20);
    }
  }
}

TEST(FlitSession, TellsHowFarItIs) {
  const Topology topology = topology_of("torus:4x4");
  const auto schedule = synthesize(
      {.topology = topology, .participants = {}, .collective = CollectiveKind::kAllReduce}, "ring");
  ASSERT_TRUE(schedule);
  std::vector<std::pair<int64_t, int64_t>> told;
  SimulationOptions options{.segment_count = 2};
  options.progress = [&](int64_t done, int64_t all) { told.emplace_back(done, all); };
  ASSERT_TRUE(run(topology, *schedule, 64 << 10, {.model = "flit", .options = options}));
  ASSERT_GE(told.size(), 2U);
  EXPECT_TRUE(std::ranges::is_sorted(told));
  for (const auto& [done, all] : told) {
    EXPECT_EQ(all, 30 * 16 * 2) << "steps, ranks, segments";
    EXPECT_LE(done, all);
  }
}

// A link that is slower than the fastest keeps a flit until its last byte has left: never faster
// than its bandwidth, without headers and latencies that hide it.
TEST(FlitSession, SlowLinksAreNotFasterThanTheyAre) {
  const Schedule broadcast =
      make_schedule({.collective = CollectiveKind::kBroadcast}, {{0, 1, 0, 1, kCopy}});
  for (const char* slow : {"50MB/s", "999999937B/s", "7GB/s", "15999999999B/s"}) {
    const auto topology = parse_topology_toml(
        fmt::format("[defaults]\nlatency = \"0\"\n[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n"
                    "[[node]]\nname = \"c\"\n[[cable]]\nsource = \"a\"\ntarget = \"b\"\n"
                    "bandwidth = \"{}\"\n[[cable]]\nsource = \"b\"\ntarget = \"c\"\nbandwidth = "
                    "\"16GB/s\"\n[[cable]]\nsource = \"a\"\ntarget = \"c\"\n",
                    slow),
        "slow.toml");
    ASSERT_TRUE(topology) << topology.error().message;
    for (const int64_t size_bytes : {1, 16, 17, 1'000, 20'003}) {
      const auto flit =
          run(*topology, broadcast, size_bytes, {.model = "flit,header=0", .options = {}});
      const auto flow = run(*topology, broadcast, size_bytes, {.model = "flow", .options = {}});
      ASSERT_TRUE(flit) << flit.error().message;
      ASSERT_TRUE(flow);
      EXPECT_GE(flit->finish_ps, flow->finish_ps) << slow << ' ' << size_bytes;
      for (const LinkUse& use : flit->use.links) {
        EXPECT_LE(use.busy_ps, flit->finish_ps) << slow << ' ' << size_bytes;
      }
    }
  }
}

}  // namespace
}  // namespace pleach
