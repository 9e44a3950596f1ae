// What is particular to shared memory: who comes in, and what a peer writes there.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/base/text.h"
#include "pleach/runtime/net.h"
#include "pleach/runtime/transports/shared_memory.h"
#include "pleach/runtime/transports/shm_layout.h"
#include "tests/support/intruder.h"
#include "tests/support/random_schedules.h"
#include "tests/support/rank_threads.h"
#include "tests/support/small_schedules.h"

namespace pleach {
namespace {

using std::chrono::seconds;

uint64_t nonce_of(const Transport& transport) {
  return std::stoull(std::string(split(transport.address(), ' ')[0]));
}

// A program of its own that poses as rank 2 of 3.
struct Impostor {
  Descriptor socket;
  SharedMemory memory;
  SharedMemory peer;
  std::shared_ptr<std::byte> shared;
  shm::Writer out;

  // Comes to rank 0, whoever it says that it is.
  Impostor(support::RankGroup& group, const Claim& claim) {
    socket = connect_on_host(shm::socket_name(nonce_of(group.transport(Rank{0})))).value();
    support::be_let_in(group.transport(Rank{0}), socket.get(), group.store().secret(), claim);
  }
  // Says hello.
  void greet(const shm::Hello& hello, int64_t bytes) {
    memory = SharedMemory::create(bytes).value();
    EXPECT_TRUE(send_with_descriptors(socket.get(), std::as_bytes(std::span(&hello, 1)),
                                      std::array{memory.descriptor()}));
  }
  // Hears the rank's hello.
  void enter() {
    shm::Hello answer;
    std::vector<Descriptor> brought;
    ASSERT_TRUE(wait_ready(socket.get(), POLLIN, SteadyClock().now() + seconds(10)));
    ASSERT_EQ(receive_with_descriptors(socket.get(), std::as_writable_bytes(std::span(&answer, 1)),
                                       brought),
              ssize_t{sizeof(answer)});
    ASSERT_EQ(answer.rank, 0);
    const int64_t bytes = shm::control_bytes(3);
    peer = SharedMemory::adopt(std::move(brought[0]), bytes).value();
    shared = peer.map(0, bytes).value();
    out = shm::Writer(shm::ring_in(shared.get(), Rank{2}));
  }
};

Claim claim_of(uint64_t nonce, int32_t rank, int32_t rank_count) {
  return {.purpose = Purpose::kShm,
          .rank = rank,
          .acceptor = 0,
          .rank_count = rank_count,
          .meeting = nonce};
}

Status run_ring(support::RankGroup& group, Rank rank, Duration deadline = seconds(10)) {
  const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 3);
  std::vector<float> data(300, 1);
  OperationPool pool(
      lower(ring, Order::build(ring), {.rank = rank, .count = 300, .in_place = true}).value());
  Status status = group.run(
      rank, pool, {.output = std::as_writable_bytes(std::span(data)).data(), .deadline = deadline});
  EXPECT_TRUE(!status || data == std::vector<float>(300, 3));
  return status;
}

TEST(ShmTransportTest, StrangersChangeNothing) {
  support::RankGroup group(3, "shm");
  const uint64_t nonce = nonce_of(group.transport(Rank{0}));
  std::vector<Impostor> strangers;
  for (const Claim& claim :
       {claim_of(nonce + 1, 2, 3), claim_of(nonce, 0, 3), claim_of(nonce, -1, 3),
        claim_of(nonce, 3, 3), claim_of(nonce, 2, 4)}) {
    strangers.emplace_back(group, claim);
  }
  std::vector<Descriptor> silent;
  for (int i = 0; i < 300; ++i) {
    silent.push_back(connect_on_host(shm::socket_name(nonce)).value());
    if (i % 2 == 0) {
      EXPECT_GT(send(silent.back().get(), "PLEACH2\n", 8, MSG_NOSIGNAL), 0);
    }
  }
  support::on_every_rank(3, [&](Rank rank) {
    for (int operation = 1; operation <= 3; ++operation) {
      const Status status = run_ring(group, rank);
      ASSERT_TRUE(status.has_value()) << status.error().message;
    }
  });
}

// Rank 2 is a program of its own that says hello well and then lies to rank 0.
TEST(ShmTransportTest, RankThatBreaksTheProtocolIsNamed) {
  using shm::Kind;
  using shm::Message;
  const Message begin{.kind = Kind::kBegin, .channel = 1, .operation = 1};
  struct Case {
    std::string name;
    std::vector<Message> messages;
    std::string says;
  };
  const std::string broke = "broke the transport's protocol";
  const std::vector<Case> cases = {
      {"no such kind", {begin, {.kind = Kind{77}, .channel = 1}}, broke},
      {"too long",
       {{.kind = Kind::kData, .channel = 1, .operation = 1, .length = 1U << 31}},
       broke},
      {"memory that it has not told of",
       {{.kind = Kind::kLend, .channel = 1, .operation = 1, .length = 8, .region = 5}},
       broke},
      {"memory of its own, which cannot be read",
       {{.kind = Kind::kLend, .channel = 1, .operation = 1, .length = 8, .word = 64}},
       broke},
      {"has read what it was not lent",
       {begin, {.kind = Kind::kRead, .channel = 1, .operation = 1}},
       "does not belong to the schedule"},
      {"no such channel", {{.kind = Kind::kData, .channel = 7, .operation = 1}}, broke},
      {"no such place", {{.kind = Kind::kData, .place = 4, .channel = 1, .operation = 1}}, broke},
      {"no place", {{.kind = Kind::kData, .place = -1, .channel = 1, .operation = 1}}, broke},
      {"a place that is taken",
       {{.kind = Kind::kData, .channel = 1, .operation = 2},
        {.kind = Kind::kData, .channel = 1, .operation = 3}},
       broke},
      {"a place that it does not hold", {{.kind = Kind::kRelease, .channel = 1, .word = 1}}, broke},
      {"an operation that is over",
       {begin, {.kind = Kind::kData, .channel = 1}},
       "sent a segment of operation 0, which is over"},
      {"another request",
       {{.kind = Kind::kBegin, .channel = 1, .operation = 1, .fingerprint = 8}},
       " runs what is unknown here, "},
      {"unknown stream",
       {begin, {.kind = Kind::kData, .channel = 1, .operation = 1, .stream = 99}},
       "does not belong to the schedule"},
      {"hangs up", {begin}, "its connection closed"},
  };
  for (const Case& row : cases) {
    SCOPED_TRACE(row.name);
    support::RankGroup group(3, "shm");
    Impostor liar(group, claim_of(nonce_of(group.transport(Rank{0})), 2, 3));
    liar.greet({.rank = 2, .rank_count = 3}, shm::control_bytes(3));
    support::on_every_rank(3, [&](Rank rank) {
      if (rank.value == 2) {
        liar.enter();
        for (const Message& message : row.messages) {
          ASSERT_TRUE(liar.out.has_room());
          liar.out.put(message);
        }
        if (row.name == "hangs up") {
          liar.socket = Descriptor();
        }
        return;
      }
      const Status status = run_ring(group, rank);
      ASSERT_FALSE(status.has_value());
      EXPECT_NE(status.error().message.find("rank 2"), std::string::npos) << status.error().message;
      EXPECT_NE(status.error().message.find(row.says), std::string::npos) << status.error().message;
    });
    EXPECT_EQ(group.store().failure()->rank, Rank{2});
  }
}

// Rank 2 is a program of its own that says anything, in its messages and in its memory.
TEST(ShmTransportTest, WhateverAMemberSaysItIsNamed) {
  for (int round = 0; round < support::repeated(8); ++round) {
    SCOPED_TRACE(round);
    Rng rng(static_cast<uint64_t>(round));
    support::RankGroup group(3, "shm");
    Impostor liar(group, claim_of(nonce_of(group.transport(Rank{0})), 2, 3));
    const int64_t bytes = shm::control_bytes(3);
    liar.greet({.rank = 2, .rank_count = 3}, bytes);
    const auto own = liar.memory.map(0, bytes).value();
    support::on_every_rank(3, [&](Rank rank) {
      if (rank.value == 2) {
        liar.enter();
        for (shm::ChannelEntry& entry : shm::control_in(own.get()).channels) {
          entry.offset.store(static_cast<int64_t>(rng.next()) >> rng.below(64));
          entry.number.store(rng.below(3));
          entry.version.store(rng.below(4));
        }
        for (uint64_t left = rng.below(40); left > 0 && liar.out.has_room(); --left) {
          liar.out.put({.kind = static_cast<shm::Kind>(rng.below(8)),
                        .place = static_cast<int32_t>(rng.below(6)) - 1,
                        .channel = rng.below(6) == 0 ? rng.next() : 1,
                        .operation = rng.below(4),
                        .fingerprint = rng.below(6) == 0 ? rng.next() : 0,
                        .length = static_cast<uint32_t>(rng.next() >> rng.below(64)),
                        .region = static_cast<uint32_t>(rng.below(3)),
                        .word = rng.next() >> rng.below(64),
                        .stream = static_cast<int32_t>(rng.below(9)) - 1,
                        .segment = static_cast<int32_t>(rng.below(3)) - 1});
        }
        if (round % 2 == 0) {
          liar.socket = Descriptor();
        }
        return;
      }
      const Status status = run_ring(group, rank, std::chrono::milliseconds(500));
      ASSERT_FALSE(status.has_value());
      EXPECT_NE(status.error().message.find("rank 2"), std::string::npos) << status.error().message;
    });
  }
}

// A peer that hears nothing costs no core: its ring is tried again from time to time.
TEST(ShmTransportTest, RankWithoutRoomAtAPeerSleeps) {
  support::RankGroup group(3, "shm");
  support::on_every_rank(3, [&](Rank rank) { EXPECT_TRUE(run_ring(group, rank)); });
  Transport& own = group.transport(Rank{0});
  Transport& peer = group.transport(Rank{1});
  constexpr int kMessages = 3 * static_cast<int>(shm::Ring::kCells);
  for (int i = 0; i < kMessages; ++i) {
    ASSERT_TRUE(own.tell_begun(Rank{1}, support::RankGroup::kChannel, 2, 0));
  }
  std::vector<TransportEvent> events;
  EXPECT_TRUE(own.has_events());
  for (int turn = 0; turn < 2000 && own.has_events(); ++turn) {
    ASSERT_TRUE(own.progress(events));
  }
  EXPECT_FALSE(own.has_events());
  EXPECT_LT(own.expiry(), SteadyClock().now() + seconds(1));
  std::vector<TransportEvent> heard;
  for (int turn = 0; turn < 100 && std::ssize(heard) < kMessages; ++turn) {
    ASSERT_TRUE(peer.progress(heard));
    ASSERT_TRUE(own.progress(events));
  }
  EXPECT_EQ(std::ssize(heard), kMessages);
  EXPECT_FALSE(own.has_events());
  EXPECT_EQ(own.expiry(), TimePoint::max());
}

Descriptor sealed_memory(int64_t bytes, int seals) {
  Descriptor memory(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(memory.get(), bytes), 0);
  EXPECT_EQ(fcntl(memory.get(), F_ADD_SEALS, seals), 0);
  return memory;
}

// What rank 2 shares is not taken: too little, of other ranks, memory that could shrink or cannot
// be written, and none.
TEST(ShmTransportTest, RankThatSharesNoMemoryIsNamed) {
  const int64_t bytes = shm::control_bytes(3);
  const Descriptor unsealed(memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(unsealed.get(), bytes), 0);
  const shm::Hello good = {.rank = 2, .rank_count = 3};
  struct Case {
    shm::Hello hello;
    int64_t bytes;
    std::vector<int> descriptors;
  };
  std::array<int, 2> ends = {};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const Descriptor unread(ends[1]);  // who writes there is killed
  Descriptor(ends[0]).close();
  const SharedMemory enough = SharedMemory::create(bytes).value();
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_SEAL;
  const Descriptor read_only = sealed_memory(bytes, kSeals | F_SEAL_WRITE);
  const Descriptor never_writable_again = sealed_memory(bytes, kSeals | F_SEAL_FUTURE_WRITE);
  const std::vector<Case> cases = {{good, bytes / 4, {}},
                                   {{.rank = 1, .rank_count = 3}, bytes, {}},
                                   {{.magic = 5, .rank = 2, .rank_count = 3}, bytes, {}},
                                   {good, bytes, {unsealed.get()}},
                                   {good, bytes, {read_only.get()}},
                                   {good, bytes, {never_writable_again.get()}},
                                   {good, bytes, {enough.descriptor(), unread.get()}},
                                   {good, bytes, {STDIN_FILENO}}};
  for (const Case& row : cases) {
    support::RankGroup group(3, "shm");
    Impostor liar(group, claim_of(nonce_of(group.transport(Rank{0})), 2, 3));
    if (row.descriptors.empty()) {
      liar.greet(row.hello, row.bytes);
    } else {
      EXPECT_TRUE(send_with_descriptors(liar.socket.get(), std::as_bytes(std::span(&row.hello, 1)),
                                        row.descriptors));
    }
    support::on_every_rank(2, [&](Rank rank) {
      const Status status = run_ring(group, rank);
      ASSERT_FALSE(status.has_value());
      EXPECT_NE(status.error().message.find("rank 2"), std::string::npos) << status.error().message;
      EXPECT_EQ(status.error().message.find("shared memory"), std::string::npos)
          << "told as a lack of this rank's own: " << status.error().message;
    });
    EXPECT_EQ(group.store().failure()->rank, Rank{2});
  }
}

// It lends memory where it has none, after it has shown that its memory can be read.
TEST(ShmTransportTest, RankWhoseMemoryIsNotThereIsNamed) {
  const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 3);
  const Program program =
      lower(ring, Order::build(ring), {.rank = Rank{0}, .count = 300, .in_place = true}).value();
  support::RankGroup group(3, "shm");
  const uint64_t word = 7;
  Impostor liar(group, claim_of(nonce_of(group.transport(Rank{0})), 2, 3));
  liar.greet({.rank = 2,
              .rank_count = 3,
              .probe = word,
              .probe_address = reinterpret_cast<uint64_t>(&word)},
             shm::control_bytes(3));
  support::on_every_rank(3, [&](Rank rank) {
    if (rank.value == 2) {
      liar.enter();
      liar.out.put({.kind = shm::Kind::kLend,
                    .channel = 1,
                    .operation = 1,
                    .length = 400,
                    .word = 64,
                    .stream = program.receives.front().stream});
      return;
    }
    const Status status = run_ring(group, rank);
    ASSERT_FALSE(status.has_value());
    EXPECT_NE(status.error().message.find("rank 2 was lost: its memory cannot be read"),
              std::string::npos)
        << status.error().message;
  });
}

TEST(ShmTransportTest, RanksThatDoNotShareAHostSaySo) {
  support::RankGroup group(2, "shm");
  const Status status = group.transport(Rank{1}).introduce(Rank{0}, "12 another/1");
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(
      status.error().message,
      "transport shm: rank 0 is on another host, in another container of it or of another user "
      "than rank 1");
}

TEST(SharedMemoryTest, GrowsAndIsMappedOnceInAProcess) {
  SharedMemory memory = SharedMemory::create(100).value();
  const int64_t more = memory.grow(10'000).value();
  EXPECT_EQ(more % sysconf(_SC_PAGESIZE), 0);
  const auto first = memory.map(more, 10'000).value();
  first.get()[9'999] = std::byte{7};
  const SharedMemory other =
      SharedMemory::adopt(Descriptor(dup(memory.descriptor())), 10'000).value();
  EXPECT_EQ(other.map(more, 10'000).value().get(), first.get());
  memory.discard(more, 10'000);
  EXPECT_EQ(first.get()[9'999], std::byte{0});
  EXPECT_FALSE(memory.map(more, 1'000'000).has_value());
  EXPECT_FALSE(memory.map(-4096, 10).has_value());
  EXPECT_FALSE(SharedMemory::adopt(Descriptor(dup(memory.descriptor())), 1'000'000).has_value());
}

TEST(SharedMemoryTest, IsAdoptedIfItStaysWritableAndOfItsSize) {
  constexpr int64_t kBytes = 8192;
  const struct {
    int seals;
    bool is_good;
  } cases[] = {
      {F_SEAL_SHRINK | F_SEAL_SEAL, true},
      {F_SEAL_SHRINK | F_SEAL_SEAL | F_SEAL_GROW, true},
      {F_SEAL_SHRINK | F_SEAL_SEAL | F_SEAL_WRITE, false},
      {F_SEAL_SHRINK | F_SEAL_SEAL | F_SEAL_FUTURE_WRITE, false},
      {F_SEAL_SHRINK, false},
      {F_SEAL_SEAL, false},
  };
  for (const auto& row : cases) {
    SCOPED_TRACE(row.seals);
    const auto adopted = SharedMemory::adopt(sealed_memory(kBytes, row.seals), kBytes);
    ASSERT_EQ(adopted.has_value(), row.is_good);
    EXPECT_TRUE(adopted || adopted.error().code == ErrorCode::kInvalidArgument);
  }
  const SharedMemory whole = SharedMemory::create(kBytes).value();
  const std::string path = "/proc/self/fd/" + std::to_string(whole.descriptor());
  EXPECT_FALSE(SharedMemory::adopt(Descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC)), kBytes));
}

}  // namespace
}  // namespace pleach
