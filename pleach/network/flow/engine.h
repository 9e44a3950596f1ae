// Engine: the event loop of the flow model.
//
// A connection moves one segment at a time, the smallest ready key first. A segment occupies its
// connection for the source's overhead and then for its bytes at the connection's rate: the
// bottleneck's bandwidth where its links are its own, else its max-min fair share. Its sources may
// be overwritten when the last byte has left; it arrives the route's latency later; each chunk
// commits as soon as the order lets it. All that happens at one time takes effect before anything
// starts at that time, so that results do not depend on the order of equal events, nor on whether a
// job is added before the first event or just in time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/result.h"
#include "pleach/collective/cursor.h"
#include "pleach/network/flow/event_queue.h"
#include "pleach/network/flow/landing.h"
#include "pleach/network/flow/lockstep.h"
#include "pleach/network/flow/shared_links.h"
#include "pleach/network/flow/switch_traffic.h"
#include "pleach/network/lowered_schedule.h"
#include "pleach/network/model.h"

namespace pleach {

// One segment of one stream of one instance; ordered by priority within a connection.
struct SegmentItem {
  int64_t key = 0;  // segment · period + step
  int32_t segment = 0;
  int32_t stream = 0;  // streams of one step are numbered by first chunk
  int32_t instance = 0;
  auto operator<=>(const SegmentItem&) const = default;
};

class Engine {
 public:
  // Borrows both; `options.records` is for jobs numbered in the order of add().
  Engine(const Topology& topology, const SimulationOptions& options);

  // Adds a job that starts at `start_ps`, no earlier than what advance() has reached. Returns its
  // number; numbers of released jobs are used again for jobs of the same LoweredSchedule.
  int32_t add(LoweredJob plan, int64_t start_ps);
  bool is_idle() const { return pace_.running_jobs == 0; }
  // When something happens next; only while jobs are running.
  int64_t next_ps() { return queue_.empty() ? now_ps_ : queue_.top().time_ps; }
  // Advances to the first time at which jobs finish, at most to `until_ps`.
  //   errors  kInvalidArgument: the stream that can never start, where a schedule is wrong; or time
  //           passes kLongestPs
  Status advance(int64_t until_ps);
  // The jobs that have finished since they were last taken, in no order.
  std::vector<int32_t> take_finished() { return std::exchange(finished_, {}); }
  int64_t finish_ps(int32_t job) const { return jobs_[at(job)].finish_ps; }
  // Lets go of what belongs to a finished job.
  void release(int32_t job);
  // All connections ever made: how large the state of the network is.
  std::size_t connection_count() const { return connections_.size(); }

  // Advances until all jobs have finished.
  Result<Simulation> run();

 private:
  // First in, first out, without allocation in the steady state.
  class Fifo {
   public:
    void push(SegmentItem item) { items_.push_back(item); }
    SegmentItem pop() {
      const SegmentItem item = items_[head_++];
      if (head_ == items_.size()) {
        items_.clear();
        head_ = 0;
      } else if (head_ >= 1024 && head_ * 2 >= items_.size()) {
        items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(head_));
        head_ = 0;
      }
      return item;
    }

   private:
    std::vector<SegmentItem> items_;
    std::size_t head_ = 0;
  };

  struct PendingCommit {
    int32_t commit = 0;
    int32_t segment = 0;
    int32_t instance = 0;
  };

  struct Reducer {  // of one rank, when reductions take time
    int64_t free_ps = 0;
    std::deque<PendingCommit> queue;
  };

  struct JobState {
    std::unique_ptr<const LoweredJob> plan;
    std::unique_ptr<Cursor> cursor;
    std::unique_ptr<LandingPlaces> landing;
    std::unique_ptr<LockstepGate> gate;
    std::vector<std::vector<int32_t>> rank_connections;  // with a gate: by source rank
    std::vector<uint64_t> landed;  // bit per commit, segment, instance: arrived, not committed
    std::vector<Reducer> reducers;
    Record* record = nullptr;
    int64_t landed_count = 0;
    int64_t commits_left = 0;
    int64_t finish_ps = 0;
    int64_t start_ps = 0;
    int32_t first_connection = 0;
    int32_t first_rank = 0;  // number of its rank 0 among all jobs' ranks
  };

  struct Connection {
    std::vector<SegmentItem> ready;  // heap, smallest on top
    Fifo flying;                     // transmitted, not arrived
    SegmentItem active;
    const LoweredConnection* plan = nullptr;
    int64_t latency_ps = 0;
    int64_t overhead_ps = 0;
    int64_t numerator = 0;  // picoseconds per byte = numerator / denominator at the full rate
    int64_t denominator = 1;
    int64_t busy_ps = 0;
    int64_t sent_bytes = 0;
    int64_t begin_ps = 0;  // of the transmission: when its first byte leaves
    int32_t job = 0;
    uint32_t generation = 0;  // of the pending end of transmission
    bool busy = false;
    bool in_shares = false;  // the transmission takes part in SharedLinks, or will once it begins
    bool is_touched = false;

    const LoweredJob& plan_of(const std::vector<JobState>& jobs) const {
      return *jobs[at(job)].plan;
    }
  };

  struct Pace {  // of the jobs that are running
    int32_t running_jobs = 0;
    std::size_t connections = 0;
    int64_t slowest_ps = 1;
  };

  enum class EventKind : uint8_t { kJobStart, kFlowBegin, kSent, kArrived, kReduced, kSlotOver };

  int32_t take_number(const LoweredJob& plan);
  int32_t make_job(const LoweredJob& plan);
  void add_gate(JobState& job);
  void keep_pace(const LoweredJob& plan);
  void push(int64_t time_ps, EventKind kind, int32_t number, uint32_t generation = 0);
  void run_instant();
  void handle(const Event& event);
  void start_job(JobState& job);
  void finish_job(JobState& job);
  void attach(const JobState& job);
  void make_ready(JobState& job, int32_t stream, int32_t segment, int32_t instance);
  void touch(int32_t connection);
  void start_touched();
  void try_start(int32_t number);
  bool gate_is_open(const JobState& job, const SegmentItem& item) const;
  void begin_transmission(int32_t number);
  int64_t active_bytes(const Connection& connection) const;
  int64_t full_rate_ps(const Connection& connection, int64_t bytes) const;
  void sent(int32_t number);
  void arrived(int32_t number);
  void try_commits(JobState& job, int32_t slot, int32_t segment, int32_t instance);
  void land(JobState& job, const PendingCommit& what);
  void start_commit(JobState& job, const PendingCommit& what);
  void finish_commit(JobState& job, const PendingCommit& what);
  void reduced(int32_t number);
  void open_slots(JobState& job, int32_t rank, bool after_wait);
  std::size_t landed_bit(const JobState& job, const PendingCommit& what) const;
  Error stuck(const JobState& job) const;
  Simulation collect() const;

  const Topology& topology_;
  const SimulationOptions& options_;
  std::vector<JobState> jobs_;
  std::unordered_map<const LoweredSchedule*, std::vector<int32_t>> released_;
  std::vector<int32_t> finished_;
  std::vector<Connection> connections_;
  std::vector<int32_t> rank_job_;  // by rank number among all jobs
  SharedLinks shared_;
  SwitchTraffic switches_;
  std::vector<int32_t> touched_;  // connections that may be able to start
  EventQueue queue_;
  Pace pace_;
  int64_t now_ps_ = 0;
  int64_t delivered_ = 0;
};

}  // namespace pleach
