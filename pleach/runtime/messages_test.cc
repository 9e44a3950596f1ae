#include "pleach/runtime/messages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/base/text.h"
#include "pleach/runtime/communicator.h"
#include "pleach/runtime/peer_memory.h"
#include "tests/support/delaying_transport.h"
#include "tests/support/random_schedules.h"
#include "tests/support/rank_processes.h"
#include "tests/support/rank_threads.h"

namespace pleach {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using support::Bytes;

struct JobSetup {
  int32_t rank_count = 2;
  std::string transport = "inproc";
  int32_t places = 4;
  int64_t place_bytes = 4096;
  uint64_t delay_seed = 0;  // 0: no delays
  Duration deadline = seconds(20);
};

Result<std::shared_ptr<Endpoint>> make_endpoint(const JobSetup& setup, Rank rank,
                                                const std::shared_ptr<Store>& store) {
  static const SteadyClock kClock;
  EndpointOptions options{.rank = rank,
                          .rank_count = setup.rank_count,
                          .transport = setup.transport,
                          .store = store,
                          .deadline = setup.deadline};
  if (setup.delay_seed != 0) {
    PLEACH_ASSIGN(inner, create_transport(setup.transport, {.rank = rank,
                                                            .rank_count = setup.rank_count,
                                                            .store = store,
                                                            .epoch = store->epoch(),
                                                            .clock = &kClock,
                                                            .key_prefix = "delayed",
                                                            .deadline = setup.deadline}));
    options.transport_override = std::make_unique<support::DelayingTransport>(
        std::move(inner), setup.delay_seed * 100 + static_cast<uint64_t>(rank.value));
  }
  return Endpoint::create(std::move(options));
}

// Runs the body on every rank with a communicator over one local store, and closes it if it may.
void with_communicators(const JobSetup& setup, const std::function<void(Communicator&)>& body) {
  const auto store = make_local_store();
  std::vector<std::shared_ptr<Endpoint>> endpoints(at(setup.rank_count));
  support::on_every_rank(setup.rank_count, [&](Rank rank) {
    auto endpoint = make_endpoint(setup, rank, store);
    ASSERT_TRUE(endpoint.has_value()) << endpoint.error().message;
    endpoints[rank.index()] = *endpoint;  // until all are done: who leaves is lost
    auto made = Communicator::create(
        *endpoint, {.message_places = setup.places, .message_place_bytes = setup.place_bytes});
    ASSERT_TRUE(made.has_value()) << made.error().message;
    body(**made);
    static_cast<void>((*made)->close());
  });
}

// Bytes that tell one message from another.
Bytes make_message(uint64_t seed, int64_t bytes) {
  Bytes message(at(bytes));
  uint64_t state = seed * 0x9e37'79b9'7f4a'7c15 + 1;
  for (std::byte& byte : message) {
    state = state * 6364136223846793005 + 1442695040888963407;
    byte = static_cast<std::byte>(state >> 56);
  }
  return message;
}

template <typename T>
std::string message_of(const Result<T>& result) {
  return result ? "" : result.error().message;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string text_of(const Result<Received>& received) {
  return received
             ? std::to_string(received->bytes) + " from " + std::to_string(received->source.value)
             : received.error().message;
}

const std::vector<std::string>& transport_names() {
  static const std::vector<std::string> kNames = {"inproc", "tcp", "shm"};
  return kNames;
}

// ---- What is sent is received.

TEST(MessagesTest, EverySizeArrivesWhoeverCallsFirst) {
  for (const std::string& transport : transport_names()) {
    for (const auto& [places, place_bytes] : {std::pair(1, 64), std::pair(2, 4096), {8, 65536}}) {
      SCOPED_TRACE(transport + ", places " + std::to_string(places));
      with_communicators({2, transport, places, place_bytes}, [&](Communicator& communicator) {
        Messages& messages = communicator.messages();
        const bool is_source = communicator.rank().value == 0;
        for (const bool is_early : {true, false}) {
          for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{63}, int64_t{64}, int64_t{65},
                                      int64_t{4096}, int64_t{4097}, int64_t{300'001}}) {
            const Bytes message = make_message(at(bytes), bytes);
            if (is_early == is_source) {  // the other has called already
              ASSERT_EQ(message_of(communicator.barrier()), "");
            }
            Bytes buffer(at(bytes) + 3);
            const Result<Operation> operation = is_source ? messages.send(Rank{1}, 5, message)
                                                          : messages.receive(Rank{0}, 5, buffer);
            ASSERT_EQ(message_of(operation), "");
            if (is_early != is_source) {
              ASSERT_EQ(message_of(communicator.barrier()), "");
            }
            ASSERT_EQ(message_of(operation->wait()), "");
            if (!is_source) {
              EXPECT_EQ(operation->received().source.value, 0);
              ASSERT_EQ(operation->received().bytes, bytes);
              buffer.resize(at(bytes));
              ASSERT_TRUE(buffer == message);
            }
          }
        }
      });
    }
  }
}

TEST(MessagesTest, BlockingCallsAnswerEachOther) {
  for (const std::string& transport : transport_names()) {
    SCOPED_TRACE(transport);
    with_communicators({2, transport}, [&](Communicator& communicator) {
      Messages& messages = communicator.messages();
      for (int round = 0; round < 200; ++round) {
        Bytes ball = make_message(at(round), round * 50);
        Bytes buffer(20'000);
        if (communicator.rank().value == 0) {
          ASSERT_EQ(message_of(messages.blocking_send(Rank{1}, round, ball)), "");
          ASSERT_EQ(text_of(messages.blocking_receive_any(round, buffer)),
                    std::to_string(ball.size()) + " from 1");
          buffer.resize(ball.size());
          ASSERT_TRUE(buffer == ball);
        } else {
          const auto received = messages.blocking_receive(Rank{0}, round, buffer);
          ASSERT_EQ(text_of(received), std::to_string(ball.size()) + " from 0");
          buffer.resize(ball.size());
          ASSERT_EQ(message_of(messages.blocking_send(Rank{0}, round, buffer)), "");
        }
      }
    });
  }
}

// Both send first. Peer memory is read where it stands, where the transport can; where they are
// delayed, ordinary memory too.
void expect_to_pass(uint64_t delay_seed, int64_t bytes) {
  for (const std::string& transport : transport_names()) {
    for (const bool is_peer_memory : {false, true}) {
      SCOPED_TRACE(transport + (is_peer_memory ? ", peer memory" : ""));
      with_communicators({2, transport, 4, 65536, delay_seed}, [&](Communicator& communicator) {
        const uint64_t self = communicator.rank().index();
        const Rank other{1 - communicator.rank().value};
        support::Buffer out(bytes, is_peer_memory, std::byte{0});
        support::Buffer in(bytes, is_peer_memory, std::byte{0});
        std::ranges::copy(make_message(self, bytes), out.data());
        const auto sent = communicator.messages().send(other, 0, out.span());
        const auto received = communicator.messages().receive(other, 0, in.span());
        ASSERT_EQ(message_of(sent), "");
        ASSERT_EQ(message_of(received), "");
        ASSERT_EQ(message_of(sent->wait()), "");
        std::ranges::fill(out.span(), std::byte{7});  // it may be overwritten now
        ASSERT_EQ(message_of(received->wait()), "");
        EXPECT_TRUE(std::ranges::equal(in.span(), make_message(1 - self, bytes)));
      });
    }
  }
}

TEST(MessagesTest, LargeMessagesPassEachOther) {
  expect_to_pass(0, 20'000'003);
  expect_to_pass(3, 1'000'003);
}

// What nothing on a connection ends is over when the call is that ends it.
TEST(MessagesTest, SendToItselfEndsTheReceiveAtOnce) {
  with_communicators({1}, [&](Communicator& communicator) {
    Messages& messages = communicator.messages();
    const Bytes message = make_message(3, 100);
    Bytes buffer(100);
    const auto received = messages.receive(Rank{0}, 9, buffer);
    EXPECT_EQ(received->finished(), TimePoint());
    ASSERT_TRUE(messages.send(Rank{0}, 9, message).has_value());
    EXPECT_GT(received->finished(), TimePoint());
    EXPECT_EQ(buffer, message);
  });
}

TEST(MessagesTest, RankSendsToItself) {
  with_communicators({1}, [&](Communicator& communicator) {
    Messages& messages = communicator.messages();
    for (const int64_t bytes : {0, 10, 100'000}) {
      const Bytes message = make_message(3, bytes);
      Bytes buffer(at(bytes) + 1);
      const auto received = messages.receive_any(9, buffer);
      ASSERT_EQ(message_of(messages.blocking_send(Rank{0}, 9, message)), "");
      ASSERT_EQ(message_of(received->wait()), "");
      const auto sent = messages.send(Rank{0}, 9, message);
      EXPECT_FALSE(sent->test());
      EXPECT_EQ(text_of(messages.blocking_receive(Rank{0}, 9, buffer)),
                std::to_string(bytes) + " from 0");
      EXPECT_TRUE(sent->test());
      buffer.resize(at(bytes));
      EXPECT_TRUE(buffer == message);
    }
  });
}

// ---- Nothing holds up anything else.

// More than there are places for of one tag, small and large, and nobody receives them before the
// message of the other. Without a place that whole messages may not hold, that one never comes.
TEST(MessagesTest, MessagesThatNobodyWantsDoNotHoldUpOthers) {
  for (const std::string& transport : transport_names()) {
    for (const int32_t places : {1, 2, 3}) {
      SCOPED_TRACE(transport + ", places " + std::to_string(places));
      with_communicators({2, transport, places, 64}, [&](Communicator& communicator) {
        Messages& messages = communicator.messages();
        const Rank other{1 - communicator.rank().value};
        std::vector<Operation> operations;
        std::vector<Bytes> memory;
        memory.reserve(100);
        for (int i = 0; i < 20; ++i) {  // each to the other, so that grants find the way too
          memory.push_back(make_message(at(i), i % 3 == 0 ? 500 : 10));
          operations.push_back(messages.send(other, 1, memory.back()).value());
        }
        memory.push_back(make_message(77, 1000));
        operations.push_back(messages.send(other, 2, memory.back()).value());
        Bytes wanted(1000);
        ASSERT_EQ(text_of(messages.blocking_receive(other, 2, wanted)),
                  "1000 from " + std::to_string(other.value));
        EXPECT_TRUE(wanted == memory.back());
        ASSERT_EQ(message_of(communicator.barrier()), "");  // nor collectives
        for (int i = 0; i < 20; ++i) {
          Bytes late(500);
          ASSERT_EQ(message_of(messages.blocking_receive_any(1, late)), "");
          late.resize(memory[at(i)].size());
          ASSERT_TRUE(late == memory[at(i)]) << i;
        }
        for (const Operation& operation : operations) {
          ASSERT_EQ(message_of(operation.wait()), "");
        }
      });
    }
  }
}

TEST(MessagesTest, GroupsDoNotHearEachOther) {
  with_communicators({4, "tcp"}, [&](Communicator& world) {
    const int32_t self = world.rank().value;
    auto half = world.split(self % 2, -self);  // the order is the other way round
    ASSERT_EQ(message_of(half), "");
    const Rank other{1 - (*half)->rank().value};
    const int32_t other_in_job = (self + 2) % 4;
    const auto number = [](int32_t value) { return make_message(at(value), 8); };
    const Bytes to_half = number(self);
    const Bytes to_world = number(10 + self);
    const auto first = world.messages().send(Rank{other_in_job}, 3, to_world);
    const auto second = (*half)->messages().send(other, 3, to_half);
    Bytes from_half(8);
    Bytes from_world(8);
    EXPECT_EQ(text_of((*half)->messages().blocking_receive_any(3, from_half)),
              "8 from " + std::to_string(other.value));
    EXPECT_EQ(text_of(world.messages().blocking_receive_any(3, from_world)),
              "8 from " + std::to_string(other_in_job));
    EXPECT_TRUE(from_half == number(other_in_job));
    EXPECT_TRUE(from_world == number(10 + other_in_job));
    EXPECT_EQ(message_of(first->wait()), "");
    EXPECT_EQ(message_of(second->wait()), "");
    EXPECT_EQ(message_of((*half)->close()), "");
  });
}

// What nobody has received is no matter when its communicator is closed, nor is the endpoint.
TEST(MessagesTest, MessagesThatNobodyReceivesAreGoneWithTheirCommunicator) {
  for (const std::string& transport : transport_names()) {
    SCOPED_TRACE(transport);
    with_communicators({2, transport}, [&](Communicator& world) {
      for (int round = 0; round < 5; ++round) {
        auto group = world.split(0, world.rank().value);
        ASSERT_EQ(message_of(group), "");
        const Rank other{1 - world.rank().value};
        Bytes buffer(4000);
        if (world.rank().value == 0) {
          ASSERT_EQ(message_of((*group)->messages().blocking_send(other, 1, buffer)), "");
          ASSERT_EQ(message_of((*group)->messages().blocking_send(other, 2, buffer)), "");
        } else if (round % 2 == 0) {
          ASSERT_EQ(message_of((*group)->messages().blocking_receive(other, 2, buffer)), "");
        }
        ASSERT_EQ(message_of((*group)->close()), "");
        ASSERT_EQ(message_of(world.barrier()), "");
      }
    });
  }
}

TEST(MessagesTest, ManyThreadsMaySendAndReceive) {
  for (const std::string& transport : transport_names()) {
    SCOPED_TRACE(transport);
    with_communicators({2, transport, 3, 256}, [&](Communicator& communicator) {
      const Rank other{1 - communicator.rank().value};
      std::vector<std::thread> threads;
      for (int32_t tag = 0; tag < 4; ++tag) {
        threads.emplace_back([&, tag] {
          Messages& messages = communicator.messages();
          for (int round = 0; round < 50; ++round) {
            const Bytes message = make_message(at(round * 10 + tag), (round * 37) % 1500);
            Bytes buffer(1500);
            const auto sent = messages.send(other, tag, message);
            ASSERT_EQ(text_of(messages.blocking_receive(other, tag, buffer)),
                      std::to_string(message.size()) + " from " + std::to_string(other.value));
            buffer.resize(message.size());
            ASSERT_TRUE(buffer == message);
            ASSERT_EQ(message_of(sent->wait()), "");
          }
        });
      }
      for (std::thread& thread : threads) {
        thread.join();
      }
    });
  }
}

// ---- Against a serial model.

// One job's messages: each rank starts what it sends and receives in an order of its own, waits in
// another, and receives by source what has an even tag and from any what has an odd one.
class Traffic final {
 public:
  struct Message {
    int32_t source = 0;
    int32_t target = 0;
    int32_t tag = 0;
    int64_t bytes = 0;
    uint64_t seed = 0;
  };

  Traffic(uint64_t seed, int32_t rank_count, int64_t most_bytes) : rank_count_(rank_count) {
    Rng rng(seed);
    for (uint64_t i = 0; i < 40; ++i) {
      const auto rank = [&] { return static_cast<int32_t>(rng.below(at(rank_count))); };
      messages_.push_back({rank(), rank(), static_cast<int32_t>(rng.below(4)),
                           static_cast<int64_t>(rng.below(at(most_bytes) + 1)), seed * 1000 + i});
    }
  }

  void run(Communicator& communicator, uint64_t seed) const {
    Rng rng(seed);
    const int32_t self = communicator.rank().value;
    std::vector<Pending> pending;
    pending.reserve(messages_.size() * 2);
    // Sends keep their order; so do receives, among which the sends are strewn.
    std::vector<const Message*> sends, receives;
    for (const Message& message : messages_) {
      if (message.source == self) {
        sends.push_back(&message);
      }
      if (message.target == self) {
        receives.push_back(&message);
      }
    }
    std::size_t sent = 0, received = 0;
    while (sent < sends.size() || received < receives.size()) {
      if (sent < sends.size() && (received == receives.size() || rng.below(2) == 0)) {
        start_send(communicator, *sends[sent++], pending);
      } else {
        start_receive(communicator, *receives[received++], pending);
      }
      if (rng.below(4) == 0) {
        static_cast<void>(pending[rng.below(pending.size())].operation->test());
      }
    }
    for (std::size_t left = pending.size(); left > 0; --left) {
      std::swap(pending[rng.below(left)], pending[left - 1]);
      ASSERT_EQ(message_of(pending[left - 1].operation->wait()), "");
    }
    check(self, pending);
  }

 private:
  struct Pending {
    int32_t source = -1;  // of a receive, or -1: any
    int32_t tag = -1;     // of a send: -1
    std::size_t order = 0;
    Bytes memory;
    std::unique_ptr<Operation> operation;
  };

  static void start_send(Communicator& communicator, const Message& message,
                         std::vector<Pending>& pending) {
    Pending& own = pending.emplace_back();
    own.memory = make_message(message.seed, message.bytes);
    own.operation = std::make_unique<Operation>(
        communicator.messages().send(Rank{message.target}, message.tag, own.memory).value());
  }
  static void start_receive(Communicator& communicator, const Message& message,
                            std::vector<Pending>& pending) {
    const std::size_t order = pending.size();
    Pending& own = pending.emplace_back();
    own.tag = message.tag;
    own.order = order;
    own.memory.resize(20'000);
    if (message.tag % 2 == 0) {
      own.source = message.source;
      own.operation = std::make_unique<Operation>(
          communicator.messages().receive(Rank{message.source}, message.tag, own.memory).value());
    } else {
      own.operation = std::make_unique<Operation>(
          communicator.messages().receive_any(message.tag, own.memory).value());
    }
  }

  // By tag and source, receives have taken the messages in the order in which they were sent.
  void check(int32_t self, std::vector<Pending>& pending) const {
    std::ranges::sort(pending, {}, &Pending::order);
    for (int32_t tag = 0; tag < 4; ++tag) {
      for (int32_t source = 0; source < rank_count_; ++source) {
        std::vector<const Message*> expected;
        for (const Message& message : messages_) {
          if (message.source == source && message.target == self && message.tag == tag) {
            expected.push_back(&message);
          }
        }
        std::size_t found = 0;
        for (const Pending& own : pending) {
          if (own.tag != tag || own.operation->received().source.value != source) {
            continue;
          }
          ASSERT_LT(found, expected.size());
          const Message& message = *expected[found++];
          ASSERT_EQ(own.operation->received().bytes, message.bytes);
          ASSERT_TRUE(std::ranges::equal(std::span(own.memory).first(at(message.bytes)),
                                         make_message(message.seed, message.bytes)));
          ASSERT_TRUE(own.source < 0 || own.source == source);
        }
        ASSERT_EQ(found, expected.size());
      }
    }
  }

  int32_t rank_count_;
  std::vector<Message> messages_;
};

TEST(MessagesTest, RandomTrafficIsMatchedAsTheSerialModelDoes) {
  constexpr uint64_t kSeed = 20261124;
  Rng rng(kSeed);
  for (int32_t round = 0; round < support::repeated(90); ++round) {
    const JobSetup setup{.rank_count = 1 + static_cast<int32_t>(rng.below(4)),
                         .transport = transport_names()[at(round) % 3],
                         .places = 1 + static_cast<int32_t>(rng.below(4)),
                         .place_bytes = int64_t{1} << rng.below(12),
                         .delay_seed = rng.below(3) == 0 ? 0 : 1 + rng.below(1000)};
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", round " + std::to_string(round) + ": " +
                 setup.transport + ", " + std::to_string(setup.rank_count) + " ranks, " +
                 std::to_string(setup.places) + " places of " + std::to_string(setup.place_bytes) +
                 ", delays " + std::to_string(setup.delay_seed));
    const Traffic traffic(rng.below(1'000'000), setup.rank_count,
                          std::min<int64_t>(8 * setup.place_bytes, 20'000));
    const uint64_t order = rng.below(1'000'000);
    with_communicators(setup, [&](Communicator& communicator) {
      traffic.run(communicator, order + communicator.rank().index());
    });
    if (HasFailure()) {
      return;
    }
  }
}

// ---- Bad input, lost ranks, deadlines.

TEST(MessagesTest, RefusesBadCallsAndGoesOn) {
  with_communicators({2}, [&](Communicator& communicator) {
    Messages& messages = communicator.messages();
    const int32_t self = communicator.rank().value;
    Bytes buffer(8);
    const std::span<std::byte> null(static_cast<std::byte*>(nullptr), 8);
    const std::string at_rank = "rank " + std::to_string(self) + ": ";
    struct Case {
      std::string message;
      std::string expected;
    };
    for (const auto& [message, expected] : std::vector<Case>{
             {message_of(messages.send(Rank{2}, 5, buffer)),
              "send to rank 2, tag 5, 8 bytes: the communicator has ranks 0 to 1"},
             {message_of(messages.receive(Rank{-1}, 5, buffer)),
              "receive from rank -1, tag 5, 8 bytes: the communicator has ranks 0 to 1"},
             {message_of(messages.send(Rank{1}, -7, buffer)),
              "send to rank 1, tag -7, 8 bytes: tags are not negative"},
             {message_of(messages.blocking_receive_any(-1, buffer)),
              "receive from rank any, tag -1, 8 bytes: tags are not negative"},
             {message_of(messages.blocking_send(Rank{1}, 5, null)),
              "send to rank 1, tag 5, 8 bytes: the buffer is null"},
             {message_of(messages.blocking_receive(Rank{1}, 5, null)),
              "receive from rank 1, tag 5, 8 bytes: the buffer is null"},
         }) {
      EXPECT_EQ(message, at_rank + expected);
    }
    const auto sent = messages.send(Rank{1 - self}, INT32_MAX, buffer);
    EXPECT_EQ(text_of(messages.blocking_receive(Rank{1 - self}, INT32_MAX, buffer)),
              "8 from " + std::to_string(1 - self));
    EXPECT_EQ(message_of(sent->wait()), "");
    std::optional<Operation> received;
    if (self == 0) {
      received = messages.receive(Rank{1}, 6, buffer).value();
      EXPECT_TRUE(contains(message_of(communicator.close()), "has 1 messages in flight"));
    }
    EXPECT_EQ(message_of(communicator.barrier()), "");
    EXPECT_EQ(self == 0 ? message_of(received->wait())
                        : message_of(messages.blocking_send(Rank{0}, 6, buffer)),
              "");
    EXPECT_EQ(message_of(communicator.close()), "");
    EXPECT_EQ(message_of(messages.send(Rank{0}, 5, buffer)), "communicator 'world' is closed");
  });
}

TEST(MessagesTest, MessageLargerThanItsReceiveFailsTheJobWithBothSizes) {
  for (const std::string& transport : transport_names()) {
    for (const int64_t bytes : {100, 100'000}) {
      SCOPED_TRACE(transport);
      with_communicators({2, transport}, [&](Communicator& communicator) {
        Bytes memory(at(bytes));
        std::string said;
        if (communicator.rank().value == 0) {
          const auto sent = communicator.messages().send(Rank{1}, 4, memory);
          ASSERT_EQ(message_of(sent), "");
          static_cast<void>(sent->wait());
          said = message_of(communicator.barrier());
        } else {
          memory.resize(99);
          said = message_of(communicator.messages().blocking_receive(Rank{0}, 4, memory));
        }
        EXPECT_TRUE(contains(said, "rank 1, message 1 (receive): rank 0 sends " +
                                       std::to_string(bytes) +
                                       " bytes with tag 4, the receive takes 99"))
            << said;
        EXPECT_FALSE(communicator.messages().send(Rank{0}, 4, memory));
      });
    }
  }
}

TEST(MessagesTest, WaitsForAsLongAsEachOperationMay) {
  with_communicators({.deadline = seconds(2)}, [&](Communicator& communicator) {
    Messages& messages = communicator.messages();
    Bytes buffer(10);
    if (communicator.rank().value == 0) {
      const auto received = messages.receive(Rank{1}, 1, buffer, {.deadline = Duration::max()});
      EXPECT_EQ(received->wait(milliseconds(10)).error().code, ErrorCode::kTimeout);
      EXPECT_EQ(message_of(received->wait()), "");  // longer than the endpoint's deadline
      const auto late = messages.receive_any(2, buffer, {.deadline = milliseconds(50)});
      const Status status = late->wait();
      ASSERT_FALSE(status.has_value());
      EXPECT_EQ(status.error().code, ErrorCode::kPeerLost);
      EXPECT_TRUE(
          contains(status.error().message,
                   "rank 0, message 2 (receive from any): no rank sent a message with tag 2 "
                   "within 0.05 s"))
          << status.error().message;
    } else {
      std::this_thread::sleep_for(seconds(3));
      EXPECT_EQ(message_of(messages.blocking_send(Rank{0}, 1, buffer)), "");
      const Bytes large(100'000);
      const Status status = messages.blocking_send(Rank{0}, 3, large, {.deadline = seconds(10)});
      EXPECT_TRUE(contains(message_of(status), "rank 0, message 2")) << message_of(status);
    }
  });
}

TEST(MessagesTest, SendThatNobodyReceivesNamesWhoDidNot) {
  for (const bool is_to_itself : {false, true}) {
    with_communicators({.deadline = seconds(5)}, [&](Communicator& communicator) {
      if (communicator.rank().value == 0) {
        const Bytes large(100'000);
        const int32_t target = is_to_itself ? 0 : 1;
        const std::string said = message_of(communicator.messages().blocking_send(
            Rank{target}, 8, large, {.deadline = milliseconds(100)}));
        EXPECT_TRUE(contains(said, "rank 0, message 1 (send): rank " + std::to_string(target) +
                                       " did not receive 100000 bytes with tag 8 within 0.1 s"))
            << said;
      }
    });
  }
}

TEST(MessagesTest, LostRankIsNamedByWhoWaitsForIt) {
  for (const std::string transport : {"tcp", "shm"}) {
    for (const int signal : {SIGKILL, SIGSTOP}) {
      SCOPED_TRACE(transport + ", signal " + std::to_string(signal));
      constexpr Duration kDeadline = seconds(4);
      support::Arrivals open;
      support::RankProcesses job(3, kDeadline, [&](const TcpStoreOptions& options) -> std::string {
        Result<std::unique_ptr<Store>> store = make_tcp_store(options);
        if (!store) {
          return store.error().message;
        }
        const std::shared_ptr<Store> shared = std::move(*store);
        const auto endpoint =
            make_endpoint({3, transport, 4, 4096, 0, kDeadline}, options.rank, shared);
        const auto communicator = Communicator::create(*endpoint);
        if (!communicator) {
          return communicator.error().message;
        }
        open.note();
        Messages& messages = (*communicator)->messages();
        Bytes buffer(1'000'000);
        const MessageOptions endless{.deadline = Duration::max()};
        switch (options.rank.value) {
          case 0:  // in the midst of a message, and for one that never comes
            static_cast<void>(messages.blocking_receive(Rank{1}, 0, buffer, endless));
            return message_of(messages.blocking_receive(Rank{2}, 1, buffer, endless));
          case 1:
            static_cast<void>(messages.blocking_send(Rank{0}, 0, buffer));
            return message_of(messages.blocking_receive_any(1, buffer, endless));
          default:
            std::this_thread::sleep_for(seconds(60));
            return "it was to be lost";
        }
      });
      ASSERT_TRUE(open.reach(3));
      std::this_thread::sleep_for(milliseconds(200));
      job.signal(2, signal);
      for (const int32_t rank : {0, 1}) {
        const std::string said = job.wait(rank, 3 * kDeadline);
        EXPECT_TRUE(contains(said, "rank 2")) << "rank " << rank << " said: " << said;
      }
    }
  }
}

}  // namespace
}  // namespace pleach
