// Collectives whose parts have counts of their own, on real ranks: every algorithm's schedules over
// every transport give the bits of a serial reference, and ranks that disagree are told.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/element.h"
#include "pleach/collective/record.h"
#include "pleach/runtime/communicator.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/topology/shapes.h"
#include "tests/support/rank_threads.h"
#include "tests/support/small_schedules.h"

namespace pleach {
namespace {

using support::Bytes;
using Counts = std::vector<int64_t>;
using Kind = CollectiveKind;

int64_t sum_of(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

// Of one collective of n ranks: n counts, or n² of an all_to_all's blocks (i, j), i major.
struct Job {
  const Schedule* schedule;
  Counts counts;
  ElementType type = ElementType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  bool in_place = false;
  int32_t segment_count = 1;

  int32_t rank_count() const { return schedule->rank_count(); }
  bool is_exchange() const { return schedule->collective == Kind::kAllToAll; }
  Counts sent(int32_t rank) const {
    const int32_t n = is_exchange() ? rank_count() : 0;
    return {counts.begin() + rank * n, counts.begin() + rank * n + (n == 0 ? rank_count() : n)};
  }
  Counts received(int32_t rank) const {
    Counts column;
    for (int32_t source = 0; source < (is_exchange() ? rank_count() : 0); ++source) {
      column.push_back(counts[at(source * rank_count() + rank)]);
    }
    return column;
  }
  int64_t part_begin(int32_t rank) const {
    return std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
  }
};

// What a rank gives: element `index` of what it has for the rank `target` (0 where that is
// nobody's).
int64_t value_of(int32_t rank, int32_t target, int64_t index) {
  return (rank * 31 + target * 17 + index * 7) % 11 - 5;
}

// The rank's input, or its output, as numbers.
std::vector<int64_t> input_of(const Job& job, int32_t rank) {
  std::vector<int64_t> values;
  const auto append = [&](int32_t target, int64_t first, int64_t count) {
    for (int64_t index = first; index < first + count; ++index) {
      values.push_back(value_of(rank, target, index));
    }
  };
  if (job.is_exchange()) {
    for (int32_t target = 0; target < job.rank_count(); ++target) {
      append(target, 0, job.sent(rank)[at(target)]);
    }
  } else if (gives_shards(job.schedule->collective)) {
    append(0, 0, job.counts[at(rank)]);
  } else {
    append(0, 0, sum_of(job.counts));
  }
  return values;
}

std::vector<int64_t> output_of(const Job& job, int32_t rank) {
  std::vector<int64_t> values;
  const auto part = [&](const std::vector<int64_t>& whole) {
    const auto begin = whole.begin() + job.part_begin(rank);
    return std::vector<int64_t>(begin, begin + job.counts[at(rank)]);
  };
  if (job.schedule->collective == Kind::kScatter) {
    return part(input_of(job, job.schedule->root.value));
  }
  if (job.schedule->collective == Kind::kReduceScatter) {
    values = input_of(job, 0);
    for (int32_t other = 1; other < job.rank_count(); ++other) {
      const std::vector<int64_t> theirs = input_of(job, other);
      std::transform(values.begin(), values.end(), theirs.begin(), values.begin(), std::plus());
    }
    return part(values);
  }
  for (int32_t source = 0; source < job.rank_count(); ++source) {
    const int64_t count =
        job.is_exchange() ? job.received(rank)[at(source)] : job.counts[at(source)];
    for (int64_t index = 0; index < count; ++index) {
      values.push_back(value_of(source, job.is_exchange() ? rank : 0, index));
    }
  }
  return values;
}

Bytes bytes_of(const std::vector<int64_t>& values, ElementType type, int64_t divisor = 1) {
  Bytes bytes(values.size() * at(element_bytes(type)));
  with_element(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto whole = static_cast<Arithmetic<T>>(values[i]);
      const T value =
          narrow<T>(static_cast<Arithmetic<T>>(whole / static_cast<Arithmetic<T>>(divisor)));
      std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
  });
  return bytes;
}

// One rank's part of a job: its buffers, and what it finds wrong.
class RankJob {
 public:
  RankJob(const Job& job, int32_t rank) : job_(job), rank_(rank) {
    const Bytes input = bytes_of(input_of(job, rank), job.type);
    counts_ = job.sent(rank);
    receive_counts_ = job.received(rank);
    const int64_t element = element_bytes(job.type);
    const bool ends = !is_to_root(kind()) || Rank{rank} == job.schedule->root;
    expected_ = bytes_of(ends ? output_of(job, rank) : std::vector<int64_t>(), job.type,
                         job.op == ReduceOp::kAverage ? job.rank_count() : 1);
    if (!job.in_place) {
      input_ = input;
      output_.resize(expected_.size(), std::byte{0xa5});
      return;
    }
    shard_ = at(job.is_exchange() ? 0 : job.part_begin(rank) * element);
    output_.resize(std::max({input.size(), expected_.size(), at(sum_of(counts_) * element)}));
    std::ranges::copy(
        input, output_.begin() + static_cast<std::ptrdiff_t>(gives_shards(kind()) ? shard_ : 0));
  }

  RunRequest request() {
    return {.type = job_.type,
            .op = job_.op,
            .counts = counts_,
            .receive_counts = receive_counts_,
            .segment_count = job_.segment_count,
            .input = job_.in_place ? output_.data() : input_.data(),
            .output = output_.data(),
            .record = &record};
  }
  bool is_right() const {
    const std::size_t begin = job_.in_place && ends_with_shards(kind()) ? shard_ : 0;
    return std::ranges::equal(std::span(output_).subspan(begin, expected_.size()), expected_);
  }

  Record record;

 private:
  Kind kind() const { return job_.schedule->collective; }

  const Job& job_;
  int32_t rank_;
  Counts counts_, receive_counts_;
  Bytes input_, output_, expected_;
  std::size_t shard_ = 0;  // bytes
};

struct Group {
  int32_t rank_count = 4;
  std::string transport = "inproc";
  CommunicatorOptions options = {};
};

// Runs the body on every rank that the communicator is of.
void with_group(const Group& group, const std::function<void(Communicator&)>& body) {
  const auto store = make_local_store();
  support::on_every_rank(group.rank_count, [&](Rank rank) {
    auto endpoint = Endpoint::create({.rank = rank,
                                      .rank_count = group.rank_count,
                                      .transport = group.transport,
                                      .store = store,
                                      .deadline = std::chrono::seconds(20)});
    ASSERT_TRUE(endpoint.has_value()) << endpoint.error().message;
    const auto& ranks = group.options.ranks;
    if (!ranks.empty() && std::ranges::find(ranks, rank) == ranks.end()) {
      return;
    }
    auto made = Communicator::create(*endpoint, group.options);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    body(**made);
    static_cast<void>((*made)->close());
  });
}

// Odd ones, none at all, one rank that has all, and the same for everyone.
std::vector<Counts> count_lists(std::size_t size) {
  std::vector<Counts> lists(5, Counts(size, 0));
  lists[1][size - 1] = 37;
  lists[2][0] = 1;
  for (std::size_t part = 0; part < size; ++part) {
    lists[3][part] = static_cast<int64_t>(part * part * 5 + 3) % 19;
    lists[4][part] = 6;
  }
  return lists;
}

// Of an all_to_all, what every pair exchanges both ways: it may be in place.
Counts symmetric(Counts blocks, int32_t rank_count) {
  for (int32_t i = 0; i < rank_count; ++i) {
    for (int32_t j = 0; j < i; ++j) {
      blocks[at(i * rank_count + j)] = blocks[at(j * rank_count + i)];
    }
  }
  return blocks;
}

std::vector<Job> jobs_of(const Schedule& schedule) {
  std::vector<Job> jobs;
  const auto parts = at(part_count(schedule.collective, schedule.rank_count()));
  for (const Counts& counts : count_lists(parts)) {
    for (const bool in_place : {false, true}) {
      Job job{&schedule, counts};
      job.in_place = in_place;
      job.segment_count = static_cast<int32_t>(1 + jobs.size() % 3);
      if (in_place && job.is_exchange()) {
        job.counts = symmetric(counts, schedule.rank_count());
      }
      jobs.push_back(job);
    }
  }
  if (reduces(schedule.collective)) {
    for (const ElementType type : kAllElementTypes) {
      const Counts counts = count_lists(parts)[3];
      jobs.push_back({&schedule, counts, type, ReduceOp::kSum, false, 2});
      if (is_floating(type)) {
        jobs.push_back({&schedule, counts, type, ReduceOp::kAverage, false, 1});
        jobs.push_back({&schedule, counts, type, ReduceOp::kAverage, true, 2});
      }
    }
  }
  return jobs;
}

// All that algorithms do of collectives that have parts; of all_to_all what moves directly.
std::vector<Schedule> schedules_on(const std::string& spec) {
  std::vector<Schedule> schedules;
  const Result<Topology> topology = parse_topology(spec);
  EXPECT_TRUE(topology.has_value());
  for (const Algorithm* algorithm : algorithms()) {
    for (const Kind kind : algorithm->collectives) {
      const SynthesisRequest request{*topology, {}, kind, Rank{has_root(kind) ? 1 : 0}};
      if (!has_parts(kind) || algorithm->name == "bruck") {
        continue;
      }
      if (Result<Schedule> made = synthesize(request, algorithm->name); made.has_value()) {
        schedules.push_back(std::move(made).value());
      }
    }
  }
  return schedules;
}

std::string name_of(const Job& job) {
  std::string text = job.schedule->provenance.algorithm + " " +
                     std::string(to_text(job.schedule->collective)) + " " +
                     std::string(to_text(job.type)) + (job.in_place ? " in place of" : " of");
  for (const int64_t count : job.counts) {
    text += " " + std::to_string(count);
  }
  return text;
}

// Runs the jobs of each schedule, three in flight at a time, and replays what was recorded.
void expect_right(const Group& group, const std::vector<Schedule>& schedules) {
  for (const Schedule& schedule : schedules) {
    ASSERT_EQ(schedule.rank_count(), group.rank_count);
  }
  std::vector<std::vector<Job>> jobs;
  std::vector<std::vector<std::vector<Record>>> records;  // by schedule, job and rank
  for (const Schedule& schedule : schedules) {
    jobs.push_back(jobs_of(schedule));
    records.emplace_back(jobs.back().size(), std::vector<Record>(at(group.rank_count)));
  }
  std::vector<Schedule> as_run(schedules.size());
  with_group(group, [&](Communicator& communicator) {
    const Rank rank = communicator.rank();
    for (std::size_t i = 0; i < schedules.size(); ++i) {
      const auto prepared = communicator.prepare(rank.value == 0 ? &schedules[i] : nullptr);
      ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
      if (rank.value == 0) {
        as_run[i] = schedule_of(**prepared);
      }
      constexpr std::size_t kInFlight = 3;
      for (std::size_t first = 0; first < jobs[i].size(); first += kInFlight) {
        const std::size_t last = std::min(first + kInFlight, jobs[i].size());
        std::vector<std::unique_ptr<RankJob>> parts;
        std::vector<Operation> operations;
        for (std::size_t job = first; job < last; ++job) {
          parts.push_back(std::make_unique<RankJob>(jobs[i][job], rank.value));
          Result<Operation> started = communicator.start(**prepared, parts.back()->request());
          ASSERT_TRUE(started.has_value())
              << name_of(jobs[i][job]) << ": " << started.error().message;
          operations.push_back(std::move(started).value());
        }
        for (std::size_t k = operations.size(); k-- > 0;) {
          const Status status = operations[k].wait();
          ASSERT_TRUE(status.has_value())
              << name_of(jobs[i][first + k]) << ": " << status.error().message;
          ASSERT_TRUE(parts[k]->is_right())
              << name_of(jobs[i][first + k]) << ", rank " << rank.value;
          records[i][first + k][rank.index()] = std::move(parts[k]->record);
        }
      }
    }
  });
  for (std::size_t i = 0; i < schedules.size() && !testing::Test::HasFailure(); ++i) {
    const Order order = Order::build(as_run[i]);
    for (std::size_t job = 0; job < jobs[i].size(); ++job) {
      const Status replayed = replay(order, records[i][job], jobs[i][job].segment_count,
                                     as_run[i].symmetry ? group.rank_count : 1);
      EXPECT_TRUE(replayed.has_value())
          << name_of(jobs[i][job]) << ": " << replayed.error().message;
    }
  }
}

class Transports : public testing::TestWithParam<std::string> {};

TEST_P(Transports, EveryAlgorithmGivesTheBitsOfASerialReference) {
  std::size_t count = 0;
  for (const std::string spec : {"fully_connected:2", "fully_connected:4", "ring:5", "torus:2x3"}) {
    SCOPED_TRACE(spec);
    const std::vector<Schedule> schedules = schedules_on(spec);
    ASSERT_FALSE(schedules.empty());
    count += schedules.size();
    expect_right({schedules.front().rank_count(), GetParam()}, schedules);
  }
  EXPECT_GT(count, 50U);
}

// Every pair cuts what it exchanges by itself until it fits.
TEST_P(Transports, MessagesAreCutToFitTheLandingPlaces) {
  const Result<Topology> topology = parse_topology("fully_connected:3");
  for (const auto& [algorithm, kind] :
       {std::pair("direct", Kind::kAllToAll), std::pair("pairwise", Kind::kAllToAll),
        std::pair("ring", Kind::kAllGather), std::pair("tree", Kind::kGather),
        std::pair("direct", Kind::kReduceScatter)}) {
    const Result<Schedule> schedule = synthesize({*topology, {}, kind, Rank{0}}, algorithm);
    ASSERT_TRUE(schedule.has_value());
    Counts counts = {0, 100, 3, 17, 5, 0, 1, 64, 9};
    counts.resize(kind == Kind::kAllToAll ? 9 : 3);
    for (const int32_t places : {1, 4}) {
      const Group group{3, GetParam(), {.landing_places = places, .place_bytes = 40}};
      with_group(group, [&](Communicator& communicator) {
        const Rank rank = communicator.rank();
        const auto prepared = communicator.prepare(rank.value == 0 ? &*schedule : nullptr);
        ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
        for (int32_t repeat = 0; repeat < 3; ++repeat) {
          const Job job{&*schedule, counts};
          RankJob part(job, rank.value);
          const Status status = communicator.run(**prepared, part.request());
          ASSERT_TRUE(status.has_value()) << status.error().message;
          EXPECT_TRUE(part.is_right()) << name_of(job) << ", rank " << rank.value;
        }
      });
    }
  }
}

TEST_P(Transports, APairThatDisagreesIsToldWhoAndWhat) {
  const Schedule exchange = support::direct_schedule(Kind::kAllToAll, 3);
  struct Case {
    int64_t sent, expected;
    int64_t place_bytes;
  };
  for (const auto& [sent, expected, place_bytes] :
       {Case{100, 96, 4096}, Case{96, 100, 4096}, Case{0, 1, 4096}, Case{1, 0, 4096},
        Case{1000, 10, 64}, Case{10, 1000, 64}}) {
    SCOPED_TRACE(std::to_string(sent) + " for " + std::to_string(expected));
    // Ranks 1, 2 and 3 of four; rank 3 of the job, 2 of the group, sends to rank 1, 0 of the group.
    const Group group{
        4, GetParam(), {.ranks = {Rank{1}, Rank{2}, Rank{3}}, .place_bytes = place_bytes}};
    with_group(group, [&](Communicator& communicator) {
      const Rank rank = communicator.rank();
      const auto prepared = communicator.prepare(rank.value == 0 ? &exchange : nullptr);
      ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
      Counts sends(3, 4), receives(3, 4);
      sends[0] = rank.value == 2 ? sent : sends[0];
      receives[2] = rank.value == 0 ? expected : receives[2];
      std::vector<float> input(at(sum_of(sends))), output(at(sum_of(receives)));
      const Status status = communicator.run(
          **prepared, {.counts = sends,
                       .receive_counts = receives,
                       .input = std::as_bytes(std::span(input)).data(),
                       .output = std::as_writable_bytes(std::span(output)).data()});
      const Status after = communicator.barrier();  // by then all know
      const std::string said = status ? after.error().message : status.error().message;
      EXPECT_EQ(said, "operation 1: rank 3 sends " + std::to_string(sent) +
                          " elements to rank 1, which expects " + std::to_string(expected));
      EXPECT_TRUE(rank.value != 0 || !status);
    });
  }
}

TEST_P(Transports, RanksWithOtherCountsAreTold) {
  const Schedule gathers = support::ring_schedule(Kind::kAllGather, 3);
  with_group({3, GetParam()}, [&](Communicator& communicator) {
    const Rank rank = communicator.rank();
    const auto prepared = communicator.prepare(rank.value == 0 ? &gathers : nullptr);
    ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
    const Counts counts = {4, 4, rank.value == 1 ? 5 : 4};
    std::vector<float> input(5), output(13);
    const Status status =
        communicator.run(**prepared, {.counts = counts,
                                      .input = std::as_bytes(std::span(input)).data(),
                                      .output = std::as_writable_bytes(std::span(output)).data()});
    ASSERT_FALSE(status.has_value());
    const std::string& said = status.error().message;
    EXPECT_TRUE(said == "operation 1: rank 1 runs all_gather of 13 float32, rank 0 of 12" ||
                said == "operation 1: rank 2 runs all_gather of 12 float32, rank 1 of 13")
        << said;
  });
}

INSTANTIATE_TEST_SUITE_P(Counts, Transports, testing::Values("inproc", "tcp", "shm"),
                         [](const auto& transport) { return transport.param; });

TEST(Counts, OneRankKeepsWhatItHas) {
  for (const Kind kind : {Kind::kAllGather, Kind::kReduceScatter, Kind::kAllToAll, Kind::kGather}) {
    const Schedule schedule =
        support::make_schedule({.collective = kind, .rank_count = 1, .chunk_count = 1}, {});
    with_group({1}, [&](Communicator& communicator) {
      const auto prepared = communicator.prepare(&schedule);
      ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
      for (const int64_t count : {0, 1, 7}) {
        for (const bool in_place : {false, true}) {
          const Job job{&schedule, {count}, ElementType::kFloat32, ReduceOp::kSum, in_place};
          RankJob part(job, 0);
          const Status status = communicator.run(**prepared, part.request());
          ASSERT_TRUE(status.has_value()) << status.error().message;
          EXPECT_TRUE(part.is_right()) << name_of(job);
        }
      }
    });
  }
}

TEST(Counts, BadRequestsAreRefusedWithTheirCause) {
  Schedule relays = support::direct_schedule(Kind::kAllToAll, 3);
  relays.provenance.algorithm = "detour";
  Transfer& first = *std::ranges::find(relays.transfers, 2, &Transfer::first_chunk);
  Transfer second = first;  // block (0, 2) by rank 1
  first.target = second.source = NodeId{1};
  second.step = 1;
  relays.transfers.push_back(second);
  relays.phase_steps = {2};
  relays.period = 2;
  sort_transfers(relays);
  const Schedule reduces = support::ring_schedule(Kind::kAllReduce, 3);
  const Schedule gathers = support::ring_schedule(Kind::kAllGather, 3);
  const Schedule exchange = support::direct_schedule(Kind::kAllToAll, 3);
  struct Case {
    std::string name;
    const Schedule* schedule;
    Counts counts, receive_counts;
    bool in_place;
    std::string says;
  };
  const std::vector<Case> cases = {
      {"without parts", &reduces, {1, 1, 1}, {}, false, "all_reduce has no parts"},
      {"too few", &gathers, {1, 1}, {}, false, "2 counts, and 0 to receive, are not what"},
      {"to receive", &gathers, {1, 1, 1}, {1, 1, 1}, false, "3 counts, and 3 to receive"},
      {"negative", &gathers, {1, -2, 1}, {}, false, "count -2 is negative"},
      {"huge", &gathers, {INT64_MAX, INT64_MAX, 1}, {}, false, "too large"},
      {"large", &gathers, {INT64_MAX / 4, 0, 0}, {}, false, "elements are too many"},
      {"one-sided", &exchange, {1, 1, 1}, {}, false, "3 counts, and 0 to receive"},
      {"nothing to send", &exchange, {}, {1, 1, 1}, false, "0 counts, and 3 to receive"},
      {"itself", &exchange, {1, 2, 1}, {1, 3, 1}, false, "to the rank itself, which expects 3"},
      {"in place", &exchange, {1, 2, 3}, {1, 2, 4}, true, "to rank 2 as much as it receives"},
      {"relays", &relays, {1, 1, 1}, {1, 1, 1}, false, "detour does not"},
  };
  for (const Case& row : cases) {
    SCOPED_TRACE(row.name);
    with_group({3}, [&](Communicator& communicator) {
      const auto prepared =
          communicator.prepare(communicator.rank().value == 0 ? row.schedule : nullptr);
      ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
      std::vector<float> input(9), output(9);
      Counts receives = row.receive_counts;
      if (const std::size_t own = communicator.rank().index();
          row.name != "itself" && !receives.empty() && !row.counts.empty()) {
        receives[own] = row.counts[own];
      }
      const Status status = communicator.run(
          **prepared, {.counts = row.counts,
                       .receive_counts = receives,
                       .input = std::as_bytes(std::span(row.in_place ? output : input)).data(),
                       .output = std::as_writable_bytes(std::span(output)).data()});
      ASSERT_FALSE(status.has_value());
      EXPECT_NE(status.error().message.find(row.says), std::string::npos) << status.error().message;
    });
  }
}

}  // namespace
}  // namespace pleach
