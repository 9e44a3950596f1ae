#include "pleach/api/collectives.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/collective/placement.h"
#include "pleach/collective/reference.h"
#include "tests/support/communicators.h"

namespace pleach {
namespace {

using support::Bytes;

// Runs the body on every rank, over one local store; closes at the end.
void with_collectives(int32_t rank_count, const std::function<void(Collectives&, Rank)>& body) {
  support::with_communicators(rank_count, [&](std::unique_ptr<Communicator> communicator) {
    const Rank rank = communicator->rank();
    auto collectives =
        Collectives::create(std::move(communicator), BookRequest{.transport = "inproc"});
    ASSERT_TRUE(collectives.has_value()) << collectives.error().message;
    body(**collectives, rank);
    EXPECT_TRUE((*collectives)->communicator().close().has_value());
  });
}

TEST(CollectivesTest, DoesEveryCollectiveFromEveryRoot) {
  for (const int32_t ranks : {1, 2, 3, 5}) {
    with_collectives(ranks, [&](Collectives& collectives, Rank rank) {
      for (const CollectiveKind collective : kAllCollectives) {
        for (int32_t root = 0; root < (has_root(collective) ? ranks : 1); ++root) {
          for (const int64_t count : {0, 1, 7, 1000}) {
            SCOPED_TRACE(testing::Message() << ranks << " ranks, " << to_text(collective) << " of "
                                            << count << ", root " << root);
            const bool counts_part = gives_shards(collective) || ends_with_shards(collective) ||
                                     collective == CollectiveKind::kAllToAll;
            const int64_t whole = counts_part ? count * ranks : count;
            const ReferenceRequest reference = {
                .collective = collective, .rank_count = ranks, .root = Rank{root}, .count = whole};
            const int64_t given = gives_shards(collective) ? count : whole;
            const int64_t held = ends_with_shards(collective) ? count : whole;
            Bytes input(at(given * 4)), output(at(held * 4));
            fill_input(reference, rank, input);
            const CollectiveRequest request = {.collective = collective,
                                               .root = Rank{root},
                                               .count = count,
                                               .input = input.data(),
                                               .output = output.data()};
            fill_output(output);
            const Status status = collectives.run(request);
            ASSERT_TRUE(status.has_value()) << status.error().message;
            ASSERT_EQ(count_wrong(reference, rank, output), 0);
            fill_output(output);
            const Result<Operation> operation = collectives.start(request);
            ASSERT_TRUE(operation.has_value()) << operation.error().message;
            ASSERT_TRUE(operation->wait().has_value());
            ASSERT_EQ(count_wrong(reference, rank, output), 0);
          }
        }
      }
    });
  }
}

TEST(CollectivesTest, WhatIsRefusedHasNotHappened) {
  with_collectives(3, [](Collectives& collectives, Rank rank) {
    std::vector<float> data(4, 1);
    std::byte* const bytes = std::as_writable_bytes(std::span(data)).data();
    struct Row {
      CollectiveRequest request;
      std::string said;
    };
    const std::vector<Row> rows = {
        {{.collective = CollectiveKind::kBroadcast, .root = Rank{3}, .count = 4},
         "broadcast: root 3 is none of 3 ranks"},
        {{.collective = CollectiveKind::kReduce, .root = Rank{-1}, .count = 4},
         "reduce: root -1 is none of 3 ranks"},
        {{.count = -1}, "all_reduce: a count of -1 elements is negative"},
        {{.collective = CollectiveKind::kAllGather, .count = INT64_MAX / 2},
         "all_gather: 4611686018427387903 elements for each of 3 ranks are too many"},
    };
    for (const Row& row : rows) {
      const std::string said = "rank " + std::to_string(rank.value) + ", " + row.said;
      CollectiveRequest request = row.request;
      request.input = request.output = bytes;
      const Status status = collectives.run(request);
      ASSERT_FALSE(status.has_value());
      EXPECT_EQ(status.error().message, said);
      const Result<Operation> operation = collectives.start(request);
      ASSERT_FALSE(operation.has_value());
      EXPECT_EQ(operation.error().message, said);
    }
    ASSERT_TRUE(collectives.run({.count = 4, .input = bytes, .output = bytes}).has_value());
    EXPECT_EQ(data, std::vector<float>(4, 3));
  });
}

}  // namespace
}  // namespace pleach
