// Who wakes whom, and what outlives what: handles, callbacks, communicators, memory.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/runtime/communicator.h"
#include "pleach/runtime/net.h"
#include "pleach/runtime/transports/tcp_connection.h"
#include "tests/support/intruder.h"
#include "tests/support/rank_threads.h"
#include "tests/support/small_schedules.h"

namespace pleach {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Floats = std::vector<float>;

std::byte* bytes(Floats& values) {
  return std::as_writable_bytes(std::span(values)).data();
}

std::string message_of(const Status& status) {
  return status ? "" : status.error().message;
}

double seconds_since(TimePoint begin) {
  return std::chrono::duration<double>(SteadyClock().now() - begin).count();
}

Schedule broadcast_of_two() {
  return support::make_schedule({.collective = CollectiveKind::kBroadcast},
                                {{0, 1, 0, 1, support::kCopy}});
}

// A rank with an endpoint, a communicator and a prepared schedule.
struct Member {
  Member(const std::shared_ptr<Store>& store, Rank rank, int32_t rank_count,
         const Schedule& schedule, const std::string& transport = "inproc",
         Duration deadline = seconds(20), CommunicatorOptions options = {}) {
    endpoint = Endpoint::create({.rank = rank,
                                 .rank_count = rank_count,
                                 .transport = transport,
                                 .store = store,
                                 .deadline = deadline})
                   .value();
    communicator =
        std::shared_ptr<Communicator>(Communicator::create(endpoint, std::move(options)).value());
    prepared = communicator->prepare(rank.value == 0 ? &schedule : nullptr).value();
  }
  Result<Operation> start(Floats& input, Floats& output) const {
    return communicator->start(
        *prepared, {.count = std::ssize(output), .input = bytes(input), .output = bytes(output)});
  }

  std::shared_ptr<Endpoint> endpoint;
  std::shared_ptr<Communicator> communicator;
  std::shared_ptr<const PreparedSchedule> prepared;
};

// One thread asks test() again and again, another waits for the same operation.
TEST(LifetimeTest, WhoWaitsIsWokenByWhoTests) {
  const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 2);
  const auto store = make_local_store();
  support::on_every_rank(2, [&](Rank rank) {
    const Member member(store, rank, 2, ring);
    for (int round = 0; round < 200; ++round) {
      Floats input(10, 1);
      Floats output(10);
      const Result<Operation> operation = member.start(input, output);
      ASSERT_TRUE(operation.has_value()) << operation.error().message;
      std::atomic<bool> is_waiting = false;
      auto waiter = std::async(std::launch::async, [&] {
        is_waiting = true;
        return message_of(operation->wait(seconds(15)));
      });
      while (!is_waiting || !operation->test()) {
      }
      const TimePoint done = SteadyClock().now();
      ASSERT_EQ(waiter.get(), "");
      ASSERT_LT(seconds_since(done), 10);
    }
    EXPECT_EQ(message_of(member.communicator->close()), "");
  });
}

TEST(LifetimeTest, NameMayBeUsedAgain) {
  const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 2);
  for (const std::string transport : {"inproc", "tcp", "shm"}) {
    SCOPED_TRACE(transport);
    const auto store = make_local_store();
    support::on_every_rank(2, [&](Rank rank) {
      const auto endpoint =
          Endpoint::create({.rank = rank, .rank_count = 2, .transport = transport, .store = store});
      for (int round = 0; round < 20; ++round) {
        auto made = Communicator::create(*endpoint);
        ASSERT_TRUE(made.has_value()) << made.error().message;
        const auto prepared = (*made)->prepare(rank.value == 0 ? &ring : nullptr);
        ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
        Floats data(10, 1);
        ASSERT_EQ(message_of((*made)->run(
                      **prepared, {.count = 10, .input = bytes(data), .output = bytes(data)})),
                  "");
        ASSERT_EQ(data, Floats(10, 2));
        ASSERT_EQ(message_of((*made)->close()), "");
      }
    });
  }
}

// In a chain of four ranks each comes late, but within the deadline of those who wait for it, and
// polls for something else meanwhile.
TEST(LifetimeTest, WhoHasBegunInTimeIsNotAccused) {
  const Schedule chain =
      support::make_schedule({.collective = CollectiveKind::kBroadcast, .rank_count = 4},
                             {{0, 1, 0, 1, support::kCopy, 0},
                              {0, 1, 1, 2, support::kCopy, 1},
                              {0, 1, 2, 3, support::kCopy, 2}});
  const auto store = make_local_store();
  support::on_every_rank(4, [&](Rank rank) {
    const Member member(store, rank, 4, chain, "inproc", seconds(2));
    auto beside = Communicator::create(member.endpoint, {.name = "beside"});
    ASSERT_TRUE(beside.has_value()) << beside.error().message;
    const auto prepared = (*beside)->prepare(rank.value == 0 ? &chain : nullptr);
    const TimePoint zero = SteadyClock().now();
    constexpr std::array kBesideAt = {2400, 900, 0, 900};
    constexpr std::array kAt = {2400, 1800, 0, 1200};
    std::this_thread::sleep_until(zero + milliseconds(kBesideAt[rank.index()]));
    Floats data(10, 1);
    const auto other =
        (*beside)->start(**prepared, {.count = 10, .input = bytes(data), .output = bytes(data)});
    ASSERT_TRUE(other.has_value()) << other.error().message;
    std::this_thread::sleep_until(zero + milliseconds(kAt[rank.index()]));
    std::vector<Floats> many(3, Floats(10, 1));
    std::vector<Operation> begun;
    for (Floats& one : many) {
      const Result<Operation> operation = member.start(one, one);
      ASSERT_TRUE(operation.has_value()) << operation.error().message;
      begun.push_back(*operation);
    }
    for (const Operation& operation : begun) {
      EXPECT_EQ(message_of(operation.wait()), "") << rank.value;
    }
    EXPECT_EQ(message_of(other->wait()), "");
    static_cast<void>((*beside)->close());
    static_cast<void>(member.communicator->close());
  });
}

TEST(LifetimeTest, CallbacksComeInOrderAndBeforeTheEnd) {
  const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 2);
  const auto store = make_local_store();
  support::on_every_rank(2, [&](Rank rank) {
    Member member(store, rank, 2, ring);
    std::mutex mutex;
    std::vector<int> called;
    std::vector<Floats> data(50, Floats(10, 1));
    std::vector<Operation> begun;
    for (int i = 0; i < 50; ++i) {
      const Result<Operation> operation = member.start(data[at(i)], data[at(i)]);
      ASSERT_TRUE(operation.has_value()) << operation.error().message;
      begun.push_back(*operation);
    }
    for (int i = 0; i < 50; ++i) {
      begun[at(i)].on_done([&, i](const Status& status) {
        EXPECT_TRUE(status.has_value());
        const std::scoped_lock lock(mutex);
        called.push_back(i);
      });
    }
    begun.back().on_done([&](const Status&) {  // in place of the one before
      std::this_thread::sleep_for(milliseconds(200));
      const std::scoped_lock lock(mutex);
      called.push_back(49);
    });
    ASSERT_EQ(message_of(begun.back().wait()), "");
    ASSERT_EQ(message_of(member.communicator->close()), "");
    member.communicator = nullptr;
    EXPECT_EQ(called.size(), 50U);
    // Handles outlive the communicator, and keep the endpoint.
    member.endpoint = nullptr;
    EXPECT_TRUE(begun.front().test());
    EXPECT_EQ(message_of(begun.front().wait()), "");
    EXPECT_GE(begun.front().finished(), begun.front().started());
  });
}

TEST(LifetimeTest, CallbackMayHoldTheLastReferenceToItsCommunicator) {
  const Schedule down = broadcast_of_two();
  const auto store = make_local_store();
  std::vector<Floats> data(2, Floats(8, 1));
  support::on_every_rank(2, [&](Rank rank) {
    Member member(store, rank, 2, down);
    if (rank.value == 0) {
      std::this_thread::sleep_for(milliseconds(100));
    }
    const Result<Operation> operation = member.start(data[rank.index()], data[rank.index()]);
    ASSERT_TRUE(operation.has_value()) << operation.error().message;
    std::promise<void> called;
    if (rank.value == 1) {
      operation->on_done([held = member.communicator, &called](const Status&) {
        called.set_value();
        std::this_thread::sleep_for(milliseconds(50));  // the last to let go
      });
      member.communicator = nullptr;
      ASSERT_EQ(called.get_future().wait_for(seconds(10)), std::future_status::ready);
    }
  });
}

TEST(LifetimeTest, CommunicatorMayGoBesideAFailure) {
  const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 2);
  for (int round = 0; round < 50; ++round) {
    const auto store = make_local_store();
    support::on_every_rank(2, [&](Rank rank) {
      Member member(store, rank, 2, ring);
      Floats data(at(12 + rank.value), 1);  // the ranks differ
      const Result<Operation> operation = member.start(data, data);
      if (round % 2 == 0) {
        std::this_thread::yield();
      }
      member.communicator = nullptr;
    });
  }
}

// Rank 2 never starts what the others wait for: each in another way, none for its deadline.
TEST(LifetimeTest, AbortEndsWhateverRanksWaitFor) {
  const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 3);
  const std::string expected = "rank 1 aborted communicator 'world': the loss is infinite";
  for (const std::string transport : {"inproc", "tcp", "shm"}) {
    SCOPED_TRACE(transport);
    const auto store = make_local_store();
    const TimePoint begin = SteadyClock().now();
    support::on_every_rank(3, [&](Rank rank) {
      const Member member(store, rank, 3, ring, transport, seconds(40));
      auto beside = Communicator::create(member.endpoint, {.name = "beside"});
      ASSERT_TRUE(beside.has_value()) << beside.error().message;
      if (rank.value == 2) {
        EXPECT_EQ(message_of((*beside)->close()), expected);  // waits at the store
        return;
      }
      Floats data(12, 1);
      const Result<Operation> operation = member.start(data, data);
      ASSERT_TRUE(operation.has_value()) << operation.error().message;
      std::promise<std::string> called;
      operation->on_done([&](const Status& status) { called.set_value(message_of(status)); });
      if (rank.value == 1) {  // nobody waits here
        std::this_thread::sleep_for(milliseconds(50));
        std::thread([&] { member.communicator->abort("the loss is infinite"); }).join();
        member.communicator->abort("again");
      } else {
        EXPECT_EQ(message_of((*beside)->barrier()), expected);
        EXPECT_EQ(message_of(operation->wait()), expected);
      }
      EXPECT_EQ(called.get_future().get(), expected);
      EXPECT_EQ(message_of(member.communicator->barrier()), expected);
    });
    EXPECT_LT(seconds_since(begin), 20);
  }
}

TEST(LifetimeTest, AbortOfAClosedCommunicatorIsNothing) {
  const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 2);
  const auto store = make_local_store();
  support::on_every_rank(2, [&](Rank rank) {
    const Member member(store, rank, 2, ring);
    auto closed = Communicator::create(member.endpoint, {.name = "closed"});
    ASSERT_TRUE(closed.has_value()) << closed.error().message;
    ASSERT_EQ(message_of((*closed)->close()), "");
    (*closed)->abort("too late");
    EXPECT_EQ(message_of(member.communicator->barrier()), "");
    EXPECT_EQ(message_of(member.communicator->close()), "");
  });
}

TEST(LifetimeTest, MessageThatFitsAPlaceIsOneSegment) {
  const Schedule down = broadcast_of_two();
  for (const int64_t count : {int64_t{0}, int64_t{65'536}, int64_t{65'537}}) {
    const auto store = make_local_store();
    support::on_every_rank(2, [&](Rank rank) {
      const Member member(store, rank, 2, down, "inproc", seconds(20), {.place_bytes = 1 << 18});
      Floats data(at(count), 1);
      Record record;
      ASSERT_EQ(
          message_of(member.communicator->run(
              *member.prepared,
              {.count = count, .input = bytes(data), .output = bytes(data), .record = &record})),
          "");
      int32_t last = 0;
      for (const RecordEvent& event : record) {
        last = std::max(last, event.segment);
      }
      EXPECT_EQ(last, count > 65'536 ? 1 : 0);
      EXPECT_EQ(message_of(member.communicator->close()), "");
    });
  }
}

TEST(LifetimeTest, HundredsInFlightEndBackwards) {
  const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 3);
  for (const std::string transport : {"inproc", "tcp", "shm"}) {
    SCOPED_TRACE(transport);
    const auto store = make_local_store();
    support::on_every_rank(3, [&](Rank rank) {
      const Member member(store, rank, 3, ring, transport, seconds(20), {.landing_places = 1});
      std::vector<Floats> data(300, Floats(9, 1));
      std::vector<Operation> begun;
      for (Floats& one : data) {
        const Result<Operation> operation = member.start(one, one);
        ASSERT_TRUE(operation.has_value()) << operation.error().message;
        begun.push_back(*operation);
      }
      for (std::size_t i = begun.size(); i-- > 0;) {
        while (!begun[i].test()) {
        }
        ASSERT_EQ(data[i], Floats(9, 3));
      }
      EXPECT_EQ(message_of(member.communicator->close()), "");
    });
  }
}

// ---- A peer over TCP that is a socket in the test's hands.

// As rank 1 of 2, which has proved to rank 0 that it is.
Descriptor pose_as_rank_1(support::RankGroup& group) {
  const std::string entry = group.transport(Rank{0}).address();
  const std::vector<std::string_view> parts = split(entry, ' ');
  Descriptor socket = std::move(start_connect(parse_address(parts[2], "address").value())).value();
  wait_ready(socket.get(), POLLOUT, SteadyClock().now() + seconds(5));
  support::be_let_in(group.transport(Rank{0}), socket.get(), group.store().secret(),
                     {.purpose = Purpose::kTcp,
                      .rank = 1,
                      .acceptor = 0,
                      .rank_count = 2,
                      .meeting = std::stoull(std::string(parts[1]))});
  return socket;
}

// A send finds the peer gone: who waits for it is told at once, not when its patience ends.
TEST(LifetimeTest, LossThatASendFindsIsToldAtOnce) {
  support::RankGroup group(2, "tcp");
  Transport& transport = group.transport(Rank{0});
  {
    const Descriptor peer = pose_as_rank_1(group);
    for (int i = 0; i < 5; ++i) {
      std::vector<TransportEvent> events;
      ASSERT_TRUE(transport.wait(SteadyClock().now() + milliseconds(20), false));
      ASSERT_TRUE(transport.progress(events));
    }
    const linger reset{1, 0};
    setsockopt(peer.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  }
  std::this_thread::sleep_for(milliseconds(50));
  const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 2);
  Floats data(300, 1);
  OperationPool pool(
      lower(ring, Order::build(ring), {.rank = Rank{0}, .count = 300, .in_place = true}).value());
  const TimePoint begin = SteadyClock().now();
  EXPECT_FALSE(group.run(Rank{0}, pool, {.output = bytes(data), .deadline = seconds(16)}));
  EXPECT_LT(seconds_since(begin), 8);
}

// A segment is under way, its channel is closed and its memory freed; it leaves as it was, and
// another channel goes on. (The address sanitizer sees who reads the memory.)
TEST(LifetimeTest, NobodyReadsMemoryOfAChannelThatIsClosed) {
  const Schedule down = broadcast_of_two();
  support::RankGroup group(2, "tcp");
  Progress& progress = group.progress(Rank{0});
  ASSERT_TRUE(progress.open({.number = 5, .place_bytes = 64 << 20},
                            [](const Error& error, const auto&) { return error; }));
  const Descriptor peer = pose_as_rank_1(group);
  constexpr int64_t kCount = 4 << 20;
  OperationPool pool(
      lower(down, Order::build(down), {.rank = Rank{0}, .count = kCount, .in_place = true})
          .value());
  auto memory = std::make_unique<Floats>(kCount, 1.0F);
  ASSERT_TRUE(progress.start(5, pool.take({.output = bytes(*memory)})));
  std::this_thread::sleep_for(milliseconds(100));
  progress.close(5, {ErrorCode::kPeerLost, "gone"});
  memory = nullptr;
  Floats came(kCount);
  std::thread reader([&] {
    std::array<std::byte, 40> header;
    for (const std::span<std::byte> room :
         {std::span<std::byte>(header), std::as_writable_bytes(std::span(came))}) {
      for (std::span<std::byte> rest = room; !rest.empty();) {
        ASSERT_TRUE(wait_ready(peer.get(), POLLIN, SteadyClock().now() + seconds(10)));
        const ssize_t count = recv(peer.get(), rest.data(), rest.size(), 0);
        ASSERT_GT(count, 0);
        rest = rest.subspan(at(count));
      }
    }
  });
  Floats small(4, 1);
  OperationPool other(
      lower(down, Order::build(down), {.rank = Rank{0}, .count = 4, .in_place = true}).value());
  const Status status =
      group.run(Rank{0}, other, {.output = bytes(small), .deadline = seconds(10)});
  EXPECT_EQ(message_of(status), "");
  reader.join();
  EXPECT_EQ(std::ranges::count(came, 1.0F), kCount);
}

}  // namespace
}  // namespace pleach
