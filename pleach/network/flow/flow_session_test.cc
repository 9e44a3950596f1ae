// A session, where jobs are added in the course of time, against the batch simulation that knows
// every start beforehand: the same to the picosecond.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/network/flow/engine.h"
#include "pleach/network/model.h"
#include "pleach/network/schedule_forms.h"
#include "tests/support/level_jobs.h"
#include "tests/support/random_schedules.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

using support::kCopy;
using support::kReduce;
using support::make_schedule;
using support::Move;
using support::ScheduleShape;
using support::topology_of;

ScheduleShape shape_of(const std::vector<int32_t>& nodes, CollectiveKind collective) {
  const auto n = count_of(nodes);
  return {.collective = collective, .rank_count = n, .chunk_count = n, .participants = nodes};
}

// An all_reduce around the nodes; their hops may be of several links.
Schedule ring_of(const std::vector<int32_t>& nodes) {
  const auto n = count_of(nodes);
  std::vector<Move> moves;
  for (int32_t step = 0; step < 2 * (n - 1); ++step) {
    for (int32_t chunk = 0; chunk < n; ++chunk) {
      moves.push_back({chunk, 1, (chunk + 1 + step) % n, (chunk + 2 + step) % n,
                       step < n - 1 ? kReduce : kCopy, step});
    }
  }
  return make_schedule(shape_of(nodes, CollectiveKind::kAllReduce), moves);
}

// A reduce_scatter of one step: everybody sends to everybody.
Schedule direct_of(const std::vector<int32_t>& nodes) {
  const auto n = count_of(nodes);
  std::vector<Move> moves;
  for (int32_t chunk = 0; chunk < n; ++chunk) {
    for (int32_t source = 0; source < n; ++source) {
      if (source != chunk) {
        moves.push_back({chunk, 1, source, chunk, kReduce, 0});
      }
    }
  }
  return make_schedule(shape_of(nodes, CollectiveKind::kReduceScatter), moves);
}

// ring_of all nodes of a ring, in the symmetric form.
Schedule symmetric_ring(const Topology& topology) {
  const auto n = count_of(topology.rank_nodes());
  std::vector<int32_t> nodes(at(n));
  std::iota(nodes.begin(), nodes.end(), 0);
  Schedule schedule = ring_of(nodes);
  EXPECT_TRUE(fill_routes(schedule, topology));
  std::erase_if(schedule.transfers, [](const Transfer& one) { return one.first_chunk > 0; });
  schedule.symmetry = Symmetry{{n}};
  return schedule;
}

std::unique_ptr<NetworkSession> session_on(const Topology& topology,
                                           const SimulationOptions& options = {}) {
  auto session = open_network("flow", topology, options);
  EXPECT_TRUE(session) << (session ? "" : session.error().message);
  return std::move(*session);
}

// Advances until nothing is left, and notes when each job finished.
void finish_all(NetworkSession& session, std::vector<int64_t>& finish_ps) {
  while (session.next_ps().has_value()) {
    const auto finished = session.advance(*session.next_ps());
    ASSERT_TRUE(finished) << finished.error().message;
    for (const auto& [job, time_ps] : *finished) {
      ASSERT_EQ(finish_ps[at(job)], -1) << "finishes twice";
      finish_ps[at(job)] = time_ps;
    }
  }
}

// Starts every job just in time, in order of start.
std::vector<int64_t> run_session(const Topology& topology, const std::vector<Job>& jobs,
                                 const SimulationOptions& options) {
  const auto session = session_on(topology, options);
  std::vector<int64_t> finish_ps(jobs.size(), -1);
  for (std::size_t number = 0; number < jobs.size(); ++number) {
    const Job& job = jobs[number];
    for (auto next_ps = session->next_ps(); next_ps.has_value() && *next_ps <= job.start_ps;
         next_ps = session->next_ps()) {
      const auto finished = session->advance(job.start_ps);
      EXPECT_TRUE(finished) << finished.error().message;
      for (const auto& [done, time_ps] : *finished) {
        EXPECT_LE(time_ps, job.start_ps);
        finish_ps[at(done)] = time_ps;
      }
    }
    const auto started = session->start(job);
    EXPECT_TRUE(started) << started.error().message;
    EXPECT_EQ(*started, static_cast<int32_t>(number));
  }
  finish_all(*session, finish_ps);
  return finish_ps;
}

void expect_like_batch(const Topology& topology, const std::vector<Job>& jobs,
                       const SimulationOptions& options) {
  const auto batch = simulate("flow", topology, jobs, options);
  ASSERT_TRUE(batch) << batch.error().message;
  EXPECT_EQ(run_session(topology, jobs, options), batch->job_finish_ps);
}

// Jobs whose starts are random, or exactly when another ends.
std::vector<Job> random_jobs(const Topology& topology, const std::vector<Schedule>& schedules,
                             const SimulationOptions& options, Rng& rng) {
  constexpr int64_t kSizes[] = {0, 1, 17, 4'096, 100'003, 1'000'000};
  std::vector<Job> jobs;
  for (int32_t count = 3 + support::pick(rng, 6); count > 0; --count) {
    const Schedule& schedule = schedules[rng.below(schedules.size())];
    int64_t start_ps = static_cast<int64_t>(rng.below(300'000'000));
    if (!jobs.empty() && rng.below(2) == 0) {
      const auto batch = simulate("flow", topology, jobs, options);
      start_ps = batch->job_finish_ps[rng.below(jobs.size())];
    }
    jobs.push_back({borrowed(schedule), kSizes[rng.below(std::size(kSizes))], start_ps,
                    static_cast<int32_t>(rng.below(3))});
  }
  std::stable_sort(jobs.begin(), jobs.end(), [](const Job& left, const Job& right) {
    return left.start_ps < right.start_ps;
  });
  return jobs;
}

// The random ones fit every topology of at least five ranks; their values are mostly wrong, which
// does not matter to time.
std::vector<Schedule> some_schedules(const Topology& topology, Rng& rng) {
  std::vector<Schedule> schedules = {ring_of({0, 1, 2, 3, 4, 5, 6, 7}), ring_of({0, 2, 3, 7}),
                                     direct_of({1, 2, 4, 5}), direct_of({0, 4})};
  for (int32_t count = 0; count < 4; ++count) {
    schedules.push_back(support::random_schedule({.most_ranks = 5}, rng));
  }
  if (topology.grid().size() == 1) {
    schedules.push_back(symmetric_ring(topology));
  }
  return schedules;
}

TEST(FlowSession, EqualsTheBatchSimulationToThePicosecond) {
  const std::string topologies[] = {
      "ring:8", "torus:3x3,overhead=30ns,bandwidth=3GB/s,latency_spread=20%",
      "switch:8,bandwidth=7GB/s", "mesh:2x4,latency=0ns,bandwidth=3GB/s",
      "fully_connected:8,header=16,packet=256"};
  const SimulationOptions option_rows[] = {
      {},
      {.segment_count = 3},
      {.segment_count = 2, .landing_places = 1},
      {.segment_count = 2, .gate = Gate::kLockstep},
      {.segment_count = 2, .reduce_bandwidth_bytes_per_s = 5'000'000'000}};
  const uint64_t seed = 20250103;
  Rng rng(seed);
  for (const std::string& spec : topologies) {
    const Topology topology = topology_of(spec);
    const std::vector<Schedule> schedules = some_schedules(topology, rng);
    for (const SimulationOptions& options : option_rows) {
      for (int32_t round = 0; round < support::repeated(12); ++round) {
        SCOPED_TRACE(spec + " segments " + std::to_string(options.segment_count) + " places " +
                     std::to_string(options.landing_places) + " gate " +
                     std::to_string(static_cast<int>(options.gate)) + " seed " +
                     std::to_string(seed) + " round " + std::to_string(round));
        expect_like_batch(topology, random_jobs(topology, schedules, options, rng), options);
      }
    }
  }
}

// Whoever asks to enter a switch at one time is seen together, whichever job came first: others may
// have started, and time been told to pass until then, when the most urgent one comes.
TEST(FlowSession, EqualsTheBatchWhereSwitchesRefuse) {
  const uint64_t seed = 20250104;
  Rng rng(seed);
  for (int32_t round = 0; round < support::repeated(60); ++round) {
    support::LevelJobs drawn = support::random_level_jobs(rng, 3);
    SCOPED_TRACE("seed " + std::to_string(seed) + " round " + std::to_string(round));
    const Topology topology = drawn.levels.topology();
    drawn.options.admission = round % 2 == 0 ? AdmissionRule::kTogether : AdmissionRule::kPhase;
    std::vector<Job> jobs;
    for (Job& job : drawn.jobs) {
      if (!jobs.empty() && rng.below(3) > 0) {
        const auto batch = simulate("flow", topology, jobs, drawn.options);
        ASSERT_TRUE(batch) << batch.error().message;
        const std::size_t other = rng.below(jobs.size());
        job.start_ps = rng.below(2) == 0 ? jobs[other].start_ps : batch->job_finish_ps[other];
      }
      jobs.push_back(job);
    }
    std::ranges::stable_sort(jobs, {}, &Job::start_ps);
    expect_like_batch(topology, jobs, drawn.options);
  }
}

// Records are kept by job, whenever it started, and are those of the batch.
TEST(FlowSession, KeepsARecordOfEveryJob) {
  const Topology topology = topology_of("torus:3x3");
  const SimulationOptions options{.segment_count = 2, .landing_places = 1, .keep_records = true};
  const Schedule ring = ring_of({0, 1, 2, 4, 8}), direct = direct_of({0, 4});
  const auto session = session_on(topology, options);
  std::vector<int64_t> finish_ps(3, -1);
  ASSERT_TRUE(session->start({borrowed(ring), 5'000, 0}));
  ASSERT_TRUE(session->start({borrowed(direct), 7'000, 10}));
  finish_all(*session, finish_ps);
  const int64_t later_ps = *std::ranges::max_element(finish_ps);
  ASSERT_TRUE(session->start({borrowed(ring), 9'000, later_ps}));
  finish_all(*session, finish_ps);
  const auto use = session->use();
  ASSERT_TRUE(use) << use.error().message;
  ASSERT_EQ(use->records.size(), 3U);
  const Schedule* schedules[] = {&ring, &direct, &ring};
  for (std::size_t job = 0; job < 3; ++job) {
    const auto replayed = replay(Order::build(*schedules[job]), std::span(&use->records[job], 1),
                                 options.segment_count);
    EXPECT_TRUE(replayed) << job << ": " << replayed.error().message;
  }
}

// The ring of ring:8 folds when it is alone, and may get company in the middle of it.
TEST(FlowSession, AJobThatWasAloneGetsCompany) {
  const Topology topology = topology_of("ring:8");
  const Schedule ring = symmetric_ring(topology);
  const int64_t alone_ps = run_session(topology, {{borrowed(ring), 8'000, 0}}, {}).front();
  for (const int64_t start_ps : {int64_t{0}, int64_t{1}, alone_ps / 3, alone_ps - 1, alone_ps}) {
    SCOPED_TRACE(start_ps);
    const std::vector<Job> jobs = {{borrowed(ring), 8'000, 0}, {borrowed(ring), 16'000, start_ps}};
    expect_like_batch(topology, jobs, {});
    expect_like_batch(topology, jobs, {.fold = false});
  }
  EXPECT_EQ(
      run_session(topology, {{borrowed(ring), 8'000, 0}, {borrowed(ring), 8'000, alone_ps}}, {}),
      (std::vector<int64_t>{alone_ps, 2 * alone_ps}));
}

// Company that sends at another time costs nothing, not even the rounding of a rate: rank 0 waits
// for a chunk from far away before it sends over the link that it shares.
TEST(FlowSession, AShareOfEverythingIsTheWhole) {
  const Topology topology = topology_of("fully_connected:3,bandwidth=7GB/s,latency=0ns");
  const Schedule first =
      make_schedule({.collective = CollectiveKind::kBroadcast}, {{0, 1, 0, 1, kCopy, 0}});
  const Schedule later =
      make_schedule({.collective = CollectiveKind::kBroadcast, .rank_count = 3, .root = 2},
                    {{0, 1, 2, 0, kCopy, 0}, {0, 1, 0, 1, kCopy, 1}});
  for (int64_t size_bytes = 100'003; size_bytes < 140'000; size_bytes += 101) {
    const std::vector<Job> jobs = {{borrowed(later), 140'000, 0}, {borrowed(first), size_bytes, 0}};
    EXPECT_EQ(run_session(topology, jobs, {}).back(), (size_bytes * 1'000 + 6) / 7);
  }
}

// A third transmission that comes and goes at one time leaves the two others' ends as they were.
TEST(FlowSession, ARateThatComesBackAtOnceLeavesNoTrace) {
  const Topology topology = topology_of("fully_connected:2,bandwidth=7GB/s");
  const LinkId link = topology.links_out(NodeId{0}).front();
  for (int64_t time_ps = 1; time_ps < 100'000'000; time_ps += 99'991) {
    SharedLinks shared(topology);
    std::vector<int32_t> found;
    for (int32_t connection = 0; connection < 3; ++connection) {
      shared.add(std::span(&link, 1));
      shared.attach(connection, found);
    }
    shared.join(0, 3'500'000, 0);  // ends at a whole picosecond, where rounding shows
    shared.join(1, 3'500'000, 0);
    const int64_t end_ps = shared.update(0).front().time_ps;
    shared.join(2, 1'000, time_ps);
    EXPECT_GT(shared.update(time_ps).front().time_ps, end_ps);
    shared.leave(2, time_ps);
    EXPECT_EQ(shared.update(time_ps).front().time_ps, end_ps) << time_ps;
  }
}

// A schedule that nobody else keeps is not mistaken for a later one at its address.
TEST(FlowSession, KeepsTheSchedulesThatItKnows) {
  const Topology topology = topology_of("ring:8");
  const auto session = session_on(topology);
  std::vector<int64_t> times_ps;
  int64_t now_ps = 0;
  for (const int32_t last : {7, 5, 7}) {
    const auto schedule = std::make_shared<const Schedule>(ring_of({0, 1, last}));
    ASSERT_TRUE(session->start({schedule, 80'000, now_ps}));
    const auto finished = session->advance(INT64_MAX);
    ASSERT_TRUE(finished);
    times_ps.push_back(finished->front().time_ps - now_ps);
    now_ps = finished->front().time_ps;
  }
  EXPECT_EQ(times_ps[0], times_ps[2]);
  EXPECT_LT(times_ps[0], times_ps[1]);
}

// Thousands of jobs, three of them at a time, in the memory of three.
TEST(FlowSession, UsesConnectionsOfFinishedJobsAgain) {
  const Topology topology = topology_of("torus:3x3");
  const Schedule schedule = ring_of({0, 1, 2, 4, 8});
  const SimulationOptions options;
  const auto forms = ScheduleForms::create(topology, borrowed(schedule), options);
  ASSERT_TRUE(forms);
  Engine engine(topology, options);
  int32_t running = 0;
  int64_t now_ps = 0;
  std::size_t of_one = 0;
  for (int32_t count = 0; count < 2'000; ++count) {
    auto job = (*forms)->whole(5 * (1 + count % 7));
    ASSERT_TRUE(job);
    of_one = job->schedule().connections().size();
    ASSERT_TRUE(engine.add(std::move(*job), now_ps));
    ++running;
    while (running == 3) {
      ASSERT_TRUE(engine.advance(INT64_MAX));
      for (const int32_t number : engine.take_finished()) {
        now_ps = engine.finish_ps(number);
        engine.release(number);
        --running;
      }
    }
  }
  EXPECT_LE(engine.connection_count(), 3 * of_one);
}

TEST(FlowSession, RefusesBadJobsAndGoesOn) {
  const Topology topology = topology_of("ring:4");
  const Schedule ring = symmetric_ring(topology);
  const Schedule stranger =
      support::make_schedule({.participants = {0, 9}}, {{0, 1, 0, 1, support::kCopy}});
  const auto session = session_on(topology);
  ASSERT_TRUE(session->start({borrowed(ring), 4'000, 1'000}));
  ASSERT_TRUE(session->advance(2'000));
  const struct {
    const Schedule& schedule;
    int64_t size_bytes;
    int64_t start_ps;
    std::string message;
  } cases[] = {
      {ring, 4, 1'999, "job at 1999 ps: the session is at 2000 ps already"},
      {ring, -1, 2'000, "job of -1 bytes at 2000 ps: must not be negative"},
      {stranger, 4, 2'000, "participant 9 is no node of "},
  };
  for (const auto& [schedule, size_bytes, start_ps, message] : cases) {
    const auto started = session->start({borrowed(schedule), size_bytes, start_ps});
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().message.substr(0, message.size()), message);
  }
  const auto next = session->start({borrowed(ring), 4'000, 2'000});
  ASSERT_TRUE(next);
  EXPECT_EQ(*next, 1);
  std::vector<int64_t> finish_ps(2, -1);
  finish_all(*session, finish_ps);
  EXPECT_EQ(std::count(finish_ps.begin(), finish_ps.end(), -1), 0);
}

}  // namespace
}  // namespace pleach
