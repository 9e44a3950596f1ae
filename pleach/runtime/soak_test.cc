// Many operations of many kinds over communicators that overlap: what they hold does not grow.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/collective/reference.h"
#include "pleach/runtime/communicator.h"
#include "tests/support/random_schedules.h"
#include "tests/support/rank_threads.h"
#include "tests/support/small_schedules.h"

namespace pleach {
namespace {

using std::chrono::seconds;
using support::Bytes;

constexpr int32_t kRanks = 3;
constexpr std::size_t kInFlight = 8;
// With shares that differ, none, and more than a landing place takes.
constexpr std::array<int64_t, 5> kCounts = {0, 6, 66, 1200, 30'000};

// What the process holds. (Sanitizers keep their own accounts: the heap is 0 there.)
struct Holdings {
  int64_t heap_bytes = 0;
  int64_t descriptors = 0;
};

Holdings take_stock() {
  const struct mallinfo2 heap = mallinfo2();
  const std::filesystem::directory_iterator descriptors("/proc/self/fd");
  return {static_cast<int64_t>(heap.uordblks + heap.hblkhd),
          std::distance(begin(descriptors), end(descriptors))};
}

// One communicator on one rank, and what it can do.
struct Member {
  std::unique_ptr<Communicator> communicator;
  struct Kind {
    Schedule schedule;
    std::shared_ptr<const PreparedSchedule> prepared;
  };
  std::vector<Kind> kinds;

  Member(const std::shared_ptr<Endpoint>& endpoint, std::vector<Rank> ranks)
      : communicator(Communicator::create(endpoint, {.ranks = std::move(ranks)}).value()) {
    const int32_t count = communicator->rank_count();
    Rng rng(7);
    for (const CollectiveKind collective :
         {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter, CollectiveKind::kAllGather,
          CollectiveKind::kAllToAll, CollectiveKind::kBroadcast, CollectiveKind::kReduce}) {
      const bool is_tree = has_root(collective);
      Schedule schedule = collective == CollectiveKind::kAllToAll
                              ? support::direct_schedule(collective, count)
                          : is_tree ? support::random_tree_schedule(collective, count, 3, rng)
                                    : support::ring_schedule(collective, count);
      auto prepared =
          communicator->prepare(communicator->rank().value == 0 ? &schedule : nullptr).value();
      kinds.push_back({std::move(schedule), std::move(prepared)});
    }
  }
};

// An operation in flight, and its buffers.
struct Flying {
  ReferenceRequest reference;
  Rank rank;
  Bytes input, output;
  std::optional<Operation> operation;
};

class Soaker {
 public:
  Soaker(const std::shared_ptr<Store>& store, Rank rank, const std::string& transport)
      : own_(static_cast<uint64_t>(rank.value) + 1) {
    endpoint_ = Endpoint::create({.rank = rank,
                                  .rank_count = kRanks,
                                  .transport = transport,
                                  .store = store,
                                  .deadline = seconds(60)})
                    .value();
    members_.push_back(std::make_unique<Member>(endpoint_, std::vector<Rank>()));
    if (rank.value > 0) {
      members_.push_back(std::make_unique<Member>(endpoint_, std::vector{Rank{2}, Rank{1}}));
    }
  }

  // Starts the next operation, which all ranks draw alike. False: something is wrong.
  bool step() {
    const std::size_t which = shared_.below(3) == 0 ? 1 : 0;
    const std::size_t kind = shared_.below(7);
    const int64_t count = kCounts[shared_.below(50) == 0 ? 4 : shared_.below(4)];
    // What is rare is of one type, so that what each kind takes the first time is there half way.
    const ElementType type = count == kCounts.back()
                                 ? ElementType::kFloat32
                                 : kAllElementTypes[shared_.below(kAllElementTypes.size())];
    const uint64_t seed = shared_.below(100);
    if (which >= members_.size()) {
      return true;
    }
    Member& member = *members_[which];
    if (kind == member.kinds.size()) {
      const Status met = member.communicator->barrier();
      EXPECT_TRUE(met.has_value()) << met.error().message;
      return met.has_value();
    }
    if (flying_.size() == kInFlight && !end_one()) {
      return false;
    }
    return start(member, member.kinds[kind], type, count, seed);
  }
  bool end_all() {
    while (!flying_.empty() && end_one()) {
    }
    return flying_.empty();
  }
  bool meet() { return end_all() && members_[0]->communicator->barrier().has_value(); }
  void close() {
    for (std::size_t i = members_.size(); i-- > 0;) {
      const Status closed = members_[i]->communicator->close();
      EXPECT_TRUE(closed.has_value()) << closed.error().message;
    }
  }

 private:
  bool start(Member& member, const Member::Kind& kind, ElementType type, int64_t count,
             uint64_t seed) {
    std::unique_ptr<Flying> flying = std::make_unique<Flying>();
    flying->reference = reference_request(kind.schedule, type, ReduceOp::kSum, count, seed);
    flying->rank = member.communicator->rank();
    const BufferSizes sizes = Placement::create(kind.schedule, count)->sizes(flying->rank);
    flying->input.resize(at(sizes.input * element_bytes(type)));
    flying->output.resize(at(sizes.output * element_bytes(type)));
    fill_input(flying->reference, flying->rank, flying->input);
    fill_output(flying->output);
    Result<Operation> operation =
        member.communicator->start(*kind.prepared, {.type = type,
                                                    .count = count,
                                                    .input = flying->input.data(),
                                                    .output = flying->output.data()});
    EXPECT_TRUE(operation.has_value()) << operation.error().message;
    if (operation) {
      flying->operation.emplace(std::move(*operation));
      flying_.push_back(std::move(flying));
    }
    return operation.has_value();
  }

  // Any of those in flight.
  bool end_one() {
    const auto next = flying_.begin() + static_cast<int64_t>(own_.below(flying_.size()));
    const Flying& flying = **next;
    const Status status = flying.operation->wait();
    EXPECT_TRUE(status.has_value()) << status.error().message;
    const int64_t wrong = count_wrong(flying.reference, flying.rank, flying.output);
    EXPECT_EQ(wrong, 0) << to_text(flying.reference.collective);
    flying_.erase(next);
    return status && wrong == 0;
  }

  Rng shared_{20}, own_;
  std::shared_ptr<Endpoint> endpoint_;
  std::vector<std::unique_ptr<Member>> members_;
  std::deque<std::unique_ptr<Flying>> flying_;
};

class SoakTest : public testing::TestWithParam<std::string> {};

TEST_P(SoakTest, MemoryAndDescriptorsStayFlat) {
  // Over three transports.
  const int64_t operations = support::is_long() ? 340'000 : 6'000;
  const std::shared_ptr<Store> store = make_local_store();
  std::array<Holdings, 2> holdings;
  support::on_every_rank(kRanks, [&](Rank rank) {
    Soaker soaker(store, rank, GetParam());
    for (int64_t operation = 0; operation < operations; ++operation) {
      if (!soaker.step()) {
        store->fail({rank, "rank " + std::to_string(rank.value) + " gave up"});
        return;
      }
      // Half way every kind, size and type has been there.
      if (operation == operations / 2 || operation + 1 == operations) {
        if (!soaker.meet()) {
          return;
        }
        if (rank.value == 0) {
          holdings[operation == operations / 2 ? 0 : 1] = take_stock();
        }
        if (!soaker.meet()) {
          return;
        }
      }
    }
    soaker.close();
  });
  RecordProperty("heap_bytes", std::to_string(holdings[1].heap_bytes));
  EXPECT_LE(holdings[1].heap_bytes, holdings[0].heap_bytes + (1 << 20));
  EXPECT_EQ(holdings[1].descriptors, holdings[0].descriptors);
}

INSTANTIATE_TEST_SUITE_P(Transports, SoakTest, testing::Values("inproc", "shm", "tcp"),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace pleach
