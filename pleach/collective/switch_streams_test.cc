#include "pleach/collective/switch_streams.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "pleach/collective/order.h"
#include "tests/support/counterexamples.h"

namespace pleach {
namespace {

// Nodes from here on are switches.
constexpr int32_t kRanks = 4;

Transfer hop(int32_t source, int32_t target, int32_t chunk = 0, int32_t step = 0) {
  return {.first_chunk = chunk, .source = NodeId{source}, .target = NodeId{target}, .step = step};
}

Transfer in_pass(Transfer hop, uint16_t source_pass, uint16_t target_pass) {
  hop.source_pass = source_pass;
  hop.target_pass = target_pass;
  return hop;
}

Schedule schedule_of(std::vector<Transfer> transfers) {
  Schedule schedule = support::make_schedule({.rank_count = kRanks, .chunk_count = 2}, {});
  schedule.phase_steps = {2};
  schedule.transfers = std::move(transfers);
  sort_transfers(schedule);
  return schedule;
}

// "10: 0>10 1>10 10>2 | 11: ...", the crossings of each stream in braces.
std::string text_of(const Schedule& schedule, const SwitchStreams& streams) {
  std::vector<std::string> texts(at(streams.stream_count()));
  for (int32_t number = 0; number < count_of(streams.crossings()); ++number) {
    const Crossing& crossing = streams.crossings()[at(number)];
    int32_t arrivals = 0, departures = 0;
    std::string& text = texts[at(crossing.stream)];
    text += (text.empty() ? "" : " | ") + std::to_string(crossing.node) + ":";
    for (const int32_t index : streams.hops_at(number)) {
      const Hop& what = streams.hops()[at(index)];
      const Transfer& transfer = schedule.transfers[at(what.transfer)];
      EXPECT_EQ(streams.stream_of(what), crossing.stream);
      EXPECT_EQ((transfer.target.value == crossing.node ? what.to : what.from), number);
      EXPECT_EQ(what.source_rank, what.from == kNoCrossing ? transfer.source.value : kNoRank);
      EXPECT_EQ(what.target_rank, what.to == kNoCrossing ? transfer.target.value : kNoRank);
      arrivals += what.to == number ? 1 : 0;
      departures += what.from == number ? 1 : 0;
      text +=
          " " + std::to_string(transfer.source.value) + ">" + std::to_string(transfer.target.value);
    }
    EXPECT_EQ(crossing.arrival_count, arrivals);
    EXPECT_EQ(crossing.departure_count, departures);
  }
  std::string all;
  for (const std::string& text : texts) {
    all += "{" + text + "}";
  }
  return all;
}

TEST(SwitchStreams, JoinsWhatMeetsAtASwitch) {
  struct Case {
    std::string name;
    std::vector<Transfer> transfers;
    std::string streams;
  };
  const std::vector<Case> cases = {
      {"no switch", {hop(0, 1), hop(1, 0)}, ""},
      {"one to one", {hop(0, 10), hop(10, 1), hop(2, 3)}, "{10: 0>10 10>1}"},
      {"all to all ends",
       {hop(0, 10), hop(1, 10), hop(10, 0), hop(10, 1)},
       "{10: 0>10 1>10 10>0 10>1}"},
      {"tree",
       {hop(0, 10), hop(1, 10), hop(10, 11), hop(2, 11), hop(11, 3)},
       "{10: 0>10 1>10 10>11 | 11: 2>11 10>11 11>3}"},
      {"chunks",
       {hop(0, 10), hop(10, 1), hop(2, 10, 1), hop(10, 3, 1)},
       "{10: 0>10 10>1}{10: 2>10 10>3}"},
      {"steps",
       {hop(0, 10), hop(10, 1), hop(0, 10, 0, 1), hop(10, 1, 0, 1)},
       "{10: 0>10 10>1}{10: 0>10 10>1}"},
      {"switches",
       {hop(0, 10), hop(10, 1), hop(2, 11), hop(11, 3)},
       "{10: 0>10 10>1}{11: 2>11 11>3}"},
      {"joined late",
       {hop(0, 10), hop(11, 3), hop(10, 12), hop(12, 11)},
       "{10: 0>10 10>12 | 11: 11>3 12>11 | 12: 10>12 12>11}"},
      {"wider",
       {{.chunk_count = 2, .source = NodeId{0}, .target = NodeId{10}}, hop(10, 1)},
       "{10: 10>1}{10: 0>10}"},
      {"loop", {hop(10, 11), hop(11, 10)}, "{10: 10>11 11>10 | 11: 10>11 11>10}"},
      {"ends", {hop(0, 10)}, "{10: 0>10}"},
      {"passes",
       {hop(0, 10), in_pass(hop(10, 11), 0, 2), in_pass(hop(11, 10), 2, 1),
        in_pass(hop(10, 1), 1, 0)},
       "{10: 0>10 10>11 | 10: 10>1 11>10 | 11: 10>11 11>10}"},
      {"passes apart",
       {hop(0, 10), hop(10, 1), in_pass(hop(2, 10), 0, 1), in_pass(hop(10, 3), 1, 0)},
       "{10: 0>10 10>1}{10: 2>10 10>3}"},
  };
  for (const Case& row : cases) {
    SCOPED_TRACE(row.name);
    const Schedule schedule = schedule_of(row.transfers);
    const RankOfNode rank_of(schedule.participants);
    EXPECT_EQ(text_of(schedule, SwitchStreams(schedule, rank_of)), row.streams);
  }
}

TEST(SwitchStreams, KnowsTheirLongestWays) {
  // 10 joins 0 and 1, 11 turns what comes, 10 hands it out; 12 is another stream.
  const Schedule schedule =
      schedule_of({hop(0, 10), hop(1, 10), hop(10, 11), in_pass(hop(11, 10), 0, 1),
                   in_pass(hop(10, 0), 1, 0), in_pass(hop(10, 1), 1, 0), hop(2, 12), hop(12, 3)});
  const RankOfNode rank_of(schedule.participants);
  const SwitchStreams streams(schedule, rank_of);
  std::vector<int64_t> hop_ps;
  for (const Hop& one : streams.hops()) {
    const Transfer& transfer = schedule.transfers[at(one.transfer)];
    hop_ps.push_back(transfer.source == NodeId{1} ? 1000 : transfer.target == NodeId{1} ? 100 : 10);
  }
  const std::vector<int64_t> longest_ps = longest_ways_ps(streams, hop_ps);
  ASSERT_EQ(longest_ps.size(), 2U);
  EXPECT_EQ(std::ranges::max(longest_ps), 1000 + 10 + 10 + 100);
  EXPECT_EQ(std::ranges::min(longest_ps), 20);
}

// What stands for them in the Order.
TEST(SwitchStreams, BecomeStreamsOfTheOrder) {
  const Schedule schedule =
      schedule_of({hop(3, 10), hop(1, 10), hop(10, 11), hop(2, 11), hop(11, 0), hop(0, 1, 1),
                   hop(11, 2, 1, 1), hop(1, 11, 1, 1)});
  const Order order = Order::build(schedule);
  ASSERT_EQ(order.stream_count(), 3);
  using Ranks = std::vector<int32_t>;
  const auto ranks = [](std::span<const int32_t> span) { return Ranks(span.begin(), span.end()); };
  EXPECT_EQ(ranks(order.sources(0)), (Ranks{1, 2, 3}));
  EXPECT_EQ(ranks(order.targets(0)), Ranks{0});
  EXPECT_EQ(order.transfers(0).size(), 5u);
  EXPECT_EQ(ranks(order.sources(1)), Ranks{0});
  EXPECT_EQ(order.transfers(1).size(), 1u);
  EXPECT_EQ(ranks(order.sources(2)), Ranks{1});
  EXPECT_EQ(ranks(order.targets(2)), Ranks{2});
}

}  // namespace
}  // namespace pleach
