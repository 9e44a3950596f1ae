#include "pleach/collective/program.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/collective/verify.h"
#include "tests/support/small_schedules.h"

namespace pleach {
namespace {

using support::make_schedule;
using support::ring_schedule;

Result<Program> lower_for(const Schedule& schedule, const ProgramOptions& options) {
  return lower(schedule, Order::build(schedule), options);
}

Program lowered(const Schedule& schedule, const ProgramOptions& options) {
  Result<Program> program = lower_for(schedule, options);
  EXPECT_TRUE(program.has_value()) << program.error().message;
  return std::move(program).value();
}

const ProgramSlot& slot_of(const Program& program, int32_t chunk) {
  for (const ProgramSlot& slot : program.slots) {
    if (slot.chunk == chunk) {
      return slot;
    }
  }
  ADD_FAILURE() << "no slot of chunk " << chunk;
  return program.slots.front();
}

std::string text(const Location& location) {
  const char* const names[] = {"none", "input", "output", "scratch"};
  if (location.buffer == Buffer::kNone) {
    return "none";
  }
  return std::string(names[static_cast<int>(location.buffer)]) + "+" +
         std::to_string(location.offset);
}

TEST(ProgramTest, ExchangeReducesIntoTheOutputFromTheInput) {
  const Program program = lowered(make_schedule({}, {{0, 1, 0, 1}, {0, 1, 1, 0}}),
                                  {.rank = Rank{0}, .count = 7, .segment_count = 2});
  ASSERT_EQ(program.slots.size(), 1u);
  const ProgramSlot& slot = program.slots[0];
  EXPECT_EQ(slot.length, 7);
  EXPECT_EQ(text(slot.initial), "input+0");
  EXPECT_EQ(text(slot.home), "output+0");
  EXPECT_EQ(text(slot.result), "none");
  EXPECT_EQ(program.segment(slot, 0), (Interval{0, 3}));
  EXPECT_EQ(program.segment(slot, 1), (Interval{3, 7}));
  EXPECT_EQ(program.home_offset(slot, 1), 3);
  ASSERT_EQ(program.reads.size(), 1u);
  EXPECT_EQ(program.reads[0].after_commits, 0);
  ASSERT_EQ(program.commits.size(), 1u);
  EXPECT_EQ(program.commits[0].after_reads, 1);
  EXPECT_EQ(program.scratch_elements, 0);
}

TEST(ProgramTest, MarksWhatMayBeBorrowed) {
  const auto may_borrow = [](const Schedule& schedule, int32_t rank, bool in_place) {
    std::vector<bool> marks;
    for (const ProgramMessage& send :
         lowered(schedule, {.rank = Rank{rank}, .count = 12, .in_place = in_place}).sends) {
      marks.push_back(send.may_borrow);
    }
    return marks;
  };
  const Schedule exchange = make_schedule({}, {{0, 1, 0, 1}, {0, 1, 1, 0}});
  EXPECT_EQ(may_borrow(exchange, 0, true), std::vector{true});
  EXPECT_EQ(may_borrow(exchange, 1, true), std::vector{false});
  EXPECT_EQ(may_borrow(exchange, 0, false), std::vector{true});
  EXPECT_EQ(may_borrow(exchange, 1, false), std::vector{true});  // nobody writes the input
  for (const bool in_place : {false, true}) {
    EXPECT_EQ(may_borrow(ring_schedule(CollectiveKind::kAllReduce, 3), 2, in_place),
              std::vector(4, true));
  }
}

struct PlaceCase {
  std::string name;
  CollectiveKind collective;
  int32_t rank;
  bool in_place;
  int32_t chunk;
  std::string initial, home, result;
};

// Rings of 3 ranks and 10 elements: chunks [0, 3), [3, 6), [6, 10). Rooted ones: a chain from rank
// 0, or to it. all_to_all: 9 elements, blocks of 3.
Schedule place_schedule(CollectiveKind collective) {
  switch (collective) {
    case CollectiveKind::kAllToAll:
      return support::direct_schedule(collective, 3);
    case CollectiveKind::kBroadcast:
      return make_schedule({.collective = collective, .rank_count = 3},
                           {{0, 1, 0, 1, support::kCopy, 0}, {0, 1, 1, 2, support::kCopy, 1}});
    case CollectiveKind::kReduce:
      return make_schedule({.collective = collective, .rank_count = 3},
                           {{0, 1, 2, 1}, {0, 1, 1, 0, support::kReduce, 1}});
    default:
      return ring_schedule(collective, 3);
  }
}

TEST(ProgramTest, PlacesEverySlotWhereItsCollectiveWantsIt) {
  using Kind = CollectiveKind;
  const std::vector<PlaceCase> cases = {
      {"all_reduce", Kind::kAllReduce, 1, false, 1, "input+3", "output+3", "none"},
      {"all_reduce in place", Kind::kAllReduce, 1, true, 1, "output+3", "output+3", "none"},
      {"own shard", Kind::kReduceScatter, 1, false, 1, "input+3", "output+0", "none"},
      {"own shard in place", Kind::kReduceScatter, 1, true, 1, "output+3", "output+3", "none"},
      {"other shard", Kind::kReduceScatter, 1, false, 2, "input+6", "scratch+0", "none"},
      {"other shard in place", Kind::kReduceScatter, 1, true, 2, "output+6", "scratch+0", "none"},
      {"gathered own", Kind::kAllGather, 1, false, 1, "input+0", "none", "output+3"},
      {"gathered own in place", Kind::kAllGather, 1, true, 1, "output+3", "none", "none"},
      {"gathered other", Kind::kAllGather, 1, false, 2, "none", "output+6", "none"},
      {"root", Kind::kBroadcast, 0, false, 0, "input+0", "none", "output+0"},
      {"root in place", Kind::kBroadcast, 0, true, 0, "output+0", "none", "none"},
      {"not root", Kind::kBroadcast, 1, false, 0, "none", "output+0", "none"},
      {"reduce root", Kind::kReduce, 0, false, 0, "input+0", "output+0", "none"},
      {"reduce middle", Kind::kReduce, 1, false, 0, "input+0", "scratch+0", "none"},
      {"reduce middle in place", Kind::kReduce, 1, true, 0, "output+0", "scratch+0", "none"},
      {"reduce leaf", Kind::kReduce, 2, false, 0, "input+0", "none", "none"},
      {"own block", Kind::kAllToAll, 1, false, 4, "input+3", "none", "output+3"},
      {"own block in place", Kind::kAllToAll, 1, true, 4, "output+3", "none", "none"},
      {"block that comes", Kind::kAllToAll, 1, false, 7, "none", "output+6", "none"},
      {"block that comes in place", Kind::kAllToAll, 1, true, 7, "none", "scratch+3", "output+6"},
      {"block that goes in place", Kind::kAllToAll, 1, true, 5, "output+6", "none", "none"},
  };
  for (const PlaceCase& row : cases) {
    SCOPED_TRACE(row.name);
    const Schedule schedule = place_schedule(row.collective);
    ASSERT_TRUE(verify(schedule, nullptr).correct);
    const Program program = lowered(schedule, {.rank = Rank{row.rank},
                                               .count = row.collective == Kind::kAllToAll ? 9 : 10,
                                               .in_place = row.in_place});
    const ProgramSlot& slot = slot_of(program, row.chunk);
    EXPECT_EQ(text(slot.initial), row.initial);
    EXPECT_EQ(text(slot.home), row.home);
    EXPECT_EQ(text(slot.result), row.result);
  }
}

TEST(ProgramTest, ScratchHoldsAsManySegmentsAsTheScheduleNeedsAndNoMore) {
  // Chunk 4 stays in rank 1's scratch from step 0 to 3, chunk 5 from 0 to 1.
  struct Case {
    int32_t period, segment_count, held_of_4, held_of_5;
  };
  for (const Case& row : std::vector<Case>{{1, 2, 0, 1},  // three would be needed: one per segment
                                           {1, 8, 3, 1},
                                           {2, 8, 2, 1},
                                           {3, 8, 1, 1},
                                           {9, 8, 1, 1},
                                           {1, 1, 0, 0}}) {
    SCOPED_TRACE(std::to_string(row.period) + ", " + std::to_string(row.segment_count));
    Schedule schedule;
    for (const support::Counterexample& example : support::counterexamples()) {
      if (example.name == "scratch_of_one_segment") {
        schedule = example.schedule;
      }
    }
    schedule.period = row.period;
    const Program program =
        lowered(schedule, {.rank = Rank{1}, .count = 180, .segment_count = row.segment_count});
    const ProgramSlot& long_used = slot_of(program, 4);
    const ProgramSlot& short_used = slot_of(program, 5);
    EXPECT_EQ(long_used.home.buffer, Buffer::kScratch);
    EXPECT_EQ(long_used.scratch_segments, row.held_of_4);
    EXPECT_EQ(short_used.scratch_segments, row.held_of_5);
    if (row.held_of_5 > 0) {
      EXPECT_EQ(program.home_offset(short_used, 1), program.home_offset(short_used, 0));
      EXPECT_EQ(short_used.scratch_stride,
                (short_used.length + row.segment_count - 1) / row.segment_count);
    }
  }
}

// What a message is without its numbers.
using Essence = std::tuple<int32_t, int32_t, int32_t, int, std::vector<int32_t>>;

std::vector<Essence> essences(const Program& program, bool of_sends) {
  std::vector<Essence> result;
  for (const ProgramMessage& message : of_sends ? program.sends : program.receives) {
    std::vector<int32_t> items;
    for (int32_t k = 0; k < message.item_count; ++k) {
      const auto item = at(message.first_item + k);
      const int32_t slot = of_sends ? program.reads[item].slot : program.commits[item].slot;
      items.push_back(program.slots[at(slot)].chunk);
      items.push_back(of_sends ? program.reads[item].after_commits
                               : program.commits[item].after_commits);
      items.push_back(of_sends ? 0 : program.commits[item].after_reads);
    }
    result.emplace_back(message.peer.value, message.step, message.first_chunk,
                        static_cast<int>(message.op), items);
  }
  return result;
}

TEST(ProgramTest, SymmetricScheduleLowersAsItsExpansion) {
  for (const int32_t ranks : {2, 3, 8}) {
    const Schedule symmetric = support::symmetric_ring_schedule(ranks);
    const Schedule expanded = ring_schedule(CollectiveKind::kAllReduce, ranks);
    ASSERT_TRUE(verify(expanded, nullptr).correct);
    std::map<std::pair<int32_t, int32_t>, std::vector<int32_t>> sent, received;
    for (int32_t rank = 0; rank < ranks; ++rank) {
      SCOPED_TRACE(std::to_string(rank) + " of " + std::to_string(ranks));
      const ProgramOptions options{.rank = Rank{rank}, .count = 1000, .segment_count = 3};
      const Program program = lowered(symmetric, options);
      const Program reference = lowered(expanded, options);
      EXPECT_EQ(essences(program, true), essences(reference, true));
      EXPECT_EQ(essences(program, false), essences(reference, false));
      ASSERT_EQ(program.slots.size(), reference.slots.size());
      for (std::size_t slot = 0; slot < program.slots.size(); ++slot) {
        EXPECT_EQ(text(program.slots[slot].home), text(reference.slots[slot].home));
        EXPECT_EQ(program.slots[slot].read_count, reference.slots[slot].read_count);
        EXPECT_EQ(program.slots[slot].commit_count, reference.slots[slot].commit_count);
      }
      for (const ProgramMessage& message : program.sends) {
        sent[{rank, message.peer.value}].push_back(message.stream);
      }
      for (const ProgramMessage& message : program.receives) {
        received[{message.peer.value, rank}].push_back(message.stream);
      }
    }
    EXPECT_EQ(sent, received);
  }
}

TEST(ProgramTest, BothEndsSeeTheSameMessagesInTheSameOrder) {
  Rng rng(20240607);
  for (int32_t round = 0; round < 50; ++round) {
    const int32_t ranks = 2 + static_cast<int32_t>(rng.below(4));
    const Schedule schedule =
        support::random_tree_schedule(CollectiveKind::kAllReduce, ranks, 3, rng);
    ASSERT_TRUE(verify(schedule, nullptr).correct) << "seed 20240607, round " << round;
    std::map<std::pair<int32_t, int32_t>, std::vector<int32_t>> sent, received;
    std::size_t messages = 0;
    for (int32_t rank = 0; rank < ranks; ++rank) {
      const Program program = lowered(schedule, {.rank = Rank{rank}, .count = 12});
      messages += program.sends.size();
      for (const ProgramMessage& message : program.sends) {
        sent[{rank, message.peer.value}].push_back(message.stream);
      }
      for (const ProgramMessage& message : program.receives) {
        received[{message.peer.value, rank}].push_back(message.stream);
      }
    }
    EXPECT_EQ(sent, received);
    EXPECT_EQ(messages, schedule.transfers.size());
  }
}

TEST(ProgramTest, BadRequestsAreRefusedByName) {
  const Schedule ring = ring_schedule(CollectiveKind::kAllReduce, 3);
  // Rank 0 and 1 send through switch 7, which combines, to rank 2.
  Schedule in_switch =
      make_schedule({.collective = CollectiveKind::kReduce, .rank_count = 3, .root = 2}, {});
  for (const auto& [source, target] : {std::pair(0, 7), std::pair(1, 7), std::pair(7, 2)}) {
    in_switch.transfers.push_back(
        {.source = NodeId{source}, .target = NodeId{target}, .op = TransferOp::kReduce});
  }
  sort_transfers(in_switch);
  Schedule empty_read = make_schedule({.collective = CollectiveKind::kBroadcast, .rank_count = 3},
                                      {{0, 1, 1, 2, support::kCopy}});
  struct Case {
    std::string name;
    Schedule schedule;
    ProgramOptions options;
    ErrorCode code;
    std::string says;
  };
  const std::vector<Case> cases = {
      {"rank", ring, {.rank = Rank{3}, .count = 1}, ErrorCode::kInvalidArgument, "rank 3"},
      {"no rank", ring, {.rank = Rank{-1}, .count = 1}, ErrorCode::kInvalidArgument, "rank -1"},
      {"count", ring, {.rank = Rank{0}, .count = -4}, ErrorCode::kInvalidArgument, "-4"},
      {"no segments",
       ring,
       {.rank = Rank{0}, .count = 1, .segment_count = 0},
       ErrorCode::kInvalidArgument,
       "0 segments"},
      {"segments",
       ring,
       {.rank = Rank{0}, .count = 1, .segment_count = 1 << 28},
       ErrorCode::kInvalidArgument,
       "268435456 segments"},
      {"blocks",
       support::direct_schedule(CollectiveKind::kAllToAll, 3),
       {.rank = Rank{0}, .count = 10},
       ErrorCode::kInvalidArgument,
       "multiple"},
      {"switch", in_switch, {.rank = Rank{0}, .count = 1}, ErrorCode::kUnsupported, "node 7"},
      {"unproved",
       empty_read,
       {.rank = Rank{1}, .count = 1},
       ErrorCode::kInvalidArgument,
       "chunk 0"},
  };
  for (const Case& row : cases) {
    SCOPED_TRACE(row.name);
    const Result<Program> program = lower_for(row.schedule, row.options);
    ASSERT_FALSE(program.has_value());
    EXPECT_EQ(program.error().code, row.code);
    EXPECT_NE(program.error().message.find(row.says), std::string::npos) << program.error().message;
  }
}

TEST(ProgramTest, ChainThroughAPlainSwitchIsOneMessage) {
  Schedule schedule = make_schedule({.collective = CollectiveKind::kBroadcast}, {});
  schedule.transfers = {{.source = NodeId{0}, .target = NodeId{5}},
                        {.source = NodeId{5}, .target = NodeId{1}}};
  sort_transfers(schedule);
  const Program program = lowered(schedule, {.rank = Rank{1}, .count = 4});
  ASSERT_EQ(program.receives.size(), 1u);
  EXPECT_EQ(program.receives[0].peer, Rank{0});
}

}  // namespace
}  // namespace pleach
