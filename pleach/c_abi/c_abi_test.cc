// What the C interface refuses, and what its handles outlive.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <latch>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pleach/api/pleach.h"
#include "tests/support/c_ranks.h"

namespace pleach::support::c {
namespace {

// What has not happened: the communicator goes on.
TEST(CAbiTest, WhatNoRankCouldMeanIsRefusedAndHarmsNothing) {
  with_communicators({2, "tcp"}, [](pleach_communicator* world, int32_t rank) {
    float data[4] = {1, 2, 3, 4};
    pleach_operation* operation = nullptr;
    int32_t number = 0;
    const std::string own = "rank " + std::to_string(rank) + ", ";
    const std::vector<std::pair<std::function<pleach_status()>, std::string>> rows = {
        {[&] {
           return pleach_all_reduce(nullptr, data, data, 4, PLEACH_FLOAT32, PLEACH_SUM, nullptr);
         },
         "pleach_all_reduce: communicator is NULL"},
        {[&] {
           return pleach_reduce_scatter(nullptr, data, data, 4, PLEACH_FLOAT32, PLEACH_SUM,
                                        nullptr);
         },
         "pleach_reduce_scatter: communicator is NULL"},
        {[&] { return pleach_all_gather(nullptr, data, data, 4, PLEACH_FLOAT32, nullptr); },
         "pleach_all_gather: communicator is NULL"},
        {[&] { return pleach_all_to_all(nullptr, data, data, 4, PLEACH_FLOAT32, nullptr); },
         "pleach_all_to_all: communicator is NULL"},
        {[&] { return pleach_broadcast(nullptr, data, data, 4, PLEACH_FLOAT32, 0, nullptr); },
         "pleach_broadcast: communicator is NULL"},
        {[&] {
           return pleach_reduce(nullptr, data, data, 4, PLEACH_FLOAT32, PLEACH_SUM, 0, nullptr);
         },
         "pleach_reduce: communicator is NULL"},
        {[&] { return pleach_barrier(nullptr, &operation); },
         "pleach_barrier: communicator is NULL"},
        {[&] { return pleach_operation_wait(nullptr, 0); },
         "pleach_operation_wait: operation is NULL"},
        {[&] { return pleach_operation_test(nullptr, &number); },
         "pleach_operation_test: operation is NULL"},
        {[&] { return pleach_operation_on_done(nullptr, Told::hear, nullptr); },
         "pleach_operation_on_done: operation is NULL"},
        {[&] { return pleach_communicator_close(nullptr); },
         "pleach_communicator_close: communicator is NULL"},
        {[&] { return pleach_communicator_shrink(world, nullptr); },
         "pleach_communicator_shrink: survivors is NULL"},
        {[&] { return pleach_communicator_abort(nullptr, "why"); },
         "pleach_communicator_abort: communicator is NULL"},
        {[&] { return pleach_communicator_split(world, 0, 0, nullptr); },
         "pleach_communicator_split: part is NULL"},
        {[&] { return pleach_communicator_create(nullptr, nullptr, &world); },
         "pleach_communicator_create: endpoint is NULL"},
        {[&] { return pleach_endpoint_create(nullptr, nullptr); },
         "pleach_endpoint_create: endpoint is NULL"},
        {[&] { return pleach_listen("127.0.0.1", nullptr, &number); },
         "pleach_listen: port is NULL"},
        {[&] { return pleach_all_reduce(world, data, data, 4, 8, PLEACH_SUM, &operation); },
         own + "all_reduce: 8 is no pleach_type"},
        {[&] { return pleach_all_reduce(world, data, data, 4, -1, PLEACH_SUM, nullptr); },
         own + "all_reduce: -1 is no pleach_type"},
        {[&] { return pleach_reduce(world, data, data, 4, PLEACH_INT8, 8, 0, &operation); },
         own + "reduce: 8 is no pleach_reduction"},
        {[&] { return pleach_broadcast(world, data, data, 4, PLEACH_FLOAT32, 2, nullptr); },
         own + "broadcast: root 2 is none of 2 ranks"},
        {[&] { return pleach_broadcast(world, data, data, 4, PLEACH_FLOAT32, -1, &operation); },
         own + "broadcast: root -1 is none of 2 ranks"},
        {[&] { return pleach_all_gather(world, data, data, -4, PLEACH_FLOAT32, nullptr); },
         own + "all_gather: a count of -4 elements is negative"},
        {[&] {
           const int64_t counts[] = {4, -3};
           return pleach_all_gather_v(world, data, data, counts, PLEACH_FLOAT32, nullptr);
         },
         own + "all_gather: a count of -3 elements for one rank is negative"},
        {[&] {
           return pleach_all_to_all(world, data, data, INT64_MAX / 2 + 1, PLEACH_INT8, nullptr);
         },
         own + "all_to_all: 4611686018427387904 elements for each of 2 ranks are too many"},
    };
    for (const auto& [call, expected] : rows) {
      operation = reinterpret_cast<pleach_operation*>(&number);
      EXPECT_EQ(call(), PLEACH_INVALID_ARGUMENT) << expected;
      EXPECT_EQ(pleach_last_error(), expected);
    }
    EXPECT_EQ(pleach_communicator_rank(nullptr), -1);
    EXPECT_STREQ(pleach_last_error(), "pleach_communicator_rank: communicator is NULL");
    EXPECT_EQ(pleach_communicator_rank_count(nullptr), -1);
    EXPECT_EQ(pleach_endpoint_rank(nullptr), -1);
    EXPECT_EQ(pleach_endpoint_rank_count(nullptr), -1);
    EXPECT_EQ(pleach_endpoint_transport(nullptr), nullptr);
    EXPECT_STREQ(pleach_last_error(), "pleach_endpoint_transport: endpoint is NULL");
    pleach_endpoint_destroy(nullptr);
    pleach_communicator_destroy(nullptr);
    pleach_operation_destroy(nullptr);
    EXPECT_EQ(said(pleach_all_reduce(world, data, data, 4, PLEACH_FLOAT32, PLEACH_SUM, nullptr)),
              "");
    EXPECT_EQ(data[3], 8);
  });
}

// Interrupts a rank that waits for others.
struct Impatience {
  std::chrono::steady_clock::time_point end =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  static int32_t ask(void* context) {
    return std::chrono::steady_clock::now() >= static_cast<Impatience*>(context)->end ? 1 : 0;
  }
};

TEST(CAbiTest, AWaitThatIsInterruptedEndsOnAllRanks) {
  with_endpoints({2, "tcp"}, [](const Endpoint& endpoint, int32_t rank) {
    const Communicator world = create(endpoint);
    if (rank == 1) {
      pleach_received received;
      float data = 0;
      EXPECT_EQ(pleach_receive(world.get(), &data, sizeof data, 0, 1, &received, nullptr),
                PLEACH_PEER_LOST);
      EXPECT_EQ(said(PLEACH_PEER_LOST), "rank 0, split: its call was interrupted");
      return;
    }
    Impatience impatience;
    const auto start = std::chrono::steady_clock::now();
    pleach_communicator* part = nullptr;
    pleach_set_interrupt(Impatience::ask, &impatience);
    EXPECT_EQ(pleach_communicator_split(world.get(), 0, 0, &part), PLEACH_INTERRUPTED);
    EXPECT_EQ(said(PLEACH_INTERRUPTED), "rank 0, split: its call was interrupted");
    EXPECT_EQ(part, nullptr);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
    pleach_set_interrupt(nullptr, nullptr);
    EXPECT_EQ(pleach_communicator_close(world.get()), PLEACH_PEER_LOST);
  });
}

// The failure names the caller's operation, also where an earlier one is under way.
TEST(CAbiTest, ABlockingOperationThatIsInterruptedEndsItsCommunicator) {
  with_endpoints({2, "tcp"}, [](const Endpoint& endpoint, int32_t rank) {
    const Communicator world = create(endpoint);
    const std::string expected = "rank 0, operation 2 (all_reduce): its call was interrupted";
    float data = 1;
    if (rank == 1) {
      pleach_received received;
      EXPECT_EQ(pleach_receive(world.get(), &data, sizeof data, 0, 1, &received, nullptr),
                PLEACH_PEER_LOST);
      EXPECT_EQ(said(PLEACH_PEER_LOST), expected);
      return;
    }
    float other = 1;
    pleach_operation* earlier = nullptr;
    EXPECT_EQ(
        pleach_all_reduce(world.get(), &other, &other, 1, PLEACH_FLOAT32, PLEACH_SUM, &earlier),
        PLEACH_OK);
    Impatience impatience;
    const auto start = std::chrono::steady_clock::now();
    pleach_set_interrupt(Impatience::ask, &impatience);
    EXPECT_EQ(pleach_all_reduce(world.get(), &data, &data, 1, PLEACH_FLOAT32, PLEACH_SUM, nullptr),
              PLEACH_INTERRUPTED);
    pleach_set_interrupt(nullptr, nullptr);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
    EXPECT_EQ(pleach_operation_wait(earlier, PLEACH_FOREVER), PLEACH_PEER_LOST);
    EXPECT_EQ(said(PLEACH_PEER_LOST), expected);
    pleach_operation_destroy(earlier);
  });
}

TEST(CAbiTest, AnEndpointThatIsInterruptedIsNotMade) {
  for (const int32_t rank : {0, 1}) {
    pleach_endpoint_options options = {};
    options.size = sizeof options;
    options.rank_count = 2;
    options.rank = rank;
    int32_t port = 0;
    ASSERT_EQ(pleach_listen(nullptr, &port, &options.listen_descriptor), PLEACH_OK);
    options.store_port = port;
    if (rank == 1) {
      options.listen_descriptor = 0;  // rank 0 does not come
    }
    Impatience impatience;
    const auto start = std::chrono::steady_clock::now();
    pleach_endpoint* endpoint = nullptr;
    pleach_set_interrupt(Impatience::ask, &impatience);
    EXPECT_EQ(pleach_endpoint_create(&options, &endpoint), PLEACH_INTERRUPTED) << rank;
    pleach_set_interrupt(nullptr, nullptr);
    EXPECT_EQ(endpoint, nullptr);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2)) << rank;
  }
}

TEST(CAbiTest, OptionsThatAreWrongAreRefused) {
  struct Row {
    std::function<void(pleach_endpoint_options&)> spoil;
    pleach_status status;
    std::string said;
  };
  const std::vector<Row> rows = {
      {[](auto& options) { options.size = 0; }, PLEACH_INVALID_ARGUMENT,
       "pleach_endpoint_options has a size of 0"},
      {[](auto& options) { options.rank = 1; }, PLEACH_INVALID_ARGUMENT, "rank 1 is not one of 1"},
      {[](auto& options) { options.rank = -1; }, PLEACH_INVALID_ARGUMENT,
       "rank -1 is not one of 1"},
      {[](auto& options) { options.rank_count = -2; }, PLEACH_INVALID_ARGUMENT, "not one of -2"},
      {[](auto& options) { options.store_port = 65536; }, PLEACH_INVALID_ARGUMENT,
       "store_port 65536 is no port"},
      {[](auto& options) { options.deadline_ms = -1; }, PLEACH_INVALID_ARGUMENT,
       "deadline_ms -1 is not in [1, "},
      {[](auto& options) { options.deadline_ms = INT64_MAX; }, PLEACH_INVALID_ARGUMENT,
       "deadline_ms 9223372036854775807 is not in [1, "},
      {[](auto& options) { options.secret = "short"; }, PLEACH_INVALID_ARGUMENT,
       "pleach_endpoint_options.secret"},
      {[](auto& options) { options.transport = "pigeon"; }, PLEACH_INVALID_ARGUMENT, "'pigeon'"},
      {[](auto& options) {
         options.rank_count = 2;
         options.rank = 1;
       },
       PLEACH_INVALID_ARGUMENT, "rank 1 does not know the port of the store"},
      {[](auto& options) { options.rank_count = 0; }, PLEACH_INVALID_ARGUMENT,
       "rank_count is 0, and no starter has told which rank this is"},
  };
  for (const Row& row : rows) {
    pleach_endpoint_options options = {};
    options.size = sizeof(options);
    options.rank_count = 1;
    options.deadline_ms = 2000;
    row.spoil(options);
    auto* endpoint = reinterpret_cast<pleach_endpoint*>(&options);
    EXPECT_EQ(pleach_endpoint_create(&options, &endpoint), row.status) << row.said;
    EXPECT_TRUE(contains(pleach_last_error(), row.said)) << pleach_last_error();
    EXPECT_EQ(endpoint, nullptr);
  }
}

TEST(CAbiTest, WhoDoesNotHoldTheSecretIsNotLetIn) {
  int32_t port = 0;
  int32_t listener = -1;
  ASSERT_EQ(said(pleach_listen(nullptr, &port, &listener)), "");
  const auto join = [&](int32_t rank, const char* secret) {
    pleach_endpoint_options options = {};
    options.size = sizeof(options);
    options.rank_count = 2;
    options.rank = rank;
    options.store_port = port;
    options.listen_descriptor = rank == 0 ? listener : 0;
    options.secret = secret;
    options.deadline_ms = 2000;
    pleach_endpoint* endpoint = nullptr;
    const std::string refusal = said(pleach_endpoint_create(&options, &endpoint));
    return std::pair(Endpoint(endpoint), refusal);
  };
  std::thread stranger([&] {
    const auto [endpoint, refusal] = join(1, "the secret of another job, in another place");
    EXPECT_EQ(endpoint, nullptr);
    EXPECT_NE(refusal, "");
  });
  const auto [endpoint, refusal] = join(0, "the secret of this job and its two ranks");
  stranger.join();
}

// Options of an older and of a newer version.
TEST(CAbiTest, OptionsGrow) {
  struct {
    pleach_endpoint_options known;
    int64_t of_tomorrow;
  } options = {};
  pleach_endpoint* endpoint = nullptr;
  options.known.rank_count = 1;
  options.known.size = offsetof(pleach_endpoint_options, store_host);
  options.known.transport = "what an older program has there";
  ASSERT_EQ(said(pleach_endpoint_create(&options.known, &endpoint)), "");
  EXPECT_STREQ(pleach_endpoint_transport(endpoint), "shm");
  pleach_endpoint_destroy(endpoint);
  options.known.size = sizeof(options);
  options.known.transport = nullptr;
  ASSERT_EQ(said(pleach_endpoint_create(&options.known, &endpoint)), "");
  pleach_endpoint_destroy(endpoint);
  options.of_tomorrow = 1;
  EXPECT_EQ(pleach_endpoint_create(&options.known, &endpoint), PLEACH_UNSUPPORTED);
  EXPECT_TRUE(contains(pleach_last_error(), "pleach_endpoint_options of ")) << pleach_last_error();
}

TEST(CAbiTest, GroupOptionsThatAreWrongAreRefused) {
  with_endpoints({2, "tcp"}, [](const Endpoint& endpoint, int32_t rank) {
    const auto refusal = [&](const std::function<void(pleach_communicator_options&)>& spoil) {
      pleach_communicator_options options = {};
      options.size = sizeof(options);
      spoil(options);
      pleach_communicator* communicator = nullptr;
      EXPECT_EQ(pleach_communicator_create(endpoint.get(), &options, &communicator),
                PLEACH_INVALID_ARGUMENT);
      EXPECT_EQ(communicator, nullptr);
      return std::string(pleach_last_error());
    };
    const int32_t both[] = {rank, rank};
    const int32_t none[] = {rank, 7};
    EXPECT_EQ(refusal([&](auto& options) { options.ranks = both; }),
              "pleach_communicator_create: rank_count is 0, and ranks is not NULL");
    EXPECT_EQ(refusal([&](auto& options) { options.rank_count = 2; }),
              "pleach_communicator_create: rank_count is 2, and ranks is NULL");
    EXPECT_TRUE(contains(refusal([&](auto& options) {
                           options.ranks = both;
                           options.rank_count = 2;
                         }),
                         "twice"));
    EXPECT_TRUE(contains(refusal([&](auto& options) {
                           options.ranks = none;
                           options.rank_count = 2;
                         }),
                         "rank 7 is none of the job's 2"));
    EXPECT_TRUE(contains(refusal([&](auto& options) { options.landing_places = -3; }),
                         "-3 landing places"));
    EXPECT_TRUE(contains(refusal([&](auto& options) { options.place_bytes = -3; }), "-3 bytes"));
    const Communicator world = create(endpoint);
    EXPECT_EQ(said(pleach_communicator_close(world.get())), "");
  });
}

// What others count on ends the job: all hear the same, and nobody hangs.
TEST(CAbiTest, WhatFailsOnOneRankFailsOnAllWithTheSameMessage) {
  struct Row {
    std::function<pleach_status(pleach_communicator*, float* data)> wrong;
    std::string said;
  };
  const std::vector<Row> rows = {
      {[](auto* world, float* data) {
         return pleach_all_reduce(world, nullptr, data, 4, PLEACH_FLOAT32, PLEACH_SUM, nullptr);
       },
       "rank 1, operation 2 (all_reduce): the input of 16 bytes is null"},
      {[](auto* world, float* data) {
         return pleach_all_reduce(world, data, data + 1, 4, PLEACH_FLOAT32, PLEACH_SUM, nullptr);
       },
       "rank 1, operation 2 (all_reduce): the input (16 bytes) and the output (16 bytes) overlap"},
      {[](auto* world, float* data) {
         return pleach_all_reduce(world, data, data, 4, PLEACH_INT32, PLEACH_AVERAGE, nullptr);
       },
       "rank 1, operation 2 (all_reduce): reduction 'average' is for floating types, not for "
       "int32"},
      {[](auto* world, float* data) {
         return pleach_all_reduce(world, data, data, 5, PLEACH_FLOAT32, PLEACH_SUM, nullptr);
       },
       " of 5"},
      {[](auto* world, float* data) {
         return pleach_broadcast(world, data, data, 4, PLEACH_FLOAT32, 0, nullptr);
       },
       "broadcast of 4 float32"},
  };
  for (const Row& row : rows) {
    std::vector<std::string> heard(2);
    with_endpoints({2, "tcp"}, [&](const Endpoint& endpoint, int32_t rank) {
      const Communicator world = create(endpoint);
      ASSERT_EQ(said(pleach_barrier(world.get(), nullptr)), "");
      float data[8] = {};
      std::string& own = heard[static_cast<size_t>(rank)];
      if (rank == 1) {
        own = said(row.wrong(world.get(), data));
      }
      // The other, and whatever comes later.
      const std::string now =
          said(pleach_all_reduce(world.get(), data, data, 4, PLEACH_FLOAT32, PLEACH_SUM, nullptr));
      if (rank == 0) {
        own = now;
      } else if (own.empty()) {
        own = now;  // a root that has sent all it had
      } else {
        EXPECT_EQ(now, own);
      }
    });
    EXPECT_TRUE(contains(heard[0], row.said)) << heard[0];
    EXPECT_EQ(heard[1], heard[0]);
  }
}

TEST(CAbiTest, TimeoutOfAWaitHarmsNothingAndTheDeadlineNamesWhoDidNotCome) {
  with_endpoints({2, "tcp", 3000}, [](const Endpoint& endpoint, int32_t rank) {
    const Communicator world = create(endpoint);
    float data[4] = {1, 1, 1, 1};
    pleach_operation* operation = nullptr;
    if (rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    ASSERT_EQ(
        said(pleach_all_reduce(world.get(), data, data, 4, PLEACH_FLOAT32, PLEACH_SUM, &operation)),
        "");
    const Operation first(operation);
    if (rank == 0) {
      EXPECT_EQ(pleach_operation_wait(operation, 1), PLEACH_TIMEOUT);
    }
    EXPECT_EQ(pleach_operation_wait(operation, -2), PLEACH_INVALID_ARGUMENT);
    EXPECT_STREQ(pleach_last_error(), "pleach_operation_wait: a timeout of -2 ms is negative");
    EXPECT_EQ(said(pleach_operation_wait(operation, INT64_MAX)), "");
    EXPECT_EQ(data[0], 2);
    if (rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(6000));
      return;
    }
    Told told;
    ASSERT_EQ(
        said(pleach_all_reduce(world.get(), data, data, 4, PLEACH_FLOAT32, PLEACH_SUM, &operation)),
        "");
    const Operation second(operation);
    ASSERT_EQ(said(pleach_operation_on_done(operation, Told::hear, &told)), "");
    const std::string end = said(pleach_operation_wait(operation, PLEACH_FOREVER));
    EXPECT_TRUE(contains(end, "operation 2 (all_reduce)")) << end;
    EXPECT_TRUE(contains(end, "rank 1 did not begin it")) << end;
    while (told.calls == 0) {
      std::this_thread::yield();
    }
    EXPECT_NE(told.status, PLEACH_OK);
    EXPECT_EQ(told.error, end);
  });
}

TEST(CAbiTest, AbortEndsWhatIsWaitedForOnEveryRank) {
  for (const char* transport : {"tcp", "shm"}) {
    with_endpoints({3, transport}, [](const Endpoint& endpoint, int32_t rank) {
      const Communicator world = create(endpoint);
      float data[4] = {};
      std::string end;
      if (rank == 2) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        EXPECT_EQ(pleach_communicator_abort(world.get(), nullptr), PLEACH_INVALID_ARGUMENT);
        EXPECT_EQ(said(pleach_communicator_abort(world.get(), "out of patience")), "");
        end = said(pleach_barrier(world.get(), nullptr));
      } else {
        end = said(
            pleach_all_reduce(world.get(), data, data, 4, PLEACH_FLOAT32, PLEACH_SUM, nullptr));
      }
      EXPECT_EQ(end, "rank 2 aborted communicator 'world': out of patience");
    });
  }
}

TEST(CAbiTest, SurvivorsGoOn) {
  std::latch all_have_met(3);
  with_endpoints({3, "tcp"}, [&](const Endpoint& endpoint, int32_t rank) {
    Communicator world = create(endpoint);
    const std::string met = said(pleach_barrier(world.get(), nullptr));
    all_have_met.arrive_and_wait();  // the job fails with what follows
    ASSERT_EQ(met, "");
    if (rank == 1) {
      return;  // without closing it
    }
    int32_t data = rank;
    EXPECT_NE(
        said(pleach_all_reduce(world.get(), &data, &data, 1, PLEACH_INT32, PLEACH_SUM, nullptr)),
        "");
    pleach_communicator* survivors = nullptr;
    ASSERT_EQ(said(pleach_communicator_shrink(world.get(), &survivors)), "");
    const Communicator two(survivors);
    EXPECT_EQ(pleach_communicator_rank_count(survivors), 2);
    EXPECT_EQ(pleach_communicator_rank(survivors), rank / 2);
    data = rank;
    EXPECT_EQ(
        said(pleach_all_reduce(survivors, &data, &data, 1, PLEACH_INT32, PLEACH_SUM, nullptr)), "");
    EXPECT_EQ(data, 2);
    EXPECT_EQ(said(pleach_communicator_close(survivors)), "");
  });
}

TEST(CAbiTest, HandlesGoInAnyOrder) {
  with_endpoints({2, "shm"}, [](Endpoint endpoint, int32_t /*rank*/) {
    Communicator world = create(endpoint);
    const Communicator other = create(endpoint, "other");
    endpoint.reset();
    float data[4] = {1, 1, 1, 1};
    pleach_operation* operation = nullptr;
    ASSERT_EQ(
        said(pleach_all_reduce(world.get(), data, data, 4, PLEACH_FLOAT32, PLEACH_SUM, &operation)),
        "");
    ASSERT_EQ(said(pleach_operation_wait(operation, PLEACH_FOREVER)), "");
    ASSERT_EQ(said(pleach_communicator_close(world.get())), "");
    world.reset();
    // Of a communicator that is gone.
    EXPECT_EQ(said(pleach_operation_wait(operation, 0)), "");
    int32_t is_done = 0;
    EXPECT_EQ(said(pleach_operation_test(operation, &is_done)), "");
    EXPECT_EQ(is_done, 1);
    Told told;
    EXPECT_EQ(said(pleach_operation_on_done(operation, Told::hear, &told)), "");
    EXPECT_EQ(told.calls, 1);
    EXPECT_EQ(said(pleach_barrier(other.get(), nullptr)), "");
    EXPECT_EQ(said(pleach_communicator_close(other.get())), "");
    pleach_operation_destroy(operation);
  });
}

TEST(CAbiTest, ClosedOrDestroyedCommunicatorsRunNothing) {
  with_endpoints({2, "tcp"}, [](const Endpoint& endpoint, int32_t rank) {
    const Communicator world = create(endpoint);
    Communicator left = create(endpoint, "left");
    float data[4] = {};
    ASSERT_EQ(said(pleach_communicator_close(world.get())), "");
    for (const pleach_status status :
         {pleach_communicator_close(world.get()), pleach_barrier(world.get(), nullptr),
          pleach_all_reduce(world.get(), data, data, 4, PLEACH_FLOAT32, PLEACH_SUM, nullptr)}) {
      EXPECT_EQ(status, PLEACH_INVALID_ARGUMENT);
      EXPECT_STREQ(pleach_last_error(), "communicator 'world' is closed");
    }
    // The job fails with what follows: after all have closed that one.
    static_cast<void>(pleach_barrier(left.get(), nullptr));
    // One that is destroyed while an operation is in flight ends it on all ranks.
    if (rank == 0) {
      const std::string end =
          said(pleach_all_reduce(left.get(), data, data, 4, PLEACH_FLOAT32, PLEACH_SUM, nullptr));
      EXPECT_TRUE(contains(end, "rank 1 left without closing communicator 'left'")) << end;
    } else {
      left.reset();
    }
  });
}

TEST(CAbiTest, MemoryThatPeersMayRead) {
  with_communicators({2, "shm"}, [](pleach_communicator* communicator, int32_t rank) {
    constexpr int64_t kCount = 100'000;
    auto* const data = static_cast<int32_t*>(pleach_alloc(kCount * sizeof(int32_t)));
    ASSERT_NE(data, nullptr) << pleach_last_error();
    EXPECT_EQ(data[kCount - 1], 0);
    for (int round = 0; round < 3; ++round) {
      std::fill_n(data, kCount, rank + 1);
      ASSERT_EQ(said(pleach_all_reduce(communicator, data, data, kCount, PLEACH_INT32, PLEACH_SUM,
                                       nullptr)),
                "");
      EXPECT_EQ(std::count(data, data + kCount, 3), kCount);
    }
    ASSERT_EQ(said(pleach_barrier(communicator, nullptr)), "");
    EXPECT_EQ(pleach_free(data + 1), PLEACH_INVALID_ARGUMENT);
    EXPECT_EQ(said(pleach_free(data)), "");
    EXPECT_EQ(pleach_free(data), PLEACH_INVALID_ARGUMENT);
    EXPECT_TRUE(contains(pleach_last_error(), "no peer memory begins at ")) << pleach_last_error();
  });
  EXPECT_EQ(said(pleach_free(nullptr)), "");
  EXPECT_EQ(pleach_alloc(0), nullptr);
  EXPECT_EQ(pleach_alloc(SIZE_MAX), nullptr);
  EXPECT_TRUE(contains(pleach_last_error(), "18446744073709551615 bytes")) << pleach_last_error();
  EXPECT_EQ(pleach_alloc(size_t{1} << 62), nullptr);
}

TEST(CAbiTest, ErrorsAreTheThreadsOwn) {
  EXPECT_EQ(pleach_communicator_close(nullptr), PLEACH_INVALID_ARGUMENT);
  std::thread([] {
    EXPECT_STREQ(pleach_last_error(), "");
    EXPECT_EQ(pleach_operation_wait(nullptr, 0), PLEACH_INVALID_ARGUMENT);
    EXPECT_STREQ(pleach_last_error(), "pleach_operation_wait: operation is NULL");
  }).join();
  EXPECT_STREQ(pleach_last_error(), "pleach_communicator_close: communicator is NULL");
}

// The child, which leaves without a word, has no part in the job.
TEST(CAbiTest, ForkLeavesTheParentsCommunicatorsUsable) {
  for (const char* transport : {"tcp", "shm"}) {
    with_communicators({2, transport}, [](pleach_communicator* communicator, int32_t rank) {
      float data[4] = {1, 1, 1, 1};
      pleach_operation* operation = nullptr;
      ASSERT_EQ(said(pleach_all_reduce(communicator, data, data, 4, PLEACH_FLOAT32, PLEACH_SUM,
                                       &operation)),
                "");
      if (rank == 0) {
        const pid_t child = fork();
        if (child == 0) {
          _exit(0);
        }
        int status = -1;
        waitpid(child, &status, 0);
        EXPECT_EQ(status, 0);
      }
      EXPECT_EQ(said(pleach_operation_wait(operation, PLEACH_FOREVER)), "");
      pleach_operation_destroy(operation);
      EXPECT_EQ(
          said(pleach_all_reduce(communicator, data, data, 4, PLEACH_FLOAT32, PLEACH_SUM, nullptr)),
          "");
      EXPECT_EQ(data[0], 4);
    });
  }
}

TEST(CAbiTest, FlightRecordsAreWrittenOnRequest) {
  with_endpoints({2, "shm"}, [](const Endpoint& endpoint, int32_t rank) {
    const Communicator world = create(endpoint);
    ASSERT_EQ(said(pleach_barrier(world.get(), nullptr)), "");
    const std::string path = testing::TempDir() + "pleach-flight-" + std::to_string(getpid()) +
                             "-" + std::to_string(rank) + ".json";
    ASSERT_EQ(said(pleach_endpoint_write_flight(endpoint.get(), path.c_str())), "");
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_TRUE(contains(text, "\"collective\":\"barrier\"")) << text;
    EXPECT_EQ(std::remove(path.c_str()), 0);
    EXPECT_EQ(said(pleach_endpoint_write_flight(nullptr, path.c_str())),
              "pleach_endpoint_write_flight: endpoint is NULL");
    EXPECT_EQ(pleach_endpoint_write_flight(endpoint.get(), "/nowhere/at/all"), PLEACH_IO);
    EXPECT_EQ(said(pleach_communicator_close(world.get())), "");
  });
}

TEST(CAbiTest, VersionIsTold) {
  EXPECT_EQ(pleach_abi_version(), PLEACH_ABI_VERSION);
  EXPECT_EQ(std::string(pleach_version()).find_first_not_of("0123456789."), std::string::npos);
}

}  // namespace
}  // namespace pleach::support::c
