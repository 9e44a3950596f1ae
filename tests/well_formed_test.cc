// Whatever a well-formed schedule says, and whatever size and options are asked for, the answer is
// a result or one line. A failed check would end this program.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/units.h"
#include "pleach/collective/bounds.h"
#include "pleach/collective/formats.h"
#include "pleach/collective/placement.h"
#include "pleach/collective/program.h"
#include "pleach/collective/verify.h"
#include "pleach/network/model.h"
#include "tests/support/random_symmetric.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

using support::kCopy;
using support::kReduce;
using support::Move;
using support::pick;

// A number from all over the range [1, most].
int64_t wide(Rng& rng, int64_t most) {
  const int64_t bits = int64_t{1} << rng.below(62);
  const int64_t drawn =
      rng.below(3) == 0 ? bits : 1 + static_cast<int64_t>(rng.below(static_cast<uint64_t>(bits)));
  return rng.below(20) == 0 ? most : std::min(most, drawn);
}

Topology draw_topology(Rng& rng) {
  const char* const shapes[] = {
      "ring:2",   "ring:5",           "torus:2x3", "mesh:2x2", "switch:4,reduce,multicast",
      "switch:3", "fully_connected:4"};
  std::string spec = shapes[rng.below(std::size(shapes))];
  spec += ",bandwidth=" + std::to_string(wide(rng, 999'999'999'999'999'999)) + "B/s";
  spec += ",latency=" + std::to_string(pick(rng, 3) * wide(rng, 500'000'000'000)) + "ps";
  spec += rng.below(2) == 0 ? "" : ",overhead=" + std::to_string(wide(rng, 1'000'000)) + "ps";
  if (rng.below(2) == 0) {
    spec += ",header=" + std::to_string(wide(rng, 1 << 20)) +
            ",packet=" + std::to_string(wide(rng, 1 << 30));
  }
  return support::topology_of(spec);
}

// Parts of one weight, in which the chunks weigh anything.
ChunkGrid draw_grid(int64_t parts, Rng& rng) {
  const int32_t each = 1 + pick(rng, 3);
  if (rng.below(2) == 0) {
    return ChunkGrid::uniform(static_cast<int32_t>(parts) * each);
  }
  const int64_t part = std::max<int64_t>(each, wide(rng, INT64_MAX / parts));
  std::vector<int64_t> weights;
  for (int64_t count = parts; count > 0; --count) {
    int64_t left = part;
    for (int32_t chunk = 1; chunk < each; ++chunk) {
      weights.push_back(1 + static_cast<int64_t>(rng.below(at(left - (each - chunk)))));
      left -= weights.back();
    }
    weights.push_back(left);
  }
  return ChunkGrid::weighted(std::move(weights));
}

// Through the switch after the ranks: from some to some, in a step of its own.
void add_stream(Schedule& schedule, int32_t step, Rng& rng) {
  const NodeId hub{4};
  const int32_t chunk = pick(rng, schedule.chunks.count());
  const auto some = [&rng] { return 1 + rng.below(15); };
  const uint64_t sources = some(), targets = some();
  for (int32_t rank = 0; rank < schedule.rank_count(); ++rank) {
    const NodeId node = schedule.participants[at(rank)];
    if ((sources >> node.value & 1) != 0) {
      schedule.transfers.push_back({chunk, 1, node, hub, step, kNoRoute, kReduce});
    }
    if ((targets >> node.value & 1) != 0) {
      schedule.transfers.push_back({chunk, 1, hub, node, step, kNoRoute, kReduce});
    }
  }
}

// On some of the ranks, in any order; steps far apart or close, some without a message.
Schedule draw_plain(const Topology& topology, Rng& rng) {
  Schedule schedule;
  schedule.collective = kAllCollectives[rng.below(kAllCollectives.size())];
  const auto nodes = topology.rank_nodes();
  schedule.participants.assign(nodes.begin(), nodes.end());
  for (std::size_t left = schedule.participants.size(); left > 1; --left) {
    std::swap(schedule.participants[left - 1], schedule.participants[rng.below(left)]);
  }
  schedule.participants.resize(1 + rng.below(schedule.participants.size()));
  const int32_t ranks = schedule.rank_count();
  schedule.root = Rank{has_root(schedule.collective) ? pick(rng, ranks) : 0};
  schedule.chunks = draw_grid(part_count(schedule.collective, ranks), rng);
  const int32_t spread = rng.below(8) == 0 ? 1 << 12 : 1;
  const int32_t steps = 1 + pick(rng, 6);
  std::vector<Move> moves;
  for (int32_t count = ranks == 1 ? 0 : pick(rng, 14); count > 0; --count) {
    Move move{.first_chunk = pick(rng, schedule.chunks.count()), .step = spread * pick(rng, steps)};
    move.chunk_count = 1 + pick(rng, std::min(5, schedule.chunks.count() - move.first_chunk));
    move.source = pick(rng, ranks);
    move.target = (move.source + 1 + pick(rng, ranks - 1)) % ranks;
    move.op = rng.below(2) == 0 ? kCopy : kReduce;
    if (std::ranges::all_of(moves,
                            [&](const Move& other) { return support::compatible(move, other); })) {
      moves.push_back(move);
    }
  }
  for (const Move& move : moves) {
    schedule.transfers.push_back(
        {move.first_chunk, move.chunk_count, schedule.participants[at(move.source)],
         schedule.participants[at(move.target)], move.step, kNoRoute, move.op});
  }
  if (topology.nodes().size() == 5 && topology.node(NodeId{4}).reduces && rng.below(2) == 0) {
    add_stream(schedule, spread * steps, rng);
  }
  schedule.phase_steps = {pick(rng, 2), spread * steps + 1, pick(rng, 2) * pick(rng, 1 << 10)};
  schedule.period = static_cast<int32_t>(wide(rng, kMaxScheduleSteps));
  sort_transfers(schedule);
  return schedule;
}

Schedule draw_schedule(const Topology& topology, Rng& rng) {
  if (topology.grid().empty() || rng.below(2) == 0) {
    return draw_plain(topology, rng);
  }
  std::vector<int32_t> dimensions;
  for (const GridDimension& dimension : topology.grid()) {
    dimensions.push_back(dimension.size);
  }
  Schedule schedule = support::random_symmetric_schedule(dimensions, rng);
  schedule.period = static_cast<int32_t>(wide(rng, kMaxScheduleSteps));
  return schedule;
}

SimulationOptions draw_options(Rng& rng) {
  return {.segment_count = rng.below(20) == 0 ? 1'000 : 1 + pick(rng, 4),
          .gate = rng.below(3) == 0 ? Gate::kLockstep : Gate::kDataflow,
          .flow_control = rng.below(2) == 0 ? FlowControl::kPacket : FlowControl::kMessage,
          .landing_places = static_cast<int32_t>(pick(rng, 3) * wide(rng, INT32_MAX / 2)),
          .reduce_bandwidth_bytes_per_s = pick(rng, 2) * wide(rng, INT64_MAX),
          .fold = rng.below(2) == 0,
          .keep_records = rng.below(4) == 0};
}

template <typename Answer>
bool is_one_line(const Answer& answer) {
  return answer || (!answer.error().message.empty() &&
                    answer.error().message.find('\n') == std::string::npos);
}

// Every format gives the schedule back.
void expect_formats(const Schedule& schedule) {
  for (const ScheduleFormat* format : schedule_formats()) {
    const Result<std::string> written = format->write(schedule);
    ASSERT_TRUE(written) << written.error().message;
    const Result<Schedule> read = format->read(*written, "x");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, schedule) << format->name;
    EXPECT_EQ(schedule_hash(*read), schedule_hash(schedule)) << format->name;
  }
}

void expect_programs(const Schedule& schedule, int64_t count, int32_t segments) {
  const Order order = Order::build(schedule);
  for (int32_t rank = 0; rank < schedule.rank_count(); ++rank) {
    for (const bool in_place : {false, true}) {
      EXPECT_TRUE(is_one_line(lower(
          schedule, order,
          {.rank = Rank{rank}, .count = count, .segment_count = segments, .in_place = in_place})));
    }
  }
}

TEST(WellFormed, SchedulesHaveAnAnswerToEverything) {
  constexpr uint64_t kSeed = 20260801;
  Rng rng(kSeed);
  int32_t well_formed = 0, timed = 0, correct = 0;
  for (int32_t round = 0; round < support::repeated(3'000); ++round) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", round " + std::to_string(round));
    const Topology topology = draw_topology(rng);
    Schedule schedule = draw_schedule(topology, rng);
    if (rng.below(2) == 0) {
      static_cast<void>(fill_routes(schedule, topology));
    }
    if (!check_form(schedule, &topology).empty()) {
      continue;
    }
    ++well_formed;
    correct += verify(schedule, rng.below(2) == 0 ? &topology : nullptr).correct ? 1 : 0;
    expect_formats(schedule);
    EXPECT_TRUE(is_one_line(expand(schedule, &topology)));
    Schedule certified = schedule;
    EXPECT_TRUE(is_one_line(certify(certified, topology)));
    SimulationOptions options = draw_options(rng);
    const int64_t slots = schedule.step_count() + int64_t{options.segment_count} * schedule.period;
    if (slots > 1'000) {  // a rank walks through all of them
      options.gate = Gate::kDataflow;
    }
    const int64_t ranks = schedule.rank_count();
    const int64_t most = (int64_t{1} << 56) / ranks;
    const int64_t size_bytes = pick(rng, 8) == 0 ? 0 : wide(rng, most) / ranks * ranks;
    expect_programs(schedule, size_bytes, options.segment_count);
    Job job{borrowed(schedule), size_bytes, rng.below(4) == 0 ? wide(rng, kLongestPs) : 0};
    for (const NetworkModel* model : network_models()) {
      if (model->name == "flit") {  // takes time by the flit
        job.size_bytes = size_bytes % 1024 / ranks * ranks;
      }
      const auto result = simulate(model->name, topology, std::span(&job, 1), options);
      EXPECT_TRUE(is_one_line(result));
      timed += result ? 1 : 0;
    }
  }
  EXPECT_GT(well_formed, 2'000);
  EXPECT_GT(timed, 1'000);
  EXPECT_GT(correct, 500);
}

}  // namespace
}  // namespace pleach
