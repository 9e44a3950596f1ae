#include "pleach/runtime/rendezvous/door.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/runtime/net.h"

namespace pleach {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class ManualClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  void advance(Duration time) { now_ += time; }

 private:
  TimePoint now_ = TimePoint(seconds(1000));
};

// A door of rank 0 of two, and those who come to it.
class DoorTest : public testing::Test {
 protected:
  void SetUp() override {
    Descriptor listener = std::move(listen_on({"127.0.0.1", 0})).value();
    port_ = local_address(listener.get())->port;
    ASSERT_TRUE(door_.open({.listener = std::move(listener),
                            .epoll = epoll_.get(),
                            .secret = secret_,
                            .purpose = Purpose::kTcp,
                            .rank = Rank{0},
                            .rank_count = 2,
                            .clock = &clock_},
                           [this](Guest guest) { guests_.push_back(std::move(guest)); }));
  }

  Descriptor come() {
    Descriptor socket = std::move(start_connect({"127.0.0.1", port_})).value();
    EXPECT_TRUE(wait_ready(socket.get(), POLLOUT, SteadyClock().now() + seconds(5)));
    return socket;
  }
  // What the door has to do, until there is nothing. Returns how often it was woken.
  int settle() {
    std::array<epoll_event, 64> events = {};
    int wakes = 0;
    while (true) {
      const int count = epoll_wait(epoll_.get(), events.data(), 64, 20);
      if (count <= 0) {
        return wakes;
      }
      ++wakes;
      for (int i = 0; i < count; ++i) {
        door_.handle(events[at(i)].data.u64);
      }
      door_.tick(clock_.now());
    }
  }
  static bool is_shown_out(const Descriptor& socket) {
    char byte = 0;
    const ssize_t count = recv(socket.get(), &byte, 1, MSG_PEEK);
    return count == 0 || (count < 0 && errno != EAGAIN);
  }
  Introduction introduce_rank_1() {
    return {secret_, {.purpose = Purpose::kTcp, .rank = 1, .acceptor = 0, .rank_count = 2}};
  }

  ManualClock clock_;
  const JobSecret secret_ = JobSecret::make();
  const Descriptor epoll_ = std::move(make_epoll()).value();
  Door door_;
  int port_ = 0;
  std::vector<Guest> guests_;
};

TEST_F(DoorTest, WhoHoldsTheSecretComesInAndIsNamed) {
  const Descriptor socket = come();
  Introduction introduction = introduce_rank_1();
  EXPECT_EQ(introduction.advance(socket.get()), Introduction::State::kWaits);
  settle();
  EXPECT_EQ(introduction.advance(socket.get()), Introduction::State::kWaits);
  settle();
  EXPECT_EQ(introduction.advance(socket.get()), Introduction::State::kWelcome);
  ASSERT_EQ(guests_.size(), 1U);
  EXPECT_EQ(guests_[0].claim.rank, 1);
  EXPECT_EQ(door_.expiry(), TimePoint::max());
}

// A proof that has come counts, however many strangers come after it before it is read.
TEST_F(DoorTest, TheOldestStrangerGoesButNoneWhoseWordsAreUnread) {
  const Descriptor first = come();
  const Descriptor rank = come();
  Introduction introduction = introduce_rank_1();
  introduction.advance(rank.get());
  settle();
  introduction.advance(rank.get());  // its proof is there
  std::vector<Descriptor> others;
  for (int i = 0; i < 600; ++i) {
    others.push_back(come());
  }
  settle();
  EXPECT_EQ(introduction.advance(rank.get()), Introduction::State::kWelcome);
  EXPECT_EQ(guests_.size(), 1U);
  EXPECT_TRUE(is_shown_out(first));
  EXPECT_TRUE(is_shown_out(others.front()));
  EXPECT_FALSE(is_shown_out(others.back()));
}

TEST_F(DoorTest, AHelloHasADeadlineWhateverTricklesIn) {
  const Descriptor silent = come();
  const Descriptor slow = come();
  for (int second = 0; second < 10; ++second) {
    EXPECT_EQ(send(slow.get(), "P", 1, MSG_NOSIGNAL), 1);
    settle();
    EXPECT_FALSE(is_shown_out(silent));
    EXPECT_FALSE(is_shown_out(slow));
    clock_.advance(seconds(1));
  }
  EXPECT_LE(door_.expiry(), clock_.now());
  door_.tick(clock_.now());
  EXPECT_TRUE(is_shown_out(silent));
  EXPECT_TRUE(is_shown_out(slow));
  EXPECT_EQ(door_.expiry(), TimePoint::max());
}

// Without descriptors it lets those who come wait, and does not spin; then it says so.
TEST_F(DoorTest, SaysThatItHasNoDescriptors) {
  std::vector<Descriptor> others;
  for (int i = 0; i < 3; ++i) {
    others.push_back(come());
  }
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const Descriptor next(dup(others.front().get()));  // the lowest number that is free
  const rlimit none = {.rlim_cur = static_cast<rlim_t>(next.get()), .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const int wakes = settle();
  const Status at_once = door_.status(clock_.now());
  for (int tries = 0; tries < 30; ++tries) {  // as its owner, who comes as early as it asks for
    clock_.advance(std::chrono::milliseconds(100));
    door_.tick(clock_.now());
  }
  const Status later = door_.status(clock_.now());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(wakes, 1);
  EXPECT_TRUE(at_once.has_value());
  ASSERT_FALSE(later.has_value());
  EXPECT_EQ(later.error().message, "cannot let other ranks in: this process has none left of its " +
                                       std::to_string(none.rlim_cur) + " descriptors (ulimit -n)");
  clock_.advance(std::chrono::milliseconds(100));
  EXPECT_LE(door_.expiry(), clock_.now());
  door_.tick(clock_.now());
  settle();
  EXPECT_TRUE(door_.status(clock_.now()).has_value());
  EXPECT_GT(door_.expiry(), clock_.now() + seconds(5));  // they are in, and have their time
}

}  // namespace
}  // namespace pleach
