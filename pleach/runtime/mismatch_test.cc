// Ranks that run something else than each other, and do not wait for each other.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pleach/runtime/communicator.h"
#include "tests/support/counterexamples.h"
#include "tests/support/rank_threads.h"

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
