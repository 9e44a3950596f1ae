// What every network model's sessions promise (network/session.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/network/model.h"
#include "pleach/topology/shapes.h"
#include "tests/support/small_schedules.h"

namespace pleach {
namespace {

class EveryModel : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<NetworkSession> session() const {
    auto session = open_network(GetParam(), topology_, {.segment_count = 2});
    EXPECT_TRUE(session) << (session ? "" : session.error().message);
    return std::move(*session);
  }
  Job job(int64_t size_bytes, int64_t start_ps) const {
    return {borrowed(ring_), size_bytes, start_ps};
  }

  const Topology topology_ = *parse_topology("ring:4");
  const Schedule ring_ = support::symmetric_ring_schedule(4);
};

// Until nothing is left; what finishes when, as (job, time).
std::vector<std::pair<int32_t, int64_t>> run(NetworkSession& session) {
  std::vector<std::pair<int32_t, int64_t>> all;
  while (const auto next_ps = session.next_ps()) {
    const auto finished = session.advance(*next_ps);
    EXPECT_TRUE(finished) << (finished ? "" : finished.error().message);
    for (const auto& [job, time_ps] : *finished) {
      EXPECT_TRUE(all.empty() || time_ps >= all.back().second) << "time goes back";
      EXPECT_EQ(time_ps, finished->front().time_ps);
      all.emplace_back(job, time_ps);
    }
  }
  return all;
}

TEST_P(EveryModel, FinishesEveryJobOnceAndThenIsIdle) {
  const auto one = session();
  EXPECT_EQ(one->next_ps(), std::nullopt);
  const std::pair<int64_t, int64_t> jobs[] = {
      {4'000, 0}, {0, 10}, {8'001, 5'000}, {4'000, 900'000'000}};
  for (const auto& [size_bytes, start_ps] : jobs) {
    ASSERT_TRUE(one->start(job(size_bytes, start_ps)));
  }
  std::vector<std::pair<int32_t, int64_t>> finished = run(*one);
  ASSERT_EQ(finished.size(), 4U);
  std::ranges::sort(finished);
  for (int32_t number = 0; number < 4; ++number) {
    EXPECT_EQ(finished[at(number)].first, number);
  }
  EXPECT_GE(finished[3].second, 900'000'000) << "not before its start";
  const auto use = one->use();
  ASSERT_TRUE(use) << use.error().message;
  EXPECT_EQ(use->links.size(), topology_.links().size());
  EXPECT_GT(use->event_count, 0);
}

TEST_P(EveryModel, ReturnsWhatFinishesTogetherTogether) {
  const auto two = session();
  const auto message = [](int32_t source) {  // on links of its own
    return support::make_schedule({.collective = CollectiveKind::kBroadcast,
                                   .rank_count = 2,
                                   .participants = {source, source + 1}},
                                  {{0, 1, 0, 1, support::kCopy}});
  };
  const Schedule left = message(0), right = message(2);
  ASSERT_TRUE(two->start({borrowed(left), 4'000, 7}));
  ASSERT_TRUE(two->start({borrowed(right), 4'000, 7}));
  std::vector<NetworkSession::Finish> finished;
  while (finished.empty()) {
    const auto some = two->advance(INT64_MAX);
    ASSERT_TRUE(some) << some.error().message;
    finished = *some;
  }
  ASSERT_EQ(finished.size(), 2U);
  EXPECT_EQ(finished[0].job, 0);
  EXPECT_EQ(finished[1].job, 1);
  EXPECT_EQ(finished[0].time_ps, finished[1].time_ps);
}

TEST_P(EveryModel, DoesNotPassTheTimeItIsGiven) {
  const auto slow = session();
  ASSERT_TRUE(slow->start(job(400'000, 0)));
  const auto early = slow->advance(1'000);
  ASSERT_TRUE(early);
  EXPECT_TRUE(early->empty());
  EXPECT_NE(slow->next_ps(), std::nullopt);
  EXPECT_EQ(run(*slow).size(), 1U);
}

TEST_P(EveryModel, GoesOnWithoutTheJobsThatItRefuses) {
  const auto one = session();
  ASSERT_TRUE(one->start(job(4'000, 1'000)));
  ASSERT_TRUE(one->advance(1'000));
  const Schedule stranger =
      support::make_schedule({.participants = {0, 9}}, {{0, 1, 0, 1, support::kCopy}});
  EXPECT_FALSE(one->start(job(4, 999))) << "in the past";
  EXPECT_FALSE(one->start(job(-1, 1'000)));
  EXPECT_FALSE(one->start({borrowed(stranger), 4, 1'000}));
  const auto next = one->start(job(4'000, 1'000));
  ASSERT_TRUE(next);
  EXPECT_EQ(*next, 1);
  EXPECT_EQ(run(*one).size(), 2U);
  const std::vector<Job> accepted(2, job(4'000, 1'000));
  const auto batch = simulate(GetParam(), topology_, accepted, {.segment_count = 2});
  ASSERT_TRUE(batch) << batch.error().message;
  const auto use = one->use();
  ASSERT_TRUE(use) << use.error().message;
  EXPECT_EQ(use->event_count, batch->use.event_count);
  for (std::size_t link = 0; link < use->links.size(); ++link) {
    EXPECT_EQ(use->links[link].wire_bytes, batch->use.links[link].wire_bytes);
    EXPECT_EQ(use->links[link].busy_ps, batch->use.links[link].busy_ps);
  }
}

TEST_P(EveryModel, GivesWhatTheBatchGives) {
  const auto one = session();
  const std::vector<Job> jobs = {job(4'000, 0), job(8'000, 3'000'000'000)};
  for (const Job& each : jobs) {
    ASSERT_TRUE(one->start(each));
  }
  const auto batch = simulate(GetParam(), topology_, jobs, {.segment_count = 2});
  ASSERT_TRUE(batch) << batch.error().message;
  std::vector<int64_t> times_ps;
  for (const auto& [number, time_ps] : run(*one)) {
    times_ps.push_back(time_ps);
  }
  EXPECT_EQ(times_ps, batch->job_finish_ps);
  EXPECT_EQ(batch->finish_ps, times_ps.back());
}

INSTANTIATE_TEST_SUITE_P(Models, EveryModel, ::testing::ValuesIn(network_models().names()),
                         [](const auto& model) { return model.param; });

TEST(OpenNetwork, RefusesWhatNoModelIs) {
  const Topology topology = *parse_topology("ring:4");
  const struct {
    std::string model;
    std::string message;
  } cases[] = {
      {"flwo", "unknown network model 'flwo'; did you mean 'flow'?"},
      {"flow,vcs=4", "network model flow: "},
      {"flow:4", "network model flow"},
      {"", "'' has no name"},
  };
  for (const auto& [model, message] : cases) {
    const auto session = open_network(model, topology, {});
    ASSERT_FALSE(session) << model;
    EXPECT_EQ(session.error().message.substr(0, message.size()), message);
  }
}

}  // namespace
}  // namespace pleach
