// Execution: what the nodes' network interfaces do with one job's schedule, in any network model.
//
// The model owns the links and the clock. It asks next() what a connection may start, and tells
// what has happened: begin(), sent(), over(), arrived(), and the alarms that it was asked for. The
// interfaces keep the order (Cursor), serve ready sends by priority, admit them to landing places
// and, where they have a gate, to steps, hold back what lands too early, and reduce one chunk after
// the other. After every call the answers say what follows.
//
// Source: docs/architecture.md, "Order", "Priority", "No deadlock with bounded buffers".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/collective/cursor.h"
#include "pleach/collective/record.h"
#include "pleach/network/landing_places.h"
#include "pleach/network/lowered_schedule.h"
#include "pleach/network/pending_commits.h"
#include "pleach/network/ready_sends.h"
#include "pleach/network/step_gate.h"

namespace pleach {

// What a model says of its interfaces.
struct InterfaceRules {
  NopTimes nops = {};  // with Gate::kLockstep
  ReduceRules reductions = {};
  // Reductions into a chunk between two of its sends happen in the order in which they arrive, not
  // in the schedule's. The bits of a sum then depend on when messages come.
  bool reduces_as_they_arrive = false;
  StepGate::Phases phases = StepGate::Phases::kOverlap;  // with a gate
};

// Connections are those of the lowered schedule, ranks those that have state of their own. What
// happens at one time may be told in any order; what begins then, sends and reductions, comes after
// all of it. Not thread safe.
class Execution {
 public:
  struct Alarm {
    enum class Kind : uint8_t { kReduced, kNopOver, kReduce };
    Kind kind = Kind::kReduced;
    int32_t rank = 0;
    int64_t time_ps = 0;
  };
  // The caller empties both.
  struct Answers {
    std::vector<int32_t> connections;  // that may have something to start; may repeat
    std::vector<Alarm> alarms;         // call reduced(), nop_over() or reduce() then
    bool empty() const { return connections.empty() && alarms.empty(); }
  };

  // Of `options`: gate, landing_places, keep_records.
  Execution(LoweredJob job, const SimulationOptions& options, const InterfaceRules& rules);

  const LoweredJob& job() const { return job_; }

  // The job starts.
  void start(int64_t now_ps);
  // The send that an idle connection may start: the smallest that is ready, if its gate is open and
  // a landing place is free; else null. Valid until the next call that tells something.
  const Send* next(int32_t connection) const;
  bool has_ready(int32_t connection) const { return !ready_[at(connection)].empty(); }
  // The connection starts next(), which is not null. Returns it.
  Send begin(int32_t connection, int64_t now_ps);
  // Its sources may be overwritten.
  void sent(const Send& send, int64_t now_ps);
  // It no longer holds up the steps of its sources. Without effect where steps have no gate, or one
  // that sends leave as they begin.
  void over(const Send& send, int64_t now_ps) {
    if (gate_.steps.has_value() && !gate_.leaves_at_begin) {
      leave_step(send, now_ps);
    }
  }
  // All its chunks are at all its targets.
  void arrived(const Send& send, int64_t now_ps);
  // The rank reduces what has the smallest priority, now that all that happens at this time is
  // told.
  void reduce(int32_t rank, int64_t now_ps);
  void reduced(int32_t rank, int64_t now_ps);
  void nop_over(int32_t rank, int64_t now_ps);

  Answers& answers() { return answers_; }
  // Everything has committed.
  bool is_finished() const { return commits_.left == 0; }
  // What was read and committed, in order; empty unless it is kept.
  Record take_record() { return record_.has_value() ? std::move(*record_) : Record(); }
  // When nothing is under way and the job is not finished: the first arrival that never commits.
  Error stuck() const;

 private:
  void make_ready(const Send& send);
  void leave_step(const Send& send, int64_t now_ps);
  void open_steps(int32_t line, bool after_nop, int64_t now_ps);
  bool may_commit(const Arrival& arrival) const;
  void land(const Arrival& arrival, int64_t now_ps);
  void commit_landed(int32_t slot, int32_t segment, int32_t translate, int64_t now_ps);
  void start_commit(const Arrival& arrival, int64_t now_ps);
  void finish_commit(const Arrival& arrival, int64_t now_ps);
  void note(RecordEvent::Kind kind, int32_t item, const Send& send);

  const LoweredJob job_;
  Cursor cursor_;
  std::optional<LandingPlaces> landing_;  // none: as many places as needed
  struct {
    std::optional<StepGate> steps;
    bool leaves_at_begin = false;  // a send leaves its step as it begins
  } gate_;
  std::vector<ReadySends> ready_;  // by connection
  LandedChunks landed_;
  Reducers reducers_;
  std::optional<Record> record_;
  struct {
    int64_t left = 0;
    // By commit: of those that may come in any order with it the first's place among the arrivals
    // of its slot; empty: all keep the schedule's order.
    std::vector<int32_t> any_order_from;
  } commits_;
  Answers answers_;
};

}  // namespace pleach
