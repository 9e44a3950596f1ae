// Engine: the event loop of the flow model.
//
// Interfaces (Execution, one a job) say what a connection may send; Transmissions say when it has
// left; it arrives the route's latency later. All that happens at one time takes effect before
// anything starts at that time, so that results do not depend on the order of equal events, nor on
// whether a job is added before the first event or just in time. Where switches may refuse
// streams, those that ask at one time enter once advance() is asked for a later one: until then a
// job may join them.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/network/admission.h"
#include "pleach/network/conflict_notes.h"
#include "pleach/network/execution.h"
#include "pleach/network/flow/flow_events.h"
#include "pleach/network/flow/flow_jobs.h"
#include "pleach/network/flow/transmissions.h"
#include "pleach/network/lowered_schedule.h"
#include "pleach/network/session.h"

namespace pleach {

class Engine {
 public:
  // Borrows both.
  Engine(const Topology& topology, const SimulationOptions& options);

  // Adds a job that starts at `start_ps`, no earlier than what advance() has reached. Returns its
  // number; numbers of released jobs are used again for jobs of the same LoweredSchedule.
  //   name    what conflicts call it
  //   errors  kInvalidArgument: a switch that cannot carry one of its streams
  Result<int32_t> add(LoweredJob job, int64_t start_ps, int32_t name = 0,
                      int32_t traffic_class = 0);
  // Whether some switch may refuse a stream what it lets others do.
  bool has_admission() const { return !admission_.admits_all(); }
  bool is_idle() const { return jobs_.running() == 0; }
  // When something happens next; only while jobs are running. While streams of the present have
  // yet to enter, a picosecond from now.
  int64_t next_ps();
  // Advances to the first time at which jobs finish, at most to `until_ps`.
  //   errors  kInvalidArgument: the arrival that never commits, where a schedule is wrong; or time
  //           passes kLongestPs
  Status advance(int64_t until_ps);
  // The jobs that have finished since they were last taken, in no order.
  std::vector<int32_t> take_finished() { return jobs_.take_finished(); }
  int64_t finish_ps(int32_t job) const { return jobs_[job].finish_ps; }
  // Lets go of a finished job; returns its record, if it is kept.
  Record release(int32_t job);
  // All connections ever made: how large the state of the network is.
  std::size_t connection_count() const { return connections_.size(); }
  // What has happened on the links so far.
  NetworkUse use() const;

 private:
  // First in, first out, without allocation in the steady state.
  class Fifo {
   public:
    void push(const Send& send) { sends_.push_back(send); }
    Send pop() {
      const Send send = sends_[head_++];
      if (head_ == sends_.size()) {
        sends_.clear();
        head_ = 0;
      } else if (head_ >= 1024 && head_ * 2 >= sends_.size()) {
        sends_.erase(sends_.begin(), sends_.begin() + static_cast<std::ptrdiff_t>(head_));
        head_ = 0;
      }
      return send;
    }

   private:
    std::vector<Send> sends_;
    std::size_t head_ = 0;
  };

  struct Connection {
    Send active;  // while it is transmitted
    Fifo flying;  // transmitted, not arrived
    int32_t job = 0;
    bool is_touched = false;
    std::optional<int64_t> asked_ps = {};    // while it waits for admission: since when
    std::optional<int64_t> resumes_ps = {};  // suspended, while its switches change for it: when
  };

  void connect(const FlowJob& job);
  bool has_due() { return !events_.empty() && events_.next_ps() == now_ps_; }
  void run_due();
  void close_instant();
  void prefetch_next();
  void handle(const FlowEvent& event);
  void start_job(FlowJob& job);
  void sent(int32_t connection);
  void arrived(int32_t connection);
  void alarm(const FlowEvent& event);
  void follow(FlowJob& job);
  void touch(int32_t connection);
  void start_touched();
  void sort_by_turn();
  void try_start(int32_t connection);
  // What the connection's interface would start, or null.
  const Send* next(int32_t connection);
  Admission::Turn turn_of(int32_t connection, const Send& send) const;
  bool enter(int32_t connection, const Send& send);
  int64_t reconfiguration_ps(int32_t connection);
  void pace();
  void resume(int32_t connection);

  const SimulationOptions& options_;
  FlowEvents events_;
  Transmissions transmissions_;
  Admission admission_;
  struct {
    bool are_open = false;  // those of the present: jobs may still join it
    std::vector<std::pair<Admission::Turn, int32_t>> turns;  // room to sort those that ask
    int64_t waited_ps = 0;
    int64_t preemptions = 0;
    int64_t reconfigurations = 0;
    ConflictNotes conflicts;
  } entries_;
  FlowJobs jobs_;
  std::vector<Connection> connections_;
  std::vector<int32_t> touched_;  // connections that may be able to start
  int64_t now_ps_ = 0;
  int64_t delivered_ = 0;
};

}  // namespace pleach
