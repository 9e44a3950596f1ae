#include "pleach/api/tune.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "pleach/api/job_book.h"
#include "pleach/base/index.h"
#include "pleach/collective/verify.h"
#include "tests/support/communicators.h"
#include "tests/support/rank_threads.h"

namespace pleach {
namespace {

// What every rank was returned.
std::vector<Result<Book>> tune(int32_t rank_count, const TuneOptions& options) {
  std::vector<Result<Book>> books(at(rank_count), Book{});
  const std::shared_ptr<Store> store = make_local_store();
  support::on_every_rank(rank_count, [&](Rank rank) {
    books[rank.index()] = tune_book(
        {.rank = rank, .rank_count = rank_count, .transport = "inproc", .store = store}, options);
  });
  return books;
}

TEST(TuneBook, FastOnesStay) {
  using Numbers = std::vector<std::size_t>;
  EXPECT_EQ(worth_another_round(std::vector<double>{2, 4, 3, 3.1, 2.9}), (Numbers{0, 2, 4}));
  EXPECT_EQ(worth_another_round(std::vector<double>{5}), Numbers{0});
  using Times = std::vector<std::vector<double>>;
  EXPECT_EQ(fastest(Times{{3, 3, 3}, {1, 4, 4}, {9, 2, 2}}), 2U);  // by the median
  EXPECT_EQ(fastest(Times{{2}, {2}}), 0U);
}

TEST(TuneBook, HasWhatWasMeasuredOfEveryCollectiveAndSize) {
  for (const int32_t ranks : {2, 3}) {
    std::vector<std::string> told;
    const auto books =
        tune(ranks, {.sizes_bytes = {256, 512 << 10},
                     .rounds = 2,
                     .progress = [&](const std::string& what) { told.push_back(what); }});
    for (const Result<Book>& book : books) {
      ASSERT_TRUE(book.has_value()) << book.error().message;
    }
    EXPECT_EQ(std::ssize(told), std::ssize(kAllCollectives));  // by rank 0 alone
    const Book& book = *books.front();
    EXPECT_EQ(book.rank_count, ranks);
    for (const CollectiveKind collective : kAllCollectives) {
      for (const int64_t size_bytes : {int64_t{1}, int64_t{512} << 10}) {
        const Book::Entry* const entry = book.find(collective, size_bytes);
        ASSERT_NE(entry, nullptr) << to_text(collective);
        const Schedule& schedule = *book.schedules[at(entry->schedule)];
        EXPECT_EQ(schedule.collective, collective);
        EXPECT_FALSE(schedule.provenance.algorithm.empty());
        const Verification proof = verify(schedule, nullptr);
        EXPECT_TRUE(proof.correct);
        EXPECT_TRUE(collective != CollectiveKind::kAllReduce || proof.bitwise_replicated);
      }
    }
    // It can be kept, and read again.
    const auto packed = pack_book(book);
    ASSERT_TRUE(packed.has_value());
    const auto read = unpack_book(*packed, "here");
    ASSERT_TRUE(read.has_value()) << read.error().message;
    EXPECT_EQ(read->entries, book.entries);
  }
}

// Blocks of an all_to_all that a size does not fill, and sizes below an element.
TEST(TuneBook, MeasuresWhateverSize) {
  for (const int32_t ranks : {5, 6}) {
    for (const Result<Book>& book :
         tune(ranks, {.sizes_bytes = {1, 4, 16, 1024, 4096}, .rounds = 1})) {
      EXPECT_TRUE(book.has_value()) << book.error().message;
    }
  }
}

TEST(TuneBook, RefusesSizesThatDoNotAscend) {
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{}, std::vector<int64_t>{0}, std::vector<int64_t>{8, 4}}) {
    for (const Result<Book>& book : tune(2, {.sizes_bytes = sizes})) {
      ASSERT_FALSE(book.has_value());
      EXPECT_EQ(book.error().message, "the sizes of a book must be at least 1 and ascend");
    }
  }
}

}  // namespace
}  // namespace pleach
