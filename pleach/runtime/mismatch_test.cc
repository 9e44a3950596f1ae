// Ranks that run something else than each other, and do not wait for each other.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pleach/runtime/communicator.h"
#include "tests/support/counterexamples.h"
#include "tests/support/rank_threads.h"
#include "tests/support/silent_transport.h"

namespace pleach {
namespace {

using std::chrono::seconds;

// A collective of two ranks with a root: one message.
Schedule rooted(CollectiveKind collective, int32_t root, int32_t source) {
  const TransferOp op = collective == CollectiveKind::kReduce ? support::kReduce : support::kCopy;
  return support::make_schedule({.collective = collective, .root = root},
                                {{0, 1, source, 1 - source, op}});
}

std::string message_of(const Status& status) {
  return status ? "" : status.error().message;
}

// Calls that may pass until what a peer has sent is here.
constexpr int kMostCalls = 2000;

// One of two ranks, with a communicator.
struct OpenRank {
  // No transport: nothing that a rank sends arrives.
  OpenRank(const std::string& transport, const std::shared_ptr<Store>& store, Rank self)
      : rank(self) {
    EndpointOptions options{.rank = rank,
                            .rank_count = 2,
                            .transport = transport,
                            .store = store,
                            .deadline = seconds(30)};
    if (transport.empty()) {
      options.transport_override = std::make_unique<support::SilentTransport>();
    }
    auto endpoint = Endpoint::create(std::move(options));
    EXPECT_TRUE(endpoint.has_value()) << endpoint.error().message;
    auto opened = Communicator::create(std::move(*endpoint));
    EXPECT_TRUE(opened.has_value()) << opened.error().message;
    communicator = std::move(*opened);
  }
  std::vector<std::shared_ptr<const PreparedSchedule>> prepare(
      const std::vector<Schedule>& schedules) const {
    std::vector<std::shared_ptr<const PreparedSchedule>> prepared;
    for (const Schedule& schedule : schedules) {
      auto made = communicator->prepare(rank.value == 0 ? &schedule : nullptr);
      EXPECT_TRUE(made.has_value()) << made.error().message;
      prepared.push_back(*std::move(made));
    }
    return prepared;
  }
  RunRequest request(int64_t count) {
    std::byte* const bytes = std::as_writable_bytes(std::span(data)).data();
    return {.count = count, .input = bytes, .output = bytes};
  }

  Rank rank;
  std::vector<float> data = std::vector<float>(8, 1);
  std::unique_ptr<Communicator> communicator;
};

TEST(MismatchTest, RanksThatOnlySendOrOnlyReceiveHearOfEachOther) {
  struct Case {
    std::string name;
    std::vector<Schedule> schedules;  // by rank
    std::string says;
  };
  const auto broadcast = [](int32_t root) {
    return rooted(CollectiveKind::kBroadcast, root, root);
  };
  const auto reduce = [](int32_t root) { return rooted(CollectiveKind::kReduce, root, 1 - root); };
  const std::vector<Case> cases = {
      {"both send",
       {broadcast(0), reduce(0)},
       "rank 1 runs reduce of 8 float32 sum, rank 0 broadcast of 8 float32"},
      {"both send, two roots",
       {broadcast(0), broadcast(1)},
       "rank 1 runs broadcast of 8 float32 with root 1, rank 0 of 8 with root 0"},
      {"both receive",
       {reduce(0), reduce(1)},
       "rank 1 runs reduce of 8 float32 sum with root 1, rank 0 of 8 with root 0"}};
  for (const std::string transport : {"inproc", "tcp", "shm"}) {
    for (const Case& row : cases) {
      SCOPED_TRACE(transport + ", " + row.name);
      const auto store = make_local_store();
      support::on_every_rank(2, [&](Rank rank) {
        auto endpoint = Endpoint::create({.rank = rank,
                                          .rank_count = 2,
                                          .transport = transport,
                                          .store = store,
                                          .deadline = seconds(30)});
        ASSERT_TRUE(endpoint.has_value()) << endpoint.error().message;
        auto opened = Communicator::create(*endpoint);
        ASSERT_TRUE(opened.has_value()) << opened.error().message;
        Communicator& communicator = **opened;
        std::vector<std::shared_ptr<const PreparedSchedule>> prepared;
        for (const Schedule& schedule : row.schedules) {
          auto made = communicator.prepare(rank.value == 0 ? &schedule : nullptr);
          ASSERT_TRUE(made.has_value()) << made.error().message;
          prepared.push_back(*std::move(made));
        }
        std::vector<float> data(8, 1);
        std::byte* const bytes = std::as_writable_bytes(std::span(data)).data();
        const RunRequest request{.count = 8, .input = bytes, .output = bytes};
        const TimePoint start = SteadyClock().now();
        std::string said = message_of(communicator.run(*prepared[rank.index()], request));
        said = said.empty() ? message_of(communicator.close()) : said;
        EXPECT_EQ(said, "operation 1: " + row.says);
        EXPECT_LT(SteadyClock().now() - start, seconds(12));
      });
    }
  }
}

// Two ranks that only send do not wait for each other: the next call tells, whether it waits or
// not.
TEST(MismatchTest, RanksThatOnlySendHearOfEachOtherAtTheNextCall) {
  struct Case {
    std::string name;
    std::vector<Schedule> schedules;  // by rank
    std::vector<int64_t> counts;      // by rank
    std::string says;
  };
  const auto of = [](CollectiveKind collective, int32_t root) {
    const bool is_root_source =
        collective == CollectiveKind::kBroadcast || collective == CollectiveKind::kScatter;
    return rooted(collective, root, is_root_source ? root : 1 - root);
  };
  using enum CollectiveKind;
  const std::vector<Case> cases = {
      {"two roots",
       {of(kBroadcast, 0), of(kBroadcast, 1)},
       {8, 8},
       "rank 1 runs broadcast of 8 float32 with root 1, rank 0 of 8 with root 0"},
      {"no root",
       {of(kReduce, 1), of(kReduce, 0)},
       {8, 8},
       "rank 1 runs reduce of 8 float32 sum with root 0, rank 0 of 8 with root 1"},
      {"two kinds",
       {of(kBroadcast, 0), of(kReduce, 0)},
       {8, 8},
       "rank 1 runs reduce of 8 float32 sum, rank 0 broadcast of 8 float32"},
      {"two kinds and counts",
       {of(kBroadcast, 0), of(kReduce, 0)},
       {4, 8},
       "rank 1 runs reduce of 8 float32 sum, rank 0 broadcast of 4 float32"}};
  for (const std::string transport : {"inproc", "tcp", "shm"}) {
    for (const Case& row : cases) {
      for (const bool waits : {true, false}) {
        SCOPED_TRACE(fmt::format("{}, {}, the next call waits: {}", transport, row.name, waits));
        const auto store = make_local_store();
        std::barrier has_sent(2);
        support::on_every_rank(2, [&](Rank rank) {
          OpenRank here(transport, store, rank);
          const auto prepared = here.prepare(row.schedules);
          // Connections are there: what is sent from here on leaves at once.
          ASSERT_EQ(message_of(here.communicator->barrier()), "");
          const auto send = [&] {
            return message_of(here.communicator->run(*prepared[rank.index()],
                                                     here.request(row.counts[rank.index()])));
          };
          std::string said = send();
          has_sent.arrive_and_wait();
          for (int call = 0; call < (waits ? 1 : kMostCalls) && said.empty(); ++call) {
            said = waits ? message_of(here.communicator->barrier()) : send();
            if (call > 1) {  // what has been sent may take its time on a machine that is busy
              std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
          }
          EXPECT_EQ(said, "operation 2: " + row.says) << transport << ", waits: " << waits;
        });
      }
    }
  }
}

// Nothing comes from a peer before they close: what each has asked for is compared then.
TEST(MismatchTest, RanksThatCloseCompareWhatTheyHaveRun) {
  for (const bool agree : {true, false}) {
    const auto store = make_local_store();
    support::on_every_rank(2, [&](Rank rank) {
      OpenRank here("", store, rank);
      const int32_t other_root = agree ? 0 : 1;
      const auto prepared =
          here.prepare({rooted(CollectiveKind::kBroadcast, 0, 0),
                        rooted(CollectiveKind::kBroadcast, other_root, other_root)});
      if (rank.value == 0 || !agree) {
        EXPECT_EQ(message_of(here.communicator->run(*prepared[rank.index()], here.request(8))), "");
      }
      EXPECT_EQ(message_of(here.communicator->close()),
                agree ? "close of communicator 'world': rank 1 ran 0 operations, rank 0 ran 1"
                      : "close of communicator 'world': rank 1 ran other operations than rank 0");
    });
  }
}

// The root only sends: nobody would tell it that one broadcast has not been received.
TEST(MismatchTest, RanksThatCloseHearOfWhatOnlySomeHaveRun) {
  for (const int32_t root : {0, 1}) {
    SCOPED_TRACE(root);
    const Schedule schedule = rooted(CollectiveKind::kBroadcast, root, root);
    const auto store = make_local_store();
    support::on_every_rank(2, [&](Rank rank) {
      auto endpoint = Endpoint::create({.rank = rank,
                                        .rank_count = 2,
                                        .transport = "tcp",
                                        .store = store,
                                        .deadline = seconds(30)});
      ASSERT_TRUE(endpoint.has_value()) << endpoint.error().message;
      auto communicator = Communicator::create(*endpoint);
      ASSERT_TRUE(communicator.has_value()) << communicator.error().message;
      const auto prepared = (*communicator)->prepare(rank.value == 0 ? &schedule : nullptr);
      ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
      std::vector<float> data(8, 1);
      std::byte* const bytes = std::as_writable_bytes(std::span(data)).data();
      for (int32_t run = 0; run < (rank.value == root ? 2 : 1); ++run) {
        EXPECT_EQ(
            message_of(
                (*communicator)->run(**prepared, {.count = 8, .input = bytes, .output = bytes})),
            "");
      }
      EXPECT_EQ(message_of((*communicator)->close()),
                root == 0 ? "close of communicator 'world': rank 1 ran 1 operations, rank 0 ran 2"
                          : "close of communicator 'world': rank 1 ran 2 operations, rank 0 ran 1");
    });
  }
}

}  // namespace
}  // namespace pleach
