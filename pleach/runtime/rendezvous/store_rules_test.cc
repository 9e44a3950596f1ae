// The two ends of a TCP store refuse what the other may not say, and keep a limited part of it.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <latch>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pleach/runtime/net.h"
#include "pleach/runtime/rendezvous/handshake.h"
#include "pleach/runtime/rendezvous/store.h"
#include "pleach/runtime/rendezvous/store_protocol.h"
#include "pleach/runtime/rendezvous/store_server.h"
#include "tests/support/rank_processes.h"
#include "tests/support/rank_threads.h"
#include "tests/support/store_members.h"
#include "tests/support/stores.h"

namespace pleach {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using support::hear;
using support::on_every_rank;
using support::pose_as;
using support::resident_mib;
using support::say;
using support::Served;
using Verb = StoreVerb;

constexpr int64_t kMiB = int64_t{1} << 20;

// Lets in the next rank that comes to a port that no store serves.
Descriptor let_in(const Served& served) {
  const TimePoint deadline = SteadyClock().now() + seconds(20);
  EXPECT_TRUE(wait_ready(served.listener.get(), POLLIN, deadline));
  Descriptor socket(accept4(served.listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  Examination examination;
  auto state = Examination::State::kWaits;
  while (state == Examination::State::kWaits && wait_ready(socket.get(), POLLIN, deadline)) {
    state = examination.hear(socket.get());
    if (state == Examination::State::kClaims) {
      EXPECT_TRUE(examination.answer(socket.get(), served.secret));
      state = Examination::State::kWaits;
    }
  }
  EXPECT_EQ(state, Examination::State::kPassed);
  return socket;
}

// Tells why rank 1 of 3 stops when its store says those words after its welcome, then no more.
//   look  at its store then
std::string said_after(
    const std::string& words, const std::function<void(const Store&)>& look = [](const Store&) {}) {
  const Served served;
  std::string said;
  std::thread rank([&] {
    const auto store = make_tcp_store(served.options(Rank{1}, 3));
    ASSERT_TRUE(store.has_value()) << store.error().message;
    said = (*store)->get("never", seconds(20)).error().message;
    look(**store);
  });
  {
    const Descriptor socket = let_in(served);
    say(socket, write_store_message({.verb = Verb::kWelcome}) + words);
  }
  rank.join();
  return said;
}

TEST(StoreRulesTest, AClientSaysWhatItsStoreMayNotSay) {
  const std::string long_text(kMaxStoreToldBytes + 1, 'x');
  const struct {
    StoreMessage message;
    std::string says;
  } cases[] = {
      {{.verb = Verb::kLeft, .number = 999999}, "rank 999999 has left, of 3 ranks"},
      {{.verb = Verb::kLeft, .number = 3}, "rank 3 has left, of 3 ranks"},
      {{.verb = Verb::kLeft, .number = -5}, "rank -5 has left, of 3 ranks"},
      {{.verb = Verb::kLeft, .number = (int64_t{1} << 40) + 2},
       "rank 1099511627778 has left, of 3 ranks"},
      {{.verb = Verb::kLeft, .number = 1}, "rank 1 has left, to that rank"},
      {{.verb = Verb::kLeft, .number = 2, .value = "zz"},
       "rank 2 has left with the channel 'zz', which is none"},
      {{.verb = Verb::kLeft, .number = 2, .value = "1f:"},
       "rank 2 has left with the channel '1f:', which is none"},
      {{.verb = Verb::kLeft, .number = 2, .value = "1f:18446744073709551616"},
       "rank 2 has left with the channel '1f:18446744073709551616', which is none"},
      {{.verb = Verb::kEpoch, .number = 2, .value = "0 1"}, "epoch 2 after epoch 0"},
      {{.verb = Verb::kEpoch, .number = -7, .value = "0 1"}, "epoch -7 after epoch 0"},
      {{.verb = Verb::kEpoch, .number = 1, .value = "0 2"}, "epoch 1 without rank 1"},
      {{.verb = Verb::kEpoch, .number = 1, .value = "x y"}, "rank of an epoch"},
      {{.verb = Verb::kEpoch, .number = 1, .value = ""}, "rank of an epoch"},
      {{.verb = Verb::kEpoch, .number = 1, .value = "1 0"}, "rank of an epoch"},
      {{.verb = Verb::kEpoch, .number = 1, .value = "0 1 3"}, "rank of an epoch"},
      {{.verb = Verb::kEpoch, .number = 1, .value = "0 1 4294967298"}, "rank of an epoch"},
      {{.verb = Verb::kFailure, .number = 3, .key = "4"}, "rank 3 has failed, of 3 ranks"},
      {{.verb = Verb::kFailure, .number = -2, .key = "4"}, "rank -2 has failed, of 3 ranks"},
      {{.verb = Verb::kFailure, .number = int64_t{1} << 32, .key = "4"},
       "rank 4294967296 has failed, of 3 ranks"},
      {{.verb = Verb::kFailure, .key = "4", .value = long_text},
       "a failure of 16001 bytes, of at most 16000"},
      {{.verb = Verb::kFailure, .key = "4 " + std::string(65, 's')},
       "a scope's name of 65 bytes, of at most 64"},
      {{.verb = Verb::kOut, .number = 2, .value = "out"}, "rank 2 is out, to rank 1"},
      {{.verb = Verb::kOut, .number = (int64_t{1} << 32) + 1, .value = "out"},
       "rank 4294967297 is out, to rank 1"},
      {{.verb = Verb::kSet}, "a message with verb 3"},
      {{.verb = Verb::kDone, .key = std::string(4097, 'k')},
       "a key of 4097 bytes with a value of 0 bytes, of at most 4096 and 16777216"},
  };
  for (const auto& row : cases) {
    SCOPED_TRACE(row.says);
    const std::string said = said_after(write_store_message(row.message));
    EXPECT_TRUE(said.starts_with("rank 0 was lost: its store broke the protocol: ")) << said;
    EXPECT_NE(said.find(row.says), std::string::npos) << said;
  }
  EXPECT_EQ(said_after(std::string("\x03\0\0\0xxx", 7)),
            "rank 0 was lost: its store broke the protocol: a message of 3 bytes");
  EXPECT_EQ(said_after(""), "rank 0 was lost: its store closed the connection");
}

TEST(StoreRulesTest, ADepartureOfARankCountsOnce) {
  std::string words;
  for (const char* const value : {"1f:3 2a:0", "1f:4", "1f:5"}) {
    words += write_store_message({.verb = Verb::kLeft, .number = 2, .value = value});
  }
  words += write_store_message({.verb = Verb::kLeft, .number = 0, .value = ""});
  words += write_store_message(
      {.verb = Verb::kFailure, .number = 0, .key = "4", .value = "rank 0 says the end"});
  const std::string said = said_after(words, [](const Store& store) {
    const std::vector<Departure> departures = store.epoch()->departures(0);
    ASSERT_EQ(departures.size(), 2U);
    EXPECT_EQ(store.epoch()->departure_count(), 2U);
    EXPECT_EQ(departures[0].rank, Rank{2});
    EXPECT_EQ(departures[0].ended, (std::map<uint64_t, uint64_t>{{0x1f, 3}, {0x2a, 0}}));
    EXPECT_EQ(departures[1].rank, Rank{0});
  });
  EXPECT_EQ(said, "rank 0 says the end");
}

// Returns what ranks 0 and 1 of 3 are told when rank 2 does that.
//   meanwhile  what they do before they wait
std::vector<std::string> told_of(const std::function<void(const Descriptor& socket)>& act,
                                 const std::function<void(Store&)>& meanwhile = {}) {
  const Served served;
  std::vector<std::string> told(2);
  std::latch told_both(2);
  on_every_rank(3, [&](Rank rank) {
    if (rank.value == 2) {
      const Descriptor socket = pose_as(served, 2, 3);
      act(socket);
      told_both.wait();
      return;
    }
    const auto store = make_tcp_store(served.options(rank, 3, seconds(40)));
    ASSERT_TRUE(store.has_value()) << store.error().message;
    if (meanwhile) {
      meanwhile(**store);
    }
    told[rank.index()] = (*store)->get("never", seconds(60)).error().message;
    told_both.count_down();
  });
  return told;
}

TEST(StoreRulesTest, AMemberIsNamedWithWhatItMayNotSay) {
  const std::string key(4097, 'k');
  const std::string long_key =
      "a key of 4097 bytes with a value of 1 bytes, of at most 4096 and "
      "16777216";
  const struct {
    StoreMessage message;
    std::string says;
  } cases[] = {
      {{.verb = Verb::kGoodbye, .value = "\xff\xfe gar bage"},
       "rank 2 has left with the channel '\\xff\\xfe', which is none"},
      {{.verb = Verb::kGoodbye, .value = "1f:3 "},
       "rank 2 has left with the channel '', which is none"},
      {{.verb = Verb::kGoodbye, .value = std::string(kMiB + 1, '1')},
       "rank 2 has left with 1048577 bytes, of at most 1048576"},
      {{.verb = Verb::kFail, .number = 3, .key = "4"}, "rank 3 has failed, of 3 ranks"},
      {{.verb = Verb::kFail, .number = -2, .key = "4"}, "rank -2 has failed, of 3 ranks"},
      {{.verb = Verb::kFail, .number = (int64_t{1} << 32) + 1, .key = "4"},
       "rank 4294967297 has failed, of 3 ranks"},
      {{.verb = Verb::kFail, .number = 1, .key = "4 " + std::string(65, 's')},
       "a scope's name of 65 bytes, of at most 64"},
      {{.verb = Verb::kFail, .number = 1, .key = key, .value = "x"}, long_key},
      {{.verb = Verb::kSet, .key = key, .value = "x"}, long_key},
      {{.verb = Verb::kGet, .number = 1, .key = key, .value = "x"}, long_key},
      {{.verb = Verb::kIncrement, .key = key, .value = "x"}, long_key},
      {{.verb = Verb::kErase, .key = key, .value = "x"}, long_key},
      {{.verb = Verb::kLeft, .number = 1}, "a message with verb 19"},
      {{.verb = Verb::kEpoch, .number = 1, .value = "0"}, "a message with verb 11"},
  };
  for (const auto& row : cases) {
    SCOPED_TRACE(row.says);
    const auto told =
        told_of([&](const Descriptor& socket) { say(socket, write_store_message(row.message)); });
    const std::string says = "rank 2 was lost: it broke the store's protocol: " + row.says;
    EXPECT_EQ(told, (std::vector<std::string>{says, says}));
  }
}

std::string failures_of_scopes(int32_t rank, int count) {
  const std::string text(kMaxStoreFailureBytes, 'x');
  std::string words;
  for (int i = 0; i < count; ++i) {
    words += write_store_message({.verb = Verb::kFail,
                                  .number = rank,
                                  .key = "4 " + std::to_string(rank) + "." + std::to_string(i),
                                  .value = text});
  }
  return words;
}

// With 128 bytes for each, and its name, about 4057 of them are 16 MiB.
TEST(StoreRulesTest, FailuresOfScopesAreLimitedForARank) {
  const int64_t before = resident_mib();
  std::latch both_have_looked(2);
  const auto told = told_of(
      [&](const Descriptor& socket) {
        say(socket, failures_of_scopes(2, 4000));
        say(socket, write_store_message({.verb = Verb::kSet, .key = "told/4000"}));
        both_have_looked.wait();
        say(socket, failures_of_scopes(2, 40'000));
      },
      [&](Store& store) {
        EXPECT_TRUE(store.get("told/4000", seconds(30)).has_value());
        const std::optional<Failure> failure = store.scope("2.3999")->failure();
        both_have_looked.count_down();
        ASSERT_TRUE(failure.has_value());
        EXPECT_EQ(failure->message, std::string(kMaxStoreFailureBytes, 'x'));
      });
  const std::string says =
      "rank 2 was lost: it broke the store's protocol: failures of scopes of "
      "more than 16 MiB";
  EXPECT_EQ(told, (std::vector<std::string>{says, says}));
  EXPECT_LT(resident_mib() - before, 700);  // the words that rank 2 says are among them
}

// Takes all that comes, until the end.
void take_all(const Descriptor& socket) {
  std::vector<char> bytes(std::size_t{1} << 20);
  while (wait_ready(socket.get(), POLLIN, SteadyClock().now() + seconds(60))) {
    const ssize_t count = recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
      return;
    }
  }
}

// Four ranks tell much, which rank 5 does not read: it has asked for more than it reads before.
TEST(StoreRulesTest, ARankThatDoesNotTakeWhatItIsToldIsLost) {
  constexpr int32_t kRanks = 6;
  const Served served;
  std::latch has_asked(1), is_told(1);
  on_every_rank(kRanks, [&](Rank rank) {
    if (rank.value == 0) {
      const auto store = make_tcp_store(served.options(rank, kRanks, seconds(60)));
      ASSERT_TRUE(store.has_value()) << store.error().message;
      EXPECT_TRUE((*store)->set("big", std::string(kMaxStoreValueBytes, 'x')));
      EXPECT_EQ((*store)->get("never", seconds(60)).error().message,
                "rank 5 was lost: it does not take what the store tells it");
      is_told.count_down();
      return;
    }
    const Descriptor socket = pose_as(served, rank.value, kRanks);
    if (rank.value == 5) {
      std::string words;
      for (uint64_t id = 1; id <= 4; ++id) {
        words += write_store_message(
            {.verb = Verb::kGet, .id = id, .number = seconds(60) / Duration(1), .key = "big"});
      }
      say(socket, words);
      StoreMessageReader reader;
      EXPECT_TRUE(hear(socket, reader) && hear(socket, reader));  // its welcome, and one of them
      has_asked.count_down();
      is_told.wait();
      return;
    }
    has_asked.wait();
    std::thread taker([&] { take_all(socket); });
    say(socket, failures_of_scopes(rank.value, 4000));
    is_told.wait();
    shutdown(socket.get(), SHUT_RDWR);
    taker.join();
  });
}

// A starter tells of a rank, and of nothing less than the job; it holds the job's secret.
TEST(StoreRulesTest, WhoIsNoRankTellsOfRanksAlone) {
  const StoreMessage good{.verb = Verb::kFail, .number = 2, .key = "4", .value = "rank 2 has died"};
  StoreMessage of_a_scope = good;
  of_a_scope.key = "4 scope";
  StoreMessage of_no_rank = good;
  of_no_rank.number = 3;
  for (const bool has_secret : {true, false}) {
    Served place;
    place.secret = has_secret ? place.secret : JobSecret();
    on_every_rank(2, [&](Rank rank) {
      const auto store = make_tcp_store(place.options(rank, 3));
      ASSERT_TRUE(store.has_value()) << store.error().message;
      if (rank.value == 1) {
        for (const StoreMessage& bad : {of_a_scope, of_no_rank}) {
          const Descriptor socket = pose_as(place, kNoRank, 3);
          StoreMessageReader reader;
          const auto welcome = hear(socket, reader);
          ASSERT_TRUE(welcome);
          EXPECT_EQ(welcome->verb, has_secret ? Verb::kWelcome : Verb::kRejected);
          say(socket, write_store_message(bad));
          if (has_secret) {
            EXPECT_FALSE(hear(socket, reader)) << "the connection is closed";
          }
        }
        EXPECT_FALSE((*store)->scope("scope")->failure());
        fail_from_outside(place.options(Rank{}, 3), {Rank{2}, good.value});
      }
      const Duration wait = has_secret ? Duration(seconds(20)) : Duration(milliseconds(1500));
      const std::string end = (*store)->get("never", wait).error().message;
      EXPECT_EQ(end, has_secret ? good.value : "nobody has set 'never'");
    });
  }
}

// Rank 0 as the limit of its descriptors grows: what it lacks it says soon, and in the end it
// comes.
TEST(StoreRulesTest, TooFewDescriptorsEndTheAttemptToJoinSoon) {
  std::vector<std::string> ends;
  for (rlim_t more = 0; more < 16; ++more) {
    support::RankProcesses ranks(1, seconds(30), [&](const TcpStoreOptions& options) {
      const int free = dup(STDIN_FILENO);
      close(free);
      const rlimit limit = {static_cast<rlim_t>(free) + more, static_cast<rlim_t>(free) + more};
      setrlimit(RLIMIT_NOFILE, &limit);
      const auto store = make_tcp_store(options);
      return store ? std::string("came") : store.error().message;
    });
    ends.push_back(ranks.wait(0, seconds(15)));
  }
  EXPECT_EQ(ends.back(), "came");
  const auto first = std::ranges::find(ends, "came");
  EXPECT_GE(first - ends.begin(), 5) << "for epoll, events and connections";
  for (auto end = ends.begin(); end != first; ++end) {
    EXPECT_TRUE(end->ends_with("descriptors (ulimit -n)")) << *end;
  }
  EXPECT_EQ(std::ranges::count(ends, "came"), ends.end() - first);
}

TEST(StoreRulesTest, TheOthersHearWhyRank0DoesNotJoinItsOwnStore) {
  Served served;
  auto server = StoreServer::start(
      std::move(served.listener),
      {.rank_count = 3, .job = "test", .secret = served.secret, .deadline = seconds(20)});
  ASSERT_TRUE(server.has_value()) << server.error().message;
  const auto store = make_tcp_store(served.options(Rank{1}, 3));
  ASSERT_TRUE(store.has_value()) << store.error().message;
  EXPECT_FALSE((*server)->first_failure());
  (*server)->fail({Rank{0}, "rank 0, store: it has no descriptors"});
  EXPECT_EQ((*store)->get("never", seconds(20)).error().message,
            "rank 0, store: it has no descriptors");
  EXPECT_EQ((*server)->first_failure()->message, "rank 0, store: it has no descriptors");
}

}  // namespace
}  // namespace pleach
