// Switches that do not carry whatever enters, in a network.
#include "pleach/network/admission.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pleach/collective/order.h"
#include "pleach/collective/record.h"
#include "pleach/collective/verify.h"
#include "pleach/network/model.h"
#include "pleach/network/schedule_forms.h"
#include "tests/support/level_jobs.h"
#include "tests/support/random_schedules.h"
#include "tests/support/two_levels.h"

namespace pleach {
namespace {

using support::shared;

// 1 GB/s = 1,000 ps a byte, over 100 ns a cable, after 5 ns at the source.
constexpr int64_t kBytes = 100'000;
constexpr int64_t kBytesPs = kBytes * 1'000;
constexpr int64_t kOneLevelPs = 5'000 + 2 * 100'000;
constexpr int64_t kTwoLevelsPs = 5'000 + 4 * 100'000;

// All ranks on one switch.
Topology hub_of(int32_t ranks, const std::string& model) {
  TopologyBuilder builder("hub");
  for (int32_t node = 0; node <= ranks; ++node) {
    const bool is_hub = node == ranks;
    EXPECT_TRUE(builder.add_node({.name = std::to_string(node),
                                  .kind = is_hub ? NodeKind::kSwitch : NodeKind::kRank,
                                  .reduces = is_hub,
                                  .multicasts = is_hub,
                                  .switch_model = is_hub ? model : "",
                                  .overhead_ps = is_hub ? 0 : 5'000}));
  }
  for (int32_t rank = 0; rank < ranks; ++rank) {
    EXPECT_TRUE(builder.add_cable({NodeId{rank}, NodeId{ranks}, 1'000'000'000, 100'000}));
  }
  auto built = std::move(builder).build();
  EXPECT_TRUE(built);
  return std::move(built).value();
}

// An all_reduce inside the switch.
std::shared_ptr<const Schedule> in_hub(const std::vector<int32_t>& group, int32_t hub) {
  Schedule schedule;
  schedule.phase_steps = {1};
  for (const int32_t rank : group) {
    schedule.participants.push_back(NodeId{rank});
    schedule.transfers.push_back(
        {0, 1, NodeId{rank}, NodeId{hub}, 0, kNoRoute, TransferOp::kReduce});
    schedule.transfers.push_back({0, 1, NodeId{hub}, NodeId{rank}, 0, kNoRoute, TransferOp::kCopy});
  }
  sort_transfers(schedule);
  return shared(std::move(schedule));
}

Simulation run(const Topology& topology, const std::vector<Job>& jobs,
               const SimulationOptions& options = {}) {
  auto result = simulate("flow", topology, jobs, options);
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return std::move(*result);
}

// The three that FRED_2(6) does not route: two of them flow, and the third after them.
TEST(Admission, HoldsBackWhatDoesNotRoute) {
  const std::vector<std::vector<int32_t>> groups = {{0, 2}, {1, 4}, {3, 5}};
  for (const auto& [model, last_ps] :
       {std::pair("fred,middle=2", 2 * kBytesPs), std::pair("fred", kBytesPs),
        std::pair("unlimited", kBytesPs)}) {
    std::vector<Job> jobs;
    for (const std::vector<int32_t>& group : groups) {
      jobs.push_back({in_hub(group, 6), kBytes, 0});
    }
    const Simulation simulation = run(hub_of(6, model), jobs);
    EXPECT_EQ(simulation.job_finish_ps[0], kBytesPs + kOneLevelPs) << model;
    EXPECT_EQ(simulation.job_finish_ps[1], kBytesPs + kOneLevelPs) << model;
    EXPECT_NEAR(static_cast<double>(simulation.job_finish_ps[2]),
                static_cast<double>(last_ps + kOneLevelPs), 5'000)
        << model;
  }
}

// Each segment asks again. Those that were held back go first; of those that ask at one time, the
// first job. So two are always under way, the first of three all the time.
TEST(Admission, TakesTurns) {
  SimulationOptions options;
  options.segment_count = 4;
  std::vector<Job> jobs;
  for (const std::vector<int32_t>& group : {std::vector{0, 2}, {1, 4}, {3, 5}}) {
    jobs.push_back({in_hub(group, 6), kBytes, 0});
  }
  const Simulation simulation = run(hub_of(6, "fred,middle=2"), jobs, options);
  const int64_t quarters_ps = kOneLevelPs + 6 * 5'000;  // and overheads that are not hidden
  EXPECT_LE(simulation.job_finish_ps[0], kBytesPs + quarters_ps);
  for (const std::size_t job : {1U, 2U}) {
    EXPECT_GT(simulation.job_finish_ps[job], kBytesPs * 3 / 2);
    EXPECT_LE(simulation.job_finish_ps[job], kBytesPs * 3 / 2 + quarters_ps);
  }
}

// What everybody takes part in starts after one segment of each that was there before, though those
// begin anew whenever they have ended, and never all at once.
TEST(Admission, LetsNobodyWaitForThoseThatComeLater) {
  constexpr int32_t kRanks = 20;
  constexpr int64_t kStartPs = 33'333'333;
  const Topology topology = hub_of(kRanks, "fred");
  const auto session = open_network("flow", topology, {});
  ASSERT_TRUE(session);
  const auto start_pair = [&](int32_t rank, int64_t start_ps) {
    const int64_t size_bytes = kBytes - 3'000 * rank;
    const auto job = (*session)->start({in_hub({rank, rank + 1}, kRanks), size_bytes, start_ps});
    EXPECT_TRUE(job);
    return *job;
  };
  std::vector<int32_t> pair_of, all;  // by job
  for (int32_t rank = 0; rank < kRanks; ++rank) {
    all.push_back(rank);
    if (rank % 2 == 0) {
      start_pair(rank, 1'000'000 * rank);
      pair_of.push_back(rank);
    }
  }
  const auto whole = (*session)->start({in_hub(all, kRanks), kBytes, kStartPs});
  ASSERT_TRUE(whole);
  pair_of.push_back(-1);
  std::optional<int64_t> finish_ps;
  for (int32_t round = 0; round < 200 && !finish_ps; ++round) {
    const auto finished = (*session)->advance(INT64_MAX);
    ASSERT_TRUE(finished);
    for (const auto& [job, time_ps] : *finished) {
      if (job == *whole) {
        finish_ps = time_ps;
      } else {
        const int32_t rank = pair_of[at(job)];
        start_pair(rank, time_ps);
        pair_of.push_back(rank);
      }
    }
  }
  ASSERT_TRUE(finish_ps.has_value());
  EXPECT_LE(*finish_ps, kStartPs + kBytesPs + 5'000 + kBytesPs + kOneLevelPs);
}

// Of those that ask, the lower class goes first, whoever asked before.
TEST(Admission, TakesClassesInTurn) {
  const Topology topology = hub_of(4, "fred");
  std::vector<Job> jobs;
  for (const int32_t traffic_class : {1, 1, 0}) {
    Job job{in_hub({0, 1}, 4), kBytes, static_cast<int64_t>(jobs.size())};
    job.traffic_class = traffic_class;
    jobs.push_back(job);
  }
  const Simulation simulation = run(topology, jobs);
  EXPECT_LT(simulation.job_finish_ps[0], simulation.job_finish_ps[2]) << "it was inside";
  EXPECT_LT(simulation.job_finish_ps[2], simulation.job_finish_ps[1]);
}

// A stream of two levels passes its leaves twice: both flows enter, or neither.
TEST(Admission, SeesEveryPassOfAStream) {
  for (const char* model : {"", "fred", "fred,middle=2"}) {
    const support::TwoLevels levels{.ranks = 6, .leaves = 3, .switch_model = model};
    const Topology topology = levels.topology();
    const auto all = shared(levels.all_reduce());
    EXPECT_EQ(run(topology, {{all, kBytes, 0}}).finish_ps, kBytesPs + kTwoLevelsPs) << model;
  }
  // Two groups under the same leaves share the cables up: a port of FRED has one owner.
  const support::TwoLevels levels{.ranks = 6, .leaves = 3, .switch_model = "fred"};
  const Topology topology = levels.topology();
  const auto even = shared(levels.all_reduce({0, 2, 4})),
             odd = shared(levels.all_reduce({1, 3, 5}));
  const Simulation shared_cables = run(topology, {{even, kBytes, 0}, {odd, kBytes, 0}});
  EXPECT_EQ(shared_cables.job_finish_ps[0], kBytesPs + kTwoLevelsPs);
  EXPECT_EQ(shared_cables.job_finish_ps[1], 2 * kBytesPs + 5'000 + kTwoLevelsPs);
}

// Two lanes carry two streams side by side, at both ends and both ways; the third waits.
TEST(Admission, GivesStreamsLanesOfTheirOwn) {
  for (const int32_t lanes : {1, 2, 3}) {
    const support::TwoLevels levels{
        .ranks = 9, .leaves = 3, .switch_model = "fred", .trunk_lanes = lanes};
    const Topology topology = levels.topology();
    std::vector<Job> jobs;
    for (const int32_t first : {0, 1, 2}) {
      jobs.push_back({shared(levels.all_reduce({first, first + 3, first + 6})), kBytes, 0});
    }
    const Simulation simulation = run(topology, jobs);
    for (int32_t job = 0; job < 3; ++job) {
      const int32_t rounds = 1 + job / lanes;
      EXPECT_NEAR(static_cast<double>(simulation.job_finish_ps[at(job)]),
                  static_cast<double>(rounds * kBytesPs + kTwoLevelsPs), 2 * 5'000 + 1)
          << lanes << " lanes, job " << job;
    }
    ASSERT_TRUE(simulation.use.admission.has_value());
    EXPECT_EQ(simulation.use.admission->conflicts.empty(), lanes == 3);
  }
}

// Streams of some leaves each, on as many lanes as they have streams in common: every one finds its
// own, whatever the others have left, and takes as long as alone.
TEST(Admission, FindsLanesThatFitAtEverySwitch) {
  const support::TwoLevels levels{
      .ranks = 16, .leaves = 4, .switch_model = "fred,middle=5", .trunk_lanes = 4};
  const Topology topology = levels.topology();
  const std::vector<std::vector<int32_t>> groups = {{0, 4},  {1, 8},   {2, 12}, {5, 9},
                                                    {6, 13}, {10, 14}, {3, 7},  {11, 15}};
  std::vector<Job> jobs;
  for (const std::vector<int32_t>& group : groups) {
    jobs.push_back({shared(levels.all_reduce(group)), kBytes, 0});
  }
  const Simulation simulation = run(topology, jobs);
  for (const int64_t finish_ps : simulation.job_finish_ps) {
    EXPECT_EQ(finish_ps, kBytesPs + kTwoLevelsPs);
  }
}

// Packets of a unicast come between those of what is inside: both have half of the cable, and
// neither waits. Where they share no cable, both have all of it.
TEST(Admission, LetsUnicastsAlternate) {
  const Topology topology = hub_of(4, "fred");
  const auto send = [&](int32_t source, int32_t target) {
    Schedule schedule;
    schedule.collective = CollectiveKind::kBroadcast;
    schedule.participants = {NodeId{source}, NodeId{target}};
    schedule.phase_steps = {1};
    schedule.transfers.push_back(
        {0, 1, NodeId{source}, NodeId{target}, 0, kNoRoute, TransferOp::kCopy});
    EXPECT_TRUE(fill_routes(schedule, topology));
    return shared(std::move(schedule));
  };
  for (const auto& [unicast, rounds] : {std::pair(send(0, 3), 2), std::pair(send(3, 2), 1)}) {
    const Simulation simulation =
        run(topology, {{in_hub({0, 1}, 4), kBytes, 0}, {unicast, kBytes, 0}});
    EXPECT_NEAR(static_cast<double>(simulation.job_finish_ps[1]),
                static_cast<double>(rounds * kBytesPs + kOneLevelPs), 2);
    EXPECT_NEAR(static_cast<double>(simulation.job_finish_ps[0]),
                static_cast<double>(rounds * kBytesPs + kOneLevelPs), 2);
    EXPECT_EQ(simulation.use.admission->waited_ps, 0);
  }
}

// What a proof says of switches is what they do.
TEST(Admission, IsForeseenByTheVerifier) {
  for (const auto& [model, is_free] :
       {std::pair("fred,middle=2", false), std::pair("fred", true), std::pair("unlimited", true)}) {
    const Topology topology = hub_of(6, model);
    Schedule schedule;
    for (int32_t rank = 0; rank < 6; ++rank) {
      schedule.participants.push_back(NodeId{rank});
    }
    schedule.phase_steps = {2};
    schedule.period = 2;
    uint16_t pass = 0;
    for (const auto& [left, right] : {std::pair(0, 2), std::pair(1, 4), std::pair(3, 5)}) {
      for (const int32_t rank : {left, right}) {
        schedule.transfers.push_back(
            {0, 1, NodeId{rank}, NodeId{6}, 1, kNoRoute, TransferOp::kReduce, 0, pass});
        schedule.transfers.push_back(
            {0, 1, NodeId{6}, NodeId{rank}, 1, kNoRoute, TransferOp::kCopy, pass, 0});
      }
      ++pass;
    }
    sort_transfers(schedule);
    const Verification verification = verify(schedule, &topology, switch_judge(topology));
    EXPECT_EQ(verification.contention_free, is_free) << model;
    EXPECT_EQ(verification.switch_conflicts.empty(), is_free) << model;
    if (!is_free) {
      EXPECT_EQ(verification.switch_conflicts.front().substr(0, 40),
                "slot 1: switch 6 cannot carry the stream");
    }
    EXPECT_TRUE(verify(schedule, &topology).contention_free) << "nobody to ask";
  }
}

TEST(Admission, RefusesWhatCouldNeverEnter) {
  // Two reductions to two ranks in one stream's passes share the port of rank 0.
  const Topology topology = hub_of(4, "fred");
  Schedule schedule = *in_hub({0, 1, 2, 3}, 4);
  schedule.phase_steps = {1};
  ASSERT_TRUE(fill_routes(schedule, topology));
  const auto lowered = LoweredSchedule::create(topology, shared(schedule), {}, false);
  ASSERT_TRUE(lowered);
  EXPECT_TRUE(Admission(topology).check(**lowered));
  class Closed final : public SwitchCore {
   public:
    std::vector<int32_t> conflict(std::span<const PortFlow> /*flows*/) const override {
      return {0};
    }
  };
  const auto make = [](const Topology&, NodeId) -> std::unique_ptr<SwitchCore> {
    return std::make_unique<Closed>();
  };
  const Admission closed(topology, AdmissionRule::kTogether, make);
  const Status status = closed.check(**lowered);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message,
            "switch 4 cannot carry a stream of the schedule by itself: 0,1,2,3->0,1,2,3");
}

// Random groups on two levels, in random models: all finish, and what happened replays.
TEST(Admission, LetsRandomStreamsFinish) {
  const int32_t rounds = support::repeated(200);  // of some 50 streams each
  for (int32_t seed = 0; seed < rounds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(static_cast<uint64_t>(seed));
    const auto [levels, options, jobs] = support::random_level_jobs(rng, 1);
    const Simulation simulation = run(levels.topology(), jobs, options);
    ASSERT_EQ(simulation.use.records.size(), jobs.size());
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      const Status replayed =
          replay(Order::build(*jobs[job].schedule), std::span(&simulation.use.records[job], 1),
                 options.segment_count);
      EXPECT_TRUE(replayed) << replayed.error().message;
    }
  }
}

}  // namespace
}  // namespace pleach
