#include "pleach/cli/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <utility>

#include "pleach/base/signal_mask.h"
#include "pleach/base/text.h"

namespace pleach {
namespace {

constexpr Duration kInterval = std::chrono::seconds(5);

using Listening = const std::function<void(const std::string&)>*;

// Of the thread's StepListener; null: it has none.
Listening& listening() {
  thread_local Listening own = nullptr;
  return own;
}

void write_line(const std::string& line) {
  spdlog::logger logger("pleach", std::make_shared<spdlog::sinks::ansicolor_stderr_sink_st>());
  logger.set_pattern("%H:%M:%S.%e %v");
  logger.info(one_line(line));
}

}  // namespace

ProgressLog::ProgressLog(std::function<void(const std::string&)> say, Duration interval)
    : say_(std::move(say)), interval_(interval) {
  // They are the main thread's, which may let them wait; a new thread blocks what its maker does.
  const SignalMask not_here{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGCHLD};
  repeater_ = std::jthread([this](const std::stop_token& ended) { repeat(ended); });
}

void ProgressLog::step(const std::string& what) {
  const std::lock_guard lock(mutex_);
  what_ = what;
  start_ = SteadyClock().now();
  ++steps_;
  say_(what);
  changed_.notify_one();
}

void ProgressLog::repeat(const std::stop_token& ended) {
  std::unique_lock lock(mutex_);
  while (!ended.stop_requested()) {
    const int64_t steps = steps_;
    const bool is_another =
        changed_.wait_for(lock, ended, interval_, [&] { return steps_ != steps; });
    if (!is_another && !ended.stop_requested() && !what_.empty()) {
      const auto spent = SteadyClock().now() - start_;
      say_(fmt::format("{}: {:.0f} s so far", what_, std::chrono::duration<double>(spent).count()));
    }
  }
}

void log_step(const std::string& what) {
  if (const Listening listen = listening(); listen != nullptr) {
    (*listen)(what);
    return;
  }
  if (std::getenv("PLEACH_LOG") == nullptr && isatty(STDERR_FILENO) == 0) {
    return;
  }
  static ProgressLog log(write_line, kInterval);
  log.step(what);
}

std::function<void(int64_t, int64_t)> log_runs(const std::string& things) {
  struct Told {
    TimePoint time = SteadyClock().now();
    int64_t done = 0;
  };
  return [things, told = std::make_shared<Told>()](int64_t done, int64_t all) {
    const TimePoint now = SteadyClock().now();
    if (done < std::exchange(told->done, done)) {  // another run
      told->time = now;
    }
    if (now - told->time >= kInterval) {
      told->time = now;
      log_step(fmt::format("simulated {} of {} {}", done, all, things));
    }
  };
}

StepListener::StepListener(std::function<void(const std::string&)> listen)
    : listen_(std::move(listen)) {
  listening() = &listen_;
}

StepListener::~StepListener() {
  listening() = nullptr;
}

}  // namespace pleach
