// Processes that leave, or fork, while communicators live.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/runtime/communicator.h"
#include "tests/support/rank_processes.h"
#include "tests/support/small_schedules.h"

// Processes end here with all that they hold.
extern "C" const char* __asan_default_options() {  // NOLINT(bugprone-reserved-identifier)
  return "detect_leaks=0";
}
extern "C" const char* __tsan_default_options() {  // NOLINT(bugprone-reserved-identifier)
  return "report_thread_leaks=0";
}

namespace pleach {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Floats = std::vector<float>;

// One rank's end of a job of two, and an all_reduce that takes both.
struct Member {
  Member(const TcpStoreOptions& options, const std::string& transport) {
    store = make_tcp_store(options).value();
    endpoint = Endpoint::create({.rank = options.rank,
                                 .rank_count = options.rank_count,
                                 .transport = transport,
                                 .store = store,
                                 .deadline = options.deadline})
                   .value();
    communicator = Communicator::create(endpoint).value();
    const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, options.rank_count);
    prepared = communicator->prepare(options.rank.value == 0 ? &ring : nullptr).value();
  }
  RunRequest request() {
    auto* const bytes = std::as_writable_bytes(std::span(data)).data();
    return {.count = std::ssize(data), .input = bytes, .output = bytes};
  }
  std::string run() {
    data.assign(1000, 1);
    const Status status = communicator->run(*prepared, request());
    return !status ? status.error().message : data == Floats(1000, 2) ? "" : "wrong result";
  }

  Floats data = Floats(1000, 1);
  std::shared_ptr<Store> store;
  std::shared_ptr<Endpoint> endpoint;
  std::unique_ptr<Communicator> communicator;
  std::shared_ptr<const PreparedSchedule> prepared;
  std::optional<Operation> operation;
};

// As programs have it that never end what they began.
std::unique_ptr<Member>& member_of_this_process() {
  static std::unique_ptr<Member> member;
  return member;
}

TEST(LeavingTest, ExitEndsAProcessWhateverIsInFlight) {
  struct Case {
    std::string name;
    void (*leave)(Member& member);
  };
  const std::vector<Case> cases = {
      {"at rest", [](Member& /*member*/) { std::exit(0); }},
      {"in flight",
       [](Member& member) {
         static_cast<void>(member.communicator->start(*member.prepared, member.request()));
         std::exit(0);
       }},
      {"in a callback",
       [](Member& member) {
         const auto operation = member.communicator->start(*member.prepared, member.request());
         operation->on_done([](const Status& /*status*/) { std::exit(0); });
         member.communicator->abort("to call back");
         std::this_thread::sleep_for(seconds(60));
       }},
      {"beside a thread that waits", [](Member& member) {
         std::promise<void> is_taken;
         std::thread([&member, &is_taken] {
           // On the stack of a thread that never ends; the static one is empty.
           const std::unique_ptr<Member> own = std::move(member_of_this_process());
           is_taken.set_value();
           static_cast<void>(own->run());
         }).detach();
         is_taken.get_future().wait();
         std::this_thread::sleep_for(milliseconds(50));
         std::exit(0);
       }}};
  for (const std::string transport : {"tcp", "shm"}) {
    for (const Case& row : cases) {
      SCOPED_TRACE(transport + ", " + row.name);
      support::RankProcesses ranks(2, seconds(4), [&](const TcpStoreOptions& options) {
        auto& member = member_of_this_process() = std::make_unique<Member>(options, transport);
        static_cast<void>(member->run());  // both are there
        if (options.rank.value == 1) {
          row.leave(*member);
        }
        std::this_thread::sleep_for(milliseconds(300));
        std::string said;
        while (said.empty()) {  // where exit takes its time, a thread beside it may run once more
          said = member->run();
        }
        member = nullptr;
        return "said: " + said;
      });
      EXPECT_TRUE(ranks.ends(1, seconds(30)));
      const std::string said = ranks.wait(0, seconds(30));
      EXPECT_TRUE(said.starts_with("said: rank 1")) << said;
    }
  }
}

// The store's host too: the others may not have heard that all have closed. But where the process
// does not even say that it leaves, the store's host has to stay.
TEST(LeavingTest, WhoEndsAfterAClosedJobHarmsNobody) {
  constexpr int32_t kRanks = 4;
  struct Case {
    std::string name;
    void (*leave)(std::unique_ptr<Member> member);
    int32_t lowest = 0;
  };
  const std::vector<Case> cases = {
      {"exit with all alive",
       [](std::unique_ptr<Member> member) {
         static_cast<void>(member.release());
         std::exit(0);
       }},
      {"exit with an operation alive",
       [](std::unique_ptr<Member> member) {
         static std::optional<Operation> kept;
         kept = member->operation;
         member = nullptr;
         std::exit(0);
       }},
      {"no word", [](std::unique_ptr<Member> /*member*/) { _exit(0); }, 1}};
  for (const std::string transport : {"tcp", "shm"}) {
    for (int32_t round = 0; round < 5 * std::ssize(cases); ++round) {
      const Case& row = cases[at(round % std::ssize(cases))];
      const int32_t first = std::max(row.lowest, round % kRanks);
      SCOPED_TRACE(transport + ", " + row.name + ", rank " + std::to_string(first));
      support::RankProcesses ranks(kRanks, seconds(30), [&](const TcpStoreOptions& options) {
        auto member = std::make_unique<Member>(options, transport);
        member->operation =
            member->communicator->start(*member->prepared, member->request()).value();
        static_cast<void>(member->operation->wait());
        const Status closed = member->communicator->close();
        if (options.rank.value == first) {
          row.leave(std::move(member));
        }
        return closed ? "well" : closed.error().message;
      });
      for (int32_t rank = 0; rank < kRanks; ++rank) {
        EXPECT_EQ(ranks.wait(rank, seconds(40)), rank == first ? "(nothing)" : "well") << rank;
      }
    }
  }
}

// But not who ends with a communicator that was not closed.
TEST(LeavingTest, WhoEndsAnOpenJobIsMissedAtOnce) {
  for (const int32_t first : {0, 1}) {
    SCOPED_TRACE(first);
    support::RankProcesses ranks(2, seconds(30), [&](const TcpStoreOptions& options) {
      auto member = std::make_unique<Member>(options, "tcp");
      auto second = Communicator::create(member->endpoint, {.name = "second"}).value();
      const Status closed = second->close();
      if (options.rank.value == first) {
        static_cast<void>(member.release());
        std::exit(0);
      }
      const TimePoint start = SteadyClock().now();
      const Status last = member->communicator->close();
      EXPECT_LT(SteadyClock().now() - start, seconds(20));
      return last ? "well" : last.error().message;
    });
    EXPECT_EQ(ranks.wait(first, seconds(40)), "(nothing)");
    const std::string said = ranks.wait(1 - first, seconds(40));
    EXPECT_NE(said.find("rank " + std::to_string(first) + " was lost: "), std::string::npos)
        << said;
  }
}

// What had failed before the job was shrunk cannot be closed, and is not missed.
TEST(LeavingTest, WhoEndsAfterAShrunkJobIsClosedHarmsNobody) {
  for (const int32_t first : {0, 1}) {
    SCOPED_TRACE(first);
    support::RankProcesses ranks(2, seconds(30), [&](const TcpStoreOptions& options) {
      auto member = std::make_unique<Member>(options, "tcp");
      auto second = Communicator::create(member->endpoint, {.name = "second"}).value();
      if (options.rank.value == 0) {
        member->communicator->abort("to shrink it");
      }
      while (member->run().empty()) {
      }
      auto left = member->communicator->shrink();
      if (!left) {
        return left.error().message;
      }
      auto other = Communicator::create(member->endpoint, {.name = "other"}).value();
      const Status closed = other->close();
      const Status last = closed ? (*left)->close() : closed;
      if (options.rank.value == first) {
        static_cast<void>(member.release());
        static_cast<void>(left->release());
        std::exit(0);
      }
      std::this_thread::sleep_for(milliseconds(500));
      const std::optional<Failure> failure = member->endpoint->store().epoch()->failure();
      return failure ? failure->message : last ? "well" : last.error().message;
    });
    EXPECT_EQ(ranks.wait(first, seconds(40)), "(nothing)");
    EXPECT_EQ(ranks.wait(1 - first, seconds(40)), "well");
  }
}

TEST(LeavingTest, ForkedChildrenLeaveTheirParentsAlone) {
  struct Case {
    std::string name;
    void (*live)(Member& member);
  };
  const std::vector<Case> cases = {
      {"_exit", [](Member& /*member*/) { _exit(0); }},
      {"exit", [](Member& /*member*/) { std::exit(0); }},
      {"destroys all",
       [](Member& /*member*/) {
         member_of_this_process() = nullptr;
         _exit(0);
       }},
      {"waits",
       [](Member& member) {
         const std::string said = member.operation->wait().error().message;
         _exit(said.find("another process") != std::string::npos && member.operation->test() ? 0
                                                                                             : 1);
       }},
      {"calls", [](Member& member) {
         const std::string said = member.run();
         member.communicator->abort("mine");
         _exit(said.find("another process") != std::string::npos &&
                       member.communicator->close().error().message == said
                   ? 0
                   : 1);
       }}};
  for (const std::string transport : {"tcp", "shm"}) {
    for (const Case& row : cases) {
      SCOPED_TRACE(transport + ", " + row.name);
      support::RankProcesses ranks(2, seconds(10), [&](const TcpStoreOptions& options) {
        auto& member = member_of_this_process() = std::make_unique<Member>(options, transport);
        member->operation =
            member->communicator->start(*member->prepared, member->request()).value();
        std::string said = member->operation->wait() ? member->run() : "it has failed";
        for (int round = 0; round < 3 && said.empty(); ++round) {
          const pid_t child = fork();
          if (child == 0) {
            row.live(*member);
          }
          said = member->run();
          int status = -1;
          waitpid(child, &status, 0);
          if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            said = "the child ended with " + std::to_string(status);
          }
          said += said.empty() ? member->run() : "";
        }
        if (const Status closed = member->communicator->close(); said.empty() && !closed) {
          said = closed.error().message;
        }
        member = nullptr;
        return said.empty() ? "well" : said;
      });
      for (const int32_t rank : {0, 1}) {
        EXPECT_EQ(ranks.wait(rank, seconds(30)), "well") << rank;
      }
    }
  }
}

}  // namespace
}  // namespace pleach
