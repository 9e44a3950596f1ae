// Ordinary memory that a rank of the same host reads where it stands: what travels so, and what is
// done where it cannot be.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/runtime/transports/process_memory.h"
#include "tests/support/bare_transports.h"
#include "tests/support/random_schedules.h"
#include "tests/support/small_schedules.h"
#include "tests/support/two_phase_run.h"

namespace pleach {
namespace {

using support::BareTransports;
using Fetching = ChannelOptions::Fetching;
using Kind = TransportEvent::Kind;

// In a thread of its own, and those that it starts, the kernel refuses to read other processes.
void where_it_is_forbidden(const std::function<void()>& body) {
  std::thread([&] {
    std::array filter = {
        sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program = {filter.size(), filter.data()};
    ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
    body();
  }).join();
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// Rank 1 of two lends a text to rank 0, once they are connected. What rank 0 sees; nothing where
// the transport refuses.
std::vector<TransportEvent> see_lent(BareTransports& ranks, const std::string& text) {
  ranks.open({.number = 5,
              .places = 2,
              .place_bytes = 64 << 10,
              .fetching = ChannelOptions::Fetching::kAlways});
  EXPECT_TRUE(ranks[1].connect(Rank{0}));
  EXPECT_TRUE(ranks[1].tell_begun(Rank{0}, 5, 1, 1));
  EXPECT_TRUE(ranks[0].tell_begun(Rank{1}, 5, 1, 1));
  static_cast<void>(ranks.see(0, 1));
  static_cast<void>(ranks.see(1, 1));
  const bool is_lent = ranks[1].lend(Rank{0}, 5, {.operation = 1}, 9, bytes_of(text)).value();
  return is_lent ? ranks.see(0, 1) : std::vector<TransportEvent>();
}

TEST(SingleCopyTest, OrdinaryMemoryIsReadWhereItStands) {
  BareTransports ranks("shm", 2);
  std::string text(1000, 'a');
  const std::vector<TransportEvent> seen = see_lent(ranks, text);
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_TRUE(seen[0].is_lent);
  EXPECT_TRUE(seen[0].is_remote);
  EXPECT_EQ(seen[0].payload.size(), text.size());
  text[999] = 'z';
  std::string found(500, 'x');
  const auto room = std::as_writable_bytes(std::span(found));
  ASSERT_TRUE(ranks[0].fetch(Rank{1}, seen[0].payload.data() + 500, room));
  EXPECT_EQ(found, std::string(499, 'a') + "z");
  EXPECT_FALSE(ranks[0].fetch(Rank{1}, nullptr, room));
  ASSERT_TRUE(ranks[0].release(Rank{1}, 5, seen[0].tag, seen[0].place));
  EXPECT_EQ(ranks.see(1, 1).at(0).kind, Kind::kReleased);
}

// Its memory may be anything by then: no rank takes what it has read.
TEST(SingleCopyTest, WhatIsReadOfARankThatHasGivenUpIsNotTaken) {
  BareTransports ranks("shm", 2);
  const std::string text(1000, 'a');
  const std::vector<TransportEvent> seen = see_lent(ranks, text);
  ASSERT_EQ(seen.size(), 1U);
  ASSERT_TRUE(ranks[0].tell_read(Rank{1}, 5, seen[0].tag, 0));
  ranks[1].abandon(5);
  const Status told = ranks[0].tell_read(Rank{1}, 5, seen[0].tag, 0);
  ASSERT_FALSE(told.has_value());
  EXPECT_EQ(told.error().message, "rank 1 gave up while its memory was read");
  EXPECT_FALSE(ranks[0].release(Rank{1}, 5, seen[0].tag, seen[0].place).has_value());
}

TEST(SingleCopyTest, NothingIsLentWhereTheKernelForbidsToReadIt) {
  where_it_is_forbidden([] {
    EXPECT_FALSE(try_to_read_processes().has_value());
    BareTransports ranks("shm", 2);
    EXPECT_TRUE(see_lent(ranks, std::string(1000, 'a')).empty());
  });
}

TEST(SingleCopyTest, BitsAreTheSameFetchedStagedAndForbidden) {
  const std::vector<Schedule> schedules = {
      support::ring_schedule(CollectiveKind::kAllReduce, 3, 1),
      support::direct_schedule(CollectiveKind::kAllReduce, 4),
      support::direct_schedule(CollectiveKind::kAllToAll, 3),
      support::halving_schedule(4),
      support::make_schedule({}, {{0, 1, 0, 1}, {0, 1, 1, 0}}),
  };
  uint64_t seed = 0;
  for (const Schedule& schedule : schedules) {
    for (const int64_t count : {12, 4001, 700'001}) {
      for (const bool in_place : {false, true}) {
        for (const auto fetching : {Fetching::kAlways, Fetching::kWhereFaster, Fetching::kNever}) {
          SCOPED_TRACE(std::string(to_text(schedule.collective)) + " of " + std::to_string(count) +
                       ", fetching " + std::to_string(static_cast<int>(fetching)) + ", seed " +
                       std::to_string(++seed));
          const auto run = [&] {
            Rng rng(seed);
            const bool is_exchange = schedule.collective == CollectiveKind::kAllToAll;
            support::expect_two_phase_bits(schedule,
                                           {.count = is_exchange ? count / 6 * 6 : count,
                                            .segment_count = 1 + support::pick(rng, 3),
                                            .landing_places = 1 + support::pick(rng, 2),
                                            .in_place = in_place,
                                            .transport = "shm",
                                            .delay_seed = seed % 3,
                                            .lenders = rng.below(16),
                                            .fetching = fetching},
                                           rng);
          };
          run();
          if (fetching == Fetching::kAlways) {
            where_it_is_forbidden(run);
          }
        }
      }
    }
  }
}

// A process that has ended is read no more, whatever has become of its number.
TEST(SingleCopyTest, ProcessThatHasEndedCannotBeRead) {
  std::array<int, 2> ends = {-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  EXPECT_EQ(process_of(ends[0]), getpid());
  EXPECT_EQ(process_of(-1), 0);
  const std::string text = "text";
  std::string found = "none";
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  const auto* const from = reinterpret_cast<const std::byte*>(text.data());
  const auto room = std::as_writable_bytes(std::span(found));
  const Status read = read_process(child, from, room);
  EXPECT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(found, text);
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  const Status failed = read_process(child, from, room);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().message, "process_vm_readv: No such process");
}

}  // namespace
}  // namespace pleach
