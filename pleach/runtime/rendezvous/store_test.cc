#include "pleach/runtime/rendezvous/store.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "pleach/base/rng.h"
#include "pleach/base/text.h"
#include "pleach/runtime/net.h"
#include "pleach/runtime/rendezvous/agreement.h"
#include "pleach/runtime/rendezvous/handshake.h"
#include "pleach/runtime/rendezvous/interfaces.h"
#include "pleach/runtime/rendezvous/local_store.h"
#include "pleach/runtime/rendezvous/rendezvous_file.h"
#include "pleach/runtime/rendezvous/store_protocol.h"
#include "tests/support/random_schedules.h"
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
using support::with_stores;

TEST(StoreTest, GetWaitsForSet) {
  with_stores(3, [](Store& store, Rank rank) {
    const std::string big(3 << 20, 'x');
    if (rank.value == 0) {
      std::this_thread::sleep_for(milliseconds(30));
      EXPECT_TRUE(store.set("key", "").has_value());
      EXPECT_TRUE(store.set("big", big).has_value());
    }
    const Result<std::string> value = store.get("key", seconds(10));
    ASSERT_TRUE(value.has_value()) << value.error().message;
    EXPECT_EQ(*value, "");
    EXPECT_EQ(store.get("big", seconds(10)).value(), big);
    EXPECT_TRUE(barrier({store, rank, 3, seconds(10)}, "end").has_value());
  });
}

TEST(StoreTest, GetOfAKeyThatNeverComesNamesIt) {
  with_stores(2, [](Store& store, Rank rank) {
    for (const Duration deadline : {Duration(0), Duration(milliseconds(40))}) {
      const Result<std::string> value = store.get("missing", deadline);
      ASSERT_FALSE(value.has_value());
      EXPECT_EQ(value.error().code, ErrorCode::kTimeout);
      EXPECT_NE(value.error().message.find("missing"), std::string::npos);
    }
    EXPECT_FALSE(store.failure().has_value());
    EXPECT_TRUE(barrier({store, rank, 2, seconds(10)}, "end").has_value());
  });
}

TEST(StoreTest, IncrementCountsEveryCallOnceAndEraseForgets) {
  with_stores(4, [](Store& store, Rank rank) {
    int64_t last = 0;
    for (int i = 0; i < 25; ++i) {
      const Result<int64_t> now = store.increment("a/counter");
      ASSERT_TRUE(now.has_value());
      EXPECT_GT(*now, last);
      last = *now;
    }
    EXPECT_TRUE(store.set("a/key", "value").has_value());
    EXPECT_TRUE(store.set("ab", "value").has_value());
    EXPECT_TRUE(barrier({store, rank, 4, seconds(10)}, "first").has_value());
    if (rank.value == 2) {
      EXPECT_EQ(store.increment("a/counter").value(), 101);
      EXPECT_TRUE(store.erase("a/").has_value());
      EXPECT_EQ(store.increment("a/counter").value(), 1);
      EXPECT_FALSE(store.get("a/key", Duration(0)).has_value());
      EXPECT_TRUE(store.get("ab", Duration(0)).has_value());
    }
    EXPECT_TRUE(barrier({store, rank, 4, seconds(10)}, "end").has_value());
  });
}

TEST(StoreTest, TheFirstFailureReachesEveryWaiterOnEveryRank) {
  with_stores(3, [](Store& store, Rank rank) {
    ASSERT_TRUE(barrier({store, rank, 3, seconds(10)}, "begin").has_value());
    if (rank.value == 1) {
      std::this_thread::sleep_for(milliseconds(20));
      const Error first =
          fail_epoch(store, *store.epoch(), {Rank{2}, "rank 2 caught fire", ErrorCode::kIo});
      EXPECT_EQ(first.message, "rank 2 caught fire");
      EXPECT_EQ(first.code, ErrorCode::kIo);
      EXPECT_EQ(fail_epoch(store, *store.epoch(), {Rank{0}, "too late"}).message, first.message);
    } else {
      const Result<std::string> value = store.get("never", seconds(10));
      ASSERT_FALSE(value.has_value());
      EXPECT_EQ(value.error().code, ErrorCode::kIo);
      EXPECT_EQ(value.error().message, "rank 2 caught fire");
    }
    EXPECT_TRUE(wait_ready(store.epoch()->descriptor(), POLLIN, SteadyClock().now() + seconds(5)));
    ASSERT_TRUE(store.failure().has_value());
    EXPECT_EQ(store.failure()->rank, Rank{2});
  });
}

TEST(StoreTest, AFailureNamesARankOnce) {
  const std::string told = failure_text(Rank{2}, "operation 7 (all_reduce)", "no memory");
  EXPECT_EQ(told, "rank 2, operation 7 (all_reduce): no memory");
  EXPECT_EQ(said_by(Rank{2}, told), "rank 2: operation 7 (all_reduce): no memory");
  EXPECT_EQ(said_by(Rank{0}, told), "rank 0: " + told);
  EXPECT_EQ(said_by(Rank{22}, told), "rank 22: " + told);
  EXPECT_EQ(said_by(Rank{1}, "rank 1 was started with a"), "rank 1: rank 1 was started with a");
  const auto named = [](const char* message) {
    return named_failure({ErrorCode::kIo, message}, Rank{2}).message;
  };
  EXPECT_EQ(named("no memory"), "rank 2: no memory");
  EXPECT_EQ(named("ranked"), "rank 2: ranked");
  EXPECT_EQ(named("rank "), "rank 2: rank ");
  EXPECT_EQ(named("rank 3 did not come"), "rank 3 did not come");
  EXPECT_EQ(said_by(Rank{2}, named("no memory")), "rank 2: no memory");
  EXPECT_EQ(said_by(Rank{0}, named("no memory")), "rank 0: rank 2: no memory");
}

// The ranks wait for what never comes and say why they stopped.
std::string wait_for_failure(const TcpStoreOptions& options, support::Arrivals& begun_ones) {
  const auto store = make_tcp_store(options);
  if (!store) {
    return store.error().message;
  }
  if (const Status begun =
          barrier({**store, options.rank, options.rank_count, seconds(20)}, "begin");
      !begun) {
    return begun.error().message;
  }
  begun_ones.note();
  return (*store)->get("never", seconds(30)).error().message;
}

TEST(TcpStoreTest, LostRankIsNamedOnAllOthersWithinTheDeadline) {
  struct Case {
    std::string name;
    int32_t rank;
    int signal;
  };
  for (const Case& row : std::vector<Case>{{"killed", 1, SIGKILL},
                                           {"stopped", 2, SIGSTOP},
                                           {"server killed", 0, SIGKILL},
                                           {"server stopped", 0, SIGSTOP}}) {
    SCOPED_TRACE(row.name);
    constexpr Duration kDeadline = seconds(4);
    support::Arrivals begun;
    support::RankProcesses ranks(3, kDeadline, [&](const TcpStoreOptions& options) {
      return wait_for_failure(options, begun);
    });
    ASSERT_TRUE(begun.reach(3));
    std::this_thread::sleep_for(milliseconds(50));
    ranks.signal(row.rank, row.signal);
    const TimePoint until = SteadyClock().now() + 3 * kDeadline;
    const std::string expected = "rank " + std::to_string(row.rank) + " was lost";
    for (int32_t rank = 0; rank < 3; ++rank) {
      if (rank != row.rank) {
        const std::string said = ranks.wait(rank, until - SteadyClock().now());
        EXPECT_NE(said.find(expected), std::string::npos) << "rank " << rank << ": " << said;
      }
    }
  }
}

TEST(TcpStoreTest, RankThatSaysGoodbyeIsNotLost) {
  const Served served;
  on_every_rank(3, [&](Rank rank) {
    auto store = make_tcp_store(served.options(rank, 3));
    ASSERT_TRUE(store.has_value()) << store.error().message;
    // All but rank 2 go; rank 0 serves until rank 2 has gone too.
    if (rank.value == 2) {
      ASSERT_TRUE((*store)->set("a", "b").has_value());
      std::this_thread::sleep_for(milliseconds(200));
      EXPECT_EQ((*store)->get("a", seconds(5)).value(), "b");
      EXPECT_FALSE((*store)->failure().has_value());
    } else {
      ASSERT_TRUE((*store)->get("a", seconds(5)).has_value());
    }
  });
}

TEST(TcpStoreTest, BytesThatAreNoProtocolHurtNobody) {
  const Served served;
  Rng rng(77);
  std::vector<std::string> attacks = {
      "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
      std::string(100, '\0'),
      std::string(100, '\xff'),
      write_store_message({.verb = StoreVerb::kSet, .key = "stolen", .value = "x"}),
      write_store_message({.verb = StoreVerb::kFail, .number = 1, .value = "lie"}),
      "PLEACH2\n",
      std::string("PLEACH2\n") + std::string(200, '\0'),
      std::string("\x10\x00\x00", 3)};
  for (int i = 0; i < 200; ++i) {
    std::string noise;
    for (uint64_t k = rng.below(64); k > 0; --k) {
      noise += static_cast<char>(rng.below(256));
    }
    attacks.push_back(noise);
  }
  on_every_rank(2, [&](Rank rank) {
    const auto store = make_tcp_store(served.options(rank, 2));
    ASSERT_TRUE(store.has_value()) << store.error().message;
    ASSERT_TRUE(barrier({**store, rank, 2, seconds(10)}, "begin").has_value());
    std::vector<Descriptor> open;
    for (const std::string& attack : attacks) {
      if (rank.value == 0) {
        Descriptor socket = std::move(start_connect({"127.0.0.1", served.port})).value();
        wait_ready(socket.get(), POLLOUT, SteadyClock().now() + seconds(5));
        EXPECT_EQ(send(socket.get(), attack.data(), attack.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(attack.size()));
        if (open.size() < 20) {  // some stay, some leave at once
          open.push_back(std::move(socket));
        }
      }
    }
    EXPECT_TRUE((*store)->set("after/" + std::to_string(rank.value), "fine").has_value());
    EXPECT_EQ((*store)->get("after/" + std::to_string(1 - rank.value), seconds(10)).value(),
              "fine");
    EXPECT_FALSE((*store)->get("stolen", Duration(0)).has_value());
    EXPECT_FALSE((*store)->failure().has_value()) << (*store)->failure()->message;
    EXPECT_TRUE(barrier({**store, rank, 2, seconds(10)}, "end").has_value());
  });
}

TEST(TcpStoreTest, WhoDoesNotBelongIsToldWhy) {
  const Served served;
  const auto store = make_tcp_store(served.options(Rank{0}, 3));
  ASSERT_TRUE(store.has_value()) << store.error().message;
  const auto first = make_tcp_store(served.options(Rank{1}, 3));
  ASSERT_TRUE(first.has_value());
  struct Case {
    std::string name;
    TcpStoreOptions options;
    std::string says;
  };
  std::vector<Case> cases = {
      {"other count", served.options(Rank{2}, 4, milliseconds(300)), "it serves 3 ranks"},
      {"twice", served.options(Rank{1}, 3, milliseconds(300)), "rank 1 is there already"},
      {"other job", served.options(Rank{2}, 3, milliseconds(300)),
       "it serves another job than 'another'"},
      {"other secret", served.options(Rank{2}, 3, milliseconds(300)),
       "it does not hold this job's secret, or rank 2 does not"},
      {"no secret", served.options(Rank{2}, 3, milliseconds(300)),
       "it has a secret, and rank 2 has none"},
      {"out of range", served.options(Rank{5}, 3, milliseconds(300)), "rank 5 is not one of 3"},
      {"no port", served.options(Rank{2}, 3, milliseconds(300)),
       "does not know the port of the store"},
      {"nobody", served.options(Rank{2}, 3, milliseconds(300)), "does not accept connections"},
      {"no host", served.options(Rank{2}, 3, milliseconds(300)), "host"},
  };
  cases[2].options.job = "another";
  cases[3].options.secret = JobSecret::make();
  cases[4].options.secret = JobSecret();
  cases[6].options.port = 0;
  {
    const Served unused;  // its port is free when it is gone
    cases[7].options.port = unused.port;
  }
  cases[8].options.host = "no-such-host.invalid";
  for (const Case& row : cases) {
    SCOPED_TRACE(row.name);
    const auto refused = make_tcp_store(row.options);
    ASSERT_FALSE(refused.has_value());
    EXPECT_NE(refused.error().message.find(row.says), std::string::npos) << refused.error().message;
  }
  EXPECT_FALSE((*store)->failure().has_value());
  EXPECT_NE(
      barrier({**store, Rank{0}, 3, milliseconds(10)}, "b")
          .error()
          .message.find(
              "ranks 1, 2 did not come within 0.01 s; who claims to be rank 2 does not hold this "
              "job's secret (PLEACH_SECRET)"),
      std::string::npos);
}

// A rank that encrypts where the job does not, or the other way round, ends the job with a line
// that says so, there and on all others.
TEST(TcpStoreTest, RanksOfWhichOnlySomeEncryptAreTold) {
  for (const bool job_encrypts : {false, true}) {
    Served served;
    const JobSecret plain = JobSecret::make();
    served.secret = job_encrypts ? plain.encrypting() : plain;
    const auto store = make_tcp_store(served.options(Rank{0}, 3));
    ASSERT_TRUE(store.has_value()) << store.error().message;
    const auto first = make_tcp_store(served.options(Rank{1}, 3));
    ASSERT_TRUE(first.has_value()) << first.error().message;
    served.secret = job_encrypts ? plain : plain.encrypting();
    const auto refused = make_tcp_store(served.options(Rank{2}, 3));
    ASSERT_FALSE(refused.has_value());
    const std::string says = job_encrypts ? "rank 2 does not encrypt, and it does (PLEACH_TLS)"
                                          : "rank 2 encrypts, and it does not (PLEACH_TLS)";
    EXPECT_NE(refused.error().message.find(says), std::string::npos) << refused.error().message;
    EXPECT_EQ((*first)->get("key", seconds(10)).error().message,
              job_encrypts ? "rank 2 does not encrypt, and rank 0 does (PLEACH_TLS)"
                           : "rank 2 encrypts, and rank 0 does not (PLEACH_TLS)");
  }
}

StoreMessage draw_message(Rng& rng) {
  const auto draw_text = [&](uint64_t limit) {
    std::string text(rng.below(limit), '\0');
    for (char& letter : text) {
      letter = static_cast<char>(rng.below(256));
    }
    return text;
  };
  const auto goodbye = static_cast<uint64_t>(StoreVerb::kGoodbye);  // whoever says it is not missed
  return {.verb = static_cast<StoreVerb>((goodbye + 1 + rng.below(15)) % 16),
          .id = rng.below(4),
          .number = rng.below(2) == 0 ? static_cast<int64_t>(rng.next())
                                      : static_cast<int64_t>(rng.below(5)) - 1,
          .key = draw_text(20),
          .value = draw_text(rng.below(10) == 0 ? 5000 : 50)};
}

// Whatever a rank says, the others go on or are told that it is lost.
TEST(TcpStoreTest, MembersThatBreakTheRulesAreNamed) {
  for (int round = 0; round < support::repeated(20); ++round) {
    SCOPED_TRACE(round);
    Rng rng(static_cast<uint64_t>(round));
    const Served served;
    on_every_rank(3, [&](Rank rank) {
      if (rank.value == 2) {
        const Descriptor socket = pose_as(served, 2, 3);
        for (uint64_t left = rng.below(30); left > 0; --left) {
          std::string words = write_store_message(draw_message(rng));
          if (rng.below(8) == 0) {
            words[rng.below(words.size())] ^= static_cast<char>(1 + rng.below(255));
          }
          say(socket, words);
        }
        return;  // and leaves without a goodbye
      }
      const auto store = make_tcp_store(served.options(rank, 3));
      ASSERT_TRUE(store.has_value()) << store.error().message;
      const Result<std::string> value = (*store)->get("never", seconds(10));
      ASSERT_FALSE(value.has_value());
      EXPECT_EQ(value.error().code, ErrorCode::kPeerLost) << value.error().message;
      EXPECT_EQ(value.error().message, one_line(value.error().message));
      EXPECT_LT(value.error().message.size(), 20'000U);
      EXPECT_GE((*store)->failure()->rank.value, -1);
      EXPECT_LT((*store)->failure()->rank.value, 3);
    });
  }
}

TEST(TcpStoreTest, AFailureIsCutAndCleaned) {
  const Served served;
  on_every_rank(2, [&](Rank rank) {
    const auto store = make_tcp_store(served.options(rank, 2));
    ASSERT_TRUE(store.has_value());
    if (rank.value == 1) {
      (*store)->fail({Rank{1}, "rank 1: \x1b[2J\r\n" + std::string(1 << 20, 'x')});
    }
    const std::string said = (*store)->get("never", seconds(10)).error().message;
    if (rank.value == 0) {
      EXPECT_TRUE(said.starts_with("rank 1: \\x1b[2J\\x0d\\x0a")) << said.substr(0, 40);
      EXPECT_LT(said.size(), 5000U);
    }
  });
}

TEST(TcpStoreTest, WhatARankMayKeepIsCapped) {
  with_stores(2, [](Store& store, Rank rank) {
    if (dynamic_cast<LocalStore*>(&store) != nullptr) {
      return;  // its ranks share their memory anyway
    }
    const std::string value(kMaxStoreValueBytes, 'x');
    if (rank.value == 1) {
      Status status = ok();
      int kept = 0;
      while (status && kept < 100) {
        status = store.set("big/" + std::to_string(kept), value);
        kept += status ? 1 : 0;
      }
      EXPECT_EQ(kept, 15);
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().message, "store, 'big/15': this rank keeps too much there");
      EXPECT_TRUE(store.set("big/3", "") && store.set("big/15", value));
      EXPECT_TRUE(store.erase("big/"));
      EXPECT_TRUE(store.set("again", value));
    } else {
      EXPECT_TRUE(store.get("again", seconds(60)).has_value());
    }
    EXPECT_TRUE(barrier({store, rank, 2, seconds(60)}, "end").has_value());
  });
}

// Asks for more than it takes, and waits for more keys than it has threads.
TEST(TcpStoreTest, RankThatTakesNothingCostsLittle) {
  const Served served;
  std::latch served_well(2);
  on_every_rank(3, [&](Rank rank) {
    if (rank.value == 2) {
      const Descriptor socket = pose_as(served, 2, 3);
      std::string words;
      for (uint64_t id = 1; id <= 1000; ++id) {
        words += write_store_message(
            {.verb = StoreVerb::kGet, .id = id, .number = seconds(60) / Duration(1), .key = "big"});
      }
      say(socket, words);
      served_well.wait();
      return;
    }
    const auto store = make_tcp_store(served.options(rank, 3));
    ASSERT_TRUE(store.has_value());
    if (rank.value == 0) {
      ASSERT_TRUE((*store)->set("big", std::string(kMaxStoreValueBytes, 'x')).has_value());
    }
    const Result<std::string> big = (*store)->get("big", seconds(10));
    EXPECT_TRUE(big && big->size() == kMaxStoreValueBytes);
    served_well.count_down();
    const std::string said = (*store)->get("never", seconds(20)).error().message;
    // Its connection closed; on a loaded machine it was silent for too long before.
    EXPECT_TRUE(said.starts_with("rank 2 was lost: ")) << said;
  });
  // What it has asked for is not kept for it: the peak says so.
  rusage usage = {};
  ASSERT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  EXPECT_LT(usage.ru_maxrss, 2L << 20);  // KiB
}

// Always asks for more before it has taken all: what it has taken is not kept.
TEST(TcpStoreTest, RankThatNeverTakesAllCostsLittle) {
  const Served served;
  on_every_rank(2, [&](Rank rank) {
    if (rank.value == 0) {
      const auto store = make_tcp_store(served.options(rank, 2, seconds(60)));
      ASSERT_TRUE(store.has_value());
      EXPECT_TRUE((*store)->get("end", seconds(60)).has_value());
      return;
    }
    const Descriptor socket = pose_as(served, 1, 2);
    StoreMessageReader reader;
    const auto ask = [&] {
      say(socket, write_store_message({.verb = StoreVerb::kGet, .key = "big"}));
    };
    const std::string value(std::size_t{8} << 20, 'x');
    say(socket, write_store_message({.verb = StoreVerb::kSet, .key = "big", .value = value}));
    for (int asked = 0; asked < 3; ++asked) {
      ask();
    }
    const int64_t before = resident_mib();
    for (int taken = 0; taken < 75; ++taken) {
      ASSERT_TRUE(hear(socket, reader));
      ask();
    }
    EXPECT_LT(resident_mib() - before, 300);
    say(socket, write_store_message({.verb = StoreVerb::kSet, .key = "end"}));
    say(socket, write_store_message({.verb = StoreVerb::kGoodbye}));
    while (hear(socket, reader)) {
    }
  });
}

// Only short messages, and not many at once: whoever came first leaves.
TEST(TcpStoreTest, ThoseWhoAreNoRanksCostLittle) {
  const Served served;
  on_every_rank(2, [&](Rank rank) {
    const auto store = make_tcp_store(served.options(rank, 2));
    ASSERT_TRUE(store.has_value());
    if (rank.value == 1) {
      std::vector<Descriptor> heralds;
      std::vector<StoreMessageReader> readers(100);
      for (StoreMessageReader& reader : readers) {
        heralds.push_back(pose_as(served, kNoRank, 2));
        ASSERT_TRUE(hear(heralds.back(), reader));  // its welcome
      }
      EXPECT_FALSE(hear(heralds.front(), readers.front()));
      say(heralds.back(),
          write_store_message(
              {.verb = StoreVerb::kFail, .number = 0, .value = std::string(5000, 'x')}));
      EXPECT_FALSE(hear(heralds.back(), readers.back()));
    }
    EXPECT_TRUE(barrier({**store, rank, 2, seconds(60)}, "end").has_value());
  });
}

// Asks again and again for an epoch that does not begin.
TEST(TcpStoreTest, ARankThatRecoversManyTimesIsRefused) {
  const Served served;
  std::latch refused_one(1);
  on_every_rank(2, [&](Rank rank) {
    if (rank.value == 0) {
      const auto store = make_tcp_store(served.options(rank, 2));
      ASSERT_TRUE(store.has_value());
      EXPECT_TRUE((*store)->set("here", "").has_value());
      EXPECT_FALSE((*store)->get("never", seconds(60)).has_value());
      refused_one.wait();
      EXPECT_TRUE((*store)->recover(rank, seconds(20)).has_value());
      return;
    }
    const Descriptor socket = pose_as(served, 1, 2);
    StoreMessageReader reader;
    say(socket, write_store_message(
                    {.verb = StoreVerb::kGet, .number = seconds(20) / Duration(1), .key = "here"}));
    ASSERT_TRUE(hear(socket, reader) && hear(socket, reader));  // its welcome, and that
    say(socket, write_store_message({.verb = StoreVerb::kFail, .number = 1, .value = "it ends"}));
    std::string words;
    for (uint64_t id = 1; id <= 300; ++id) {
      words += write_store_message({.verb = StoreVerb::kRecover,
                                    .id = id,
                                    .number = seconds(60) / Duration(1),
                                    .value = "0"});
    }
    say(socket, words);
    std::optional<StoreMessage> refused;
    do {
      refused = hear(socket, reader);
    } while (refused && refused->verb != StoreVerb::kRefused);
    refused_one.count_down();
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->id, 257U);
  });
}

TEST(RendezvousFileTest, IsOfAWriterThatLives) {
  const std::string path = testing::TempDir() + "pleach-rendezvous-" + std::to_string(getpid());
  {
    const Result<Descriptor> held = write_rendezvous(path, 77);
    ASSERT_TRUE(held.has_value());
    EXPECT_EQ(read_rendezvous(path), 77);
    EXPECT_EQ(read_rendezvous(path), 77);
  }
  EXPECT_EQ(read_rendezvous(path), std::nullopt);
  const Result<Descriptor> next = write_rendezvous(path, 78);
  ASSERT_TRUE(next.has_value());
  remove_rendezvous(path, 77);
  EXPECT_EQ(read_rendezvous(path), 78);
  remove_rendezvous(path, 78);
  EXPECT_FALSE(std::ifstream(path).good());
}

TEST(TcpStoreTest, WhoIsNoRankMayTellOfAFailure) {
  const Served served;
  on_every_rank(2, [&](Rank rank) {
    const auto store = make_tcp_store(served.options(rank, 3));
    ASSERT_TRUE(store.has_value());
    if (rank.value == 1) {
      TcpStoreOptions stranger = served.options(rank, 3);
      stranger.secret = JobSecret::make();
      fail_from_outside(stranger, {Rank{0}, "lies"});
      fail_from_outside(served.options(rank, 3), {Rank{2}, "rank 2 was ended by signal 9"});
    }
    EXPECT_EQ((*store)->get("never", seconds(10)).error().message, "rank 2 was ended by signal 9");
  });
}

TEST(TcpStoreTest, RankWhoseStarterHasEndedEndsTheJob) {
  const pid_t starter = fork();
  if (starter == 0) {
    pause();
    _exit(0);
  }
  const Served served;
  std::latch both_have_begun(2);
  on_every_rank(2, [&](Rank rank) {
    TcpStoreOptions options = served.options(rank, 2);
    options.starter_process = rank.value == 1 ? starter : 0;
    const auto store = make_tcp_store(options);
    ASSERT_TRUE(store.has_value());
    ASSERT_TRUE(barrier({**store, rank, 2, seconds(10)}, "begin").has_value());
    both_have_begun.arrive_and_wait();
    if (rank.value == 1) {
      kill(starter, SIGKILL);
    }
    EXPECT_EQ((*store)->get("never", seconds(10)).error().message,
              "rank 1 was left alone: process " + std::to_string(starter) +
                  ", which started it, has ended");
  });
  waitpid(starter, nullptr, 0);
}

TEST(TcpStoreTest, InterfacesThatAreNotThereAreNamed) {
  const Served served;
  TcpStoreOptions options = served.options(Rank{0}, 1);
  options.interface = "=nonesuch0";
  const auto refused = make_tcp_store(options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("PLEACH_SOCKET_IFNAME '=nonesuch0' admits no interface; "
                                         "there are: lo (127.0.0.1)"),
            std::string::npos)
      << refused.error().message;
  options = served.options(Rank{0}, 1);
  options.interface = "lo";
  const auto store = make_tcp_store(options);
  ASSERT_TRUE(store.has_value());
  EXPECT_EQ((*store)->local_addresses(), std::vector<std::string>{"127.0.0.1"});
}

// The store is reached over the loopback, by a name that means that to this host only.
TEST(TcpStoreTest, NoLoopbackAddressIsPublishedToOtherHosts) {
  const Served served;
  TcpStoreOptions options = served.options(Rank{0}, 1);
  options.host = "0.0.0.0";
  const auto store = make_tcp_store(options);
  ASSERT_TRUE(store.has_value()) << store.error().message;
  const auto others = choose_addresses(list_interfaces(), "", "127.0.0.1");
  EXPECT_EQ((*store)->local_addresses(),
            std::vector<std::string>{others ? others->front() : "127.0.0.1"});
}

// All ranks are stopped for longer than the deadline, while they wait, and go on.
TEST(TcpStoreTest, AJobThatIsSuspendedGoesOn) {
  constexpr Duration kDeadline = seconds(4);
  support::Arrivals begun_ones;
  support::RankProcesses ranks(3, kDeadline, [&](const TcpStoreOptions& options) -> std::string {
    const auto store = make_tcp_store(options);
    if (!store) {
      return store.error().message;
    }
    const GroupOfRanks group{**store, options.rank, options.rank_count, options.deadline};
    if (const Status begun = barrier(group, "begin"); !begun) {
      return begun.error().message;
    }
    begun_ones.note();
    if (options.rank.value == 0) {
      std::this_thread::sleep_for(milliseconds(1500));
    }
    const Status ended = barrier(group, "end");
    return ended ? "done" : ended.error().message;
  });
  ASSERT_TRUE(begun_ones.reach(3));
  std::this_thread::sleep_for(milliseconds(100));
  for (int32_t rank = 0; rank < 3; ++rank) {
    ranks.signal(rank, SIGSTOP);
  }
  std::this_thread::sleep_for(2 * kDeadline);
  for (int32_t rank = 0; rank < 3; ++rank) {
    ranks.signal(rank, SIGCONT);
  }
  for (int32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks.wait(rank, seconds(20)), "done");
  }
}

TEST(TcpStoreTest, ServiceThatIsNoStoreIsRecognised) {
  const auto said_by_rank_1 = [](const Served& served) {
    const auto store = make_tcp_store(served.options(Rank{1}, 2, seconds(2)));
    return store ? "welcome" : store.error().message;
  };
  // As rank 0 is that has not come, or is stopped.
  const Served silent;
  EXPECT_NE(said_by_rank_1(silent).find("rank 0 does not answer there: it has not come"),
            std::string::npos);
  const Served other;
  std::atomic<bool> is_over = false;
  std::thread service([&] {
    while (!is_over) {
      const Descriptor guest(accept(other.listener.get(), nullptr, nullptr));
      if (guest.is_open()) {
        wait_ready(guest.get(), POLLIN, SteadyClock().now() + seconds(5));
        const std::string_view answer = "HTTP/1.1 400 Bad Request\r\n\r\n";
        static_cast<void>(send(guest.get(), answer.data(), answer.size(), MSG_NOSIGNAL));
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  EXPECT_NE(said_by_rank_1(other).find("what listens there is no pleach store"), std::string::npos);
  is_over = true;
  service.join();
}

TEST(TcpStoreTest, ARankThatIsStoppedBeforeItHasComeIsNamed) {
  for (const int32_t stopped : {0, 2}) {
    SCOPED_TRACE(stopped);
    support::RankProcesses ranks(3, seconds(4), [&](const TcpStoreOptions& options) -> std::string {
      if (options.rank.value == stopped) {
        raise(SIGSTOP);
      }
      const auto store = make_tcp_store(options);
      if (!store) {
        return store.error().message;
      }
      const auto said = settle({**store, options.rank, 3, seconds(4)}, "word", "",
                               [](const auto&) { return std::string(); });
      return said ? "all came" : said.error().message;
    });
    for (const int32_t rank : {0, 1, 2}) {
      if (rank != stopped) {
        const std::string said = ranks.wait(rank, seconds(30));
        EXPECT_NE(said.find(stopped == 0 ? "rank 0 does not answer there" : "rank 2 did not come"),
                  std::string::npos)
            << said;
      }
    }
  }
}

TEST(TcpStoreTest, RanksMeetInAFileWhateverAJobBeforeHasLeft) {
  const Served stale;
  const std::string path = testing::TempDir() + "pleach-rendezvous-" + std::to_string(getpid());
  const std::vector<std::string> leftovers = {"",
                                              "1\n",
                                              std::to_string(stale.port) + "\n",
                                              "nonsense\n",
                                              "99999999999999999999\n",
                                              std::string(100, '7')};
  for (const std::string& leftover : leftovers) {
    SCOPED_TRACE(leftover);
    std::ofstream(path) << leftover;
    on_every_rank(3, [&](Rank rank) {
      if (rank.value == 0) {
        std::this_thread::sleep_for(milliseconds(50));
      }
      TcpStoreOptions options{.rank = rank, .rank_count = 3, .deadline = seconds(8)};
      options.rendezvous_file = path;
      const auto store = make_tcp_store(options);
      ASSERT_TRUE(store.has_value()) << store.error().message;
      EXPECT_TRUE(barrier({**store, rank, 3, seconds(5)}, "met").has_value());
    });
    EXPECT_FALSE(std::ifstream(path).good()) << "the file is removed when all have met";
  }
  TcpStoreOptions alone{.rank = Rank{1}, .rank_count = 2, .deadline = milliseconds(100)};
  alone.rendezvous_file = path;
  const auto store = make_tcp_store(alone);
  ASSERT_FALSE(store.has_value());
  EXPECT_NE(store.error().message.find(path), std::string::npos) << store.error().message;
}

}  // namespace
}  // namespace pleach
