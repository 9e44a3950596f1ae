// Ranks that are killed or stopped at any moment of a job, with operations in flight.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/runtime/communicator.h"
#include "tests/support/random_schedules.h"
#include "tests/support/rank_processes.h"
#include "tests/support/small_schedules.h"
#include "tests/support/transports.h"

namespace pleach {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Floats = std::vector<float>;

constexpr int32_t kRanks = 4;
constexpr Duration kDeadline = seconds(4);

// ---- What a process holds, as the kernel sees it.

int64_t entries(const std::string& folder) {
  const std::filesystem::directory_iterator all(folder);
  return std::distance(begin(all), end(all));
}

struct Holdings {
  int64_t descriptors = entries("/proc/self/fd");
#ifdef __SANITIZE_THREAD__
  int64_t threads = 0;  // it has one of its own, from some moment on
#else
  int64_t threads = entries("/proc/self/task");
#endif
  int64_t shared_mappings = count_mappings();
  bool has_children = children();

  static int64_t count_mappings() {
    std::ifstream maps("/proc/self/maps");
    int64_t count = 0;
    for (std::string line; std::getline(maps, line);) {
      count += line.find("memfd:") != std::string::npos ? 1 : 0;
    }
    return count;
  }
  static bool children() {
    std::ifstream list("/proc/thread-self/children");
    std::string one;
    return static_cast<bool>(list >> one);
  }
};

// What is left of a job that a process was in; "" when nothing is.
std::string left_behind(const Holdings& before) {
  const TimePoint limit = SteadyClock().now() + seconds(2);
  while (true) {
    const Holdings now;
    std::string left;
    left += now.descriptors > before.descriptors ? " descriptors" : "";
    left += now.threads > before.threads ? " threads" : "";
    left += now.shared_mappings > before.shared_mappings ? " memory" : "";
    left += now.has_children ? " children" : "";
    if (left.empty() || SteadyClock().now() > limit) {
      return left;
    }
    std::this_thread::sleep_for(milliseconds(5));  // the kernel takes a moment to end a thread
  }
}

// ---- A rank.

// All_reduces of several sizes in flight over one communicator, until one fails: why.
class Flock {
 public:
  Flock(Communicator& communicator, const PreparedSchedule& prepared)
      : communicator_(communicator), prepared_(prepared), data_(8) {}

  // Starts as many as there are buffers. Then ends them.
  Status start() {
    for (std::size_t i = 0; i < data_.size(); ++i) {
      data_[i].assign(i * i * i * 100, 1.0F);
      auto* const bytes = std::as_writable_bytes(std::span(data_[i])).data();
      PLEACH_ASSIGN(operation, communicator_.start(prepared_, {.count = std::ssize(data_[i]),
                                                               .input = bytes,
                                                               .output = bytes}));
      operations_.push_back(std::move(operation));
    }
    return ok();
  }
  Status end() {
    for (const Operation& operation : operations_) {
      PLEACH_TRY(operation.wait());
    }
    operations_.clear();
    const auto sum = static_cast<float>(communicator_.rank_count());
    for (const Floats& one : data_) {
      if (one != Floats(one.size(), sum)) {
        return invalid("WRONG RESULT");
      }
    }
    return ok();
  }

 private:
  Communicator& communicator_;
  const PreparedSchedule& prepared_;
  std::vector<Floats> data_;
  std::vector<Operation> operations_;
};

Result<std::shared_ptr<const PreparedSchedule>> prepare_ring(Communicator& communicator) {
  const Schedule ring =
      support::ring_schedule(CollectiveKind::kAllReduce, communicator.rank_count());
  return communicator.prepare(communicator.rank().value == 0 ? &ring : nullptr);
}

// Two communicators that overlap, and operations in flight over both.
Status work(const std::shared_ptr<Endpoint>& endpoint, Communicator& world) {
  PLEACH_ASSIGN(prepared, prepare_ring(world));
  const int32_t own = endpoint->rank().value;
  std::unique_ptr<Communicator> pair;
  std::shared_ptr<const PreparedSchedule> of_pair;
  if (own == 1 || own == 2) {
    PLEACH_SET(pair, Communicator::create(endpoint, {.ranks = {Rank{1}, Rank{2}}}));
    PLEACH_SET(of_pair, prepare_ring(*pair));
  }
  while (true) {
    Flock flock(world, *prepared);
    PLEACH_TRY(flock.start());
    if (pair != nullptr) {
      Flock beside(*pair, *of_pair);
      PLEACH_TRY(beside.start());
      PLEACH_TRY(beside.end());
    }
    PLEACH_TRY(flock.end());
  }
}

// Goes on with those who are left, once.
Status go_on(Communicator& old, std::string& log) {
  PLEACH_ASSIGN(left, old.shrink());
  PLEACH_ASSIGN(prepared, prepare_ring(*left));
  Flock flock(*left, *prepared);
  PLEACH_TRY(flock.start());
  PLEACH_TRY(flock.end());
  log += " and " + std::to_string(left->rank_count()) + " went on";
  return left->close();
}

// Until the job fails; what the rank says of it.
std::string live(const TcpStoreOptions& options, const std::string& transport) {
  auto made = make_tcp_store(options);
  if (!made) {
    return made.error().message;
  }
  const std::shared_ptr<Store> store = std::move(made).value();
  const support::TransportSpec spec(transport);
  const auto endpoint = Endpoint::create({.rank = options.rank,
                                          .rank_count = options.rank_count,
                                          .transport = spec.name,
                                          .store = store,
                                          .deadline = options.deadline,
                                          .host_name = spec.host_of(options.rank)});
  if (!endpoint) {
    return endpoint.error().message;
  }
  const auto world = Communicator::create(*endpoint);
  if (!world) {
    return world.error().message;
  }
  std::string said = work(*endpoint, **world).error().message;
  const Status after = go_on(**world, said);
  return after ? said : said + " THEN " + after.error().message;
}

std::string live_and_look(const TcpStoreOptions& options, const std::string& transport) {
  const Holdings before;
  const std::string said = live(options, transport);
  const std::string left = left_behind(before);
  return left.empty() ? said : said + " LEFT BEHIND:" + left;
}

// Whether a rank's words blame that one, and nobody else. Who says it comes first, and is not
// meant.
bool blames(const std::string& said, int32_t culprit) {
  const std::string words = std::regex_replace(said.substr(0, said.find(" THEN ")),
                                               std::regex("^rank [0-9]+, [^:]*: "), "");
  const std::string name = std::to_string(culprit);
  return std::regex_search(words, std::regex("\\brank " + name + "\\b")) ||
         std::regex_search(words, std::regex("ranks [0-9, ]*\\b" + name + "\\b[0-9, ]* did not")) ||
         (culprit == 0 && words.starts_with("store at "));
}

class Kill {
 public:
  explicit Kill(uint64_t seed) {
    Rng rng(seed);
    rank_ = support::pick(rng, kRanks);
    how_ = rng.below(3) == 0 ? SIGSTOP : SIGKILL;
    transport_ = std::array{"tcp", "shm", "host/2"}[rng.below(3)];
    // From before the first word on.
    wait_ = std::chrono::microseconds(rng.below(rng.below(3) == 0 ? 30'000 : 600'000));
  }
  std::string text() const {
    return std::string(how_ == SIGSTOP ? "stop" : "kill") + " rank " + std::to_string(rank_) +
           " over " + transport_ + " after " + std::to_string(wait_.count() / 1000) + " us";
  }
  void happen() const {
    support::RankProcesses ranks(kRanks, kDeadline, [&](const TcpStoreOptions& options) {
      return live_and_look(options, transport_);
    });
    std::this_thread::sleep_for(wait_);
    ranks.signal(rank_, how_);
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      if (rank != rank_) {
        const std::string said = ranks.wait(rank, 5 * kDeadline);
        EXPECT_TRUE(blames(said, rank_)) << "rank " << rank << ": " << said;
        EXPECT_EQ(said.find("WRONG"), std::string::npos) << "rank " << rank << ": " << said;
        EXPECT_EQ(said.find("LEFT"), std::string::npos) << "rank " << rank << ": " << said;
      }
    }
    if (how_ == SIGSTOP) {
      ranks.signal(rank_, SIGCONT);
      const std::string said = ranks.wait(rank_, 5 * kDeadline);
      EXPECT_NE(said, "(nothing)") << "the rank that was stopped";
      EXPECT_EQ(said.find("WRONG"), std::string::npos) << said;
      EXPECT_EQ(said.find("LEFT"), std::string::npos) << said;
    }
  }

 private:
  int32_t rank_ = 0;
  int how_ = SIGKILL;
  std::string transport_;
  Duration wait_;
};

TEST(KillsTest, NoHangNoWrongResultTheCulpritNamedNothingLeft) {
  const uint64_t kills = support::is_long() ? 200 : 8;
  for (uint64_t seed = 1; seed <= kills; ++seed) {
    const Kill kill(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + kill.text());
    kill.happen();
  }
}

}  // namespace
}  // namespace pleach
