#include "pleach/collective/verify.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/counterexamples.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

using support::kCopy;
using support::kReduce;
using support::make_schedule;
using support::Move;
using support::ScheduleShape;
using support::topology_of;

struct ViolationRow {
  std::string name;
  ScheduleShape shape;
  std::vector<Move> moves;
  std::vector<std::string> violations;
};

const ScheduleShape kAllReduce2 = {};
const ScheduleShape kAllReduce3 = {.rank_count = 3};
const ScheduleShape kGather2 = {.collective = CollectiveKind::kAllGather, .chunk_count = 2};
const ScheduleShape kScatter2 = {.collective = CollectiveKind::kReduceScatter, .chunk_count = 2};
const ScheduleShape kBroadcast3 = {
    .collective = CollectiveKind::kBroadcast, .rank_count = 3, .root = 1};
const ScheduleShape kReduce3 = {.collective = CollectiveKind::kReduce, .rank_count = 3, .root = 1};
const ScheduleShape kExchange2 = {.collective = CollectiveKind::kAllToAll, .chunk_count = 4};

std::vector<ViolationRow> violation_rows() {
  return {
      {"exchange", kAllReduce2, {{0, 1, 0, 1}, {0, 1, 1, 0}}, {}},
      {"lacks_one",
       kAllReduce2,
       {{0, 1, 0, 1}},
       {"chunk 0: rank 0 lacks the contribution of rank 1"}},
      {"lacks_many",
       {.rank_count = 12},
       {{0, 1, 0, 1}},
       {"chunk 0: rank 0 lacks the contribution of ranks 1, 2, 3, 4, 5, 6, 7, 8 and 3 more",
        "chunk 0: rank 1 lacks the contribution of ranks 2, 3, 4, 5, 6, 7, 8, 9 and 2 more",
        "chunk 0: rank 2 lacks the contribution of ranks 0, 1, 3, 4, 5, 6, 7, 8 and 3 more",
        "chunk 0: rank 3 lacks the contribution of ranks 0, 1, 2, 4, 5, 6, 7, 8 and 3 more",
        "chunk 0: rank 4 lacks the contribution of ranks 0, 1, 2, 3, 5, 6, 7, 8 and 3 more",
        "chunk 0: rank 5 lacks the contribution of ranks 0, 1, 2, 3, 4, 6, 7, 8 and 3 more",
        "chunk 0: rank 6 lacks the contribution of ranks 0, 1, 2, 3, 4, 5, 7, 8 and 3 more",
        "chunk 0: rank 7 lacks the contribution of ranks 0, 1, 2, 3, 4, 5, 6, 8 and 3 more",
        "chunk 0: rank 8 lacks the contribution of ranks 0, 1, 2, 3, 4, 5, 6, 7 and 3 more",
        "chunk 0: rank 9 lacks the contribution of ranks 0, 1, 2, 3, 4, 5, 6, 7 and 3 more",
        "chunk 0: rank 10 lacks the contribution of ranks 0, 1, 2, 3, 4, 5, 6, 7 and 3 more",
        "chunk 0: rank 11 lacks the contribution of ranks 0, 1, 2, 3, 4, 5, 6, 7 and 3 more"}},
      {"counts_twice",
       kAllReduce3,
       {{0, 1, 1, 0},
        {0, 1, 2, 0},
        {0, 1, 1, 0, kReduce, 1},
        {0, 1, 0, 1, kCopy, 2},
        {0, 1, 0, 2, kCopy, 2}},
       {"chunk 0: rank 0 counts the contribution of rank 1 more than once",
        "chunk 0: rank 1 counts the contribution of rank 1 more than once",
        "chunk 0: rank 2 counts the contribution of rank 1 more than once"}},
      {"own_value_returns",
       kAllReduce2,
       {{0, 1, 0, 1}, {0, 1, 1, 0, kReduce, 1}},
       {"chunk 0: rank 0 counts the contribution of rank 0 more than once"}},
      {"wrong_slot_without_output",
       kReduce3,
       {{0, 1, 0, 1}, {0, 1, 2, 1}, {0, 1, 1, 0, kReduce, 1}},
       {}},
      {"reduce_of_part",
       kReduce3,
       {{0, 1, 2, 1}},
       {"chunk 0: rank 1 lacks the contribution of rank 0"}},
      {"shards", kScatter2, {{0, 1, 1, 0}, {1, 1, 0, 1}}, {}},
      {"wrong_shard",
       kScatter2,
       {{0, 2, 1, 0}},
       {"chunk 1: rank 1 lacks the contribution of rank 0"}},
      {"gather", kGather2, {{0, 1, 0, 1, kCopy}, {1, 1, 1, 0, kCopy}}, {}},
      {"gather_of_half", kGather2, {{0, 1, 0, 1, kCopy}}, {"chunk 1: rank 0 ends with nothing"}},
      {"sends_nothing",
       kGather2,
       {{0, 2, 0, 1, kCopy}, {1, 1, 1, 0, kCopy, 1}},
       {"chunk 1: rank 0 sends to rank 1 at step 0 but holds nothing"}},
      {"reduces_into_nothing",
       kBroadcast3,
       {{0, 1, 1, 0, kCopy}, {0, 1, 0, 2, kReduce, 1}},
       {"chunk 0: rank 2 reduces from rank 0 at step 1 but holds nothing"}},
      {"same_step_does_not_forward",
       kBroadcast3,
       {{0, 1, 1, 0, kCopy}, {0, 1, 0, 2, kCopy}},
       {"chunk 0: rank 0 sends to rank 2 at step 0 but holds nothing"}},
      {"sum_in_a_broadcast",
       kBroadcast3,
       {{0, 1, 1, 0, kCopy}, {0, 1, 1, 2, kCopy}, {0, 1, 0, 2, kReduce, 1}},
       {"chunk 0: rank 2 ends with a sum instead of the value of rank 1"}},
      {"all_to_all", kExchange2, {{1, 1, 0, 1, kCopy}, {2, 1, 1, 0, kCopy}}, {}},
      {"all_to_all_of_half",
       kExchange2,
       {{1, 1, 0, 1, kCopy}},
       {"chunk 2: rank 0 ends with nothing"}},
  };
}

class Violations : public testing::TestWithParam<ViolationRow> {};

TEST_P(Violations, AreNamed) {
  const Schedule schedule = make_schedule(GetParam().shape, GetParam().moves);
  const Verification verification = verify(schedule, nullptr);
  EXPECT_EQ(verification.violations, GetParam().violations);
  EXPECT_EQ(verification.correct, GetParam().violations.empty());
}

INSTANTIATE_TEST_SUITE_P(All, Violations, testing::ValuesIn(violation_rows()),
                         [](const testing::TestParamInfo<ViolationRow>& row) {
                           return row.param.name;
                         });

TEST(Verify, JudgesTheCounterexamples) {
  for (const support::Counterexample& row : support::counterexamples()) {
    SCOPED_TRACE(row.name);
    const Verification verification = verify(row.schedule, nullptr);
    EXPECT_EQ(verification.correct, row.expectation == support::Expectation::kCorrect);
    EXPECT_EQ(check_form(row.schedule, nullptr).empty(),
              row.expectation != support::Expectation::kMalformed);
    if (row.executable()) {
      EXPECT_EQ(verification.bitwise_replicated, row.bitwise_replicated);
    }
  }
}

TEST(Verify, NamesTheFirstTwentyViolations) {
  std::vector<Move> moves;
  for (int32_t chunk = 0; chunk < 3'000; chunk += 2) {
    moves.push_back({chunk, 1, 0, 1});
  }
  const std::vector<std::string> first =
      verify(make_schedule({.chunk_count = 3'000}, moves), nullptr).violations;
  ASSERT_EQ(first.size(), 20U);
  EXPECT_EQ(first[0], "chunk 0: rank 0 lacks the contribution of rank 1");
  EXPECT_EQ(first[1], "chunk 1: rank 0 lacks the contribution of rank 1");
  EXPECT_EQ(first[2], "chunk 1: rank 1 lacks the contribution of rank 0");
  EXPECT_EQ(first[19], "chunk 13: rank 0 lacks the contribution of rank 1");
}

TEST(Verify, NamesChunksThatFareAlikeTogether) {
  EXPECT_EQ(
      verify(make_schedule({.chunk_count = 16'000'000}, {{0, 1, 0, 1}}), nullptr).violations,
      (std::vector<std::string>{"chunk 0: rank 0 lacks the contribution of rank 1",
                                "chunks [1, 16000000): rank 0 lacks the contribution of rank 1",
                                "chunks [1, 16000000): rank 1 lacks the contribution of rank 0"}));
  EXPECT_TRUE(
      verify(make_schedule({.rank_count = 1, .chunk_count = 16'000'000}, {}), nullptr).correct);
}

// A value that is doubled again and again must not be written out.
TEST(Verify, EndsOnExponentialSums) {
  std::vector<Move> moves;
  for (int32_t step = 0; step < 2'000; ++step) {
    moves.push_back({0, 1, step % 2, 1 - step % 2, kReduce, step});
  }
  EXPECT_FALSE(verify(make_schedule({}, moves), nullptr).correct);
}

// One all_reduce over 0 -> 1 -> 2 and back, on one route per pair.
Schedule chain(const Topology& topology, int32_t period) {
  Schedule schedule = make_schedule({.rank_count = 3, .chunk_count = 2, .period = period},
                                    {{0, 1, 0, 1, kReduce, 0},
                                     {1, 1, 0, 1, kReduce, 1},
                                     {0, 1, 1, 2, kReduce, 1},
                                     {1, 1, 1, 2, kReduce, 2},
                                     {0, 2, 2, 1, kCopy, 3},
                                     {0, 2, 1, 0, kCopy, 4}});
  EXPECT_TRUE(fill_routes(schedule, topology));
  return schedule;
}

TEST(Verify, CountsLinkSlots) {
  const Topology mesh = topology_of("mesh:3");
  EXPECT_TRUE(verify(chain(mesh, 5), &mesh).contention_free);
  EXPECT_TRUE(verify(chain(mesh, 2), &mesh).contention_free);
  EXPECT_TRUE(verify(chain(mesh, 2), nullptr).contention_free);
  EXPECT_FALSE(verify(chain(mesh, 1), &mesh).contention_free);
  EXPECT_FALSE(verify(chain(mesh, 1), nullptr).contention_free);
  Schedule routeless = chain(mesh, 5);
  routeless.transfers.front().route = kNoRoute;
  EXPECT_TRUE(verify(routeless, &mesh).correct);
  EXPECT_TRUE(verify(routeless, &mesh).contention_free);  // on the shortest route
  EXPECT_FALSE(verify(routeless, nullptr).contention_free);
  // 0 -> 2 passes over the links of 0 -> 1 and 1 -> 2.
  Schedule crossing = make_schedule({.collective = CollectiveKind::kBroadcast, .rank_count = 3},
                                    {{0, 1, 0, 1, kCopy}, {0, 1, 0, 2, kCopy}});
  ASSERT_TRUE(fill_routes(crossing, mesh));
  EXPECT_TRUE(verify(crossing, &mesh).correct);
  EXPECT_FALSE(verify(crossing, &mesh).contention_free);
}

// A transfer without a route must have one on the topology.
TEST(Verify, RefusesWhatNoRouteCanCarry) {
  TopologyBuilder builder("island");
  ASSERT_TRUE(builder.add_node({.name = "a"}));
  ASSERT_TRUE(builder.add_node({.name = "b"}));
  ASSERT_TRUE(builder.add_node({.name = "S", .kind = NodeKind::kSwitch}));
  ASSERT_TRUE(builder.add_cable({{0}, {1}, 1, 0}));
  const Topology topology = *std::move(builder).build();
  Schedule schedule = make_schedule({.collective = CollectiveKind::kBroadcast}, {});
  schedule.transfers.push_back({0, 1, {0}, {2}, 0, kNoRoute, kCopy});
  schedule.transfers.push_back({0, 1, {2}, {1}, 0, kNoRoute, kCopy});
  EXPECT_TRUE(verify(schedule, nullptr).correct);
  const Verification verification = verify(schedule, &topology);
  EXPECT_FALSE(verification.correct);
  ASSERT_EQ(verification.violations.size(), 1U);
  EXPECT_NE(verification.violations[0].find("no route from 'a' to 'S'"), std::string::npos);
}

// All ranks to the switch and back in one step.
Schedule through_switch(const Topology& topology, int32_t rank_count) {
  Schedule schedule = make_schedule({.rank_count = rank_count}, {});
  for (const NodeId rank : schedule.participants) {
    Transfer hop;
    hop.source = rank;
    hop.target = NodeId{rank_count};
    hop.op = kReduce;
    schedule.transfers.push_back(hop);
    std::swap(hop.source, hop.target);
    hop.op = kCopy;
    schedule.transfers.push_back(hop);
  }
  sort_transfers(schedule);
  EXPECT_TRUE(fill_routes(schedule, topology));
  return schedule;
}

TEST(Verify, FoldsInASwitch) {
  const Topology topology = topology_of("switch:4,reduce,multicast");
  const Schedule schedule = through_switch(topology, 4);
  const Verification verification = verify(schedule, &topology);
  EXPECT_EQ(verification.violations, std::vector<std::string>());
  EXPECT_TRUE(verification.correct);
  EXPECT_TRUE(verification.contention_free);
  EXPECT_TRUE(verification.bitwise_replicated);
  const Topology plain = topology_of("switch:4");
  EXPECT_FALSE(verify(schedule, &plain).correct);
  Schedule without_one = schedule;
  std::erase_if(without_one.transfers,
                [](const Transfer& transfer) { return transfer.source == NodeId{2}; });
  EXPECT_EQ(verify(without_one, &topology).violations.size(), 4U);
}

// reduce_scatter and all_gather around a ring; chunk 0's transfers stand for all.
Schedule symmetric_ring(int32_t rank_count, const Topology& topology) {
  std::vector<Move> moves;
  for (int32_t step = 0; step < 2 * (rank_count - 1); ++step) {
    moves.push_back({0, 1, (step + 1) % rank_count, (step + 2) % rank_count,
                     step < rank_count - 1 ? kReduce : kCopy, step});
  }
  Schedule schedule = make_schedule({.rank_count = rank_count, .chunk_count = rank_count}, moves);
  schedule.symmetry = Symmetry{{rank_count}};
  EXPECT_TRUE(fill_routes(schedule, topology));
  return schedule;
}

TEST(Verify, ProvesASymmetricScheduleByItsRepresentatives) {
  const Topology ring = topology_of("ring:64");
  Schedule schedule = symmetric_ring(64, ring);
  const Verification proof = verify(schedule, &ring);
  EXPECT_EQ(proof.violations, std::vector<std::string>());
  EXPECT_TRUE(proof.correct);
  EXPECT_TRUE(proof.contention_free);
  EXPECT_TRUE(proof.bitwise_replicated);
  const Result<Schedule> expanded = expand(schedule, &ring);
  ASSERT_TRUE(expanded);
  EXPECT_TRUE(verify(*expanded, &ring).correct);
  EXPECT_TRUE(verify(*expanded, &ring).contention_free);
  // One translate a step would be free; with period 1 each link has all of them in one slot.
  schedule.period = 1;
  EXPECT_TRUE(verify(schedule, &ring).correct);
  EXPECT_FALSE(verify(schedule, &ring).contention_free);
  schedule.transfers.erase(schedule.transfers.begin() + 3);
  EXPECT_FALSE(verify(schedule, &ring).correct);
}

}  // namespace
}  // namespace pleach
