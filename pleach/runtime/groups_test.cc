// Communicators of some of a job's ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/runtime/communicator.h"
#include "tests/support/rank_threads.h"
#include "tests/support/small_schedules.h"

namespace pleach {
namespace {

using std::chrono::seconds;
using Floats = std::vector<float>;

std::byte* bytes(Floats& values) {
  return std::as_writable_bytes(std::span(values)).data();
}

// Runs the body on every rank with an endpoint of its own over one local store.
void with_endpoints(int32_t rank_count, const std::string& transport,
                    const std::function<void(std::shared_ptr<Endpoint>, Rank)>& body,
                    Duration deadline = seconds(20)) {
  const auto store = make_local_store();
  support::on_every_rank(rank_count, [&](Rank rank) {
    auto endpoint = Endpoint::create({.rank = rank,
                                      .rank_count = rank_count,
                                      .transport = transport,
                                      .store = store,
                                      .deadline = deadline});
    ASSERT_TRUE(endpoint.has_value()) << endpoint.error().message;
    body(*endpoint, rank);
  });
}

std::unique_ptr<Communicator> make(Result<std::unique_ptr<Communicator>> made) {
  EXPECT_TRUE(made.has_value()) << made.error().message;
  return made ? std::move(made).value() : nullptr;
}

std::shared_ptr<const PreparedSchedule> prepare(Communicator& communicator,
                                                const Schedule& schedule) {
  auto prepared = communicator.prepare(communicator.rank().value == 0 ? &schedule : nullptr);
  EXPECT_TRUE(prepared.has_value()) << prepared.error().message;
  return prepared ? *prepared : nullptr;
}

// All ranks give 2 to the power of their number in the job; returns what everybody has: whose
// values came together.
float sum_of_powers(Communicator& communicator, const PreparedSchedule& prepared, Rank job_rank) {
  Floats data(communicator.job_ranks().size() * 3, static_cast<float>(1 << job_rank.value));
  const Status status = communicator.run(
      prepared, {.count = std::ssize(data), .input = bytes(data), .output = bytes(data)});
  EXPECT_TRUE(status.has_value()) << status.error().message;
  EXPECT_EQ(data, Floats(data.size(), data.front()));
  return data.front();
}

TEST(GroupsTest, ColoursRunSideBySideInTheOrderOfTheirKeys) {
  for (const std::string transport : {"inproc", "tcp", "shm"}) {
    SCOPED_TRACE(transport);
    with_endpoints(5, transport, [](const std::shared_ptr<Endpoint>& endpoint, Rank rank) {
      const auto world = make(Communicator::create(endpoint));
      const auto all = prepare(*world, support::ring_schedule(CollectiveKind::kAllReduce, 5));
      // Even ranks backwards, odd ones by number; rank 4 has no part in it.
      const int32_t color = rank.value == 4 ? -1 : rank.value % 2;
      const int32_t key = color == 0 ? -rank.value : 0;
      Result<std::unique_ptr<Communicator>> split = world->split(color, key);
      ASSERT_TRUE(split.has_value()) << split.error().message;
      const std::unique_ptr<Communicator> group = std::move(split).value();
      ASSERT_EQ(group == nullptr, color < 0);
      std::shared_ptr<const PreparedSchedule> pair, gather;
      if (group != nullptr) {
        const std::vector<Rank> expected =
            color == 0 ? std::vector{Rank{2}, Rank{0}} : std::vector{Rank{1}, Rank{3}};
        EXPECT_EQ(group->job_ranks(), expected);
        EXPECT_EQ(group->job_ranks()[group->rank().index()], rank);
        EXPECT_EQ(group->rank_count(), 2);
        pair = prepare(*group, support::ring_schedule(CollectiveKind::kAllReduce, 2));
        gather = prepare(*group, support::ring_schedule(CollectiveKind::kAllGather, 2));
      }
      for (int round = 0; round < 20; ++round) {
        if (group != nullptr) {
          EXPECT_EQ(sum_of_powers(*group, *pair, rank), color == 0 ? 1 + 4 : 2 + 8);
          Floats own(1, static_cast<float>(rank.value));
          Floats gathered(2);
          ASSERT_TRUE(
              group->run(*gather, {.count = 2, .input = bytes(own), .output = bytes(gathered)}));
          EXPECT_EQ(gathered, (color == 0 ? Floats{2, 0} : Floats{1, 3}));
        }
        EXPECT_EQ(sum_of_powers(*world, *all, rank), 31);
      }
      if (group != nullptr) {
        ASSERT_TRUE(group->barrier());
        EXPECT_TRUE(group->close());
      }
      EXPECT_TRUE(world->close());
    });
  }
}

// Random groups, overlapping and in random orders, each created by its members alone.
TEST(GroupsTest, MembersAloneCreateThem) {
  constexpr int32_t kRanks = 6;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    std::vector<std::vector<Rank>> groups;
    for (int i = 0; i < 6; ++i) {
      std::vector<Rank> members;
      for (int32_t rank = 0; rank < kRanks; ++rank) {
        members.insert(members.begin() + static_cast<std::ptrdiff_t>(rng.below(members.size() + 1)),
                       Rank{rank});
      }
      members.resize(at(2 + rng.below(kRanks - 1)));
      groups.push_back(members);
    }
    const std::string transport = seed % 3 == 0 ? "shm" : seed % 3 == 1 ? "tcp" : "inproc";
    with_endpoints(kRanks, transport, [&](const std::shared_ptr<Endpoint>& endpoint, Rank rank) {
      std::vector<std::unique_ptr<Communicator>> mine;
      for (const std::vector<Rank>& members : groups) {
        if (std::ranges::find(members, rank) != members.end()) {
          mine.push_back(make(Communicator::create(
              endpoint, {.name = std::to_string(&members - groups.data()), .ranks = members})));
        }
      }
      for (const std::unique_ptr<Communicator>& group : mine) {
        const auto ring = prepare(
            *group, support::ring_schedule(CollectiveKind::kAllReduce, group->rank_count()));
        float expected = 0;
        for (const Rank member : group->job_ranks()) {
          expected += static_cast<float>(1 << member.value);
        }
        EXPECT_EQ(sum_of_powers(*group, *ring, rank), expected);
      }
      for (const std::unique_ptr<Communicator>& group : mine) {
        EXPECT_TRUE(group->close());
      }
    });
  }
}

TEST(GroupsTest, WhatIsNoGroupIsRefused) {
  with_endpoints(3, "inproc", [](const std::shared_ptr<Endpoint>& endpoint, Rank rank) {
    const auto refusal = [&](std::vector<Rank> ranks) {
      const auto made = Communicator::create(endpoint, {.name = "g", .ranks = std::move(ranks)});
      return made ? "" : made.error().message;
    };
    const std::string own = std::to_string(rank.value);
    EXPECT_EQ(refusal({Rank{0}, Rank{1}, Rank{2}, Rank{3}}),
              "communicator 'g': rank 3 is none of the job's 3");
    EXPECT_EQ(refusal({Rank{-1}, rank}), "communicator 'g': rank -1 is none of the job's 3");
    EXPECT_EQ(refusal({rank, rank}), "communicator 'g' has rank " + own + " twice");
    EXPECT_EQ(refusal({Rank{(rank.value + 1) % 3}}),
              "rank " + own + " is no member of communicator 'g'");
    // A group of one.
    const auto alone =
        make(Communicator::create(endpoint, {.name = "alone" + own, .ranks = {rank}}));
    ASSERT_TRUE(alone->barrier());
    EXPECT_TRUE(alone->close());
  });
}

TEST(GroupsTest, ScheduleOfAnotherCommunicatorIsRefused) {
  with_endpoints(2, "inproc", [](const std::shared_ptr<Endpoint>& endpoint, Rank /*rank*/) {
    const auto first = make(Communicator::create(endpoint, {.name = "first"}));
    const auto second = make(Communicator::create(endpoint, {.name = "second"}));
    const auto ring = prepare(*first, support::ring_schedule(CollectiveKind::kAllReduce, 2));
    Floats data(4);
    const Status status =
        second->run(*ring, {.count = 4, .input = bytes(data), .output = bytes(data)});
    ASSERT_FALSE(status.has_value());
    EXPECT_NE(status.error().message.find("the schedule was prepared by another communicator"),
              std::string::npos)
        << status.error().message;
  });
}

// Messages name the job's ranks, not the group's.
TEST(GroupsTest, WhoDiffersAndWhoDoesNotComeIsNamedByItsNumberInTheJob) {
  for (const bool comes : {false, true}) {
    with_endpoints(
        4, "shm",
        [&](const std::shared_ptr<Endpoint>& endpoint, Rank rank) {
          if (rank.value != 1 && rank.value != 3) {
            return;
          }
          const auto group = make(Communicator::create(endpoint, {.ranks = {Rank{3}, Rank{1}}}));
          const auto ring = prepare(*group, support::ring_schedule(CollectiveKind::kAllReduce, 2));
          Floats data(8);
          if (rank.value == 3 && !comes) {
            std::this_thread::sleep_for(seconds(4));
            return;
          }
          const Status status = group->run(
              *ring,
              {.count = rank.value == 1 ? 8 : 6, .input = bytes(data), .output = bytes(data)});
          ASSERT_FALSE(status.has_value());
          const std::string& said = status.error().message;
          EXPECT_TRUE(said.find(comes ? "rank 3 runs all_reduce of 6 float32 sum, rank 1 of 8"
                                      : "rank 3 did not begin it") != std::string::npos)
              << said;
          EXPECT_EQ(said.find("rank 0"), std::string::npos) << said;
        },
        seconds(comes ? 20 : 2));
  }
}

}  // namespace
}  // namespace pleach
