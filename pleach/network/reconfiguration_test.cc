// What it costs that switches change their configuration.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pleach/network/model.h"
#include "tests/support/level_jobs.h"
#include "tests/support/two_levels.h"

namespace pleach {
namespace {

using support::shared;

constexpr int64_t kChangePs = 70'000;
constexpr int64_t kBytes = 10'000;

Simulation run(const Topology& topology, const std::vector<Job>& jobs, SimulationOptions options,
               int64_t reconfiguration_ps) {
  options.reconfiguration_ps = reconfiguration_ps;
  auto result = simulate("flow", topology, jobs, options);
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return std::move(*result);
}

// By job: how much later it ends where switches take kChangePs.
std::vector<int64_t> later(const Topology& topology, const std::vector<Job>& jobs,
                           const SimulationOptions& options = {}) {
  const Simulation none = run(topology, jobs, options, 0);
  const Simulation some = run(topology, jobs, options, kChangePs);
  if (none.use.admission.has_value()) {
    EXPECT_EQ(none.use.admission->reconfigurations, 0);
  }
  std::vector<int64_t> later;
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    later.push_back(some.job_finish_ps[job] - none.job_finish_ps[job]);
  }
  return later;
}

// Four leaves of four ranks.
support::TwoLevels tree(const std::string& model) {
  return {.ranks = 16, .leaves = 4, .switch_model = model, .trunk_lanes = 4};
}

// All switches on the way change at once, for the first segment alone; groups that route together
// each pay for themselves.
TEST(Reconfiguration, IsPaidOncePerStream) {
  const support::TwoLevels levels = tree("fred");
  const Topology topology = levels.topology();
  for (const int32_t segments : {1, 7}) {
    SimulationOptions options;
    options.segment_count = segments;
    const std::vector<Job> alone = {{shared(levels.all_reduce({0, 5, 6, 12})), kBytes, 0}};
    EXPECT_EQ(later(topology, alone, options), (std::vector<int64_t>{kChangePs}));
    std::vector<Job> jobs = alone;
    jobs.push_back({shared(levels.all_reduce({1, 2})), kBytes, 0});
    jobs.push_back({shared(levels.all_reduce({4, 8, 13})), kBytes, 3'000'000});
    EXPECT_EQ(later(topology, jobs, options),
              (std::vector<int64_t>{kChangePs, kChangePs, kChangePs}));
  }
}

// One after the other: what shares ports with the one before changes the switch, what does not is
// configured beside it, and what was there last is still.
TEST(Reconfiguration, IsNoneWhereASwitchIsConfiguredAlready) {
  const support::TwoLevels levels = tree("fred");
  const std::vector<int32_t> one = {0, 1}, two = {1, 2}, three = {4, 5};
  std::vector<Job> jobs;
  for (const std::vector<int32_t>& group : {one, one, three, one, two, one, one, three}) {
    const auto after_ps = static_cast<int64_t>(jobs.size()) * 1'000'000'000;
    jobs.push_back({shared(levels.all_reduce(group)), kBytes, after_ps});
  }
  // At the root the first two groups are one flow, beside which that of the third one stays.
  EXPECT_EQ(later(levels.topology(), jobs),
            (std::vector<int64_t>{kChangePs, 0, kChangePs, 0, kChangePs, kChangePs, 0, 0}));
}

TEST(Reconfiguration, IsNoneOfUnicastsAndOfSwitchesThatCarryAll) {
  for (const std::string model : {"fred", "unlimited", ""}) {
    const support::TwoLevels levels = tree(model);
    const Topology topology = levels.topology();
    Schedule unicast;
    unicast.collective = CollectiveKind::kBroadcast;
    unicast.participants = {NodeId{0}, NodeId{9}};
    unicast.phase_steps = {1};
    unicast.transfers.push_back({0, 1, NodeId{0}, NodeId{9}, 0, kNoRoute, TransferOp::kCopy});
    ASSERT_TRUE(fill_routes(unicast, topology));
    const std::vector<Job> jobs = {{shared(unicast), kBytes, 0},
                                   {shared(levels.all_reduce({1, 4})), kBytes, 0}};
    EXPECT_EQ(later(topology, jobs), (std::vector<int64_t>{0, model == "fred" ? kChangePs : 0}))
        << model;
  }
  SimulationOptions free;
  free.admission = AdmissionRule::kFree;
  const support::TwoLevels levels = tree("fred");
  EXPECT_EQ(later(levels.topology(), {{shared(levels.all_reduce({1, 4})), kBytes, 0}}, free),
            std::vector<int64_t>{0});
}

// What is preempted waits for the other's change and for its own, when it goes on.
TEST(Reconfiguration, IsPaidByWhoPreemptsAndByWhoGoesOn) {
  const support::TwoLevels levels = tree("fred");
  const Topology topology = levels.topology();
  SimulationOptions options;
  options.admission = AdmissionRule::kPhase;
  const std::vector<Job> jobs = {{.schedule = shared(levels.all_reduce({0, 1, 4})),
                                  .size_bytes = kBytes,
                                  .start_ps = 0,
                                  .traffic_class = 1},
                                 {.schedule = shared(levels.all_reduce({0, 1})),
                                  .size_bytes = kBytes / 10,
                                  .start_ps = 5'000'000,
                                  .traffic_class = 0}};
  EXPECT_EQ(later(topology, jobs, options), (std::vector<int64_t>{3 * kChangePs, kChangePs}));
  const Simulation some = run(topology, jobs, options, kChangePs);
  EXPECT_EQ(some.use.admission->reconfigurations, 3);
  EXPECT_EQ(some.use.admission->preemptions, 1);
  // Another one that comes while the switch is being configured again for it: two changes more,
  // less what is left of the one that was under way.
  const int64_t latency_ps = 400'000, into_ps = kChangePs / 2;
  std::vector<Job> more = jobs;
  more.push_back(jobs[1]);
  more.back().start_ps = some.job_finish_ps[1] - latency_ps + into_ps;
  const Simulation twice = run(topology, more, options, kChangePs);
  const int64_t again_ps = 5'000 + kBytes / 10 * 1'000;
  EXPECT_EQ(twice.job_finish_ps[0], some.job_finish_ps[0] + into_ps + kChangePs + again_ps);
  EXPECT_EQ(twice.use.admission->preemptions, 1);
}

// One of the same ports comes while switches change for another that goes on: both wait for the end
// of the change, this one after that.
TEST(Reconfiguration, IsNotCutShortByWhoComesMeanwhile) {
  const support::TwoLevels levels = tree("fred");
  const Topology topology = levels.topology();
  SimulationOptions options;
  options.admission = AdmissionRule::kPhase;
  const auto job = [&](const std::vector<int32_t>& group, int64_t bytes, int64_t start_ps,
                       int32_t traffic_class) {
    return Job{.schedule = shared(levels.all_reduce(group)),
               .size_bytes = bytes,
               .start_ps = start_ps,
               .traffic_class = traffic_class};
  };
  std::vector<Job> jobs = {job({0, 1, 4}, kBytes, 0, 1), job({0, 1}, kBytes / 10, 5'000'000, 0)};
  const Simulation alone = run(topology, jobs, options, kChangePs);
  const int64_t latency_ps = 400'000;
  jobs.push_back(job({0, 1, 4}, 1, alone.job_finish_ps[1] - latency_ps + kChangePs / 4, 0));
  const Simulation met = run(topology, jobs, options, kChangePs);
  const int64_t byte_ps = run(topology, {job({0, 1, 4}, 1, 0, 0)}, options, 0).finish_ps;
  EXPECT_EQ(met.job_finish_ps[2], alone.job_finish_ps[1] - latency_ps + kChangePs + byte_ps);
  EXPECT_GT(met.job_finish_ps[0], alone.job_finish_ps[0]);
  EXPECT_LT(met.job_finish_ps[0], alone.job_finish_ps[0] + byte_ps);
  EXPECT_EQ(met.use.admission->reconfigurations, alone.use.admission->reconfigurations);
}

TEST(Reconfiguration, IsRefusedWhereItCannotBe) {
  const support::TwoLevels levels = tree("");
  const Topology topology = levels.topology();
  SimulationOptions options;
  options.reconfiguration_ps = 1;
  for (const std::string model : {"flit", "analytic"}) {
    const auto refused = open_network(model, topology, options);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message,
              "reconfiguration of 1 ps: switches change their configuration in no time in the " +
                  model + " model; use flow");
  }
  options.reconfiguration_ps = -1;
  EXPECT_FALSE(simulate("flow", topology,
                        std::vector<Job>{{shared(levels.all_reduce({1, 4})), kBytes, 0}}, options));
}

}  // namespace
}  // namespace pleach
