// Messages through the C interface, by what libpleach.so exports alone.
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "pleach/api/pleach.h"
#include "tests/support/c_ranks.h"

namespace pleach::support::c {
namespace {

using Numbers = std::vector<int32_t>;

Numbers numbers(int64_t count, int32_t first) {
  Numbers values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), first);
  return values;
}
int64_t size_bytes(const Numbers& values) {
  return static_cast<int64_t>(values.size() * sizeof(int32_t));
}

// Around a ring, of no bytes to more than a landing place has room for; started and then waited
// for, and blocking.
TEST(CMessagesTest, EverySizeGoesRound) {
  for (const char* transport : {"tcp", "shm"}) {
    with_communicators({3, transport}, [](pleach_communicator* communicator, int32_t rank) {
      const int32_t next = (rank + 1) % 3;
      const int32_t previous = (rank + 2) % 3;
      for (const int64_t count : {0, 1, 1000, 300'000}) {
        const Numbers sent = numbers(count, rank);
        Numbers received(sent.size(), -1);
        pleach_operation* sending = nullptr;
        pleach_operation* receiving = nullptr;
        ASSERT_EQ(said(pleach_send(communicator, sent.data(), size_bytes(sent), next, 7, &sending)),
                  "");
        ASSERT_EQ(said(pleach_receive(communicator, received.data(), size_bytes(received), previous,
                                      7, nullptr, &receiving)),
                  "");
        const Operation send(sending), receive(receiving);
        ASSERT_EQ(said(pleach_operation_wait(receiving, PLEACH_FOREVER)), "");
        ASSERT_EQ(said(pleach_operation_wait(sending, PLEACH_FOREVER)), "");
        pleach_received come = {};
        ASSERT_EQ(said(pleach_operation_received(receiving, &come)), "");
        EXPECT_EQ(come.source, previous);
        EXPECT_EQ(come.bytes, size_bytes(sent));
        EXPECT_EQ(received, numbers(count, previous));
      }
    });
  }
}

TEST(CMessagesTest, ReceivesFromAnyAndOfOtherTagsInAnyOrder) {
  with_communicators({3, "shm"}, [](pleach_communicator* communicator, int32_t rank) {
    int32_t value = rank;
    if (rank != 0) {
      ASSERT_EQ(said(pleach_send(communicator, &value, sizeof(value), 0, 1, nullptr)), "");
      value += 10;
      ASSERT_EQ(said(pleach_send(communicator, &value, sizeof(value), 0, 2, nullptr)), "");
      return;
    }
    for (const int32_t tag : {2, 1}) {
      std::vector<bool> heard(3);
      for (int i = 0; i < 2; ++i) {
        int32_t buffer[4] = {};
        pleach_received come = {};
        ASSERT_EQ(said(pleach_receive(communicator, buffer, sizeof(buffer), PLEACH_ANY_RANK, tag,
                                      &come, nullptr)),
                  "");
        EXPECT_EQ(come.bytes, sizeof(int32_t));
        ASSERT_TRUE(come.source == 1 || come.source == 2);
        EXPECT_EQ(buffer[0], come.source + (tag == 2 ? 10 : 0));
        heard[static_cast<std::size_t>(come.source)] = true;
      }
      EXPECT_TRUE(heard[1] && heard[2]);
    }
  });
}

TEST(CMessagesTest, WhatIsWrongIsRefused) {
  with_communicators({2, "tcp"}, [](pleach_communicator* world, int32_t rank) {
    int32_t data = rank;
    pleach_operation* operation = nullptr;
    pleach_received come = {};
    const std::vector<std::pair<std::function<pleach_status()>, std::string>> rows = {
        {[&] { return pleach_send(nullptr, &data, 4, 1, 0, nullptr); },
         "pleach_send: communicator is NULL"},
        {[&] { return pleach_send(world, nullptr, 4, 1, 0, &operation); },
         "pleach_send: 4 bytes at NULL"},
        {[&] { return pleach_send(world, &data, -4, 1, 0, nullptr); },
         "pleach_send: -4 bytes are less than none"},
        {[&] { return pleach_send(world, &data, 4, 2, 0, nullptr); }, "rank 2"},
        {[&] { return pleach_send(world, &data, 4, 1, -1, &operation); }, "-1"},
        {[&] { return pleach_receive(nullptr, &data, 4, 1, 0, &come, nullptr); },
         "pleach_receive: communicator is NULL"},
        {[&] { return pleach_receive(world, nullptr, 4, 1, 0, &come, &operation); },
         "pleach_receive: 4 bytes at NULL"},
        {[&] { return pleach_receive(world, &data, 4, -2, 0, nullptr, nullptr); }, "rank -2"},
        {[&] { return pleach_operation_received(nullptr, &come); },
         "pleach_operation_received: operation is NULL"},
    };
    for (const auto& [call, expected] : rows) {
      EXPECT_EQ(call(), PLEACH_INVALID_ARGUMENT) << expected;
      EXPECT_TRUE(contains(pleach_last_error(), expected)) << pleach_last_error();
    }
    EXPECT_EQ(said(pleach_barrier(world, nullptr)), "");
  });
}

// Each has its own: of a receive that nobody answers the shorter one, and the endpoint's of the
// rest.
TEST(CMessagesTest, DeadlinesAreTheMessages) {
  with_endpoints({2, "tcp"}, [](const Endpoint& endpoint, int32_t rank) {
    const Communicator world = create(endpoint);
    ASSERT_NE(world, nullptr);
    pleach_message_options options = {};
    options.size = sizeof(options);
    options.deadline_ms = PLEACH_FOREVER;
    int32_t data = rank;
    const auto exchange =
        rank == 0 ? pleach_send_with(world.get(), &data, 4, 1, 5, &options, nullptr)
                  : pleach_receive_with(world.get(), &data, 4, 0, 5, &options, nullptr, nullptr);
    ASSERT_EQ(said(exchange), "");
    EXPECT_EQ(data, 0);
    options.deadline_ms = -7;
    EXPECT_EQ(pleach_send_with(world.get(), &data, 4, 1, 5, &options, nullptr),
              PLEACH_INVALID_ARGUMENT);
    EXPECT_TRUE(contains(pleach_last_error(), "-7 ms")) << pleach_last_error();
    ASSERT_EQ(said(pleach_barrier(world.get(), nullptr)), "");
    options.deadline_ms = 50;
    pleach_status status = PLEACH_OK;
    if (rank == 1) {
      status = pleach_receive_with(world.get(), &data, 4, 0, 6, &options, nullptr, nullptr);
    } else {
      status = pleach_receive(world.get(), &data, 4, 1, 7, nullptr, nullptr);  // until rank 1 fails
    }
    EXPECT_NE(status, PLEACH_OK);
    EXPECT_TRUE(contains(pleach_last_error(), "tag 6")) << pleach_last_error();
  });
}

}  // namespace
}  // namespace pleach::support::c
