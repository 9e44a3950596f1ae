// Collectives in pieces, on real ranks: every algorithm's schedules over every transport give the
// bits of a serial reference, and what was recorded replays.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/element.h"
#include "pleach/base/rng.h"
#include "pleach/collective/pieces.h"
#include "pleach/collective/record.h"
#include "pleach/runtime/communicator.h"
#include "pleach/runtime/peer_memory.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/topology/shapes.h"
#include "tests/support/rank_threads.h"

namespace pleach {
namespace {

using support::Bytes;
using Counts = std::vector<int64_t>;
using Kind = CollectiveKind;
using Values = std::vector<int64_t>;

struct Job {
  const Schedule* schedule;
  Counts counts;  // of piece p on rank r at p·n + r
  ElementType type = ElementType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  bool in_place = false;
  int32_t segment_count = 1;
  bool is_wide = false;
  bool lends = false;  // peer memory

  std::size_t n() const { return at(schedule->rank_count()); }
  Kind kind() const { return schedule->collective; }
};

// What rank `rank` has at element `index` of what it gives.
int64_t value_of(int64_t rank, int64_t index) {
  return (rank * 31 + index * 7) % 11 - 5;
}

// Which elements of the whole are the rank's, in the order of its shard.
std::vector<std::size_t> places_of(const Job& job, std::size_t rank) {
  std::vector<std::size_t> places;
  std::size_t whole = 0;
  for (std::size_t index = 0; index < job.counts.size(); ++index) {
    for (int64_t k = 0; k < job.counts[index]; ++k, ++whole) {
      if (index % job.n() == rank) {
        places.push_back(whole);
      }
    }
  }
  return places;
}

std::size_t whole_size(const Job& job) {
  std::size_t size = 0;
  for (const int64_t count : job.counts) {
    size += at(count);
  }
  return size;
}

Values input_of(const Job& job, std::size_t rank) {
  Values values(gives_shards(job.kind()) ? places_of(job, rank).size() : whole_size(job));
  for (std::size_t index = 0; index < values.size(); ++index) {
    values[index] = value_of(static_cast<int64_t>(rank), static_cast<int64_t>(index));
  }
  return values;
}

// Empty where the rank ends with nothing.
Values output_of(const Job& job, std::size_t rank) {
  const std::size_t root = job.schedule->root.index();
  if (is_to_root(job.kind()) && rank != root) {
    return {};
  }
  Values whole(whole_size(job), 0);
  if (gives_shards(job.kind())) {
    for (std::size_t source = 0; source < job.n(); ++source) {
      const Values given = input_of(job, source);
      for (std::size_t k = 0; const std::size_t place : places_of(job, source)) {
        whole[place] = given[k++];
      }
    }
    return whole;
  }
  for (std::size_t source = 0; source < job.n(); ++source) {
    const Values given = input_of(job, source);
    for (std::size_t place = 0; place < whole.size(); ++place) {
      const bool counts = job.kind() == Kind::kReduceScatter || source == root;
      whole[place] += counts ? given[place] : 0;
    }
  }
  Values shard;
  for (const std::size_t place : places_of(job, rank)) {
    shard.push_back(whole[place]);
  }
  return shard;
}

Bytes bytes_of(const Values& values, ElementType type, int64_t divisor = 1) {
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

// A rank's buffers of a job, and what it finds wrong.
class RankJob {
 public:
  RankJob(const Job& job, std::size_t rank) : job_(job), places_(places_of(job, rank)) {
    input_ = bytes_of(input_of(job, rank), job.type);
    expected_ = bytes_of(output_of(job, rank), job.type,
                         job.op == ReduceOp::kAverage ? job.schedule->rank_count() : 1);
    if (job.in_place) {
      Bytes whole(whole_size(job) * element(), std::byte{0xa5});
      gives_shards(job.kind()) ? scatter(input_, whole)
                               : void(std::ranges::copy(input_, whole.begin()));
      output_ = hold(whole);
    } else {
      output_ = hold(Bytes(expected_.size() + element(), std::byte{0xa5}));
      given_ = hold(input_);
    }
  }
  RunRequest request() {
    return {.type = job_.type,
            .op = job_.op,
            .wire = job_.is_wide ? std::optional(ElementType::kFloat32) : std::nullopt,
            .counts = job_.counts,
            .segment_count = job_.segment_count,
            .input = job_.in_place ? output_.get() : given_.get(),
            .output = output_.get(),
            .record = &record};
  }
  bool is_right() const {
    if (!job_.in_place || !ends_with_shards(job_.kind())) {
      const bool writes_past_end =
          !job_.in_place && output_.get()[expected_.size()] != std::byte{0xa5};
      return !writes_past_end && std::equal(expected_.begin(), expected_.end(), output_.get());
    }
    for (std::size_t k = 0; k < places_.size(); ++k) {
      const std::byte* const begin = output_.get() + places_[k] * element();
      if (!std::equal(begin, begin + element(), expected_.begin() + offset(k))) {
        return false;
      }
    }
    return true;
  }
  bool kept_its_input() const {
    return job_.in_place || std::equal(input_.begin(), input_.end(), given_.get());
  }

  Record record;

 private:
  using Held = std::shared_ptr<std::byte>;
  std::size_t element() const { return at(element_bytes(job_.type)); }
  std::ptrdiff_t offset(std::size_t k) const { return static_cast<std::ptrdiff_t>(k * element()); }
  Held hold(const Bytes& bytes) const {
    Held held = job_.lends
                    ? allocate_peer_memory(static_cast<int64_t>(bytes.size() + 1)).value()
                    : Held(new std::byte[bytes.size() + 1], std::default_delete<std::byte[]>());
    std::ranges::copy(bytes, held.get());
    return held;
  }
  void scatter(const Bytes& shard, Bytes& whole) const {
    for (std::size_t k = 0; k < places_.size(); ++k) {
      std::copy_n(shard.begin() + offset(k), element(), whole.begin() + offset(places_[k]));
    }
  }

  const Job& job_;
  std::vector<std::size_t> places_;
  Bytes input_, expected_;
  Held given_, output_;
};

struct Group {
  int32_t rank_count = 4;
  std::string transport = "inproc";
  CommunicatorOptions options = {};
};

void with_group(const Group& group, const std::function<void(Communicator&)>& body) {
  const auto store = make_local_store();
  support::on_every_rank(group.rank_count, [&](Rank rank) {
    auto endpoint = Endpoint::create({.rank = rank,
                                      .rank_count = group.rank_count,
                                      .transport = group.transport,
                                      .store = store,
                                      .deadline = std::chrono::seconds(20)});
    ASSERT_TRUE(endpoint.has_value()) << endpoint.error().message;
    auto made = Communicator::create(*endpoint, group.options);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    body(**made);
    static_cast<void>((*made)->close());
  });
}

std::vector<Schedule> schedules_on(const std::string& spec) {
  std::vector<Schedule> schedules;
  const Result<Topology> topology = parse_topology(spec);
  EXPECT_TRUE(topology.has_value());
  for (const Algorithm* algorithm : algorithms()) {
    for (const Kind kind : algorithm->collectives) {
      if (!gives_shards(kind) && !ends_with_shards(kind)) {
        continue;
      }
      const SynthesisRequest request{*topology, {}, kind, Rank{has_root(kind) ? 1 : 0}};
      if (Result<Schedule> made = synthesize(request, algorithm->name); made.has_value()) {
        schedules.push_back(std::move(made).value());
      }
    }
  }
  return schedules;
}

std::string name_of(const Job& job) {
  std::string text = job.schedule->provenance.algorithm + " " + std::string(to_text(job.kind())) +
                     " " + std::string(to_text(job.type)) + (job.in_place ? " in place" : "") +
                     (job.is_wide ? " wide" : "") + (job.lends ? " lent" : "") + " of";
  for (const int64_t count : job.counts) {
    text += " " + std::to_string(count);
  }
  return text;
}

// Equal parts, whole pieces of one rank, odd ones, and many small ones.
std::vector<Job> jobs_of(const Schedule& schedule, Rng& rng) {
  const auto n = at(schedule.rank_count());
  std::vector<Counts> lists(4);
  for (std::size_t piece = 0; piece < 3; ++piece) {
    const auto size = static_cast<int64_t>(1 + rng.below(50));
    const std::size_t owner = rng.below(n);
    for (std::size_t rank = 0; rank < n; ++rank) {
      lists[0].push_back(size);
      lists[1].push_back(rank == owner ? size : 0);
      lists[2].push_back(static_cast<int64_t>(rng.below(20)));
    }
  }
  for (std::size_t index = 0; index < 40 * n; ++index) {
    lists[3].push_back(static_cast<int64_t>(rng.below(4)));
  }
  std::vector<Job> jobs;
  for (const Counts& counts : lists) {
    for (const bool in_place : {false, true}) {
      Job job{&schedule, counts};
      job.in_place = in_place;
      job.segment_count = static_cast<int32_t>(1 + jobs.size() % 3);
      job.lends = rng.below(2) == 0;
      jobs.push_back(job);
    }
  }
  if (reduces(schedule.collective)) {
    for (const ElementType type : kAllElementTypes) {
      jobs.push_back({&schedule, lists[2], type, ReduceOp::kSum, rng.below(2) == 0, 2});
      if (is_floating(type)) {
        jobs.push_back({&schedule, lists[2], type, ReduceOp::kAverage, false, 1});
        jobs.push_back({&schedule, lists[0], type, ReduceOp::kAverage, true, 2});
      }
      if (is_half(type)) {
        for (const bool in_place : {false, true}) {
          jobs.push_back({&schedule, lists[2], type, ReduceOp::kSum, in_place, 1, true});
          jobs.push_back({&schedule, lists[2], type, ReduceOp::kAverage, in_place, 1, true});
        }
      }
    }
  }
  return jobs;
}

// Elements of a transfer, as ranks cut them.
int64_t most_of(const Job& job, const Group& group) {
  int64_t largest = 1;
  for (std::size_t rank = 0; rank < job.n(); ++rank) {
    largest = std::max(largest, std::ssize(places_of(job, rank)));
  }
  const ElementType wire = job.is_wide ? ElementType::kFloat32 : job.type;
  return std::max<int64_t>(1, std::min((largest + job.segment_count - 1) / job.segment_count,
                                       group.options.place_bytes / element_bytes(wire)));
}

using Records = std::vector<std::vector<Record>>;  // by job and rank

// The first rank tells what they were runs of.
void run_jobs(Communicator& communicator, const std::vector<Job>& jobs, Records& records,
              Schedule& as_run) {
  const Rank rank = communicator.rank();
  const auto prepared = communicator.prepare(rank.value == 0 ? jobs.front().schedule : nullptr);
  ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
  if (rank.value == 0) {
    as_run = schedule_of(**prepared);
  }
  constexpr std::size_t kInFlight = 3;
  for (std::size_t first = 0; first < jobs.size(); first += kInFlight) {
    const std::size_t last = std::min(first + kInFlight, jobs.size());
    std::vector<std::unique_ptr<RankJob>> parts;
    std::vector<Operation> operations;
    for (std::size_t job = first; job < last; ++job) {
      parts.push_back(std::make_unique<RankJob>(jobs[job], rank.index()));
      Result<Operation> started = communicator.start(**prepared, parts.back()->request());
      ASSERT_TRUE(started.has_value()) << name_of(jobs[job]) << ": " << started.error().message;
      operations.push_back(std::move(started).value());
    }
    for (std::size_t k = operations.size(); k-- > 0;) {
      const Status status = operations[k].wait();
      ASSERT_TRUE(status.has_value()) << name_of(jobs[first + k]) << ": " << status.error().message;
      ASSERT_TRUE(parts[k]->is_right()) << name_of(jobs[first + k]) << ", rank " << rank.value;
      ASSERT_TRUE(parts[k]->kept_its_input()) << name_of(jobs[first + k]);
      records[first + k][rank.index()] = std::move(parts[k]->record);
    }
  }
}

void expect_right(const Group& group, const std::vector<Schedule>& schedules, uint64_t seed) {
  Rng rng(seed);
  std::vector<std::vector<Job>> jobs;
  std::vector<Records> records;
  std::vector<Schedule> as_run(schedules.size());
  for (const Schedule& schedule : schedules) {
    jobs.push_back(jobs_of(schedule, rng));
    records.emplace_back(jobs.back().size(), std::vector<Record>(at(group.rank_count)));
  }
  with_group(group, [&](Communicator& communicator) {
    for (std::size_t i = 0; i < schedules.size() && !testing::Test::HasFailure(); ++i) {
      run_jobs(communicator, jobs[i], records[i], as_run[i]);
    }
  });
  for (std::size_t i = 0; i < schedules.size() && !testing::Test::HasFailure(); ++i) {
    for (std::size_t job = 0; job < jobs[i].size(); ++job) {
      const auto pieced =
          cut_into_pieces(as_run[i], jobs[i][job].counts, most_of(jobs[i][job], group));
      ASSERT_TRUE(pieced.has_value()) << pieced.error().message;
      const Status replayed = replay(Order::build(pieced->schedule), records[i][job], 1, 1);
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
    expect_right({schedules.front().rank_count(), GetParam()}, schedules, 7 + count);
  }
  EXPECT_GT(count, 40U);
}

TEST_P(Transports, MessagesAreCutToFitTheLandingPlaces) {
  const Result<Topology> topology = parse_topology("fully_connected:3");
  for (const auto& [algorithm, kind] :
       {std::pair("ring", Kind::kAllGather), std::pair("direct", Kind::kReduceScatter)}) {
    const Result<Schedule> schedule = synthesize({*topology, {}, kind, Rank{0}}, algorithm);
    ASSERT_TRUE(schedule.has_value());
    for (const int32_t places : {1, 4}) {
      const Group group{3, GetParam(), {.landing_places = places, .place_bytes = 64}};
      std::vector<Job> jobs;
      for (const Counts& counts : {Counts{0, 100, 3, 17, 5, 0, 1, 64, 9}, Counts{500, 500, 500},
                                   Counts{7, 7, 7, 200, 200, 200}}) {
        jobs.push_back({&*schedule, counts});
      }
      Records records(jobs.size(), std::vector<Record>(3));
      Schedule as_run;
      with_group(group, [&](Communicator& communicator) {
        run_jobs(communicator, jobs, records, as_run);
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Pieces, Transports, testing::Values("inproc", "tcp", "shm"),
                         [](const auto& transport) { return transport.param; });

TEST(Pieces, APlaceHoldsAnElement) {
  const Result<Topology> topology = parse_topology("ring:2");
  const Result<Schedule> schedule = synthesize({*topology, {}, Kind::kAllGather, Rank{0}}, "ring");
  ASSERT_TRUE(schedule.has_value());
  with_group({2, "inproc", {.place_bytes = 7}}, [&](Communicator& communicator) {
    const auto prepared =
        communicator.prepare(communicator.rank().value == 0 ? &*schedule : nullptr);
    ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
    const Counts counts(4, 1);
    Bytes input(16), output(32);
    const Status status = communicator.run(**prepared, {.type = ElementType::kFloat64,
                                                        .counts = counts,
                                                        .input = input.data(),
                                                        .output = output.data()});
    ASSERT_FALSE(status.has_value());
    EXPECT_NE(status.error().message.find("places of 7 bytes hold no float64"), std::string::npos)
        << status.error().message;
  });
}

TEST(Pieces, AnInputInsideTheOutputIsInPlaceOnlyAsTheWhole) {
  const Result<Topology> topology = parse_topology("ring:2");
  const Result<Schedule> schedule = synthesize({*topology, {}, Kind::kAllGather, Rank{0}}, "ring");
  ASSERT_TRUE(schedule.has_value());
  with_group({2, "inproc"}, [&](Communicator& communicator) {
    const auto prepared =
        communicator.prepare(communicator.rank().value == 0 ? &*schedule : nullptr);
    ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
    const Counts counts = {2, 2, 3, 3};
    Bytes output(40);
    const Status status = communicator.run(
        **prepared, {.counts = counts, .input = output.data() + 8, .output = output.data()});
    ASSERT_FALSE(status.has_value());
    EXPECT_NE(status.error().message.find("overlap in part"), std::string::npos)
        << status.error().message;
  });
}

}  // namespace
}  // namespace pleach
