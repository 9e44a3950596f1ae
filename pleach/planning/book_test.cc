#include "pleach/planning/book.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "pleach/base/files.h"
#include "pleach/base/hash.h"
#include "pleach/collective/rerooted.h"
#include "pleach/collective/verify.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

using support::topology_of;
using Kind = CollectiveKind;

Book book_of(const std::string& spec, const BookOptions& options = {}) {
  const Topology topology = topology_of(spec);
  Result<Book> book = plan_book(topology, options);
  PLEACH_CHECK(book, book ? "" : book.error().message.c_str());
  return std::move(*book);
}

TEST(Book, HasEveryCollectiveAndSize) {
  for (const char* spec : {"fully_connected:2", "fully_connected:5,overhead=1us", "switch:8"}) {
    const Book book = book_of(spec, {.sizes_bytes = {1 << 10, 1 << 16, 1 << 22}});
    EXPECT_EQ(book.topology_fingerprint, topology_of(spec).fingerprint());
    for (const Kind collective : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather,
                                  Kind::kBroadcast, Kind::kReduce, Kind::kAllToAll}) {
      for (const int64_t size_bytes : {int64_t{0}, int64_t{1}, int64_t{1} << 40, INT64_MAX}) {
        const Book::Entry* entry = book.find(collective, size_bytes);
        ASSERT_NE(entry, nullptr) << to_text(collective) << " " << size_bytes;
        const Schedule& schedule = *book.schedules[at(entry->schedule)];
        EXPECT_EQ(schedule.collective, collective);
        EXPECT_EQ(schedule.rank_count(), book.rank_count);
        EXPECT_TRUE(verify(schedule, nullptr).bitwise_replicated);
      }
    }
  }
}

// What has a root is planned for rank 0, and does for the others.
TEST(Book, DoesForEveryRoot) {
  const Book book = book_of("fully_connected:5");
  for (const auto& schedule : book.schedules) {
    for (int32_t root = 0; has_root(schedule->collective) && root < book.rank_count; ++root) {
      const Result<Schedule> other = rerooted(*schedule, Rank{root});
      EXPECT_TRUE(other) << other.error().message;
    }
  }
}

TEST(Book, ClassesEndInTheMiddle) {
  // Few messages for small buffers, few bytes for large ones.
  const Book book = book_of("switch:4,bandwidth=1GB/s,header=10000,packet=1GiB",
                            {.planner = {.segment_count = 1, .wants_certificate = false},
                             .sizes_bytes = {100, 10'000, 1'000'000}});
  const struct {
    int64_t size_bytes;
    std::string algorithm;
  } cases[] = {{0, "recursive_doubling"},      {100, "recursive_doubling"},
               {10'000, "recursive_doubling"}, {100'000, "recursive_doubling"},
               {100'001, "halving_doubling"},  {1'000'000, "halving_doubling"}};
  for (const auto& [size_bytes, algorithm] : cases) {
    const Book::Entry* entry = book.find(Kind::kAllReduce, size_bytes);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(book.schedules[at(entry->schedule)]->provenance.algorithm, algorithm) << size_bytes;
  }
}

TEST(Book, KnowsWhatItsAlgorithmDoes) {
  const Book book = book_of("ring:4", {.algorithm = "ring"});
  EXPECT_NE(book.find(Kind::kAllReduce, 1), nullptr);
  EXPECT_EQ(book.find(Kind::kAllToAll, 1), nullptr);
}

TEST(Book, OfOneRankDoesNothing) {
  TopologyBuilder builder("one");
  ASSERT_TRUE(builder.add_node({}));
  const Result<Topology> topology = std::move(builder).build();
  ASSERT_TRUE(topology);
  const Result<Book> book = plan_book(*topology);
  ASSERT_TRUE(book) << book.error().message;
  for (const Kind collective : kAllCollectives) {
    const Book::Entry* entry = book->find(collective, 1000);
    ASSERT_NE(entry, nullptr);
    const Verification verification = verify(*book->schedules[at(entry->schedule)], nullptr);
    EXPECT_TRUE(verification.correct && verification.bitwise_replicated) << to_text(collective);
  }
}

TEST(Book, RefusesSizesThatDoNotAscend) {
  const Topology topology = topology_of("ring:4");
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{}, {0, 1}, {5, 5}, {8, 4}}) {
    const Result<Book> refused = plan_book(topology, {.sizes_bytes = sizes});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message, "the sizes of a book must be at least 1 and ascend");
  }
}

TEST(Book, IsReadAsItWasWritten) {
  const Book book = book_of("fully_connected:4,overhead=1us");
  const std::string path = testing::TempDir() + "book_test.book";
  ASSERT_TRUE(write_book(book, path));
  const Result<Book> same = read_book(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_EQ(same->topology, book.topology);
  EXPECT_EQ(same->topology_fingerprint, book.topology_fingerprint);
  EXPECT_EQ(same->rank_count, book.rank_count);
  EXPECT_EQ(same->entries, book.entries);
  ASSERT_EQ(same->schedules.size(), book.schedules.size());
  for (std::size_t i = 0; i < book.schedules.size(); ++i) {
    EXPECT_EQ(*same->schedules[i], *book.schedules[i]);
  }
  EXPECT_FALSE(read_book(path));
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const std::size_t place = text.find(what);
  PLEACH_CHECK(place != std::string::npos, what.c_str());
  return text.replace(place, what.size(), with);
}

// The bytes with another content, and the hash that belongs to it.
std::string with_content(const std::string& bytes,
                         const std::function<std::string(std::string)>& change) {
  std::size_t head = 0;
  for (int line = 0; line < 3; ++line) {
    head = bytes.find('\n', head) + 1;
  }
  const std::string content = change(bytes.substr(head));
  Fingerprint hash;
  hash.add(std::string_view(content));
  char text[40];
  std::snprintf(text, sizeof(text), "%016llx %zu", static_cast<unsigned long long>(hash.value()),
                content.size());
  std::string first = bytes.substr(0, head);
  const std::size_t place = first.find("content ") + 8;
  return first.substr(0, place) + text + "\n" + content;
}

TEST(Book, NamesWhatIsWrong) {
  const Book book = book_of(
      "fully_connected:2",
      {.algorithm = "ring", .planner = {.wants_certificate = false}, .sizes_bytes = {1000}});
  const Result<std::string> packed = pack_book(book);
  ASSERT_TRUE(packed);
  const std::string& bytes = *packed;
  const auto change = [&](const std::string& what, const std::string& with) {
    return with_content(bytes,
                        [&](const std::string& content) { return replaced(content, what, with); });
  };
  const std::string largest = std::to_string(INT64_MAX);
  const struct {
    std::string bytes, message;
  } cases[] = {
      {"", "is no book"},
      {"{\"format\": \"pleach_schedule\"}", "is no book"},
      {replaced(bytes, "book 1", "book 2"),
       "book of format version 2; this program reads version 1"},
      {replaced(bytes, "library ", "library 9"), "book of version 9"},
      {bytes.substr(0, bytes.size() - 1), "is cut short"},
      {bytes.substr(0, 20), "is cut short"},
      {bytes + "x", "was changed since it was written"},
      {replaced(bytes, "ranks 2", "ranks 3"), "was changed since it was written"},
      {replaced(bytes, "content ", "content x"), "is no hash"},
      {change("ranks 2", "ranks 0"), "ranks '0'"},
      {change("ranks 2", "ranks 3"), "entry 0: schedule 0 is of all_reduce on 2 ranks"},
      {change("ranks 2", "range 2"), "has 'range 2' where 'ranks' belongs"},
      {change("entry all_reduce", "entry all_gather"), "entry 0"},
      {change("entry all_reduce", "entry all_red"), "unknown collective 'all_red'"},
      {change(largest + " 1 0", "1000 1 0"), "entry 0: sizes of all_reduce do not ascend"},
      {change(largest + " 1 0", largest + " 0 0"), "segments '0'"},
      {change(largest + " 1 0", largest + " 1 99"), "schedule '99'"},
      {change(largest + " 1 0", largest + " 1"), "is not of 4 words"},
      {change("schedules 5", "schedules 4"), "schedule '4' is outside 0 to 3"},
      {change("schedules 5", "schedules 6"), "is cut short"},
      {with_content(bytes, [](const std::string& all) { return all + "more"; }),
       "4 bytes follow the last schedule"},
      {with_content(bytes, [](const std::string& all) { return all.substr(0, all.size() - 9); }),
       "is cut short"},
  };
  for (const auto& [wrong, message] : cases) {
    SCOPED_TRACE(message);
    const Result<Book> refused = unpack_book(wrong, "a.book");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message.substr(0, 6), "a.book");
    EXPECT_NE(refused.error().message.find(message), std::string::npos) << refused.error().message;
  }
  ASSERT_TRUE(unpack_book(bytes, "a.book"));
}

}  // namespace
}  // namespace pleach
