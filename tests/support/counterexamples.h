// Counterexamples: small schedules, each of which breaks an executor or a verifier with one rule
// too few. Every executor runs the executable ones with one landing place per connection.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/collective/schedule.h"

namespace pleach::support {

// A transfer between ranks, as small tests write it.
struct Move {
  int32_t first_chunk = 0;
  int32_t chunk_count = 1;
  int32_t source = 0;  // ranks
  int32_t target = 0;
  TransferOp op = TransferOp::kReduce;
  int32_t step = 0;
};

inline constexpr TransferOp kCopy = TransferOp::kCopy;
inline constexpr TransferOp kReduce = TransferOp::kReduce;

struct ScheduleShape {
  CollectiveKind collective = CollectiveKind::kAllReduce;
  int32_t rank_count = 2;  // rank r is node r unless `participants` says otherwise
  int32_t chunk_count = 1;
  int32_t period = 0;  // 0: the step count
  int32_t root = 0;
  std::vector<int32_t> participants = {};
  FoldOrder fold_order = FoldOrder::kOwnFirst;
};

// One schedule without routes, sorted, of one phase.
inline Schedule make_schedule(const ScheduleShape& shape, const std::vector<Move>& moves) {
  Schedule schedule;
  schedule.collective = shape.collective;
  schedule.root = Rank{shape.root};
  for (int32_t rank = 0; rank < shape.rank_count; ++rank) {
    const int32_t node = shape.participants.empty() ? rank : shape.participants[at(rank)];
    schedule.participants.push_back(NodeId{node});
  }
  schedule.chunks = ChunkGrid::uniform(shape.chunk_count);
  int32_t step_count = 1;
  for (const Move& move : moves) {
    step_count = std::max(step_count, move.step + 1);
    schedule.transfers.push_back({.first_chunk = move.first_chunk,
                                  .chunk_count = move.chunk_count,
                                  .source = schedule.participants[at(move.source)],
                                  .target = schedule.participants[at(move.target)],
                                  .step = move.step,
                                  .op = move.op});
  }
  schedule.phase_steps = {step_count};
  schedule.fold_order = shape.fold_order;
  schedule.period = shape.period > 0 ? shape.period : step_count;
  sort_transfers(schedule);
  return schedule;
}

enum class Expectation : uint8_t {
  kCorrect,     // verify() accepts
  kWrongValue,  // well-formed and executable, every interleaving gives the same bits: wrong ones
  kEmptySlot,   // well-formed, but reads or reduces into an empty slot
  kMalformed,   // check_form() refuses
};

struct Counterexample {
  std::string name;
  std::string weaker_rule;  // what an executor or verifier might do instead; it then fails here
  Schedule schedule;
  Expectation expectation = Expectation::kCorrect;
  bool bitwise_replicated = true;
  int32_t segment_count = 1;  // that the failure needs; any other must work too
  bool in_place = false;      // the failure needs input and output in one buffer

  // Whether executors can run it to its end (its result is right when the expectation is so).
  bool executable() const {
    return expectation == Expectation::kCorrect || expectation == Expectation::kWrongValue;
  }
};

// Rows on the order of messages.
inline std::vector<Counterexample> order_counterexamples() {
  std::vector<Counterexample> rows;
  rows.push_back({.name = "exchange",
                  .weaker_rule = "no landing place at all (pull only)",
                  .schedule = make_schedule({}, {{0, 1, 0, 1}, {0, 1, 1, 0}}),
                  .bitwise_replicated = false});
  rows.push_back({.name = "two_chunk_exchange",
                  .weaker_rule = "equal keys in any order",
                  .schedule = make_schedule(
                      {.chunk_count = 2}, {{0, 1, 0, 1}, {1, 1, 0, 1}, {0, 1, 1, 0}, {1, 1, 1, 0}}),
                  .bitwise_replicated = false});
  // Step 0 is the counterexample; the rest makes it an all_reduce.
  rows.push_back(
      {.name = "interval_against_pieces",
       .weaker_rule = "a message commits as a whole",
       .schedule = make_schedule({.rank_count = 3, .chunk_count = 3}, {{0, 3, 0, 1},
                                                                       {0, 2, 1, 2},
                                                                       {2, 1, 1, 2},
                                                                       {0, 1, 2, 1},
                                                                       {1, 1, 2, 1},
                                                                       {0, 2, 1, 0, kCopy, 1},
                                                                       {0, 2, 1, 2, kCopy, 1},
                                                                       {2, 1, 0, 2, kReduce, 1},
                                                                       {2, 1, 2, 0, kCopy, 2},
                                                                       {2, 1, 2, 1, kCopy, 2}})});
  rows.push_back({.name = "two_exchanges",
                  .weaker_rule = "segments of equal keys in any order",
                  .schedule = make_schedule(
                      {.period = 1},
                      {{0, 1, 0, 1}, {0, 1, 1, 0}, {0, 1, 0, 1, kCopy, 1}, {0, 1, 1, 0, kCopy, 1}}),
                  .bitwise_replicated = false,
                  .segment_count = 2});
  // Key 1 is shared by segment 1 of chunk 0 and, at step 1, by segment 0 of chunk 1; from 1 to 0
  // that chunk travels in a message which starts with chunk 0.
  rows.push_back(
      {.name = "chunk_before_segment",
       .weaker_rule = "ties by chunk before segment",
       .schedule = make_schedule({.chunk_count = 2, .period = 1}, {{0, 1, 0, 1},
                                                                   {0, 1, 1, 0, kCopy},
                                                                   {1, 1, 0, 1, kReduce, 1},
                                                                   {0, 2, 1, 0, kCopy, 1},
                                                                   {1, 1, 1, 0, kCopy, 2}}),
       .segment_count = 2});
  // With one place, and the last message read at its source.
  rows.push_back(
      {.name = "pieces_against_borrowed_interval",
       .weaker_rule = "a borrowed read is over with its message, not with its chunk",
       .schedule = make_schedule({.chunk_count = 2}, {{0, 1, 0, 1}, {1, 1, 0, 1}, {0, 2, 1, 0}}),
       .bitwise_replicated = false});
  return rows;
}

// Rows on landing places and scratch.
inline std::vector<Counterexample> landing_place_counterexamples() {
  std::vector<Counterexample> rows;
  // What 1 and 2 send each other stands behind the message of 0 there, which waits for it.
  rows.push_back(
      {.name = "reservation_per_connection",
       .weaker_rule = "reservation for the receiver's smallest",
       .schedule = make_schedule({.rank_count = 3, .chunk_count = 3}, {{0, 3, 0, 1},
                                                                       {0, 3, 0, 2},
                                                                       {0, 1, 1, 0},
                                                                       {0, 1, 2, 0},
                                                                       {2, 1, 1, 2},
                                                                       {1, 1, 2, 1},
                                                                       {0, 1, 0, 1, kCopy, 1},
                                                                       {0, 1, 0, 2, kCopy, 1},
                                                                       {1, 1, 1, 0, kCopy, 1},
                                                                       {1, 1, 1, 2, kCopy, 1},
                                                                       {2, 1, 2, 0, kCopy, 1},
                                                                       {2, 1, 2, 1, kCopy, 1}})});
  rows.push_back(
      {.name = "fused_reduction",
       .weaker_rule = "a fused reduction waits for later steps",
       .schedule = make_schedule(
           {.collective = CollectiveKind::kReduce, .rank_count = 3, .chunk_count = 2, .root = 1},
           {{0, 1, 0, 1}, {0, 1, 2, 1, kReduce, 1}, {1, 1, 0, 1}, {1, 1, 2, 1}})});
  // Blocks (0, 2), chunks 4 and 5, pass through scratch of rank 1; the others follow.
  rows.push_back({.name = "scratch_of_one_segment",
                  .weaker_rule = "scratch of one segment whatever the period",
                  .schedule = make_schedule({.collective = CollectiveKind::kAllToAll,
                                             .rank_count = 3,
                                             .chunk_count = 18,
                                             .period = 1},
                                            {{4, 1, 0, 1, kCopy, 0},
                                             {5, 1, 0, 1, kCopy, 0},
                                             {5, 1, 1, 2, kCopy, 1},
                                             {4, 1, 1, 2, kCopy, 3},
                                             {2, 2, 0, 1, kCopy, 4},
                                             {6, 2, 1, 0, kCopy, 4},
                                             {10, 2, 1, 2, kCopy, 4},
                                             {12, 2, 2, 0, kCopy, 4},
                                             {14, 2, 2, 1, kCopy, 4}}),
                  .segment_count = 2});
  return rows;
}

// Rows on values and their order.
inline std::vector<Counterexample> value_counterexamples() {
  std::vector<Counterexample> rows;
  rows.push_back(
      {.name = "in_place_all_to_all",
       .weaker_rule = "slots may alias",
       .schedule = make_schedule({.collective = CollectiveKind::kAllToAll, .chunk_count = 4},
                                 {{1, 1, 0, 1, kCopy}, {2, 1, 1, 0, kCopy}}),
       .in_place = true});
  // Rank 0 ends with (x0 + x1) + x2; by node number it would be (x0 + x2) + x1.
  rows.push_back(
      {.name = "participants_out_of_order",
       .weaker_rule = "source order by node number",
       .schedule = make_schedule(
           {.rank_count = 3, .participants = {0, 7, 4}},
           {{0, 1, 1, 0}, {0, 1, 2, 0}, {0, 1, 0, 1, kCopy, 1}, {0, 1, 0, 2, kCopy, 1}})});
  rows.push_back({.name = "reduce_against_copy",
                  .weaker_rule = "one-phase pass (commit as you read)",
                  .schedule = make_schedule({}, {{0, 1, 0, 1}, {0, 1, 1, 0, kCopy}}),
                  .expectation = Expectation::kWrongValue,
                  .bitwise_replicated = false});
  // Rank 0 holds (x0 + x1) + x2, rank 2 holds (x2 + x0) + x1.
  rows.push_back(
      {.name = "one_shot_on_three",
       .weaker_rule = "replicas compared by their contributions only",
       .schedule = make_schedule(
           {.rank_count = 3},
           {{0, 1, 0, 1}, {0, 1, 0, 2}, {0, 1, 1, 0}, {0, 1, 1, 2}, {0, 1, 2, 0}, {0, 1, 2, 1}}),
       .bitwise_replicated = false});
  // Rank 2 gets x0 before x1 is there.
  rows.push_back(
      {.name = "one_shot_by_rank",
       .weaker_rule = "arrivals commit one by one, before or behind what is there",
       .schedule = make_schedule(
           {.rank_count = 3, .fold_order = FoldOrder::kByRank},
           {{0, 1, 0, 1}, {0, 1, 0, 2}, {0, 1, 1, 0}, {0, 1, 1, 2}, {0, 1, 2, 0}, {0, 1, 2, 1}})});
  rows.push_back(
      {.name = "forwarded_in_the_same_step",
       .weaker_rule = "one-phase pass (commit as you read)",
       .schedule = make_schedule({.collective = CollectiveKind::kBroadcast, .rank_count = 3},
                                 {{0, 1, 0, 1, kCopy}, {0, 1, 1, 2, kCopy}}),
       .expectation = Expectation::kEmptySlot});
  rows.push_back({.name = "reduce_into_nothing",
                  .weaker_rule = "an empty slot counts as zero",
                  .schedule = make_schedule({.collective = CollectiveKind::kBroadcast},
                                            {{0, 1, 0, 1, kReduce}}),
                  .expectation = Expectation::kEmptySlot});
  rows.push_back(
      {.name = "copies_collide",
       .weaker_rule = "several arrivals in one step, whatever their kind",
       .schedule = make_schedule({.rank_count = 3}, {{0, 1, 0, 2, kCopy}, {0, 1, 1, 2, kReduce}}),
       .expectation = Expectation::kMalformed});
  rows.push_back({.name = "twice_from_one_source",
                  .weaker_rule = "several arrivals in one step, whatever their source",
                  .schedule = make_schedule({}, {{0, 1, 0, 1}, {0, 1, 0, 1}}),
                  .expectation = Expectation::kMalformed});
  return rows;
}

inline std::vector<Counterexample> counterexamples() {
  std::vector<Counterexample> rows;
  for (const auto& some :
       {order_counterexamples(), landing_place_counterexamples(), value_counterexamples()}) {
    rows.insert(rows.end(), some.begin(), some.end());
  }
  return rows;
}

}  // namespace pleach::support
