// The host transport: who is near, and one wait for both sides.
#include <gtest/gtest.h>
#include <time.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "pleach/runtime/net.h"
#include "pleach/runtime/peer_memory.h"
#include "tests/support/bare_transports.h"
#include "tests/support/rank_threads.h"

namespace pleach {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using support::BareTransports;
using Kind = TransportEvent::Kind;

void tell_all(BareTransports& ranks, int32_t from, int32_t rank_count, uint64_t operation) {
  for (int32_t to = 0; to < rank_count; ++to) {
    if (to != from) {
      ASSERT_TRUE(ranks[from].connect(Rank{to}));
      ASSERT_TRUE(ranks[from].tell_begun(Rank{to}, 5, operation, 9));
    }
  }
}

// Memory is lent within a host alone.
TEST(HostTransportTest, RanksOfOneHostShareMemory) {
  BareTransports ranks("host/2", 4);
  ranks.open({.number = 5, .places = 2, .place_bytes = 4096});
  tell_all(ranks, 3, 4, 1);
  for (int32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks.see(rank, 1).at(0).kind, Kind::kBegun);
  }
  const std::shared_ptr<std::byte> memory = allocate_peer_memory(100).value();
  const std::span<const std::byte> lent(memory.get(), 100);
  for (int32_t to = 0; to < 3; ++to) {
    EXPECT_EQ(ranks[3].lend(Rank{to}, 5, {.operation = 1}, 9, lent).value(), to == 2) << to;
  }
}

TEST(HostTransportTest, NamesTellHostsApart) {
  const auto identity = [](const char* name) { return host_identity(name).value(); };
  EXPECT_EQ(identity("a"), identity("a"));
  EXPECT_NE(identity("a"), identity("b"));
  EXPECT_NE(identity("a"), identity(""));
  const std::string longest(64, 'x');
  for (const std::string& name : {std::string(), std::string("rack-1.host_2"), longest}) {
    setenv("PLEACH_HOST", name.c_str(), 1);
    EXPECT_EQ(given_host_name().value(), name);
  }
  for (const std::string& name : {std::string("a b"), std::string("a/b"), longest + "x"}) {
    setenv("PLEACH_HOST", name.c_str(), 1);
    EXPECT_EQ(given_host_name().error().message,
              "PLEACH_HOST: '" + name + "' is not up to 64 letters, digits, '.', '-' and '_'");
  }
  unsetenv("PLEACH_HOST");
  EXPECT_EQ(given_host_name().value(), "");
}

// A peer that says that it is elsewhere, and comes through the memory of this host.
TEST(HostTransportTest, WhoComesByAnotherWayThanItsOwnIsLost) {
  BareTransports ranks("host", 2);
  ranks.open({.number = 5, .places = 2, .place_bytes = 4096});
  const std::string address = ranks[1].address();
  ASSERT_TRUE(ranks[0].introduce(Rank{1}, "elsewhere" + address.substr(address.find('\n'))));
  ASSERT_TRUE(ranks[0].tell_begun(Rank{1}, 5, 1, 9));
  ASSERT_TRUE(ranks[1].connect(Rank{0}));
  for (uint64_t operation = 1; operation <= 3; ++operation) {
    ASSERT_TRUE(ranks[1].tell_begun(Rank{0}, 5, operation, 9));
  }
  const std::vector<TransportEvent> events = ranks.see(0, 1);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, Kind::kLost);
  EXPECT_EQ(events[0].peer, Rank{1});
  EXPECT_STREQ(events[0].reason, "it sent through shared memory though it is on another host");
}

int64_t processor_ns() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

// A rank that sleeps takes no core, and either side wakes it.
TEST(HostTransportTest, WhoSleepsIsWokenFromBothSides) {
  BareTransports ranks("host/2", 4);
  ranks.open({.number = 5, .places = 4, .place_bytes = 64});
  for (int32_t from = 1; from < 4; ++from) {
    tell_all(ranks, from, 4, 1);
  }
  ASSERT_EQ(ranks.see(0, 3).size(), 3U);
  for (uint64_t operation = 2; operation < 8; ++operation) {
    const int32_t from = 1 + static_cast<int32_t>(operation % 3);
    SCOPED_TRACE(from);
    const TimePoint begin = SteadyClock().now();
    std::vector<TransportEvent> events;
    int64_t busy_ns = 0;
    std::thread waiting([&] {
      while (events.empty() && SteadyClock().now() < begin + seconds(20)) {
        ASSERT_TRUE(ranks[0].wait(begin + seconds(20), operation % 2 == 0));
        ASSERT_TRUE(ranks[0].progress(events));
      }
      busy_ns = processor_ns();
    });
    std::this_thread::sleep_for(milliseconds(200));
    ASSERT_TRUE(ranks[from].tell_begun(Rank{0}, 5, operation, 9));
    waiting.join();
    ASSERT_EQ(events.size(), 1U);
    EXPECT_EQ(events[0].peer, Rank{from});
    EXPECT_EQ(events[0].tag.operation, operation);
    EXPECT_LT(busy_ns, 100'000'000) << "of at least 200 ms of waiting";
  }
}

}  // namespace
}  // namespace pleach
