// Ranks that call otherwise than the others: an error that names a rank, on all of them, no hang.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/runtime/communicator.h"
#include "tests/support/rank_threads.h"
#include "tests/support/small_schedules.h"

namespace pleach {
namespace {

using Floats = std::vector<float>;

constexpr int32_t kRanks = 3;
constexpr Duration kDeadline = std::chrono::seconds(10);

struct Caller {
  std::shared_ptr<Endpoint> endpoint;
  std::unique_ptr<Communicator> communicator;
  std::shared_ptr<const PreparedSchedule> prepared;
  Floats data = Floats(12, 1);

  RunRequest request() {
    auto* const bytes = std::as_writable_bytes(std::span(data)).data();
    return {.count = std::ssize(data), .input = bytes, .output = bytes};
  }
};

template <typename T>
Status status_of(const Result<T>& result) {
  return result ? ok() : Status(result.error());
}

struct Call {
  std::string name;
  Status (*make)(Caller& caller);
};

const std::vector<Call>& all_calls() {
  static const std::vector<Call> calls = {
      {"run",
       [](Caller& caller) { return caller.communicator->run(*caller.prepared, caller.request()); }},
      {"barrier", [](Caller& caller) { return caller.communicator->barrier(); }},
      {"prepare",
       [](Caller& caller) {
         const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, kRanks);
         const bool is_first = caller.communicator->rank().value == 0;
         return status_of(caller.communicator->prepare(is_first ? &ring : nullptr));
       }},
      {"split", [](Caller& caller) { return status_of(caller.communicator->split(0, 0)); }},
      {"close", [](Caller& caller) { return caller.communicator->close(); }},
      {"create",
       [](Caller& caller) {
         return status_of(Communicator::create(caller.endpoint, {.name = "other"}));
       }},
      {"leave", [](Caller& caller) {
         caller.communicator = nullptr;
         return Status(invalid("rank 1 left"));
       }}};
  return calls;
}

void call_apart(const Call& of_one, const Call& of_others) {
  SCOPED_TRACE("rank 1: " + of_one.name + ", the others: " + of_others.name);
  const auto store = make_local_store();
  std::vector<std::string> said(kRanks);
  const TimePoint begin = SteadyClock().now();
  support::on_every_rank(kRanks, [&](Rank rank) {
    Caller caller;
    caller.endpoint = Endpoint::create({.rank = rank,
                                        .rank_count = kRanks,
                                        .transport = "inproc",
                                        .store = store,
                                        .deadline = kDeadline})
                          .value();
    auto made = Communicator::create(caller.endpoint);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    caller.communicator = std::move(*made);
    const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, kRanks);
    auto prepared = caller.communicator->prepare(rank.value == 0 ? &ring : nullptr);
    ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
    caller.prepared = *prepared;
    const Status status = (rank.value == 1 ? of_one : of_others).make(caller);
    said[rank.index()] = status ? "nothing is wrong" : status.error().message;
  });
  EXPECT_LT(SteadyClock().now() - begin, 20 * kDeadline);
  for (const std::string& one : said) {
    EXPECT_NE(one.find("rank "), std::string::npos) << one;
    EXPECT_EQ(one.find('\n'), std::string::npos) << one;
  }
  EXPECT_EQ(said[0], said[2]) << "all are told the same";
}

// All jobs side by side: most of the time they wait.
TEST(CallsTest, RanksThatCallApartAreTold) {
  std::vector<std::thread> jobs;
  for (const Call& of_one : all_calls()) {
    for (const Call& of_others : all_calls()) {
      if (of_one.name != of_others.name && of_others.name != "leave") {
        jobs.emplace_back([one = &of_one, others = &of_others] { call_apart(*one, *others); });
      }
    }
  }
  for (std::thread& job : jobs) {
    job.join();
  }
}

}  // namespace
}  // namespace pleach
