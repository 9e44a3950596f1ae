// Classes of traffic in the flow model: links serve the lower number first.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/base/units.h"
#include "pleach/network/model.h"
#include "pleach/planning/message.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/topology/routes.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

using support::topology_of;

Simulation run(const Topology& topology, const std::vector<Job>& jobs,
               const std::string& model = "flow") {
  const auto result = simulate(model, topology, jobs, {});
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result ? *result : Simulation();
}

Job message(int32_t source, int32_t target, int64_t size_bytes, int64_t start_ps,
            int32_t traffic_class) {
  return {message_schedule(NodeId{source}, NodeId{target}), size_bytes, start_ps, traffic_class};
}

int64_t starved_ps(const Simulation& simulation) {
  const auto& counters = simulation.use.counters;
  return counters.empty() ? 0 : counters.front().count;
}

// 1,000 ps a byte. The first message is interrupted for as long as the second takes, and loses no
// byte.
TEST(TrafficClasses, TheLowerGoesFirst) {
  const Topology pair = topology_of("fully_connected:2,bandwidth=1GB/s,latency=0");
  const Simulation preempted =
      run(pair, {message(0, 1, 1'000, 0, 1), message(0, 1, 300, 400'000, 0)});
  EXPECT_EQ(preempted.job_finish_ps, (std::vector<int64_t>{1'300'000, 700'000}));
  EXPECT_EQ(starved_ps(preempted), 300'000);
  const auto busy = std::ranges::max_element(preempted.use.links, {}, &LinkUse::busy_ps);
  EXPECT_EQ(busy->busy_ps, 1'300'000);
  EXPECT_EQ(busy->wire_bytes, 1'300);
  // Of one class they share; the later one has the smaller half left.
  const Simulation shared = run(pair, {message(0, 1, 1'000, 0, 3), message(0, 1, 300, 400'000, 3)});
  EXPECT_EQ(shared.job_finish_ps, (std::vector<int64_t>{1'300'000, 1'000'000}));
  EXPECT_TRUE(shared.use.counters.empty());
}

// 0 -> 1 -> 2 in a row, the second link a quarter as fast: what passes both leaves three quarters
// of the first to the next class, and nothing of the second.
TEST(TrafficClasses, TheNextHasWhatIsLeft) {
  const auto row = parse_topology_toml(R"(
    node = [{ name = "a", forwards = true }, { name = "b", forwards = true },
            { name = "c", forwards = true }]
    [[cable]]
    source = "a"
    target = "b"
    bandwidth = "4GB/s"
    latency = "0"
    [[cable]]
    source = "b"
    target = "c"
    bandwidth = "1GB/s"
    latency = "0"
  )",
                                       "row.toml");
  ASSERT_TRUE(row) << row.error().message;
  const Simulation result =
      run(*row, {message(0, 2, 1'000, 0, 0), message(0, 1, 3'000, 0, 1), message(1, 2, 500, 0, 2)});
  // The second goes at 3 GB/s until both end; the third waits for the first.
  EXPECT_EQ(result.job_finish_ps, (std::vector<int64_t>{1'000'000, 1'000'000, 1'500'000}));
  EXPECT_EQ(starved_ps(result), 1'000'000);
  // What stands still before the second link does not occupy the first.
  const Simulation held = run(*row, {message(1, 2, 1'000, 0, 0), message(0, 2, 1'000, 0, 1)});
  EXPECT_EQ(held.job_finish_ps, (std::vector<int64_t>{1'000'000, 2'000'000}));
  EXPECT_EQ(held.use.links[0].busy_ps, 1'000'000);
  EXPECT_EQ(held.use.links[2].busy_ps, 2'000'000);
}

// The same rules, with all rates found anew at every event by growing them bit by bit.
class SlowLinks {
 public:
  struct Flow {
    std::vector<LinkId> links;
    double left_bytes = 0;
    double start_s = 0;
    int32_t flow_class = 0;
    double finish_s = -1;
    double rate = 0;
  };
  explicit SlowLinks(const Topology& topology) : topology_(topology) {}

  std::vector<Flow> flows;

  void run() {
    for (double now = 0;;) {
      fill(now);
      double next = std::numeric_limits<double>::infinity();
      for (const Flow& flow : flows) {
        if (flow.finish_s < 0 && flow.start_s > now) {
          next = std::min(next, flow.start_s);
        } else if (flow.finish_s < 0 && flow.rate > 0) {
          next = std::min(next, now + flow.left_bytes / flow.rate);
        }
      }
      if (std::isinf(next)) {
        return;
      }
      for (Flow& flow : flows) {
        if (flow.finish_s < 0 && flow.start_s <= now) {
          flow.left_bytes -= flow.rate * (next - now);
          flow.finish_s = flow.left_bytes < 1e-6 ? next : -1;
        }
      }
      now = next;
    }
  }

 private:
  // Rates of a class grow together until a link is full, whose flows then stay as they are.
  void fill(double now) {
    std::vector<double> left;
    for (const Link& link : topology_.links()) {
      left.push_back(static_cast<double>(link.bandwidth_bytes_per_s));
    }
    for (int32_t flow_class = 0; flow_class < kTrafficClasses; ++flow_class) {
      std::vector<Flow*> growing;
      for (Flow& flow : flows) {
        if (flow.flow_class == flow_class && flow.finish_s < 0 && flow.start_s <= now) {
          flow.rate = 0;
          growing.push_back(&flow);
        }
      }
      while (!growing.empty()) {
        std::map<LinkId, int32_t> users;
        for (const Flow* flow : growing) {
          for (const LinkId link : flow->links) {
            ++users[link];
          }
        }
        double growth = std::numeric_limits<double>::infinity();
        for (const auto& [link, count] : users) {
          growth = std::min(growth, left[link.index()] / count);
        }
        for (Flow* flow : growing) {
          flow->rate += growth;
          for (const LinkId link : flow->links) {
            left[link.index()] -= growth;
          }
        }
        std::erase_if(growing, [&](const Flow* flow) {
          return std::ranges::any_of(flow->links,
                                     [&](LinkId link) { return left[link.index()] < 1; });
        });
      }
    }
  }

  const Topology& topology_;
};

// Messages on a random graph, of random classes, that come while others are under way.
TEST(TrafficClasses, AreWhatASlowSimulationSays) {
  double starved = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    TopologyBuilder builder("random");
    const auto ranks = static_cast<int32_t>(3 + rng.below(4));
    for (int32_t rank = 0; rank < ranks; ++rank) {
      ASSERT_TRUE(builder.add_node({.name = "", .forwards = true}));
    }
    const auto join = [&](int32_t source, int32_t target) {
      const auto bandwidth = static_cast<int64_t>(1 + rng.below(9)) * 100'000'000;
      ASSERT_TRUE(builder.add_link({NodeId{source}, NodeId{target}, bandwidth}));
    };
    for (int32_t rank = 0; rank < ranks; ++rank) {
      join(rank, (rank + 1) % ranks);
      join((rank + 1) % ranks, rank);
    }
    const Topology topology = std::move(std::move(builder).build()).value();
    SlowLinks slow(topology);
    std::vector<Job> jobs;
    Router router(topology);
    for (int32_t number = 0; number < 25; ++number) {
      const auto source = static_cast<int32_t>(rng.below(at(ranks)));
      const auto target = (source + 1 + static_cast<int32_t>(rng.below(at(ranks) - 1))) % ranks;
      const auto bytes = static_cast<int64_t>(1 + rng.below(20'000));
      const auto start_ps = static_cast<int64_t>(rng.below(100)) * 1'000'000;
      const auto own_class = static_cast<int32_t>(rng.below(3));
      jobs.push_back(message(source, target, bytes, start_ps, own_class));
      slow.flows.push_back({.links = *router.route(NodeId{source}, NodeId{target}),
                            .left_bytes = static_cast<double>(bytes),
                            .start_s = static_cast<double>(start_ps) / 1e12,
                            .flow_class = own_class});
    }
    slow.run();
    const Simulation found = run(topology, jobs);
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      const double expected_ps = slow.flows[job].finish_s * 1e12;
      EXPECT_NEAR(static_cast<double>(found.job_finish_ps[job]), expected_ps, 200) << job;
    }
    starved += static_cast<double>(starved_ps(found));
    int64_t wire_bytes = 0, expected_bytes = 0;
    for (const LinkUse& use : found.use.links) {
      wire_bytes += use.wire_bytes;
    }
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      expected_bytes += jobs[job].size_bytes * count_of(slow.flows[job].links);
    }
    EXPECT_EQ(wire_bytes, expected_bytes);
    // Those of the first class do not notice the others.
    std::vector<Job> first;
    std::vector<int64_t> first_finish_ps;
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      if (jobs[job].traffic_class == 0) {
        first.push_back(jobs[job]);
        first_finish_ps.push_back(found.job_finish_ps[job]);
      }
    }
    if (!first.empty()) {
      EXPECT_EQ(run(topology, first).job_finish_ps, first_finish_ps);
    }
    // Nor does it matter which class is the only one.
    std::vector<Job> one = jobs, other = jobs;
    std::ranges::for_each(one, [](Job& job) { job.traffic_class = 0; });
    std::ranges::for_each(other, [](Job& job) { job.traffic_class = kTrafficClasses - 1; });
    EXPECT_EQ(run(topology, one).job_finish_ps, run(topology, other).job_finish_ps);
  }
  EXPECT_GT(starved, 0);
}

// What a session is told in the course of time takes what it takes when all starts are known.
TEST(TrafficClasses, DoNotDependOnWhenStartsAreKnown) {
  const Topology topology = topology_of("mesh:3x3,bandwidth=1GB/s,latency=10ns");
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    std::vector<Job> jobs;
    for (int32_t number = 0; number < 12; ++number) {
      const auto made = synthesize(
          {.topology = topology, .participants = {}, .collective = CollectiveKind::kAllReduce},
          rng.below(2) == 0 ? "ring" : "direct");
      ASSERT_TRUE(made);
      jobs.push_back(
          {std::make_shared<const Schedule>(*made), static_cast<int64_t>(rng.below(20'000)),
           static_cast<int64_t>(rng.below(40)) * 1'000'000, static_cast<int32_t>(rng.below(3))});
    }
    std::ranges::stable_sort(jobs, {}, &Job::start_ps);
    const Simulation batch = run(topology, jobs);
    auto session = open_network("flow", topology, {});
    ASSERT_TRUE(session);
    std::vector<int64_t> finish_ps(jobs.size());
    const auto advance = [&](int64_t until_ps) {
      while ((*session)->next_ps().value_or(INT64_MAX) <= until_ps) {
        const auto finished = (*session)->advance(until_ps);
        ASSERT_TRUE(finished);
        for (const auto& [job, time_ps] : *finished) {
          finish_ps[at(job)] = time_ps;
        }
        if (finished->empty()) {
          break;
        }
      }
    };
    for (const Job& job : jobs) {
      advance(job.start_ps);
      ASSERT_TRUE((*session)->start(job));
    }
    advance(INT64_MAX - 1);
    EXPECT_EQ(finish_ps, batch.job_finish_ps);
  }
}

TEST(TrafficClasses, OtherModelsSayWhatTheyDo) {
  const Topology pair = topology_of("fully_connected:2,bandwidth=1GB/s,latency=0");
  const std::vector<Job> jobs = {message(0, 1, 1'000, 0, 1), message(0, 1, 1'000, 0, 0)};
  // Jobs of analytic do not meet.
  EXPECT_EQ(run(pair, jobs, "analytic").job_finish_ps,
            (std::vector<int64_t>{1'000'000, 1'000'000}));
  const auto refused = simulate("flit", pair, jobs, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "flit serves one class of traffic at a time, but with router=fred: a job of class 0 "
            "comes to those of class "
            "1");
  EXPECT_TRUE(simulate("flit", pair, {&jobs[0], 1}, {}));
  for (const int32_t bad : {-1, kTrafficClasses}) {
    const Job job = message(0, 1, 1'000, 0, bad);
    const auto result = simulate("flow", pair, {&job, 1}, {});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().message,
              "job of class " + std::to_string(bad) + ": classes are 0 to 15");
  }
}

}  // namespace
}  // namespace pleach
