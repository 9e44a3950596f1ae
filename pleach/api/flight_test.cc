#include "pleach/api/flight.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "pleach/base/files.h"
#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/runtime/communicator.h"
#include "tests/support/rank_threads.h"
#include "tests/support/small_schedules.h"

namespace pleach {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// An empty folder, and nothing afterwards.
class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "pleach-flight-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }
  std::string file(int32_t rank) const { return path_ + "/rank-" + std::to_string(rank) + ".json"; }

 private:
  std::string path_;
};

// Every rank with a communicator and a ring's all_reduce.
using Body = std::function<void(Endpoint&, Communicator&, const PreparedSchedule&, Rank)>;
void with_ranks(int32_t rank_count, const FlightOptions& flight, Duration deadline,
                const Body& body) {
  const auto store = make_local_store();
  const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, rank_count);
  support::on_every_rank(rank_count, [&](Rank rank) {
    const auto endpoint = Endpoint::create({.rank = rank,
                                            .rank_count = rank_count,
                                            .transport = "inproc",
                                            .store = store,
                                            .deadline = deadline,
                                            .flight = flight});
    ASSERT_TRUE(endpoint.has_value()) << endpoint.error().message;
    const auto communicator = Communicator::create(*endpoint);
    ASSERT_TRUE(communicator.has_value()) << communicator.error().message;
    const auto prepared = (*communicator)->prepare(rank.value == 0 ? &ring : nullptr);
    ASSERT_TRUE(prepared.has_value()) << prepared.error().message;
    body(**endpoint, **communicator, **prepared, rank);
  });
}

std::string reduce(Communicator& communicator, const PreparedSchedule& prepared, int64_t count) {
  std::vector<float> data(at(count), 1);
  std::byte* const bytes = std::as_writable_bytes(std::span(data)).data();
  const Status status =
      communicator.run(prepared, {.count = count, .input = bytes, .output = bytes});
  return status ? "" : status.error().message;
}

TEST(FlightTest, TellsWhoRunsSomethingElse) {
  const Folder folder;
  with_ranks(4, {.folder = folder.path()}, seconds(20),
             [](Endpoint&, Communicator& communicator, const PreparedSchedule& ring, Rank rank) {
               // Who is done with the first may end the job before the others are.
               reduce(communicator, ring, 1024);
               EXPECT_NE(reduce(communicator, ring, rank.value == 2 ? 1024 : 2048), "");
             });
  const Result<FlightReport> report = inspect_flight(folder.path());
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->rank_count, 4);
  EXPECT_EQ(report->job, "job");
  EXPECT_TRUE(report->missing.empty());
  EXPECT_TRUE(report->problems.empty());
  ASSERT_EQ(report->failures.size(), 1u);
  EXPECT_TRUE(report->failures[0].message.starts_with("operation 2: rank "));
  EXPECT_EQ(report->failures[0].ranks, (std::vector<int32_t>{0, 1, 2, 3}));
  // Who had not begun when the job failed has nothing to compare.
  for (const std::string& mismatch : report->mismatches) {
    EXPECT_TRUE(mismatch.starts_with("operation 2 of world: rank ")) << mismatch;
    EXPECT_NE(mismatch.find("rank 2 "), std::string::npos) << mismatch;
  }
  for (const FlightReport::Place& place : report->places) {
    EXPECT_EQ(place.communicator, "world");
    EXPECT_LE(place.done, 1);
  }
  ASSERT_EQ(report->lateness.size(), 4u);
  EXPECT_GE(report->lateness[0].mean_s, report->lateness[3].mean_s);
}

TEST(FlightTest, TellsWhoIsBehindAndWhoWaitsForWhom) {
  const Folder folder;
  with_ranks(3, {.folder = folder.path()}, seconds(2),
             [](Endpoint&, Communicator& communicator, const PreparedSchedule& ring, Rank rank) {
               EXPECT_EQ(reduce(communicator, ring, 30), "");
               if (rank.value == 1) {  // it does something else until the others have given up
                 std::this_thread::sleep_for(seconds(5));
                 EXPECT_NE(reduce(communicator, ring, 30), "");
                 return;
               }
               EXPECT_NE(reduce(communicator, ring, 30), "");
             });
  const Result<FlightReport> report = inspect_flight(folder.path());
  ASSERT_TRUE(report.has_value()) << report.error().message;
  ASSERT_EQ(report->places.size(), 3u);
  EXPECT_EQ(report->places[1].begun, 1);
  EXPECT_TRUE(report->places[1].is_behind);
  EXPECT_EQ(report->places[1].operation, 0);
  for (const std::size_t rank : {0, 2}) {
    const FlightReport::Place& place = report->places[rank];
    EXPECT_EQ(place.begun, 2);
    EXPECT_EQ(place.done, 1);
    EXPECT_FALSE(place.is_behind);
    EXPECT_EQ(place.operation, 2);
    EXPECT_EQ(place.text, "all_reduce of 30 float32 sum");
    EXPECT_GT(place.since_s, 0.3);
  }
  EXPECT_EQ(report->places[2].awaited, (std::vector<int32_t>{1}));
  EXPECT_TRUE(report->mismatches.empty());
  ASSERT_EQ(report->failures.size(), 1u);
  EXPECT_NE(report->failures[0].message.find("rank 1 did not begin it"), std::string::npos);
}

// Three messages from rank 0 to 1: one that is received, a small one that has left and is not, and
// one too large to leave before it is; and two receives that nothing comes for.
TEST(FlightTest, TellsWhichMessagesNobodyMatches) {
  const Folder folder;
  with_ranks(2, {}, seconds(20),
             [&](Endpoint& endpoint, Communicator& world, const PreparedSchedule&, Rank rank) {
               std::vector<std::byte> data(1 << 20);
               const std::span<std::byte> small = std::span(data).first(4);
               const MessageOptions forever{.deadline = Duration::max()};
               Messages& messages = world.messages();
               if (rank.value == 0) {
                 EXPECT_TRUE(messages.blocking_send(Rank{1}, 5, small).has_value());
                 EXPECT_TRUE(messages.blocking_send(Rank{1}, 9, small).has_value());
                 EXPECT_TRUE(messages.send(Rank{1}, 7, data, forever).has_value());
                 EXPECT_TRUE(messages.receive_any(3, small, forever).has_value());
               } else {
                 EXPECT_TRUE(messages.blocking_receive(Rank{0}, 5, small).has_value());
                 EXPECT_TRUE(messages.receive(Rank{0}, 6, small, forever).has_value());
               }
               EXPECT_TRUE(world.barrier());
               EXPECT_TRUE(endpoint.write_flight(folder.file(rank.value)));
               static_cast<void>(world.barrier());  // who has left it may end the job
               world.abort("it is over");
             });
  const Result<FlightReport> report = inspect_flight(folder.path());
  ASSERT_TRUE(report.has_value()) << report.error().message;
  std::vector<std::string> said;
  for (const FlightReport::Message& message : report->messages) {
    EXPECT_EQ(message.communicator, "world");
    EXPECT_GT(message.since_s, 0);
    said.push_back(fmt::format("{} {} {} {} {}: {}", message.rank,
                               message.is_send ? "sends" : "receives", message.peer, message.tag,
                               message.bytes, message.unmatched));
  }
  std::ranges::sort(said);
  EXPECT_EQ(said, (std::vector<std::string>{
                      "0 receives -1 3 4: no rank sends it tag 3",
                      "0 sends 1 7 1048576: rank 1 receives nothing from it with tag 7, but tag 6",
                      "0 sends 1 9 4: rank 1 has not received it",
                      "1 receives 0 6 4: rank 0 sends it nothing with tag 6, but tag 7",
                  }));
}

TEST(FlightTest, FilesAreWrittenOnRequestAndWhenASignalComes) {
  const Folder folder;
  with_ranks(
      2, {.folder = folder.path(), .signal = SIGUSR2}, seconds(20),
      [&](Endpoint& endpoint, Communicator& communicator, const PreparedSchedule& ring, Rank rank) {
        EXPECT_EQ(reduce(communicator, ring, 7), "");
        EXPECT_TRUE(communicator.barrier());
        EXPECT_FALSE(std::filesystem::exists(folder.file(rank.value)));
        EXPECT_TRUE(communicator.barrier());
        if (rank.value == 0) {
          kill(getpid(), SIGUSR2);
        }
        const TimePoint until = SteadyClock().now() + seconds(20);
        while (!std::filesystem::exists(folder.file(rank.value)) && SteadyClock().now() < until) {
          std::this_thread::sleep_for(milliseconds(1));
        }
        const Result<FlightReport> report = inspect_flight(folder.path());
        ASSERT_TRUE(report.has_value()) << report.error().message;
        EXPECT_TRUE(report->failures.empty());
        EXPECT_TRUE(communicator.barrier());
        const std::string path = folder.path() + "/own";
        EXPECT_TRUE(endpoint.write_flight(path + std::to_string(rank.value)));
        EXPECT_EQ(endpoint.write_flight(folder.path()).error().code, ErrorCode::kIo);
        EXPECT_TRUE(communicator.close());
      });
  struct sigaction after = {};
  sigaction(SIGUSR2, nullptr, &after);
  EXPECT_EQ(after.sa_handler, SIG_DFL);
  const Result<std::string> own = read_file(folder.path() + "/own1");
  ASSERT_TRUE(own.has_value());
  const Result<FlightFile> file = read_flight_file(*own, "own1");
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->rank, 1);
  EXPECT_EQ(file->operations.size(), 4u);  // an all_reduce, and three barriers
}

TEST(FlightTest, NothingIsWrittenUnasked) {
  const Folder folder;
  std::filesystem::current_path(folder.path());
  with_ranks(2, {}, seconds(20),
             [](Endpoint&, Communicator& communicator, const PreparedSchedule& ring, Rank rank) {
               EXPECT_NE(reduce(communicator, ring, 8 + rank.value), "");
             });
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  std::filesystem::current_path("/");
}

TEST(FlightTest, OptionsThatCannotBeAreRefused) {
  const Folder folder;
  const auto refusal = [](const FlightOptions& options) {
    const auto endpoint = Endpoint::create(
        {.rank = Rank{0}, .transport = "inproc", .store = make_local_store(), .flight = options});
    return endpoint ? "" : endpoint.error().message;
  };
  EXPECT_EQ(refusal({.folder = folder.path()}), "");
  EXPECT_NE(refusal({.signal = SIGUSR2}).find("no folder"), std::string::npos);
  EXPECT_NE(refusal({.folder = "/proc/no/folder"}).find("/proc/no/folder"), std::string::npos);
  struct sigaction own = {}, before = {};
  own.sa_handler = SIG_IGN;
  sigaction(SIGUSR2, &own, &before);
  EXPECT_NE(refusal({.folder = folder.path(), .signal = SIGUSR2}).find("USR2"), std::string::npos);
  struct sigaction after = {};
  sigaction(SIGUSR2, &before, &after);
  EXPECT_EQ(after.sa_handler, SIG_IGN);

  setenv("PLEACH_FLIGHT_SIGNAL", "KILL", 1);
  EXPECT_EQ(flight_options_from_environment().error().message,
            "PLEACH_FLIGHT_SIGNAL is 'KILL', not USR1 or USR2");
  setenv("PLEACH_FLIGHT_SIGNAL", "USR1", 1);
  setenv("PLEACH_FLIGHT_FOLDER", "somewhere", 1);
  EXPECT_EQ(flight_options_from_environment()->signal, SIGUSR1);
  EXPECT_EQ(flight_options_from_environment()->folder, "somewhere");
  unsetenv("PLEACH_FLIGHT_SIGNAL");
  unsetenv("PLEACH_FLIGHT_FOLDER");
  EXPECT_EQ(flight_options_from_environment()->signal, 0);
}

TEST(FlightTest, WhatIsNoFileOfTheJobIsNamedAndLeftOut) {
  const Folder folder;
  const auto write = [&](int32_t rank, int32_t own, const std::string& job) {
    const FlightRecorder recorder(Rank{own}, 4);
    ASSERT_TRUE(write_file(folder.file(rank), flight_text(recorder.log(), job, {"request", ""})));
  };
  EXPECT_NE(inspect_flight(folder.path()).error().message.find("no flight file"),
            std::string::npos);
  write(3, 3, "before");
  write(1, 2, "now");
  write(0, 0, "now");
  ASSERT_EQ(mkfifo(folder.file(2).c_str(), 0600), 0);
  std::filesystem::create_directory(folder.path() + "/rank-01.json");
  const Result<FlightReport> report = inspect_flight(folder.path());
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->job, "now");
  EXPECT_EQ(report->missing, (std::vector<int32_t>{1, 2, 3}));
  std::vector<std::string> problems;
  for (const FlightReport::Problem& problem : report->problems) {
    problems.push_back(problem.file + ": " + problem.why);
  }
  EXPECT_EQ(problems, (std::vector<std::string>{
                          "rank-01.json: it is no rank's flight file",
                          "rank-1.json: it is of rank 2",
                          "rank-2.json: it is no regular file",
                          "rank-3.json: it is of another job, 'before' of 4 ranks",
                      }));
}

TEST(FlightTest, WhatNoRecorderWritesIsRefused) {
  const Folder folder;
  FlightRecorder recorder(Rank{0}, 2);
  recorder.begin_message({.channel = 9, .tag = 4, .bytes = 7});
  const FlightLog log = recorder.log();
  const auto why = [&](const FlightLog& held) {
    EXPECT_TRUE(write_file(folder.file(0), flight_text(held, "job", {"request", ""})));
    const auto report = inspect_flight(folder.path());
    return report ? "" : report.error().message;
  };
  FlightLog held = log;
  held.messages.resize(FlightRecorder::kEntries, log.messages[0]);
  EXPECT_EQ(why(held), "");
  held.messages.push_back(log.messages[0]);
  EXPECT_NE(why(held).find("it has 2049 messages, and a recorder holds 2048"), std::string::npos);
  held = log;
  held.rank_count = 1 << 20;
  EXPECT_NE(why(held).find("'rank_count' is outside 1 to 65536"), std::string::npos);
}

TEST(FlightTest, ItsJsonHoldsNothingThatATerminalObeys) {
  FlightReport report;
  report.failures.push_back({"to\xe2\x80\xaeleft", {0}});
  EXPECT_NE(to_json(report).find("to\\u202eleft"), std::string::npos);
}

// What is left of a file, and what somebody else has made of it.
TEST(FlightTest, ReadsWhateverAFileHolds) {
  FlightRecorder recorder(Rank{1}, 3);
  recorder.name_channel(9, {"a \"name\"\n", {Rank{0}, Rank{1}}});
  recorder.name_schedule(3, "ring");
  const std::vector<Rank> sources = {Rank{2}};
  for (uint64_t operation = 1; operation <= 3; ++operation) {
    recorder.end(recorder.begin(9, operation, operation << 60, sources), operation == 3);
  }
  recorder.end_message(recorder.begin_message({.channel = 9, .is_send = true, .peer = Rank{0}}),
                       true);
  recorder.begin_message({.channel = 9, .tag = 4, .bytes = 7});
  const std::string text = flight_text(recorder.log(), "job", {"failure", "it\tfailed"});
  const Result<FlightFile> whole = read_flight_file(text, "it");
  ASSERT_TRUE(whole.has_value()) << whole.error().message;
  EXPECT_EQ(whole->operations.size(), 3u);
  EXPECT_EQ(whole->operations[0].awaited, (std::vector<int32_t>{2}));
  ASSERT_EQ(whole->messages.size(), 2u);
  EXPECT_EQ(whole->messages[0].peer, 0);
  EXPECT_EQ(whole->messages[1].peer, -1);
  EXPECT_EQ(whole->messages[1].bytes, 7);
  for (std::size_t length = 0; length + 1 < text.size(); ++length) {
    const Result<FlightFile> part =
        read_flight_file(std::string_view(text).substr(0, length), "it");
    ASSERT_FALSE(part.has_value()) << length;
    EXPECT_TRUE(part.error().message.starts_with("it:")) << part.error().message;
  }
  constexpr uint64_t kSeed = 20'261'124;
  Rng rng(kSeed);
  constexpr std::string_view kLetters = "{}[]\":,0123456789-.eE nulltrue\\\xff";
  for (int round = 0; round < 3000; ++round) {
    std::string other = text;
    for (uint64_t change = 1 + rng.below(4); change > 0; --change) {
      const std::size_t place = rng.below(other.size());
      const char letter = kLetters[rng.below(kLetters.size())];
      switch (rng.below(3)) {
        case 0:
          other[place] = letter;
          break;
        case 1:
          other.erase(place, 1 + rng.below(20));
          break;
        default:
          other.insert(place, 1, letter);
      }
    }
    const Result<FlightFile> file = read_flight_file(other, "it");
    EXPECT_TRUE(file || file.error().message.find('\n') == std::string::npos) << kSeed;
  }
}

TEST(FlightTest, AFingerprintIsSixteenHexadecimalDigits) {
  FlightRecorder recorder(Rank{0}, 2);
  recorder.end(recorder.begin(9, 1, 0x123456789abcdef0, std::vector<Rank>{Rank{1}}), true);
  const std::string text = flight_text(recorder.log(), "job", {"failure", "it failed"});
  const std::string digits = "123456789abcdef0";
  const std::size_t place = text.find(digits);
  ASSERT_NE(place, std::string::npos) << text;
  const struct {
    const char* word;
    bool is_good;
  } cases[] = {
      {"123456789abcdef0", true},    {"123456789ABCDEF0", true},
      {"ffffffffffffffff", true},    {"+23456789abcdef0", false},
      {"-23456789abcdef0", false},   {"0x3456789abcdef0", false},
      {"0X3456789abcdef0", false},   {" 23456789abcdef0", false},
      {"\\t23456789abcdef0", false}, {"123456789abcdef ", false},
      {"123456789abcdefg", false},   {"123456789abcdef", false},
      {"123456789abcdef01", false},  {"", false},
  };
  for (const auto& row : cases) {
    SCOPED_TRACE(row.word);
    std::string other = text;
    other.replace(place, digits.size(), row.word);
    const Result<FlightFile> file = read_flight_file(other, "it");
    ASSERT_EQ(file.has_value(), row.is_good);
    if (row.is_good) {
      EXPECT_EQ(file->operations[0].fingerprint, std::stoull(row.word, nullptr, 16));
    } else {
      EXPECT_NE(file.error().message.find("'fingerprint' is no number of 16 hexadecimal digits"),
                std::string::npos)
          << file.error().message;
    }
  }
}

}  // namespace
}  // namespace pleach
