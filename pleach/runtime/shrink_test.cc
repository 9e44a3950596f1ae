// Going on after a failure, with those who are left.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/runtime/communicator.h"
#include "tests/support/rank_processes.h"
#include "tests/support/rank_threads.h"
#include "tests/support/small_schedules.h"
#include "tests/support/stores.h"
#include "tests/support/transports.h"

namespace pleach {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Floats = std::vector<float>;

std::string message_of(const Status& status) {
  return status ? "" : status.error().message;
}

// A ring's all_reduce of as many numbers over all members: each gives its rank in the job plus one.
std::string add_up(Communicator& communicator, Rank self, int64_t count) {
  const Schedule ring =
      support::ring_schedule(CollectiveKind::kAllReduce, communicator.rank_count());
  auto prepared = communicator.prepare(communicator.rank().value == 0 ? &ring : nullptr);
  if (!prepared) {
    return prepared.error().message;
  }
  Floats data(at(count), static_cast<float>(self.value + 1));
  auto* const bytes = std::as_writable_bytes(std::span(data)).data();
  const Status status =
      communicator.run(**prepared, {.count = count, .input = bytes, .output = bytes});
  if (!status) {
    return status.error().message;
  }
  float sum = 0;
  for (const Rank rank : communicator.job_ranks()) {
    sum += static_cast<float>(rank.value + 1);
  }
  return data == Floats(at(count), sum) ? "" : "wrong result";
}

Result<std::shared_ptr<Endpoint>> endpoint_of(const std::shared_ptr<Store>& store, Rank rank,
                                              int32_t rank_count, const std::string& transport,
                                              Duration deadline = seconds(20)) {
  const support::TransportSpec spec(transport);
  return Endpoint::create({.rank = rank,
                           .rank_count = rank_count,
                           .transport = spec.name,
                           .store = store,
                           .deadline = deadline,
                           .host_name = spec.host_of(rank)});
}

std::string text(const std::vector<Rank>& ranks) {
  std::string text;
  for (const Rank rank : ranks) {
    text += std::to_string(rank.value);
  }
  return text;
}

// ---- Over both stores and every transport: ranks leave one after the other, down to one.

void leave_one_by_one(const std::shared_ptr<Store>& store, Rank rank, int32_t rank_count,
                      const std::string& transport) {
  auto endpoint = endpoint_of(store, rank, rank_count, transport);
  ASSERT_TRUE(endpoint.has_value()) << endpoint.error().message;
  auto communicator = Communicator::create(*endpoint);
  ASSERT_TRUE(communicator.has_value()) << communicator.error().message;
  EXPECT_EQ(message_of((*communicator)->barrier()), "");
  std::string members = "0123";
  for (const int32_t leaver : {2, 1, 3}) {
    ASSERT_EQ(add_up(**communicator, rank, 70'000), "");
    const auto early = (*communicator)->shrink();
    ASSERT_FALSE(early.has_value());
    EXPECT_NE(early.error().message.find("nothing has failed"), std::string::npos);
    static_cast<void>((*communicator)->barrier());  // some may see the end of it too late
    if (rank.value == leaver) {
      return;
    }
    const std::string said = message_of((*communicator)->barrier());
    EXPECT_NE(said.find("rank " + std::to_string(leaver)), std::string::npos) << said;
    auto left = (*communicator)->shrink();
    ASSERT_TRUE(left.has_value()) << left.error().message;
    EXPECT_EQ(message_of((*communicator)->barrier()), said) << "that one stays as it is";
    communicator = std::move(left);
    std::erase(members, static_cast<char>('0' + leaver));
    EXPECT_EQ(text((*communicator)->job_ranks()), members);
  }
  EXPECT_EQ(add_up(**communicator, rank, 1000), "");
  EXPECT_EQ(message_of((*communicator)->close()), "");
}

TEST(ShrinkTest, DownToOne) {
  for (const std::string transport : {"inproc", "tcp", "shm"}) {
    SCOPED_TRACE(transport);
    const std::shared_ptr<Store> local = make_local_store();
    support::on_every_rank(4, [&](Rank rank) { leave_one_by_one(local, rank, 4, transport); });
  }
  for (const std::string transport : {"tcp", "shm", "host/2"}) {
    SCOPED_TRACE(transport);
    const support::Served served;
    support::on_every_rank(4, [&](Rank rank) {
      auto store = make_tcp_store(served.options(rank, 4));
      ASSERT_TRUE(store.has_value()) << store.error().message;
      leave_one_by_one(std::move(store).value(), rank, 4, transport);
    });
  }
}

// A failure of which nobody died, and large messages that it cuts in two: all go on.
TEST(ShrinkTest, AllGoOnAfterAnAbort) {
  for (const std::string transport : {"inproc", "tcp", "shm"}) {
    SCOPED_TRACE(transport);
    const std::shared_ptr<Store> store = make_local_store();
    support::on_every_rank(3, [&](Rank rank) {
      auto endpoint = endpoint_of(store, rank, 3, transport);
      ASSERT_TRUE(endpoint.has_value()) << endpoint.error().message;
      auto world = Communicator::create(*endpoint);
      ASSERT_TRUE(world.has_value()) << world.error().message;
      const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 3);
      Rng rng(static_cast<uint64_t>(rank.value));
      for (int round = 0; round < 20; ++round) {
        constexpr int64_t kCount = 3'000'000;
        Floats data(kCount, 1);
        auto* const bytes = std::as_writable_bytes(std::span(data)).data();
        const auto begin = [&]() -> Result<Operation> {
          PLEACH_ASSIGN(prepared, (*world)->prepare(rank.value == 0 ? &ring : nullptr));
          return (*world)->start(*prepared, {.count = kCount, .input = bytes, .output = bytes});
        };
        const Result<Operation> operation = begin();
        if (rank.value == round % 3) {
          std::this_thread::sleep_for(std::chrono::microseconds(rng.below(5000)));
          (*world)->abort("enough of " + std::to_string(round));
        }
        const std::string said =
            operation ? message_of(operation->wait()) : operation.error().message;
        EXPECT_TRUE(said.empty() || said.ends_with("enough of " + std::to_string(round))) << said;
        EXPECT_FALSE((*world)->barrier().has_value());
        auto next = (*world)->shrink();
        ASSERT_TRUE(next.has_value()) << next.error().message;
        ASSERT_EQ((*next)->rank_count(), 3);
        world = std::move(next);
        ASSERT_EQ(add_up(**world, rank, 1000 * round), "");
      }
      EXPECT_EQ(message_of((*world)->close()), "");
    });
  }
}

// Several communicators shrink one after the other; a group without the lost rank stays as it was.
TEST(ShrinkTest, GroupsShrinkToo) {
  const std::shared_ptr<Store> store = make_local_store();
  support::on_every_rank(4, [&](Rank rank) {
    auto endpoint = endpoint_of(store, rank, 4, "tcp");
    ASSERT_TRUE(endpoint.has_value()) << endpoint.error().message;
    auto world = Communicator::create(*endpoint);
    ASSERT_TRUE(world.has_value()) << world.error().message;
    auto halves = (*world)->split(rank.value / 2, -rank.value);
    ASSERT_TRUE(halves.has_value()) << halves.error().message;
    static_cast<void>((*world)->barrier());
    if (rank.value == 2) {
      return;
    }
    EXPECT_FALSE((*world)->barrier().has_value());
    auto half = (*halves)->shrink();
    ASSERT_TRUE(half.has_value()) << half.error().message;
    auto all = (*world)->shrink();
    ASSERT_TRUE(all.has_value()) << all.error().message;
    EXPECT_EQ(text((*half)->job_ranks()), rank.value < 2 ? "10" : "3");
    EXPECT_EQ(text((*all)->job_ranks()), "013");
    EXPECT_EQ(add_up(**half, rank, 100), "");
    EXPECT_EQ(add_up(**all, rank, 100), "");
    EXPECT_EQ(message_of((*half)->close()), "");
    auto fresh = Communicator::create(*endpoint);
    ASSERT_TRUE(fresh.has_value()) << fresh.error().message;
    EXPECT_EQ(text((*fresh)->job_ranks()), "013");
    EXPECT_EQ(message_of((*fresh)->close()), "");
    EXPECT_EQ(message_of((*all)->close()), "");
  });
}

TEST(ShrinkTest, WhoLivesAndDoesNotComeIsNamed) {
  const support::Served served;
  support::on_every_rank(3, [&](Rank rank) {
    std::shared_ptr<Store> store = make_tcp_store(served.options(rank, 3)).value();
    auto endpoint = endpoint_of(store, rank, 3, "tcp", seconds(2));
    ASSERT_TRUE(endpoint.has_value()) << endpoint.error().message;
    auto world = Communicator::create(*endpoint);
    ASSERT_TRUE(world.has_value()) << world.error().message;
    static_cast<void>((*world)->barrier());
    (*world)->abort("all at once");
    if (rank.value == 1) {
      std::this_thread::sleep_for(seconds(4));
    } else {
      const auto alone = (*world)->shrink();
      ASSERT_FALSE(alone.has_value());
      EXPECT_EQ(alone.error().code, ErrorCode::kTimeout);
      EXPECT_EQ(alone.error().message, "rank 1 did not come to the recovery");
    }
    while (store->epoch()->number() == 0) {  // with patience all come
      const auto left = (*world)->shrink();
      if (left) {
        EXPECT_EQ((*left)->rank_count(), 3);
        EXPECT_EQ(add_up(**left, rank, 100), "");
        EXPECT_EQ(message_of((*left)->close()), "");
      }
    }
  });
}

// ---- Processes, some of which are killed or stopped.

// Adds up until something fails, then with those who are left; says how it ended.
std::string go_on(const TcpStoreOptions& options, const std::string& transport, int32_t failures,
                  support::Arrivals& begun) {
  auto made = make_tcp_store(options);
  if (!made) {
    return "store: " + made.error().message;
  }
  const std::shared_ptr<Store> store = std::move(made).value();
  auto endpoint = endpoint_of(store, options.rank, options.rank_count, transport, options.deadline);
  if (!endpoint) {
    return "endpoint: " + endpoint.error().message;
  }
  auto communicator = Communicator::create(*endpoint);
  if (!communicator) {
    return "create: " + communicator.error().message;
  }
  std::string log;
  while (true) {
    const bool is_last = failures == 0;
    std::string said;
    for (int round = 0; said.empty() && (!is_last || round < 20); ++round) {
      said = add_up(**communicator, options.rank, 20'000);
      if (log.empty() && round == 0) {
        begun.note();
      }
    }
    if (is_last || said == "wrong result") {
      return log + said + message_of((*communicator)->close());
    }
    log += said + "; ";
    auto left = (*communicator)->shrink();
    if (!left) {
      return log + "shrink: " + left.error().message;
    }
    communicator = std::move(left);
    log += text((*communicator)->job_ranks()) + "; ";
    --failures;
  }
}

TEST(ShrinkTest, SurvivorsOfProcessesGoOn) {
  for (const std::string transport : {"tcp", "shm"}) {
    for (const int how : {SIGKILL, SIGSTOP}) {
      SCOPED_TRACE(transport + " signal " + std::to_string(how));
      support::Arrivals begun;
      support::RankProcesses ranks(4, seconds(4), [&](const TcpStoreOptions& options) {
        return go_on(options, transport, 2, begun);
      });
      ASSERT_TRUE(begun.reach(4));
      ranks.signal(2, how);
      std::this_thread::sleep_for(how == SIGSTOP ? seconds(5) : seconds(1));
      if (how == SIGSTOP) {  // it lives, and learns that it is out
        ranks.signal(2, SIGCONT);
        const std::string said = ranks.wait(2, seconds(30));
        EXPECT_NE(said.find("shrink: rank 2 is out of the job: the others took it for lost"),
                  std::string::npos)
            << said;
      }
      ranks.signal(1, SIGKILL);
      for (const int32_t rank : {0, 3}) {
        const std::string said = ranks.wait(rank, seconds(30));
        EXPECT_NE(said.find("rank 2"), std::string::npos) << said;
        EXPECT_NE(said.find("; 013; "), std::string::npos) << said;
        EXPECT_NE(said.find("rank 1"), std::string::npos) << said;
        EXPECT_TRUE(said.ends_with("; 03; ")) << said;
      }
    }
  }
}

TEST(ShrinkTest, NobodyGoesOnWithoutTheStore) {
  support::Arrivals begun;
  support::RankProcesses ranks(3, seconds(4), [&](const TcpStoreOptions& options) {
    return go_on(options, "tcp", 1, begun);
  });
  ASSERT_TRUE(begun.reach(3));
  ranks.signal(0, SIGKILL);
  for (const int32_t rank : {1, 2}) {
    const std::string said = ranks.wait(rank, seconds(20));
    EXPECT_NE(said.find("; shrink: rank 0 was lost: its store closed the connection, and the "
                        "store with it"),
              std::string::npos)
        << said;
  }
}

}  // namespace
}  // namespace pleach
