#include "pleach/cli/log.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "pleach/base/signal_mask.h"

namespace pleach {
namespace {

using std::chrono::milliseconds;

TEST(ProgressLog, SaysAgainWhatIsStillBeingDone) {
  std::vector<std::string> lines;
  std::atomic<int> count = 0;
  const auto say = [&](const std::string& line) {
    lines.push_back(line);
    ++count;
  };
  {
    ProgressLog log(say, milliseconds(5));
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_EQ(count, 0);  // there is nothing to tell
    for (const std::string what : {"first", "second"}) {
      const int before = count;
      log.step(what);
      while (count < before + 3) {
        std::this_thread::sleep_for(milliseconds(1));
      }
    }
  }
  const auto ended = lines.size();
  std::this_thread::sleep_for(milliseconds(20));
  ASSERT_EQ(lines.size(), ended);
  EXPECT_EQ(lines[0], "first");
  EXPECT_EQ(lines[1], "first: 0 s so far");
  EXPECT_TRUE(lines.back().starts_with("second: ")) << lines.back();
}

TEST(StepListener, IsToldWhatItsThreadDoesWhileItLives) {
  std::vector<std::string> told;
  {
    const StepListener listener([&told](const std::string& what) { told.push_back(what); });
    log_step("first");
    std::jthread([] { log_step("of another thread"); }).join();
    log_step("second");
  }
  log_step("too late");
  EXPECT_EQ(told, (std::vector<std::string>{"first", "second"}));
}

// A signal that the main thread blocks, for a set of files, waits there.
TEST(ProgressLog, TakesNoSignals) {
  ProgressLog log([](const std::string& /*line*/) {}, std::chrono::hours(1));
  const SignalMask held{SIGTERM};
  kill(getpid(), SIGTERM);
  sigset_t pending = {};
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGTERM), 1);
  const timespec none = {};
  EXPECT_EQ(sigtimedwait(&held.blocked(), nullptr, &none), SIGTERM);
}

TEST(ProgressLog, EndsAtOnceWhateverTheInterval) {
  ProgressLog log([](const std::string& /*line*/) {}, std::chrono::hours(1));
  log.step("all");
}

}  // namespace
}  // namespace pleach
