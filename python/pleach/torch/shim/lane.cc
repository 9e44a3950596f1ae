#include "lane.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "ending.h"
#include "signals.h"

namespace pleach_torch {
namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

// How often a device is asked whether it has done something, as it tells nobody: after a
// sixty-fourth of the time that it has taken already.
TimePoint next_glance(TimePoint moved, TimePoint now) {
  constexpr steady_clock::duration kLeast = microseconds(30);
  constexpr steady_clock::duration kMost = microseconds(1000);
  return now + std::clamp((now - moved) / 64, kLeast, kMost);
}

// The thread that moves lanes on. Never destroyed.
class Keeper {
 public:
  static Keeper& of_process() {
    static auto* const keeper = new Keeper;
    return *keeper;
  }

  void wake(const std::shared_ptr<Lane>& lane) {
    const std::scoped_lock lock(mutex_);
    if (!is_running_) {
      std::thread(&Keeper::run, this).detach();
      is_running_ = true;
    }
    lanes_.insert(lane);
    is_woken_ = true;
    woken_.notify_one();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      is_woken_ = false;
      const std::vector<std::shared_ptr<Lane>> lanes(lanes_.begin(), lanes_.end());
      lock.unlock();
      TimePoint next = TimePoint::max();
      {
        const Callback callback;  // it releases tensors
        if (!callback) {
          return keep(lanes);
        }
        for (const auto& lane : lanes) {
          next = std::min(next, lane->advance());
        }
      }
      lock.lock();
      std::erase_if(lanes_, [](const auto& lane) { return lane->is_empty(); });
      const auto is_woken = [&] { return is_woken_; };
      if (next == TimePoint::max()) {
        woken_.wait(lock, is_woken);
      } else {
        woken_.wait_until(lock, next, is_woken);
      }
    }
  }

  // Ends, with what the lanes hold left to the end of the process.
  static void keep(const std::vector<std::shared_ptr<Lane>>& lanes) {
    static_cast<void>(new std::vector<std::shared_ptr<Lane>>(lanes));
  }

  std::mutex mutex_;
  std::condition_variable woken_;
  std::set<std::shared_ptr<Lane>> lanes_;
  bool is_woken_ = false;
  bool is_running_ = false;
};

}  // namespace

const SideStreams& LaneMeans::streams_of(c10::Device device) {
  for (const SideStreams& one : streams) {
    if (one.out.device() == device) {
      return one;
    }
  }
  const c10::impl::VirtualGuardImpl guard(device.type());
  return streams.emplace_back(SideStreams{guard.getStreamFromGlobalPool(device, true),
                                          guard.getStreamFromGlobalPool(device, true)});
}

bool Lane::await_started(TimePoint deadline) {
  const auto have_started = [&](TimePoint until) {
    std::unique_lock lock(mutex_);
    return started_.wait_until(lock, until, [&] { return waiting_ == 0; });
  };
  for (TimePoint now = TimePoint::clock::now(); now < deadline; now = TimePoint::clock::now()) {
    if (have_started(std::min(deadline, now + kBetweenSignals))) {
      return true;
    }
    take_signals();
  }
  return have_started(deadline);
}

void Lane::add(std::shared_ptr<Job> job) {
  {
    const std::scoped_lock lock(mutex_);
    waiting_ += job->has_started() ? 0 : 1;
    ++held_;
    added_.push_back(std::move(job));
  }
  wake();
}

void Lane::fail(std::exception_ptr why) {
  {
    const std::scoped_lock lock(mutex_);
    if (!why_) {
      why_ = std::move(why);
    }
  }
  wake();
}

void Lane::wake() {
  Keeper::of_process().wake(shared_from_this());
}

bool Lane::is_empty() const {
  return held_ == 0;
}

TimePoint Lane::advance() {
  std::exception_ptr why;
  {
    const std::scoped_lock lock(mutex_);
    for (auto& job : added_) {
      jobs_.push_back(std::move(job));
    }
    added_.clear();
    why = why_;
  }
  const TimePoint now = steady_clock::now();
  TimePoint next = TimePoint::max();
  bool may_start = true;
  int64_t started = 0;
  for (const auto& job : jobs_) {
    const bool had_started = job->has_started();
    if (why) {
      job->fail(why);
    }
    const bool waits_for_device = job->advance(may_start, means_);
    // Not before: who has been stopped has not seen what came in time.
    if (!job->has_ended() && now >= job->deadline()) {
      job->expire();
    }
    if (waits_for_device) {
      next = std::min(next, next_glance(job->moved(), now));
    } else if (!job->has_ended()) {
      next = std::min(next, job->deadline());
    }
    started += !had_started && job->has_started() ? 1 : 0;
    may_start = may_start && job->has_started();
  }
  held_ -=
      static_cast<int64_t>(std::erase_if(jobs_, [](const auto& job) { return job->is_over(); }));
  note_started(started);
  return next;
}

void Lane::note_started(int64_t count) {
  if (count == 0) {
    return;
  }
  {
    const std::scoped_lock lock(mutex_);
    waiting_ -= count;
  }
  started_.notify_all();
}

}  // namespace pleach_torch
