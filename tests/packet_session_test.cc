// FRED's switches packet by packet: closed forms, every algorithm and random streams to their end.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/collective/record.h"
#include "pleach/collective/schedule.h"
#include "pleach/network/flit/packet_engine.h"
#include "pleach/network/model.h"
#include "pleach/network/schedule_forms.h"
#include "pleach/planning/message.h"
#include "pleach/synthesis/algorithm.h"
#include "tests/support/algorithms.h"
#include "tests/support/random_schedules.h"
#include "tests/support/random_streams.h"
#include "tests/support/topologies.h"
#include "tests/support/two_levels.h"

namespace pleach {
namespace {

using support::topology_of;

std::shared_ptr<const Schedule> shared(Schedule schedule) {
  return std::make_shared<const Schedule>(std::move(schedule));
}

std::shared_ptr<const Schedule> made(const Topology& topology, const std::string& algorithm,
                                     std::vector<NodeId> group = {},
                                     CollectiveKind collective = CollectiveKind::kAllReduce) {
  auto schedule =
      synthesize({.topology = topology, .participants = std::move(group), .collective = collective},
                 algorithm);
  EXPECT_TRUE(schedule) << (schedule ? "" : schedule.error().message);
  return schedule ? shared(std::move(schedule).value()) : nullptr;
}

Simulation run(const Topology& topology, const std::vector<Job>& jobs,
               const std::string& model = "flit,router=fred",
               const SimulationOptions& options = {}) {
  const auto result = simulate(model, topology, jobs, options);
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result ? *result : Simulation();
}

int64_t count(const Simulation& simulation, const std::string& name) {
  for (const Counter& counter : simulation.use.counters) {
    if (counter.name == name) {
      return counter.count;
    }
  }
  return -1;
}

std::vector<NodeId> nodes_of(const std::vector<int32_t>& ranks) {
  std::vector<NodeId> nodes;
  for (const int32_t rank : ranks) {
    nodes.push_back(NodeId{rank});
  }
  return nodes;
}

// Four links of 20 ns, and the buffer over the slowest: the NPU's 3 TB/s, the trunk's 1.5 TB/s.
TEST(PacketSession, InSwitchTakesWhatTheSlowestLinkDoes) {
  for (const auto& [spec, bytes_per_ps] : {std::pair("fred:D", 3.0), std::pair("fred:B", 1.5)}) {
    const Topology topology = topology_of(spec);
    const auto schedule = made(topology, "in_switch");
    const auto one = run(topology, {{schedule, 1, 0}});
    EXPECT_GE(one.finish_ps, 80'000) << spec;
    EXPECT_LE(one.finish_ps, 80'100) << spec;
    for (const int64_t size_bytes : {1'000'000, 4'000'000}) {
      const double closed_ps = 80'000 + static_cast<double>(size_bytes) / bytes_per_ps;
      const auto simulation = run(topology, {{schedule, size_bytes, 0}});
      EXPECT_GE(static_cast<double>(simulation.finish_ps), closed_ps) << spec;
      EXPECT_LE(static_cast<double>(simulation.finish_ps), 1.02 * closed_ps) << spec;
    }
  }
}

// Two levels are three passes of a switch, one is one.
TEST(PacketSession, SwitchesHaveALatency) {
  const Topology quick = topology_of("fred:D"), slow = topology_of("fred:D,switch_latency=35ns");
  for (const auto& [group, passes] :
       {std::pair(std::vector{0, 5, 19}, 3), std::pair(std::vector{0, 1}, 1)}) {
    const auto time_ps = [&, &ranks = group](const Topology& topology) {
      return run(topology, {{made(topology, "in_switch", nodes_of(ranks)), 1, 0}}).finish_ps;
    };
    EXPECT_EQ(time_ps(slow) - time_ps(quick), passes * 35'000);
  }
}

// Every link carries its stream once, with a header before each packet.
TEST(PacketSession, LinksCarryOneCopy) {
  const Topology topology = topology_of("fred:D");
  constexpr int64_t kBytes = 100'000;  // 24 packets of 4 KiB and a part of one
  const auto schedule = made(topology, "in_switch");
  const auto simulation = run(topology, {{schedule, kBytes, 0}}, "flit,router=fred,ack_every=0");
  int32_t used = 0;
  for (const LinkUse& use : simulation.use.links) {
    EXPECT_TRUE(use.wire_bytes == 0 || use.wire_bytes == kBytes + 25 * 6) << use.wire_bytes;
    used += use.wire_bytes > 0 ? 1 : 0;
  }
  EXPECT_EQ(used, 2 * (20 + 5));
  EXPECT_EQ(count(simulation, "packets"), used * 25);
  // One acknowledgement for 16 packets, back over the same cable.
  const auto acknowledged = run(topology, {{schedule, kBytes, 0}});
  EXPECT_EQ(count(acknowledged, "control_packets"), used);
  for (std::size_t link = 0; link < simulation.use.links.size(); ++link) {
    const int64_t more = simulation.use.links[link].wire_bytes > 0 ? 518 : 0;
    EXPECT_EQ(acknowledged.use.links[link].wire_bytes,
              simulation.use.links[link].wire_bytes + more);
  }
  EXPECT_LE(count(simulation, "deepest_buffer"), 120);
}

// What is lost comes again, to every target once: what happened replays. The same seed loses the
// same, and without a loss nothing is sent twice.
TEST(PacketSession, WhatIsLostIsSentAgain) {
  const Topology topology = topology_of("fred:D");
  SimulationOptions options;
  options.keep_records = true;
  for (const char* algorithm : {"in_switch", "ring", "direct"}) {
    const auto schedule = made(topology, algorithm);
    const Job job{schedule, 400'000, 0};
    const auto safe = run(topology, {job});
    EXPECT_EQ(count(safe, "go_backs") + count(safe, "lost_packets") + count(safe, "timeouts"), 0);
    std::vector<int64_t> times_ps;
    for (const char* seed : {"1", "1", "2"}) {
      const auto lossy =
          run(topology, {job}, fmt::format("flit,router=fred,loss=1%,seed={}", seed), options);
      EXPECT_GT(count(lossy, "lost_packets"), 10) << algorithm;
      EXPECT_GT(count(lossy, "go_backs"), 1) << algorithm;
      EXPECT_GT(lossy.finish_ps, safe.finish_ps) << algorithm;
      for (std::size_t link = 0; link < lossy.use.links.size(); ++link) {
        EXPECT_GE(lossy.use.links[link].wire_bytes, safe.use.links[link].wire_bytes / 2);
      }
      const Schedule plain =
          schedule->symmetry ? std::move(expand(*schedule, &topology)).value() : *schedule;
      EXPECT_TRUE(replay(Order::build(plain), {&lossy.use.records[0], 1}, 1)) << algorithm;
      times_ps.push_back(lossy.finish_ps);
    }
    EXPECT_EQ(times_ps[0], times_ps[1]) << algorithm;
    EXPECT_NE(times_ps[0], times_ps[2]) << algorithm;
  }
}

// On slow links timeouts come before packets do, and a source may still send one again when all
// targets have all of the message.
TEST(PacketSession, SlowLinksSendAgainWhatHasArrived) {
  const Topology topology = topology_of("switch:4,bandwidth=1B/s");
  const Job job{made(topology, "ring"), 100'000, 0};
  for (int32_t seed = 0; seed < 8; ++seed) {
    const auto lossy = run(topology, {job}, fmt::format("flit,router=fred,loss=1%,seed={}", seed));
    EXPECT_GT(count(lossy, "timeouts"), 0) << seed;
  }
}

// Control packets have places of their own; where they are few, acknowledgements wait and say more
// at once, and what is missed is told later. So the same losses take longer, and all ends.
TEST(PacketSession, ControlPacketsHaveABuffer) {
  const Topology pair = topology_of("fully_connected:2,bandwidth=100GB/s,latency=1us");
  const Job job{made(pair, "ring"), 400'000, 0};
  int64_t few_ps = 0, enough_ps = 0;
  for (int32_t seed = 1; seed <= 8; ++seed) {
    const auto timed = [&](const char* buffer) {
      return run(pair, {job},
                 fmt::format("flit,router=fred,loss=1%,ack_every=1,seed={},control_buffer={}", seed,
                             buffer));
    };
    const auto few = timed("512B"), enough = timed("64KiB");
    EXPECT_EQ(count(few, "deepest_control_buffer"), 1);
    EXPECT_GT(count(enough, "deepest_control_buffer"), 4);
    EXPECT_GT(count(few, "control_waits_ps"), 0);
    EXPECT_EQ(count(enough, "control_waits_ps"), 0);
    EXPECT_LT(count(few, "control_packets"), count(enough, "control_packets") / 2);
    EXPECT_GE(few.finish_ps, enough.finish_ps);
    few_ps += few.finish_ps;
    enough_ps += enough.finish_ps;
  }
  EXPECT_GT(few_ps, enough_ps * 21 / 20);
  // 3 TB/s end in five ports of four places.
  const Topology fast = topology_of("fully_connected:2,bandwidth=3TB/s,latency=1us");
  const auto deepest =
      run(fast, {{made(fast, "ring"), 2'000'000, 0}}, "flit,router=fred,ack_every=1");
  EXPECT_EQ(count(deepest, "deepest_control_buffer"), 20);
}

// A message of one packet over one link: what gets lost is the tail, of which only the silence
// tells. Sent every timeout, twice as long each time.
TEST(PacketSession, SilenceEndsInATimeout) {
  const Topology pair = topology_of("fully_connected:2,bandwidth=1GB/s,latency=100ns");
  const auto schedule = message_schedule(NodeId{0}, NodeId{1});
  int32_t repeated = 0;
  for (int32_t seed = 0; seed < 40; ++seed) {
    const auto simulation = run(pair, {{schedule, 994, 0}},
                                fmt::format("flit,router=fred,loss=20%,timeout=5us,seed={}", seed));
    const int64_t lost = count(simulation, "lost_packets");
    EXPECT_EQ(count(simulation, "timeouts"), lost);
    EXPECT_EQ(simulation.finish_ps, 1'100'000 + 5'000'000 * ((int64_t{1} << lost) - 1)) << seed;
    repeated += lost > 0 ? 1 : 0;
  }
  EXPECT_GT(repeated, 3);
  EXPECT_LT(repeated, 20);
}

// A buffer passes what it holds in the time from a packet's first byte on the link until its place
// is known to be free: at a target, when all of it is there, the packet, the link and the switch
// before it, and the link back. So a full link asks for bandwidth · round trip, and a packet more.
TEST(PacketSession, BuffersHoldARoundTrip) {
  constexpr int64_t kPacket = 4096, kBytes = 2'000'000;
  for (const int64_t switch_ns : {0, 5, 20, 40, 100, 400}) {
    const Topology topology = topology_of(fmt::format("fred:D,switch_latency={}ns", switch_ns));
    const auto schedule = made(topology, "in_switch", nodes_of({0, 1}));
    for (const int64_t places : {1, 3, 6, 9, 12, 24}) {  // of each of the five ports of 3 TB/s
      const auto model =
          fmt::format("flit,router=fred,ack_every=0,data_buffer={}B", places * kPacket);
      const double packet_ps = (kPacket + 6) / 3.0;
      const double loop_ps = packet_ps + 40'000 + 1e3 * static_cast<double>(switch_ns);
      const int64_t before_last = (kBytes + kPacket - 1) / kPacket - 1, held = 5 * places;
      const double held_ps = std::max(loop_ps, static_cast<double>(held) * packet_ps);
      const double closed_ps = 40'000 + 1e3 * static_cast<double>(switch_ns) +
                               static_cast<double>(before_last / held) * held_ps +
                               static_cast<double>(before_last % held + 1) * packet_ps;
      const auto simulation = run(topology, {{schedule, kBytes, 0}}, model);
      EXPECT_NEAR(static_cast<double>(simulation.finish_ps) / closed_ps, 1, 0.01)
          << switch_ns << " ns, " << places << " packets";
    }
  }
}

// What flow takes with exact shares, packets take up to their buffers and headers. Where several
// streams share a full port, the buffers do not hold what their shares ask for, and more segments
// may take longer.
TEST(PacketSession, EndpointAlgorithmsTakeWhatFlowDoes) {
  struct Case {
    std::string spec, algorithm;
    int32_t segments = 8;
  };
  const std::vector<Case> cases = {{"fred:C", "ring"},
                                   {"fred:A", "ring"},
                                   {"fred:C", "hierarchical", 1},
                                   {"wafer_mesh:5x4", "ring"},
                                   {"wafer_mesh:5x4", "hierarchical"},
                                   {"wafer_mesh:5x4", "multitree"},
                                   {"switch:8,bandwidth=3TB/s,latency=20ns", "halving_doubling"},
                                   {"torus:4x4,bandwidth=750GB/s,latency=20ns", "multitree"}};
  for (const auto& [spec, algorithm, segments] : cases) {
    const Topology topology = topology_of(spec);
    const Job job{made(topology, algorithm), 8'000'000, 0};
    const SimulationOptions options{.segment_count = segments};
    const auto flow = run(topology, {job}, "flow", options);
    const auto packets = run(topology, {job}, "flit,router=fred", options);
    EXPECT_NEAR(static_cast<double>(packets.finish_ps) / static_cast<double>(flow.finish_ps), 1,
                0.1)
        << spec << " " << algorithm;
  }
}

// Serial streams follow one another without a gap, but where the way of one is shorter than that of
// the one before: what goes to another leaf or comes from one waits two links for what went.
TEST(PacketSession, StreamsFollowOneAnother) {
  struct Case {
    std::string spec;
    CollectiveKind collective = CollectiveKind::kReduceScatter;
    std::vector<int32_t> ranks = {};  // none: all
    int32_t segments = 1, gaps = 0;
    std::string buffer = "24KiB";
  };
  using Kind = CollectiveKind;
  const std::vector<Case> cases = {
      {"fred:D", Kind::kReduceScatter, {0, 1, 2, 3}, 4},
      {"fred:D", Kind::kAllGather, {0, 1, 2, 3}, 4},
      {"fred:D", Kind::kAllGather, {18, 2, 5, 14}, 5},
      {"fred:D", Kind::kAllGather, {}, 1, 4},
      {"fred:D", Kind::kReduceScatter, {}, 1, 4, "48KiB"},
      {"fred:D", Kind::kReduceScatter, {18, 2, 5, 14}, 5, 19, "72KiB"},
      {"fred:B", Kind::kReduceScatter, {}, 1},
      {"fred:B", Kind::kAllGather, {18, 2, 5, 14}, 5},
  };
  for (const Case& what : cases) {
    const Topology topology = topology_of(what.spec);
    const auto schedule = made(topology, "in_switch", nodes_of(what.ranks), what.collective);
    const SimulationOptions options{.segment_count = what.segments};
    const Job job{schedule, 10'000'000, 0};
    const auto flow = run(topology, {job}, "flow", options);
    const auto packets =
        run(topology, {job}, "flit,router=fred,data_buffer=" + what.buffer, options);
    const auto expected_ps = static_cast<double>(flow.finish_ps + 40'000 * what.gaps);
    EXPECT_NEAR(static_cast<double>(packets.finish_ps) / expected_ps, 1.015, 0.02)
        << what.spec << " " << to_text(what.collective) << " " << what.segments;
  }
}

// How a run is drawn: gates, segments, packets and buffers, down to one packet.
struct Way {
  std::string model;
  SimulationOptions options;
};
Way way_of(int32_t number) {
  constexpr std::array kModels = {
      "flit,router=fred", "flit,router=fred,data_packet=64B,data_buffer=64B,port_rate=1000TB/s",
      "flit,router=fred,data_packet=100B,data_buffer=250B,data_header=0,data_flit=1B,loss=1%",
      "flit,router=fred,data_packet=1000B,data_flit=4KiB,data_buffer=64KiB"};
  constexpr std::array kGates = {Gate::kDataflow, Gate::kInOrder, Gate::kLockstep, Gate::kOracle};
  Way way{kModels[at(number) % kModels.size()], {}};
  way.options.gate = kGates[at(number) / 4 % 4];
  way.options.segment_count = number % 3 == 2 ? 3 : 1;
  way.options.keep_records = true;
  constexpr std::array kRules = {AdmissionRule::kTogether, AdmissionRule::kPhase,
                                 AdmissionRule::kTogether, AdmissionRule::kFree};
  way.options.admission = kRules[at(number) / 7 % 4];
  if (number % 5 == 1) {
    way.options.reduce_bandwidth_bytes_per_s = 10'000'000'000;
  }
  return way;
}

void expect_ends(const Topology& topology, const std::vector<Job>& jobs, const Way& way) {
  const auto result = simulate(way.model, topology, jobs, way.options);
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_EQ(result->use.records.size(), jobs.size());
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    const Schedule& schedule = *jobs[job].schedule;
    const Schedule plain =
        schedule.symmetry ? std::move(expand(schedule, &topology)).value() : schedule;
    const auto replayed =
        replay(Order::build(plain), {&result->use.records[job], 1}, way.options.segment_count);
    EXPECT_TRUE(replayed) << replayed.error().message;
  }
  for (std::size_t link = 0; link < result->use.links.size(); ++link) {
    const LinkUse& use = result->use.links[link];
    const int64_t bandwidth = topology.links()[link].bandwidth_bytes_per_s;
    EXPECT_LE(transmit_time_ps(use.wire_bytes, bandwidth), use.busy_ps + 1) << link;
  }
  const double bound = jobs.front().schedule->provenance.certificate.bound_algbw_bytes_per_s;
  if (bound > 0) {
    EXPECT_GE(static_cast<double>(result->finish_ps) * (1 + 1e-9),
              static_cast<double>(jobs.front().size_bytes) * 1e12 / bound);
  }
}

TEST(PacketSession, EveryAlgorithmEndsInEverySetting) {
  constexpr std::array<int64_t, 8> kSizes = {0, 1, 63, 64, 65, 1'000, 4'097, 20'011};
  int32_t number = 0, ended = 0;
  for (const char* spec : {"torus:3x3", "mesh:2x4", "fat_tree:8,radix=4", "ring:5",
                           "switch:5,reduce,multicast,latency=20ns", "fred:D,latency=1us", "fred:A",
                           "switch_tree:3x2,latency=0"}) {
    const Topology topology = topology_of(spec);
    for (const Algorithm* algorithm : algorithms()) {
      for (const CollectiveKind collective : algorithm->collectives) {
        const auto schedule = synthesize(
            {.topology = topology, .participants = {}, .collective = collective}, algorithm->name);
        if (!schedule) {
          continue;
        }
        const Way way = way_of(5 * number + number / 32);
        int64_t size_bytes = kSizes[at(number++) % kSizes.size()];
        if (part_count(collective, schedule->rank_count()) > 1) {  // blocks of equal length
          size_bytes += (schedule->rank_count() - size_bytes % schedule->rank_count()) %
                        schedule->rank_count();
        }
        SCOPED_TRACE(fmt::format("{} {} {} {} B {} gate {} segments {}", spec, algorithm->name,
                                 to_text(collective), size_bytes, way.model,
                                 static_cast<int32_t>(way.options.gate),
                                 way.options.segment_count));
        expect_ends(topology, {{shared(*schedule), size_bytes, 0}}, way);
        ++ended;
      }
    }
  }
  EXPECT_GT(ended, 200);
}

// A message of class 0 that shares ports with one of class 2 goes first, but for packets under way,
// one in each gap that its credits leave, and the other loses no byte: its links carry as much as
// without company.
TEST(PacketSession, ALowerClassInterrupts) {
  const Topology topology = topology_of("fred:D");
  const auto all = made(topology, "in_switch"), two = made(topology, "in_switch", nodes_of({3, 4}));
  constexpr int64_t kBytes = 4'000'000, kStartPs = 300'000;
  const Job low{two, kBytes, kStartPs, 0}, high{all, kBytes, 0, 2};
  SimulationOptions options;
  options.keep_records = true;
  const auto low_alone = run(topology, {low}), high_alone = run(topology, {high});
  const auto both = run(topology, {high, low}, "flit,router=fred", options);
  EXPECT_EQ(both.use.admission->preemptions, 1);
  EXPECT_LE(both.job_finish_ps[1], low_alone.finish_ps + 20'000);
  EXPECT_GE(both.job_finish_ps[0],
            high_alone.finish_ps + (low_alone.finish_ps - kStartPs) * 9 / 10);
  EXPECT_LE(both.job_finish_ps[0], high_alone.finish_ps + low_alone.finish_ps - kStartPs + 100'000);
  for (std::size_t link = 0; link < both.use.links.size(); ++link) {
    EXPECT_EQ(both.use.links[link].wire_bytes,
              low_alone.use.links[link].wire_bytes + high_alone.use.links[link].wire_bytes);
  }
  EXPECT_TRUE(replay(Order::build(*all), {&both.use.records[0], 1}, 1));
  EXPECT_TRUE(replay(Order::build(*two), {&both.use.records[1], 1}, 1));
  // Of one class they take turns.
  const auto equal = run(topology, {{all, kBytes, 0, 1}, {two, kBytes, kStartPs, 1}});
  EXPECT_EQ(equal.use.admission->preemptions, 0);
  EXPECT_LE(equal.job_finish_ps[0], high_alone.finish_ps + 10'000);  // but for two packets' places
  EXPECT_GT(equal.job_finish_ps[1], equal.job_finish_ps[0]);
}

// Groups at once through two levels, of random classes and starts, in all models of a switch.
TEST(PacketSession, RandomStreamsEnd) {
  // What was stopped arrives while it waits; had passed all gates; comes in as a guest of the one
  // that stopped it.
  constexpr std::array kSeeds = {5070, 3324, 1654};
  for (int32_t round = 0; round < support::repeated(600); ++round) {
    const int32_t seed = round < count_of(kSeeds) ? kSeeds[at(round)] : round;
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(static_cast<uint64_t>(seed));
    constexpr std::array kSwitches = {"fred", "fred,middle=2", ""};
    const int32_t leaves = 2 + support::pick(rng, 3);
    const support::TwoLevels levels{.ranks = leaves * (2 + support::pick(rng, 3)),
                                    .leaves = leaves,
                                    .switch_model = kSwitches[at(seed) % kSwitches.size()],
                                    .trunk_lanes = seed % 5 == 4 ? 3 : 1};
    const Topology topology = levels.topology();
    std::vector<Job> jobs;
    for (int32_t left = 2 + support::pick(rng, 20); left > 0; --left) {
      std::vector<int32_t> group;
      while (group.size() < 2) {
        group.clear();
        for (int32_t rank = 0; rank < levels.ranks; ++rank) {
          if (rng.below(3) == 0) {
            group.push_back(rank);
          }
        }
      }
      jobs.push_back({shared(levels.all_reduce(group)), static_cast<int64_t>(rng.below(5'000)),
                      static_cast<int64_t>(rng.below(1'000'000)), support::pick(rng, 3)});
    }
    expect_ends(topology, jobs, way_of(seed));
  }
}

TEST(PacketSession, RefusesInALine) {
  const Topology topology = topology_of("fred:D");
  const Job job{made(topology, "in_switch"), 1'000, 0};
  for (const auto& [model, error] :
       {std::pair("flit", "switch l1.0 (fred"),
        std::pair("flit,router=other", "'router': unknown value 'other'"),
        std::pair("flit,router=fred,vcs=2", "vcs '2': only with router=queued"),
        std::pair("flit,data_buffer=1KiB", "data_buffer '1KiB': only with router=fred"),
        std::pair("flit,router=fred,data_buffer=1KiB",
                  "data_buffer '1KiB': must be 4096 to 1073741824 bytes"),
        std::pair("flit,router=fred,data_packet=2MiB", "data_packet '2MiB': must be"),
        std::pair("flit,router=fred,control_buffer=511B", "control_buffer '511B': must be 512 to"),
        std::pair("flit,router=fred,data_flit=0B", "data_flit '0B': must be 1 to"),
        std::pair("flit,router=fred,data_vcs=0", "'data_vcs': value '0'"),
        std::pair("flit,router=fred,loss=20.1%", "loss '20.1%': must be 0% to 20%"),
        std::pair("flit,router=fred,loss=1", "loss '1': must be 0% to 20%"),
        std::pair("flit,router=fred,loss=%", "loss '%': must be"),
        std::pair("flit,router=fred,loss=-1%", "loss '-1%': must be"),
        std::pair("flit,router=fred,loss=0.00001%", "loss '0.00001%': must be"),
        std::pair("flit,router=fred,loss=1.%", "loss '1.%': must be"),
        std::pair("flit,router=fred,loss=1%,ack_every=0", "loss '1%': what is lost is sent again"),
        std::pair("flit,router=fred,timeout=2s", "timeout '2s': must be at most"),
        std::pair("flit,router=fred,port_rate=0B/s", "port_rate")}) {
    const auto result = simulate(model, topology, {&job, 1}, {});
    ASSERT_FALSE(result) << model;
    EXPECT_NE(result.error().message.find(error), std::string::npos) << result.error().message;
  }
  // Each of 64 links into a sum loses one packet in five: one sum in a million and a half is whole.
  const Topology wide = topology_of("switch:64,reduce,multicast,latency=20ns");
  const Job sum{made(wide, "in_switch"), 1'000, 0};
  const auto hopeless = simulate("flit,router=fred,loss=20%", wide, {&sum, 1}, {});
  ASSERT_FALSE(hopeless);
  EXPECT_EQ(hopeless.error().code, ErrorCode::kInfeasible);
  EXPECT_TRUE(simulate("flit,router=fred,loss=0.0001%", topology, {&job, 1}, {}));
  std::vector<Job> jobs(4, job);
  for (int32_t i = 0; i < 4; ++i) {
    jobs[at(i)].traffic_class = 2 * i;
  }
  const auto classes = simulate("flit,router=fred", topology, jobs, {});
  ASSERT_FALSE(classes);
  EXPECT_EQ(classes.error().message,
            "jobs of 4 classes of traffic: router=fred has 3 virtual channels for data, data_vcs");
  EXPECT_TRUE(simulate("flit,router=fred,data_vcs=4", topology, jobs, {}));
}

}  // namespace
}  // namespace pleach
