// Ranks that leave while others go on, and communicators that fail alone.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

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

constexpr int32_t kRanks = 3;

struct Member {
  Member(const TcpStoreOptions& options, const std::string& transport) {
    const std::shared_ptr<Store> store = make_tcp_store(options).value();
    endpoint = Endpoint::create({.rank = options.rank,
                                 .rank_count = kRanks,
                                 .transport = transport,
                                 .store = store,
                                 .deadline = options.deadline})
                   .value();
  }

  std::shared_ptr<Endpoint> endpoint;
};

struct Group {
  Group(const std::shared_ptr<Endpoint>& endpoint, const std::string& name, bool fails_alone)
      : communicator(
            Communicator::create(endpoint, {.name = name, .fails_alone = fails_alone}).value()) {
    const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, kRanks);
    prepared = communicator->prepare(endpoint->rank().value == 0 ? &ring : nullptr).value();
  }
  // "": it went well.
  std::string run() {
    Floats data(3000, 1);
    auto* const bytes = std::as_writable_bytes(std::span(data)).data();
    const Status status =
        communicator->run(*prepared, {.count = std::ssize(data), .input = bytes, .output = bytes});
    return !status ? status.error().message : data == Floats(3000, kRanks) ? "" : "wrong result";
  }

  std::unique_ptr<Communicator> communicator;
  std::shared_ptr<const PreparedSchedule> prepared;
};

bool is_soon(TimePoint start) {
  return SteadyClock().now() - start < seconds(10);  // the deadline is a minute
}

// Data that a rank has handed over arrives after it has left. Operations that need more of it fail
// at once, and name it.
std::string stay(Member& member, Group& group, Rank left) {
  std::this_thread::sleep_for(milliseconds(300));  // it has gone
  for (const int32_t tag : {1, 0}) {
    Floats into(20'000);
    const auto received = group.communicator->messages().blocking_receive(
        left, tag, std::as_writable_bytes(std::span(into)));
    if (!received || into != Floats(20'000, static_cast<float>(tag))) {
      return received ? "wrong message" : received.error().message;
    }
  }
  const TimePoint start = SteadyClock().now();
  const std::string said = group.run();
  const auto another = Communicator::create(member.endpoint, {.name = "another"});
  return !is_soon(start) ? "late" : another ? "made another" : said;
}

std::string leave(Member& member, Group& group) {
  const Floats zeros(20'000, 0), ones(20'000, 1);
  for (int32_t rank = 0; rank < kRanks; ++rank) {
    for (const auto& [tag, values] : {std::pair(0, &zeros), std::pair(1, &ones)}) {
      if (Rank{rank} != member.endpoint->rank()) {
        static_cast<void>(group.communicator->messages().blocking_send(
            Rank{rank}, tag, std::as_bytes(std::span(*values))));
      }
    }
  }
  member.endpoint->leave(milliseconds(0));
  _exit(0);
}

TEST(DeparturesTest, WhatWasSentArrivesAndTheRestFailsAtOnce) {
  for (const std::string transport : {"tcp", "shm"}) {
    for (const int32_t first : {0, 1, 2}) {
      SCOPED_TRACE(transport + ", rank " + std::to_string(first));
      support::RankProcesses ranks(kRanks, seconds(60), [&](const TcpStoreOptions& options) {
        Member member(options, transport);
        Group group(member.endpoint, "world", false);
        const std::string before = group.run();
        return !before.empty()               ? before
               : options.rank.value == first ? leave(member, group)
                                             : stay(member, group, Rank{first});
      });
      for (int32_t rank = 0; rank < kRanks; ++rank) {
        const std::string said = ranks.wait(rank, seconds(60));
        const std::string left = "rank " + std::to_string(first) + " has left the job";
        EXPECT_TRUE(rank == first ? said == "(nothing)" : said.ends_with(left)) << said;
      }
    }
  }
}

// A rank that is in a collective when another leaves, and one that is not told by a connection.
TEST(DeparturesTest, WhoWaitsHearsAtOnce) {
  for (const std::string transport : {"tcp", "shm"}) {
    SCOPED_TRACE(transport);
    support::RankProcesses ranks(kRanks, seconds(60), [&](const TcpStoreOptions& options) {
      Member member(options, transport);
      Group group(member.endpoint, "world", false);
      if (options.rank.value == 2) {
        std::this_thread::sleep_for(milliseconds(300));
        member.endpoint->leave(milliseconds(0));
        _exit(0);
      }
      const TimePoint start = SteadyClock().now();
      const std::string said = group.run();
      return is_soon(start) ? said : "late";
    });
    for (const int32_t rank : {0, 1}) {
      const std::string said = ranks.wait(rank, seconds(60));
      EXPECT_TRUE(said.ends_with("rank 2 has left the job")) << said;
    }
  }
}

TEST(ScopesTest, WhatFailsAloneEndsNoOther) {
  for (const std::string transport : {"tcp", "shm"}) {
    SCOPED_TRACE(transport);
    support::RankProcesses ranks(kRanks, seconds(60), [&](const TcpStoreOptions& options) {
      Member member(options, transport);
      std::vector<std::unique_ptr<Group>> groups;
      for (int32_t number = 0; number < 6; ++number) {
        groups.push_back(
            std::make_unique<Group>(member.endpoint, "group " + std::to_string(number), true));
      }
      std::string said;
      for (int32_t number = 0; number < 6; ++number) {
        Group& group = *groups[static_cast<std::size_t>(number)];
        said += group.run();
        if (number % 2 == 1) {  // once this has ended, all ranks have ended the one before
          said += groups[static_cast<std::size_t>(number - 1)]->run();
        }
        if (number % 2 == 1 && options.rank.value == number % kRanks) {
          group.communicator->abort("for a test");
        }
        if (number % 2 == 1) {
          const TimePoint start = SteadyClock().now();
          std::string failed;
          while (failed.empty() && is_soon(start)) {
            failed = group.run();
          }
          const std::string name = "group " + std::to_string(number);
          said += failed.ends_with("for a test") && failed.find(name) != std::string::npos
                      ? ""
                      : name + " says " + failed;
          said += group.communicator->shrink() ? "shrunk" : "";
        }
      }
      for (std::size_t number = 0; number < 6; number += 2) {
        said += groups[number]->run();
        const Status closed = groups[number]->communicator->close();
        said += closed ? "" : closed.error().message;
      }
      return said.empty() ? "well" : said;
    });
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(ranks.wait(rank, seconds(60)), "well") << rank;
    }
  }
}

}  // namespace
}  // namespace pleach
