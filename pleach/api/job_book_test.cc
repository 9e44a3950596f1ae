#include "pleach/api/job_book.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "pleach/api/host.h"
#include "pleach/api/schedule_source.h"
#include "pleach/base/files.h"
#include "pleach/base/index.h"
#include "pleach/collective/formats.h"
#include "pleach/collective/placement.h"
#include "pleach/collective/reference.h"
#include "pleach/topology/shapes.h"
#include "tests/support/communicators.h"

namespace pleach {
namespace {

namespace fs = std::filesystem;
using Kind = CollectiveKind;

// A folder that goes with the test.
class Folder {
 public:
  Folder() : path_(testing::TempDir() + "job_book_test." + std::to_string(getpid())) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(BookRequest, IsReadFromTheEnvironment) {
  const auto request = [](std::map<std::string, std::string> variables) {
    return book_request(
        [variables](const std::string& name) -> std::optional<std::string> {
          const auto found = variables.find(name);
          return found == variables.end() ? std::nullopt : std::optional(found->second);
        },
        "shm");
  };
  EXPECT_EQ(request({}).cache, "");
  EXPECT_EQ(request({{"HOME", "/home/me"}}).cache, "/home/me/.cache/pleach");
  EXPECT_EQ(request({{"HOME", "/home/me"}, {"XDG_CACHE_HOME", "/tmp/c"}}).cache, "/tmp/c/pleach");
  EXPECT_EQ(request({{"HOME", "/home/me"}, {"XDG_CACHE_HOME", "here"}}).cache,
            "/home/me/.cache/pleach");
  EXPECT_EQ(request({{"PLEACH_BOOK", "a.book"}}).file, "a.book");
  EXPECT_EQ(request({}).transport, "shm");
}

std::string only_file_in(const std::string& folder) {
  std::string found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    EXPECT_EQ(found, "");
    found = entry.path().string();
  }
  return found;
}

TEST(ObtainBook, KeepsWhatItHasPlanned) {
  const Folder folder;
  const BookRequest request = {.transport = "shm", .cache = folder.path() + "/made"};
  const Result<Book> planned = obtain_book(request, 3);
  ASSERT_TRUE(planned) << planned.error().message;
  const std::string file = only_file_in(request.cache);
  const std::string bytes = *read_file(file);
  EXPECT_EQ(bytes, *pack_book(*planned));
  // A book of this place is taken as it is, if it is whole and of the same topology.
  Book changed = *planned;
  changed.entries.front().segment_count = 7;
  ASSERT_TRUE(write_book(changed, file));
  EXPECT_EQ(obtain_book(request, 3)->entries, changed.entries);
  for (const std::string& damaged : {std::string(), bytes.substr(0, 100), bytes + "x"}) {
    ASSERT_TRUE(write_file(file, damaged));
    EXPECT_EQ(obtain_book(request, 3)->entries, planned->entries);
    EXPECT_EQ(*read_file(file), bytes);
  }
  changed.topology_fingerprint += 1;
  ASSERT_TRUE(write_book(changed, file));
  EXPECT_EQ(obtain_book(request, 3)->entries, planned->entries);
  EXPECT_EQ(*read_file(file), bytes);
  // Where nothing can be kept, it is planned again.
  ASSERT_TRUE(write_file(folder.path() + "/file", ""));
  const Result<Book> again = obtain_book({.transport = "shm", .cache = folder.path() + "/file"}, 3);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->entries, planned->entries);
}

// What other code has planned, or code that was built since, is not taken.
TEST(ObtainBook, LeavesBooksOfOtherCodeAlone) {
  const Folder folder;
  BookRequest request = {.transport = "shm", .cache = folder.path() + "/made"};
  request.code += 1;
  Book stale = *obtain_book(request, 2);
  stale.entries.front().segment_count = 7;
  ASSERT_TRUE(write_book(stale, only_file_in(request.cache)));
  ASSERT_EQ(obtain_book(request, 2)->entries, stale.entries);
  request.code = code_mark();
  EXPECT_NE(obtain_book(request, 2)->entries, stale.entries);
}

TEST(ObtainBook, TakesFilesInPlaceOfPlanning) {
  const Folder folder;
  const std::string book_path = folder.path() + "/a.book", path = folder.path() + "/ring.json";
  const Topology topology = *parse_topology("ring:3");
  ASSERT_TRUE(write_book(*plan_book(topology, {.algorithm = "ring"}), book_path));
  const auto ring =
      obtain_schedule(topology, "ring", {.collective = Kind::kBroadcast, .root = Rank{1}});
  ASSERT_TRUE(ring);
  ASSERT_TRUE(write_schedule(**ring, path));
  const Result<Book> book = obtain_book({.file = book_path}, 3);
  ASSERT_TRUE(book) << book.error().message;
  EXPECT_EQ(book->topology, "ring:3");
  const Result<Book> single = obtain_book({.file = path}, 3);
  ASSERT_TRUE(single) << single.error().message;
  ASSERT_EQ(single->entries.size(), 1U);
  EXPECT_EQ(single->entries.front().collective, Kind::kBroadcast);
  EXPECT_EQ(obtain_book({.file = path}, 4).error().message,
            path + ": plans for 3 ranks, but there are 4");
  EXPECT_EQ(obtain_book({.topology = "ring:5"}, 4).error().message,
            "ring:5: plans for 5 ranks, but there are 4");
  EXPECT_FALSE(obtain_book({.file = folder.path() + "/none.book"}, 3));
}

void with_communicators(int32_t rank_count, const std::function<void(Communicator&)>& body) {
  support::with_communicators(rank_count, [&](std::unique_ptr<Communicator> communicator) {
    body(*communicator);
    EXPECT_TRUE(communicator->close());
  });
}

// Every collective, from every root, at sizes of several classes.
TEST(PreparedBook, RunsWhatItChooses) {
  for (const int32_t ranks : {1, 2, 5}) {
    with_communicators(ranks, [&](Communicator& communicator) {
      const auto book = PreparedBook::prepare(
          communicator, [&] { return obtain_book({.transport = "inproc"}, ranks); });
      ASSERT_TRUE(book) << book.error().message;
      for (const Kind collective : kAllCollectives) {
        if ((*book)->book().find(collective, 0) == nullptr) {
          continue;
        }
        for (int32_t root = 0; root < (has_root(collective) ? ranks : 1); ++root) {
          for (const int64_t count : {int64_t{0}, int64_t{10}, int64_t{100'000}}) {
            SCOPED_TRACE(testing::Message() << to_text(collective) << " " << count << " " << root);
            const auto choice = (*book)->choose(collective, count * 4, Rank{root});
            ASSERT_TRUE(choice) << choice.error().message;
            const Schedule& schedule = schedule_of(*choice->schedule);
            EXPECT_EQ(schedule.root, Rank{root});
            const ReferenceRequest reference =
                reference_request(schedule, ElementType::kFloat32, ReduceOp::kSum, count, 1);
            const BufferSizes sizes =
                Placement::create(schedule, count)->sizes(communicator.rank());
            support::Bytes input(at(sizes.input * 4)), output(at(sizes.output * 4));
            fill_input(reference, communicator.rank(), input);
            fill_output(output);
            const Status status =
                communicator.run(*choice->schedule, {.count = count,
                                                     .segment_count = choice->segment_count,
                                                     .input = input.data(),
                                                     .output = output.data()});
            ASSERT_TRUE(status) << status.error().message;
            EXPECT_EQ(count_wrong(reference, communicator.rank(), output), 0);
          }
        }
      }
      EXPECT_FALSE((*book)->choose(Kind::kBroadcast, 1, Rank{ranks}));
    });
  }
}

TEST(PreparedBook, SaysOnAllRanksWhyThereIsNone) {
  with_communicators(3, [&](Communicator& communicator) {
    const auto none = PreparedBook::prepare(
        communicator, []() -> Result<Book> { return invalid("no book today"); });
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().message, "no book today");
    const auto other = PreparedBook::prepare(communicator, [] { return obtain_book({}, 2); });
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().message, "the schedule is for 2 ranks, the communicator has 3");
    const auto ring = PreparedBook::prepare(communicator, []() -> Result<Book> {
      PLEACH_ASSIGN(topology, parse_topology("ring:3"));
      return plan_book(topology, {.algorithm = "ring"});
    });
    ASSERT_TRUE(ring) << ring.error().message;
    EXPECT_EQ((*ring)->choose(Kind::kAllToAll, 100).error().message,
              "the book that the job runs by has no all_to_all");
  });
}

// Ranks of several hosts are planned for as such: some sums go level by level.
TEST(JobBook, KnowsHosts) {
  const Result<Book> one = obtain_book({.transport = "host"}, 4);
  ASSERT_TRUE(one) << one.error().message;
  const Result<Book> two = obtain_book({.transport = "host", .hosts = {0, 0, 1, 1}}, 4);
  ASSERT_TRUE(two) << two.error().message;
  EXPECT_NE(one->topology_fingerprint, two->topology_fingerprint);
  const auto goes_by_level = [&](const Book::Entry& entry) {
    return entry.collective == Kind::kAllReduce &&
           two->schedules[at(entry.schedule)]->provenance.algorithm == "hierarchical";
  };
  EXPECT_TRUE(std::ranges::any_of(two->entries, goes_by_level));
  EXPECT_TRUE(obtain_book({.transport = "host", .hosts = {0, 1, 1}}, 3));
}

// Between hosts messages that meet lose time, and a ring's never meet; segments let another
// operation's pass, and are no smaller than is sensible.
TEST(JobBook, GoesAroundBetweenHosts) {
  for (const std::string network : {"", "200Mbit/s"}) {
    const Result<Book> book =
        obtain_book({.transport = "tcp", .hosts = {0, 1, 2, 3}, .network = network}, 4);
    ASSERT_TRUE(book) << book.error().message;
    for (const Kind kind : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather}) {
      const Book::Entry& entry = *book->find(kind, 64 << 20);
      EXPECT_EQ(book->schedules[at(entry.schedule)]->provenance.algorithm, "ring") << network;
    }
    for (const Book::Entry& entry : book->entries) {
      EXPECT_LE(int64_t{entry.segment_count - 1} * 32768, entry.up_to_bytes);
    }
  }
  const Result<Book> slow =
      obtain_book({.transport = "tcp", .hosts = {0, 1, 2, 3}, .network = "200Mbit/s"}, 4);
  EXPECT_GE(slow->find(Kind::kAllGather, 800'000)->segment_count, 4);
  EXPECT_LE(slow->find(Kind::kAllGather, 800'000)->segment_count, 8);
  EXPECT_EQ(obtain_book({.hosts = {0, 1}, .network = "fast"}, 2).error().message.substr(0, 23),
            "PLEACH_NETWORK: 'fast' ");
}

TEST(DefaultHostModel, KnowsWhoSharesCores) {
  EXPECT_GE(core_count(), 1);
  const HostModel two = default_host_model("shm", 2, 2), eight = default_host_model("shm", 8, 2);
  EXPECT_GT(eight.latency_ps, two.latency_ps);
  EXPECT_EQ(eight.host_bandwidth_bytes_per_s, two.host_bandwidth_bytes_per_s);
  EXPECT_EQ(default_host_model("shm", 8, 8).host_bandwidth_bytes_per_s,
            4 * two.host_bandwidth_bytes_per_s);
  EXPECT_GT(default_host_model("tcp", 2, 2).message_bytes, two.message_bytes);
}

}  // namespace
}  // namespace pleach
