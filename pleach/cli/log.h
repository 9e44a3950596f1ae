// Progress of long work, for the person who waits.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "pleach/runtime/clock.h"

namespace pleach {

// Says what is being done, and, for as long as nothing else is, that it still is. Thread safe.
class ProgressLog {
 public:
  //   say       is called from step(), and by a thread of the log's own, once at a time
  //   interval  between two lines of the same step
  ProgressLog(std::function<void(const std::string&)> say, Duration interval);
  void step(const std::string& what);

 private:
  void repeat(const std::stop_token& ended);

  const std::function<void(const std::string&)> say_;
  const Duration interval_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::string what_;  // empty: nothing yet
  TimePoint start_;
  int64_t steps_ = 0;
  std::jthread repeater_;  // last, so that it ends first
};

// One line on the standard error, with the time, when that is a terminal or PLEACH_LOG is set; and
// another one every five seconds until the next step, or the end of the program.
void log_step(const std::string& what);

// For runs, one after the other, that tell how far they are: every five seconds of one a step,
// "simulated 12 of 40 messages". Copies are one.
std::function<void(int64_t done, int64_t all)> log_runs(const std::string& things);

// While it lives, log_step() in the thread that made it tells `listen` instead: of a program that
// runs commands without being one. One at a time per thread.
class StepListener {
 public:
  explicit StepListener(std::function<void(const std::string&)> listen);
  ~StepListener();
  StepListener(const StepListener&) = delete;
  StepListener& operator=(const StepListener&) = delete;

 private:
  const std::function<void(const std::string&)> listen_;
};

}  // namespace pleach
