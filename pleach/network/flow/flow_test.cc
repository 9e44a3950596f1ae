#include <gtest/gtest.h>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/base/units.h"
#include "pleach/network/model.h"
#include "pleach/topology/host_model.h"
#include "tests/support/counterexamples.h"
#include "tests/support/random_schedules.h"
#include "tests/support/topologies.h"
#include "tests/support/two_levels.h"

namespace pleach {
namespace {

using support::kCopy;
using support::kReduce;
using support::make_schedule;
using support::topology_of;

// 1 GB/s = 1,000 ps per byte; 100 ns.
constexpr const char* kPlain = ",bandwidth=1GB/s,latency=100ns";
constexpr int64_t kLatencyPs = 100'000;

Simulation run(const Topology& topology, std::vector<Job> jobs,
               const SimulationOptions& options = {}) {
  auto result = simulate("flow", topology, jobs, options);
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return std::move(*result);
}

int64_t time_of(const std::string& spec, const Schedule& schedule, int64_t size_bytes,
                const SimulationOptions& options = {}) {
  return run(topology_of(spec), {{borrowed(schedule), size_bytes, 0}}, options).finish_ps;
}

const Schedule kBroadcast =
    make_schedule({.collective = CollectiveKind::kBroadcast}, {{0, 1, 0, 1, kCopy}});

// A ring all_reduce on ring:n in the symmetric form: at step k rank 1 + k of the representative
// chunk 0 sends to the next.
Schedule symmetric_ring(const Topology& topology) {
  const auto n = count_of(topology.rank_nodes());
  Schedule schedule = make_schedule({.rank_count = n, .chunk_count = n}, {});
  schedule.symmetry = Symmetry{{n}};
  schedule.phase_steps = {n - 1, n - 1};
  schedule.period = 2 * (n - 1);
  for (int32_t step = 0; step < 2 * (n - 1); ++step) {
    const NodeId source{(1 + step) % n};
    const NodeId target{(2 + step) % n};
    LinkId there;
    for (const LinkId link : topology.links_out(source)) {
      there = topology.link(link).target == target ? link : there;
    }
    schedule.transfers.push_back({0, 1, source, target, step,
                                  schedule.routes.add(std::span(&there, 1)),
                                  step < n - 1 ? kReduce : kCopy});
  }
  return schedule;
}

TEST(Flow, OneTransferTakesOverheadAndBytesAndLatency) {
  EXPECT_EQ(time_of(std::string("fully_connected:2") + kPlain, kBroadcast, 1'000),
            1'000'000 + kLatencyPs);
  EXPECT_EQ(time_of(std::string("fully_connected:2,overhead=7ns") + kPlain, kBroadcast, 1'000),
            7'000 + 1'000'000 + kLatencyPs);
  EXPECT_EQ(time_of(std::string("switch:2") + kPlain, kBroadcast, 1'000),
            1'000'000 + 2 * kLatencyPs);
  EXPECT_EQ(time_of(std::string("fully_connected:2") + kPlain, kBroadcast, 0), kLatencyPs);
}

// Where streams that come by k links leave a switch that drops by one, they have
// C / (1 + 0.25·(1 − 1/k)) together: of three, 7/6 of the time on that link; ways that nobody else
// takes are as fast as ever, and so is what two jobs send between the same two ranks.
TEST(Flow, StreamsThatMeetWherePacketsAreDroppedLoseSome) {
  const auto hosts = [](const std::string& kind) {
    return *hosts_topology({.rank_bandwidth_bytes_per_s = 100'000'000'000,
                            .host_bandwidth_bytes_per_s = 100'000'000'000},
                           {1'000'000'000, 2 * kLatencyPs, kind}, std::vector<int32_t>{0, 1, 2, 3},
                           "hosts");
  };
  const Schedule gather =
      make_schedule({.collective = CollectiveKind::kReduce, .rank_count = 4},
                    {{0, 1, 1, 0, kReduce}, {0, 1, 2, 0, kReduce}, {0, 1, 3, 0, kReduce}});
  const Schedule scatter =
      make_schedule({.collective = CollectiveKind::kBroadcast, .rank_count = 4},
                    {{0, 1, 0, 1, kCopy}, {0, 1, 0, 2, kCopy}, {0, 1, 0, 3, kCopy}});
  const auto time = [&](const std::string& kind, const Schedule& schedule) {
    return run(hosts(kind), {{borrowed(schedule), 6'000, 0}}).finish_ps;
  };
  EXPECT_EQ(time("", gather), 18'000'000 + 2 * kLatencyPs);
  EXPECT_EQ(time("tail_drop", gather), 21'000'000 + 2 * kLatencyPs);
  EXPECT_EQ(time("tail_drop", scatter), 18'000'000 + 2 * kLatencyPs);
  const Schedule pair = make_schedule({.collective = CollectiveKind::kBroadcast, .rank_count = 2},
                                      {{0, 1, 0, 1, kCopy}});
  const Job job = {borrowed(pair), 6'000, 0};
  EXPECT_EQ(run(hosts("tail_drop"), {job, job}).finish_ps, 12'000'000 + 2 * kLatencyPs);
}

// Segments follow one another on the connection: overhead and bytes each, latency once.
TEST(Flow, SegmentsArePipelined) {
  const std::string spec = std::string("fully_connected:2,overhead=7ns") + kPlain;
  EXPECT_EQ(time_of(spec, kBroadcast, 1'000, {.segment_count = 10}),
            10 * 7'000 + 1'000'000 + kLatencyPs);
  // Over two hops of different ranks the second hop of a segment overlaps the first of the next.
  const Schedule chain = make_schedule({.collective = CollectiveKind::kBroadcast, .rank_count = 3},
                                       {{0, 1, 0, 1, kCopy}, {0, 1, 1, 2, kCopy, 1}});
  EXPECT_EQ(time_of(std::string("fully_connected:3") + kPlain, chain, 1'000, {.segment_count = 10}),
            1'000'000 + kLatencyPs + 100'000 + kLatencyPs);
}

TEST(Flow, HeadersTravelPerPacketOrPerMessage) {
  const std::string spec = std::string("fully_connected:2,header=16,packet=256") + kPlain;
  EXPECT_EQ(time_of(spec, kBroadcast, 1'024), (1'024 + 4 * 16) * 1'000 + kLatencyPs);
  EXPECT_EQ(time_of(spec, kBroadcast, 1'025), (1'025 + 5 * 16) * 1'000 + kLatencyPs);
  EXPECT_EQ(time_of(spec, kBroadcast, 1'024, {.flow_control = FlowControl::kMessage}),
            (1'024 + 16) * 1'000 + kLatencyPs);
}

// Ranks 0 and 1 send to 2 through a switch: its link to 2 is shared, each gets half.
TEST(Flow, ConnectionsShareALinkFairly) {
  const Schedule gather =
      make_schedule({.collective = CollectiveKind::kReduce, .rank_count = 3, .root = 2},
                    {{0, 1, 0, 2, kReduce}, {0, 1, 1, 2, kReduce}});
  const Topology topology = topology_of(std::string("switch:3") + kPlain);
  const Simulation result = run(topology, {{borrowed(gather), 1'000, 0}});
  EXPECT_EQ(result.finish_ps, 2'000'000 + 2 * kLatencyPs);
  int64_t busiest_ps = 0, most_bytes = 0;
  for (const LinkUse& use : result.use.links) {
    busiest_ps = std::max(busiest_ps, use.busy_ps);
    most_bytes = std::max(most_bytes, use.wire_bytes);
  }
  EXPECT_EQ(busiest_ps, 2'000'000);
  EXPECT_EQ(most_bytes, 2'000);
}

// Two jobs on one link: the second starts when the first is half done.
//   first: 500 alone, then 500 at half rate = 500 + 1000; second: 500 at half rate, then 500 alone
TEST(Flow, JobsShareLinksOverTime) {
  const Topology topology = topology_of(std::string("fully_connected:2") + kPlain);
  const Simulation result =
      run(topology, {{borrowed(kBroadcast), 1'000, 0}, {borrowed(kBroadcast), 1'000, 500'000}});
  EXPECT_EQ(result.job_finish_ps,
            (std::vector<int64_t>{1'500'000 + kLatencyPs, 2'000'000 + kLatencyPs}));
  EXPECT_EQ(result.finish_ps, 2'000'000 + kLatencyPs);
}

TEST(Flow, ReductionsQueueAtTheirRank) {
  const Schedule gather =
      make_schedule({.collective = CollectiveKind::kReduce, .rank_count = 3, .root = 2},
                    {{0, 1, 0, 2, kReduce}, {0, 1, 1, 2, kReduce}});
  EXPECT_EQ(time_of(std::string("fully_connected:3") + kPlain, gather, 1'000,
                    {.reduce_bandwidth_bytes_per_s = 2'000'000'000}),
            1'000'000 + kLatencyPs + 2 * 500'000);
}

// Four segments of 250 ns, each of which is folded for 500 ns before its landing place is free.
// With two places the next one arrives meanwhile.
TEST(Flow, LandingPlacesHoldSegmentsBack) {
  const Schedule reduce = make_schedule({.collective = CollectiveKind::kReduce}, {{0, 1, 1, 0}});
  const int64_t folded_ps = kLatencyPs + 250'000 + 4 * 500'000;
  const std::pair<int32_t, int64_t> cases[] = {
      {0, folded_ps}, {1, 4 * (250'000 + kLatencyPs + 500'000)}, {2, folded_ps}};
  for (const auto& [places, time_ps] : cases) {
    EXPECT_EQ(time_of(std::string("fully_connected:2") + kPlain, reduce, 1'000,
                      {.segment_count = 4,
                       .landing_places = places,
                       .reduce_bandwidth_bytes_per_s = 500'000'000}),
              time_ps)
        << places << " places";
  }
}

// All ranks into a reducing switch and out again at one rate: one stream, twice the link latency.
TEST(Flow, AStreamThroughASwitchFlowsAtOneRate) {
  const Topology topology = topology_of(std::string("switch:4,reduce,multicast") + kPlain);
  Schedule schedule = make_schedule({.rank_count = 4}, {});
  for (int32_t rank = 0; rank < 4; ++rank) {
    schedule.transfers.push_back({0, 1, {rank}, {4}, 0, kNoRoute, kReduce});
    schedule.transfers.push_back({0, 1, {4}, {rank}, 0, kNoRoute, kCopy});
  }
  sort_transfers(schedule);
  const Simulation result = run(topology, {{borrowed(schedule), 1'000, 0}});
  EXPECT_EQ(result.finish_ps, 1'000'000 + 2 * kLatencyPs);
  EXPECT_EQ(result.use.event_count, 1);
  for (const LinkUse& use : result.use.links) {
    EXPECT_EQ(use.wire_bytes, 1'000);
    EXPECT_EQ(use.busy_ps, 1'000'000);
  }
}

// Lockstep: the ring's steps open one after the other, so that segment k+1 of a step cannot start
// before all of segment k is sent (period = step count), and times add up.
// A connection is a set of links, wherever its transfers are cut into hops: one segment at a time.
TEST(Flow, HopsOfOneWayShareAConnectionWithItsRoute) {
  const Topology topology = topology_of(std::string("switch:2,overhead=1us") + kPlain);
  const NodeId hub{2};
  for (const bool is_cut : {false, true}) {
    Schedule schedule = make_schedule({.collective = CollectiveKind::kBroadcast, .chunk_count = 2},
                                      {{0, 1, 0, 1, kCopy}});
    if (is_cut) {
      schedule.transfers.push_back({.first_chunk = 1, .source = NodeId{0}, .target = hub});
      schedule.transfers.push_back({.first_chunk = 1, .source = hub, .target = NodeId{1}});
    } else {
      schedule.transfers.push_back({.first_chunk = 1, .source = NodeId{0}, .target = NodeId{1}});
    }
    sort_transfers(schedule);
    EXPECT_EQ(run(topology, {{borrowed(schedule), 2'000, 0}}).finish_ps,
              2 * (1'000'000 + 1'000'000) + 2 * kLatencyPs);
  }
}

// What ends at a whole picosecond does, though rates have changed on the way.
TEST(Flow, SharedTransmissionsEndOnWholePicoseconds) {
  TopologyBuilder builder("three");
  for (int32_t node = 0; node < 3; ++node) {
    ASSERT_TRUE(builder.add_node({.name = std::to_string(node),
                                  .kind = NodeKind::kRank,
                                  .forwards = node == 1,
                                  .overhead_ps = node == 0 ? 500 : 0}));
  }
  ASSERT_TRUE(builder.add_cable({NodeId{0}, NodeId{1}, 1'000'000'000, 0}));
  ASSERT_TRUE(builder.add_cable({NodeId{1}, NodeId{2}, 1'000'000'000, 0}));
  const auto topology = std::move(builder).build();
  ASSERT_TRUE(topology);
  const Schedule schedule = make_schedule({.collective = CollectiveKind::kReduce, .rank_count = 3},
                                          {{0, 1, 0, 2, kReduce}, {0, 1, 1, 2, kReduce}});
  EXPECT_EQ(run(*topology, {{borrowed(schedule), 1'000, 0}}).finish_ps, 2'000'000);
}

// Up to a switch above and down again, by the switches that it came by: once its bytes, and the
// latencies of four cables.
TEST(Flow, AStreamMayPassASwitchTwice) {
  const support::TwoLevels levels{.ranks = 6, .leaves = 3};
  const Topology topology = levels.topology();
  const Schedule schedule = levels.all_reduce();
  const Simulation simulation = run(topology, {{borrowed(schedule), 1'000, 0}});
  EXPECT_EQ(simulation.finish_ps, 5'000 + 1'000'000 + 4 * kLatencyPs);
  for (const LinkUse& link : simulation.use.links) {
    EXPECT_EQ(link.wire_bytes, 1'000);
  }
}

TEST(Flow, LockstepOpensSlotsInOrder) {
  const Topology topology = topology_of(std::string("ring:4") + kPlain);
  const Schedule ring = symmetric_ring(topology);
  const int64_t step_ps = 250'000 + kLatencyPs;
  EXPECT_EQ(run(topology, {{borrowed(ring), 1'000, 0}}, {.gate = Gate::kLockstep}).finish_ps,
            6 * step_ps);
  // The second hop's rank has nothing to send in step 0: a NOP of one estimate, 1000 bytes' time.
  const Schedule chain = make_schedule({.collective = CollectiveKind::kBroadcast, .rank_count = 3},
                                       {{0, 1, 0, 1, kCopy}, {0, 1, 1, 2, kCopy, 1}});
  EXPECT_EQ(
      time_of(std::string("fully_connected:3") + kPlain, chain, 1'000, {.gate = Gate::kLockstep}),
      2 * (1'000'000 + kLatencyPs));
}

// Rank 0 sends a chunk in step 0 and one in step 1, rank 2 two together in step 0: by itself rank 0
// goes on after 1 us; the barrier makes it wait for rank 2.
TEST(Flow, OracleOpensSlotsForAllRanksAtOnce) {
  const Schedule uneven =
      make_schedule({.rank_count = 4, .chunk_count = 4},
                    {{0, 1, 0, 1, kReduce}, {2, 2, 2, 3, kReduce}, {1, 1, 0, 1, kReduce, 1}});
  const std::string spec = std::string("fully_connected:4") + kPlain;
  EXPECT_EQ(time_of(spec, uneven, 4'000, {.gate = Gate::kLockstep}), 2'000'000 + kLatencyPs);
  EXPECT_EQ(time_of(spec, uneven, 4'000, {.gate = Gate::kOracle}), 3'000'000 + kLatencyPs);
}

TEST(Flow, RingMatchesItsClosedFormAndFolds) {
  for (const int32_t n : {2, 3, 8, 33}) {
    const Topology topology = topology_of("ring:" + std::to_string(n) + kPlain);
    const Schedule ring = symmetric_ring(topology);
    const int64_t size_bytes = int64_t{n} * 1'000;
    const Simulation folded = run(topology, {{borrowed(ring), size_bytes, 0}});
    EXPECT_TRUE(folded.use.folded);
    EXPECT_EQ(folded.finish_ps, 2 * (n - 1) * (1'000'000 + kLatencyPs)) << n;

    const Simulation all = run(topology, {{borrowed(ring), size_bytes, 0}}, {.fold = false});
    const auto written_out = expand(ring, &topology);
    ASSERT_TRUE(written_out);
    const Simulation plain = run(topology, {{borrowed(*written_out), size_bytes, 0}});
    for (const Simulation* other : {&all, &plain}) {
      EXPECT_FALSE(other->use.folded);
      EXPECT_EQ(other->finish_ps, folded.finish_ps);
      EXPECT_EQ(other->use.event_count, folded.use.event_count);
      for (std::size_t link = 0; link < other->use.links.size(); ++link) {
        EXPECT_EQ(other->use.links[link].busy_ps, folded.use.links[link].busy_ps);
        EXPECT_EQ(other->use.links[link].wire_bytes, folded.use.links[link].wire_bytes);
      }
    }
  }
}

// Where ranks differ (latencies, uneven chunks) every translate is simulated, like the written-out
// schedule.
TEST(Flow, TranslatesThatDifferAreNotFolded) {
  const Topology uneven = topology_of("ring:7,bandwidth=1GB/s,latency=100ns,latency_spread=20%");
  const Topology even = topology_of(std::string("ring:7") + kPlain);
  const struct {
    const Topology& topology;
    int64_t size_bytes;
  } cases[] = {{uneven, 7'000}, {even, 7'003}};
  for (const auto& [topology, size_bytes] : cases) {
    const Schedule ring = symmetric_ring(topology);
    const auto written_out = expand(ring, &topology);
    ASSERT_TRUE(written_out);
    for (const int32_t segments : {1, 3}) {
      for (const int32_t places : {0, 1, 2}) {
        const SimulationOptions options{.segment_count = segments, .landing_places = places};
        const Simulation all = run(topology, {{borrowed(ring), size_bytes, 0}}, options);
        EXPECT_FALSE(all.use.folded);
        EXPECT_EQ(all.finish_ps,
                  run(topology, {{borrowed(*written_out), size_bytes, 0}}, options).finish_ps);
      }
    }
  }
}

std::string spec_for(const Schedule& schedule) {
  int32_t nodes = 2;
  for (const NodeId node : schedule.participants) {
    nodes = std::max(nodes, node.value + 1);
  }
  return "fully_connected:" + std::to_string(nodes) + kPlain;
}

// Runs with every setting; every run must end, and its record must replay on the Cursor.
void expect_survives(const Schedule& schedule, int32_t segment_count) {
  const Topology topology = topology_of(spec_for(schedule));
  const int64_t size_bytes = 60 * schedule.rank_count();
  for (const int32_t places : {0, 1, 2}) {
    for (const Gate gate : {Gate::kDataflow, Gate::kLockstep, Gate::kOracle}) {
      for (const int64_t reduce_bandwidth : {int64_t{0}, int64_t{500'000'000}}) {
        const SimulationOptions options{.segment_count = segment_count,
                                        .gate = gate,
                                        .landing_places = places,
                                        .reduce_bandwidth_bytes_per_s = reduce_bandwidth,
                                        .keep_records = true};
        const Job job{borrowed(schedule), size_bytes, 0};
        const auto result = simulate("flow", topology, std::span(&job, 1), options);
        ASSERT_TRUE(result) << "places " << places << ": " << result.error().message;
        ASSERT_EQ(result->use.records.size(), 1U);
        const auto replayed = replay(Order::build(schedule), result->use.records, segment_count);
        EXPECT_TRUE(replayed) << replayed.error().message;
      }
    }
  }
}

TEST(Flow, SurvivesEveryCounterexampleWithOneLandingPlace) {
  for (const auto& row : support::counterexamples()) {
    if (!row.executable()) {
      continue;
    }
    for (const int32_t segment_count : {1, 2, 3}) {
      SCOPED_TRACE(row.name + " with " + std::to_string(segment_count) + " segments");
      expect_survives(row.schedule, segment_count);
    }
  }
}

TEST(Flow, GivesTheSameBytesTwice) {
  const Topology topology = topology_of("ring:9,latency_spread=20%");
  const Schedule ring = symmetric_ring(topology);
  const Simulation one =
      run(topology, {{borrowed(ring), 999'999, 0}}, {.segment_count = 3, .keep_records = true});
  const Simulation two =
      run(topology, {{borrowed(ring), 999'999, 0}}, {.segment_count = 3, .keep_records = true});
  EXPECT_EQ(one.finish_ps, two.finish_ps);
  ASSERT_EQ(one.use.records.size(), 1U);
  EXPECT_FALSE(one.use.records[0].empty());
  EXPECT_EQ(one.use.records, two.use.records);
}

// Times beyond int64 are an error, not a wrap.
TEST(Flow, RefusesWhatTakesForever) {
  const struct {
    std::string spec;
    int64_t size_bytes;
    SimulationOptions options;
  } cases[] = {
      {"switch:3,bandwidth=1B/s", int64_t{1} << 50, {}},
      {"fully_connected:3,bandwidth=1B/s", int64_t{1} << 50, {}},
      {"fully_connected:3", int64_t{1} << 50, {.reduce_bandwidth_bytes_per_s = 1}},
      {"fully_connected:3,bandwidth=1B/s", int64_t{1} << 50, {.gate = Gate::kLockstep}},
      {"fully_connected:3,bandwidth=1B/s,overhead=1ms", int64_t{1} << 50, {}},
      {"fully_connected:3,bandwidth=1B/s,overhead=1ms",
       int64_t{1} << 50,
       {.gate = Gate::kLockstep}},
  };
  const Schedule gather =
      make_schedule({.collective = CollectiveKind::kReduce, .rank_count = 3, .root = 2},
                    {{0, 1, 0, 2, kReduce}, {0, 1, 1, 2, kReduce}});
  for (const auto& [spec, size_bytes, options] : cases) {
    const Topology topology = topology_of(spec);
    const Job job{borrowed(gather), size_bytes, 0};
    for (const std::string model : {"flow", "analytic"}) {  // flit ends at fewer bytes
      const auto result = simulate(model, topology, std::span(&job, 1), options);
      ASSERT_FALSE(result) << spec << " " << model;
      EXPECT_EQ(result.error().message.substr(0, 26), "the simulation passes 26 d") << spec;
    }
  }
}

// Headers, and transfers that carry the buffer again and again, multiply a size: sums must not
// wrap.
TEST(Flow, RefusesWhatDoesNotFitSumsOfBytes) {
  std::vector<support::Move> moves;
  for (int32_t step = 0; step < 64; ++step) {
    moves.push_back({0, 1, step % 2, 1 - step % 2, kCopy, step});
  }
  const Schedule often = make_schedule({.collective = CollectiveKind::kBroadcast}, moves);
  const Schedule once =
      make_schedule({.collective = CollectiveKind::kBroadcast}, {{0, 1, 0, 1, kCopy}});
  const struct {
    std::string spec;
    const Schedule& schedule;
    std::string error;
  } cases[] = {
      {"ring:2,bandwidth=9000000000GB/s", often, "put 2.31e+18 bytes on links, at most 1.15e+18"},
      {"ring:2,header=1MiB,packet=1", once, "put 3.78e+22 bytes on links"}};
  for (const auto& [spec, schedule, error] : cases) {
    const Topology topology = topology_of(spec);
    const Job job{borrowed(schedule), int64_t{1} << 55, 0};
    for (const std::string model : {"flow", "analytic"}) {  // flit ends at fewer bytes
      const auto result = simulate(model, topology, std::span(&job, 1), {});
      ASSERT_FALSE(result) << spec << " " << model;
      EXPECT_NE(result.error().message.find(error), std::string::npos) << result.error().message;
    }
  }
}

TEST(Flow, RefusesBadInput) {
  const Topology topology = topology_of("ring:4");
  const Schedule stranger = make_schedule({.participants = {0, 9}}, {{0, 1, 0, 1, kCopy}});
  const struct {
    const Schedule& schedule;
    int64_t size_bytes;
    SimulationOptions options;
    std::string message;
  } cases[] = {
      {kBroadcast, -1, {}, "job of -1 bytes at 0 ps: must not be negative"},
      {kBroadcast, int64_t{1} << 60, {}, "job of 1152921504606846976 bytes at 0 ps on 2"},
      {kBroadcast, 1, {.segment_count = 0}, "segments 0: must be 1 to 65536"},
      {stranger, 1, {}, "participant 9 is no node of "},
  };
  for (const auto& [schedule, size_bytes, options, message] : cases) {
    const Job job = {borrowed(schedule), size_bytes, 0};
    const auto result = simulate("flow", topology, std::span(&job, 1), options);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().message.substr(0, message.size()), message);
  }
}

}  // namespace
}  // namespace pleach
