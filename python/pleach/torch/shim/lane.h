// What starts later than it was called: it waits for a device, or for what was called before it.
#pragma once

#include <c10/core/Stream.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace pleach_torch {

using TimePoint = std::chrono::steady_clock::time_point;

// A device's streams for copies out of it and into it: what waits for the one holds up no other.
struct SideStreams {
  c10::Stream out, back;
};

// How much of a lane's host memory may be in use, and where its copies run. The keeper's alone.
struct LaneMeans {
  int64_t free_chunks = 0;
  std::vector<SideStreams> streams;  // of each device

  const SideStreams& streams_of(c10::Device device);
};

// An operation in a lane. All is called by the keeper.
class Job {
 public:
  //   patience  how long it may wait for its device, or for those before it
  explicit Job(std::chrono::milliseconds patience) : patience_(patience) { note_progress(); }
  virtual ~Job() = default;
  // Moves on what can move now.
  //   may_start  whether all before it have started
  //   returns    whether it waits for something that nobody will tell of
  virtual bool advance(bool may_start, LaneMeans& means) = 0;
  virtual bool has_started() const = 0;  // or will never
  virtual bool has_ended() const = 0;    // for its caller
  virtual bool is_over() const = 0;      // nothing of it is in use any more
  // Ends it where it has not ended: its group has failed. One that fails by itself ends its group.
  virtual void fail(const std::exception_ptr& why) = 0;
  // The same when nothing has come of it for too long; ends its group too.
  virtual void expire() = 0;
  TimePoint deadline() const { return deadline_; }
  TimePoint moved() const { return moved_; }

 protected:
  // It has moved on, which the device will soon, too.
  void note_move() { moved_ = std::chrono::steady_clock::now(); }
  // The same, and nobody is late.
  void note_progress() {
    note_move();
    deadline_ = moved_ + patience_;
  }

 private:
  const std::chrono::milliseconds patience_;
  TimePoint moved_;
  TimePoint deadline_;
};

// The jobs of a group, in the order in which they were called. A thread of the process, the keeper,
// moves all lanes on.
class Lane : public std::enable_shared_from_this<Lane> {
 public:
  //   most_chunks  of its jobs that may be in host memory at once
  explicit Lane(int64_t most_chunks) : means_{most_chunks, {}} {}

  // Whether something has been added that has not started: what is called now has to wait for it.
  bool has_waiting() const { return waiting_ > 0; }
  // Waits until they have; returns whether they have by then.
  [[nodiscard]] bool await_started(TimePoint deadline);
  void add(std::shared_ptr<Job> job);
  // Ends all that is in it, and whatever is added later.
  void fail(std::exception_ptr why);
  // Lets the keeper look again.
  void wake();

  // --- The keeper's
  // Moves on what can move now; returns when it wants to be asked again if nobody wakes it.
  TimePoint advance();
  bool is_empty() const;

 private:
  void note_started(int64_t count);

  mutable std::mutex mutex_;
  std::condition_variable started_;
  std::vector<std::shared_ptr<Job>> added_;
  std::exception_ptr why_;  // it has failed
  std::atomic<int64_t> waiting_ = 0;
  std::atomic<int64_t> held_ = 0;          // jobs that are not over
  std::deque<std::shared_ptr<Job>> jobs_;  // the keeper's
  LaneMeans means_;                        // the keeper's
};

}  // namespace pleach_torch
