#include "pleach/network/flow/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <numeric>

#include "pleach/base/index.h"
#include "pleach/base/units.h"
#include "pleach/network/job_checks.h"

namespace pleach {
namespace {

// Buckets of about sixteen events: `connections` transmissions of `transmission_ps` go on at a
// time.
int bucket_shift(int64_t transmission_ps, std::size_t connections) {
  const auto count = static_cast<int64_t>(std::max<std::size_t>(connections, 1));
  constexpr int64_t kMostPs = int64_t{1} << 50;
  const int64_t width_ps = std::max<int64_t>(1, std::min(transmission_ps, kMostPs) * 8 / count);
  return std::min(40, static_cast<int>(std::bit_width(static_cast<uint64_t>(width_ps))));
}

constexpr uint32_t kGenerationMask = (uint32_t{1} << 28) - 1;

int64_t bottleneck(const Topology& topology, std::span<const LinkId> links) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const LinkId link : links) {
    least = std::min(least, topology.link(link).bandwidth_bytes_per_s);
  }
  return least;
}

// Of one largest segment, on the slowest connection.
int64_t slowest_transmission_ps(const Topology& topology, const LoweredJob& plan) {
  int64_t slowest_ps = 0;
  const int64_t bytes = plan.wire_bytes(plan.largest_payload_bytes());
  for (const LoweredConnection& connection : plan.connections()) {
    slowest_ps =
        std::max(slowest_ps, transmit_time_ps(bytes, bottleneck(topology, connection.links)) +
                                 connection.overhead_ps);
  }
  return slowest_ps;
}

}  // namespace

Engine::Engine(const Topology& topology, const SimulationOptions& options)
    : topology_(topology), options_(options), shared_(topology), switches_(topology), queue_(0) {}

int32_t Engine::add(LoweredJob plan, int64_t start_ps) {
  keep_pace(plan);
  const int32_t number = take_number(plan);
  JobState& job = jobs_[at(number)];
  job.plan = std::make_unique<const LoweredJob>(std::move(plan));
  const Order& order = job.plan->order();
  const int32_t instance_count = job.plan->instance_count();
  job.cursor = std::make_unique<Cursor>(order, options_.segment_count, instance_count);
  job.start_ps = job.finish_ps = start_ps;
  job.commits_left = int64_t{order.commit_count()} * options_.segment_count * instance_count;
  if (options_.landing_places > 0) {
    job.landing = std::make_unique<LandingPlaces>(*job.plan, job.plan->schedule().period,
                                                  options_.segment_count, options_.landing_places);
  }
  if (options_.gate == Gate::kLockstep) {
    add_gate(job);
  }
  if (options_.records != nullptr) {
    job.record = &(*options_.records)[at(number)];
  }
  push(start_ps, EventKind::kJobStart, number);
  return number;
}

int32_t Engine::take_number(const LoweredJob& plan) {
  std::vector<int32_t>& free = released_[&plan.shared()];
  if (free.empty()) {
    return make_job(plan);
  }
  const int32_t number = free.back();
  free.pop_back();
  return number;
}

// A job's connections and ranks have consecutive numbers, which stay its own.
int32_t Engine::make_job(const LoweredJob& plan) {
  const auto number = count_of(jobs_);
  JobState& job = jobs_.emplace_back();
  job.first_connection = count_of(connections_);
  job.first_rank = count_of(rank_job_);
  job.reducers.resize(at(plan.rank_count()));
  rank_job_.insert(rank_job_.end(), at(plan.rank_count()), number);
  for (const LoweredConnection& one : plan.connections()) {
    Connection& connection = connections_.emplace_back();
    connection.plan = &one;
    connection.job = number;
    connection.latency_ps = one.latency_ps;
    connection.overhead_ps = one.overhead_ps;
    const int64_t bandwidth = bottleneck(topology_, one.links);
    const int64_t common = std::gcd(kPicosecondsPerSecond, bandwidth);
    connection.numerator = kPicosecondsPerSecond / common;
    connection.denominator = bandwidth / common;
    shared_.add(one.links);
    switches_.add(one.links);
  }
  return number;
}

void Engine::add_gate(JobState& job) {
  const LoweredJob& plan = *job.plan;
  job.gate = std::make_unique<LockstepGate>(plan, plan.schedule().period, options_.segment_count,
                                            slowest_transmission_ps(topology_, plan));
  job.rank_connections.resize(at(plan.rank_count()));
  for (int32_t stream = 0; stream < plan.order().stream_count(); ++stream) {
    for (int32_t instance = 0; instance < plan.instance_count(); ++instance) {
      for (const int32_t source : plan.order().sources(stream)) {
        auto& list = job.rank_connections[at(plan.rank_in(source, instance))];
        list.push_back(job.first_connection + plan.connection_of(stream, instance));
      }
    }
  }
  for (auto& list : job.rank_connections) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
}

// Buckets as narrow as the running jobs ask for; wider ones only when nothing is left to sort.
void Engine::keep_pace(const LoweredJob& plan) {
  const bool was_idle = is_idle();
  if (was_idle) {
    pace_ = {};
    queue_.clear();  // ends of transmissions that came earlier after all
  }
  ++pace_.running_jobs;
  pace_.connections += plan.connections().size();
  pace_.slowest_ps = std::max(pace_.slowest_ps, slowest_transmission_ps(topology_, plan));
  const int shift = bucket_shift(pace_.slowest_ps, pace_.connections);
  if (was_idle || shift < queue_.shift()) {
    queue_.retune(shift, now_ps_);
  }
}

void Engine::release(int32_t number) {
  JobState& job = jobs_[at(number)];
  job.cursor.reset();
  job.landing.reset();
  job.gate.reset();
  std::vector<uint64_t>().swap(job.landed);
  released_[&job.plan->shared()].push_back(number);
}

void Engine::push(int64_t time_ps, EventKind kind, int32_t number, uint32_t generation) {
  queue_.push({time_ps, static_cast<uint64_t>(kind) << 60 |
                            static_cast<uint64_t>(static_cast<uint32_t>(number)) << 28 |
                            static_cast<uint64_t>(generation & kGenerationMask)});
}

Status Engine::advance(int64_t until_ps) {
  while (!is_idle() && finished_.empty()) {
    if (queue_.empty()) {
      return stuck(*std::find_if(jobs_.begin(), jobs_.end(),
                                 [](const JobState& job) { return job.commits_left > 0; }));
    }
    if (queue_.top().time_ps > until_ps) {
      return ok();
    }
    now_ps_ = queue_.top().time_ps;
    if (now_ps_ > kLongestPs) {
      return takes_too_long();
    }
    run_instant();
  }
  return ok();
}

// Everything of one time, in rounds: what starts may end at once.
void Engine::run_instant() {
  do {
    do {
      const Event event = queue_.top();
      queue_.pop();
      handle(event);
    } while (!queue_.empty() && queue_.top().time_ps == now_ps_);
    start_touched();
    for (const auto& [connection, end_ps] : shared_.update(now_ps_)) {
      push(end_ps, EventKind::kSent, connection, ++connections_[at(connection)].generation);
    }
  } while (!queue_.empty() && queue_.top().time_ps == now_ps_);
}

Result<Simulation> Engine::run() {
  while (!is_idle()) {
    PLEACH_TRY(advance(kLongestPs + 1));
    finished_.clear();
  }
  return collect();
}

void Engine::handle(const Event& event) {
  const auto kind = static_cast<EventKind>(event.tag >> 60);
  const auto number = static_cast<int32_t>(event.tag >> 28 & 0xffffffff);
  const auto generation = static_cast<uint32_t>(event.tag) & kGenerationMask;
  switch (kind) {
    case EventKind::kJobStart:
      return start_job(jobs_[at(number)]);
    case EventKind::kFlowBegin:
      return shared_.join(number, active_bytes(connections_[at(number)]), now_ps_);
    case EventKind::kSent:
      if ((connections_[at(number)].generation & kGenerationMask) == generation) {
        sent(number);
      }
      return;
    case EventKind::kArrived:
      return arrived(number);
    case EventKind::kReduced:
      return reduced(number);
    case EventKind::kSlotOver: {
      JobState& job = jobs_[at(rank_job_[at(number)])];
      return open_slots(job, number - job.first_rank, true);
    }
  }
}

void Engine::start_job(JobState& job) {
  attach(job);
  const Order& order = job.plan->order();
  for (int32_t stream = 0; stream < order.stream_count(); ++stream) {
    const auto reads = order.reads(stream);
    if (!std::all_of(reads.begin(), reads.end(),
                     [](const Read& read) { return read.after_commits == 0; })) {
      continue;
    }
    for (int32_t segment = 0; segment < options_.segment_count; ++segment) {
      for (int32_t instance = 0; instance < job.plan->instance_count(); ++instance) {
        make_ready(job, stream, segment, instance);
      }
    }
  }
  for (int32_t rank = 0; job.gate != nullptr && rank < job.plan->rank_count(); ++rank) {
    open_slots(job, rank, false);
  }
  if (job.commits_left == 0) {
    finish_job(job);
  }
}

// The job's connections join those that may transmit. A transmission that had its links for itself
// until now is from here on one of the shared ones.
void Engine::attach(const JobState& job) {
  std::vector<int32_t> found;
  const auto count = count_of(job.plan->connections());
  for (int32_t own_number = 0; own_number < count; ++own_number) {
    shared_.attach(job.first_connection + own_number, found);
  }
  for (const int32_t number : found) {
    Connection& connection = connections_[at(number)];
    const int64_t bytes = connection.busy ? active_bytes(connection) : 0;
    if (bytes == 0 || connection.in_shares) {
      continue;
    }
    connection.in_shares = true;
    connection.busy_ps -= full_rate_ps(connection, bytes);
    ++connection.generation;  // the end that was planned is none
    if (connection.begin_ps > now_ps_) {
      push(connection.begin_ps, EventKind::kFlowBegin, number);
    } else if (connection.begin_ps == now_ps_) {
      shared_.join(number, bytes, now_ps_);
    } else {
      shared_.join_late(number, bytes, connection.begin_ps);
    }
  }
}

void Engine::finish_job(JobState& job) {
  job.finish_ps = now_ps_;
  const auto count = count_of(job.plan->connections());
  for (int32_t own_number = 0; own_number < count; ++own_number) {
    shared_.detach(job.first_connection + own_number);
  }
  --pace_.running_jobs;
  pace_.connections -= at(count);
  finished_.push_back(static_cast<int32_t>(&job - jobs_.data()));
}

void Engine::make_ready(JobState& job, int32_t stream, int32_t segment, int32_t instance) {
  const int64_t key =
      int64_t{segment} * job.plan->schedule().period + job.plan->order().stream(stream).step;
  const int32_t number = job.first_connection + job.plan->connection_of(stream, instance);
  auto& ready = connections_[at(number)].ready;
  ready.push_back({key, segment, stream, instance});
  std::push_heap(ready.begin(), ready.end(), std::greater<>());
  touch(number);
}

void Engine::touch(int32_t connection) {
  Connection& one = connections_[at(connection)];
  if (!one.is_touched && !one.busy && !one.ready.empty()) {
    one.is_touched = true;
    touched_.push_back(connection);
  }
}

void Engine::start_touched() {
  if (!switches_.empty()) {  // switches admit in key order
    std::sort(touched_.begin(), touched_.end(), [this](int32_t left, int32_t right) {
      return std::tie(connections_[at(left)].ready.front(), left) <
             std::tie(connections_[at(right)].ready.front(), right);
    });
  }
  for (const int32_t connection : touched_) {
    connections_[at(connection)].is_touched = false;
    try_start(connection);
  }
  touched_.clear();
}

bool Engine::gate_is_open(const JobState& job, const SegmentItem& item) const {
  if (job.gate == nullptr) {
    return true;
  }
  const auto sources = job.plan->order().sources(item.stream);
  return std::all_of(sources.begin(), sources.end(), [&](int32_t source) {
    return job.gate->is_open(job.plan->rank_in(source, item.instance), item.key);
  });
}

void Engine::try_start(int32_t number) {
  Connection& connection = connections_[at(number)];
  JobState& job = jobs_[at(connection.job)];
  const SegmentItem item = connection.ready.front();
  const int32_t own_number = number - job.first_connection;
  if (!gate_is_open(job, item) ||
      (job.landing != nullptr && !job.landing->admits(own_number, item.stream, item.segment)) ||
      !switches_.enter(number)) {
    return;
  }
  if (job.landing != nullptr) {
    job.landing->admit(own_number, item.stream, item.segment);
  }
  std::pop_heap(connection.ready.begin(), connection.ready.end(), std::greater<>());
  connection.ready.pop_back();
  connection.active = item;
  connection.busy = true;
  if (job.record != nullptr) {
    const Order& order = job.plan->order();
    for (int32_t read = 0; read < count_of(order.reads(item.stream)); ++read) {
      job.record->push_back({RecordEvent::Kind::kStartRead, order.first_read(item.stream) + read,
                             item.segment, item.instance});
    }
  }
  begin_transmission(number);
}

int64_t Engine::active_bytes(const Connection& connection) const {
  const LoweredJob& plan = connection.plan_of(jobs_);
  const SegmentItem& item = connection.active;
  return plan.wire_bytes(plan.payload_bytes(item.stream, item.segment, item.instance));
}

int64_t Engine::full_rate_ps(const Connection& connection, int64_t bytes) const {
  const bool fits = bytes <= std::numeric_limits<int64_t>::max() / connection.numerator - 1;
  return fits ? (bytes * connection.numerator + connection.denominator - 1) / connection.denominator
              : transmit_time_ps(bytes, bottleneck(topology_, connection.plan->links));
}

void Engine::begin_transmission(int32_t number) {
  Connection& connection = connections_[at(number)];
  const int64_t bytes = active_bytes(connection);
  connection.sent_bytes += bytes;
  connection.begin_ps = add_times_ps(now_ps_, connection.overhead_ps);
  connection.in_shares = bytes > 0 && shared_.shares(number);
  if (!connection.in_shares) {
    const int64_t transmission_ps = full_rate_ps(connection, bytes);
    connection.busy_ps = add_times_ps(connection.busy_ps, transmission_ps);
    push(add_times_ps(connection.begin_ps, transmission_ps), EventKind::kSent, number,
         connection.generation);
  } else if (connection.overhead_ps > 0) {
    push(connection.begin_ps, EventKind::kFlowBegin, number);
  } else {
    shared_.join(number, bytes, now_ps_);
  }
}

// The last byte has left: the sources may be overwritten, the connection is free.
void Engine::sent(int32_t number) {
  Connection& connection = connections_[at(number)];
  JobState& job = jobs_[at(connection.job)];
  const Order& order = job.plan->order();
  const SegmentItem item = connection.active;
  connection.busy = false;
  ++connection.generation;
  if (connection.in_shares) {
    shared_.leave(number, now_ps_);
  }
  connection.flying.push(item);
  push(add_times_ps(now_ps_, connection.latency_ps), EventKind::kArrived, number);
  int32_t index = order.first_read(item.stream);
  for (const Read& read : order.reads(item.stream)) {
    job.cursor->finish_read(read, item.segment, item.instance);
    if (job.record != nullptr) {
      job.record->push_back({RecordEvent::Kind::kFinishRead, index++, item.segment, item.instance});
    }
    if (job.landed_count > 0) {
      try_commits(job, read.slot, item.segment, item.instance);
    }
  }
  if (job.gate != nullptr) {
    for (const int32_t source : order.sources(item.stream)) {
      const int32_t rank = job.plan->rank_in(source, item.instance);
      job.gate->sent(rank);
      open_slots(job, rank, false);
    }
  }
  if (!switches_.empty()) {
    std::vector<int32_t> woken;
    switches_.leave(number, woken);
    for (const int32_t other : woken) {
      touch(other);
    }
  }
  touch(number);
}

void Engine::open_slots(JobState& job, int32_t rank, bool after_wait) {
  if (const auto wait_ps = job.gate->advance(rank, after_wait)) {
    push(add_times_ps(now_ps_, *wait_ps), EventKind::kSlotOver, job.first_rank + rank);
  }
  for (const int32_t connection : job.rank_connections[at(rank)]) {
    touch(connection);
  }
}

void Engine::arrived(int32_t number) {
  Connection& connection = connections_[at(number)];
  JobState& job = jobs_[at(connection.job)];
  const Order& order = job.plan->order();
  const SegmentItem item = connection.flying.pop();
  ++delivered_;
  const int32_t first = order.first_commit(item.stream);
  const auto count = count_of(order.commits(item.stream));
  for (int32_t commit = first; commit < first + count; ++commit) {
    land(job, {commit, item.segment, item.instance});
  }
}

std::size_t Engine::landed_bit(const JobState& job, const PendingCommit& what) const {
  return (at(what.commit) * at(options_.segment_count) + at(what.segment)) *
             at(job.plan->instance_count()) +
         at(what.instance);
}

// One chunk of an arrived segment: commits now, or waits in `landed` for its turn.
void Engine::land(JobState& job, const PendingCommit& what) {
  const Commit& commit = job.plan->order().commit(what.commit);
  if (!job.cursor->may_commit(commit, what.segment, what.instance)) {
    if (job.landed.empty()) {
      const std::size_t bits = at(job.plan->order().commit_count()) * at(options_.segment_count) *
                               at(job.plan->instance_count());
      job.landed.resize((bits + 63) / 64);
    }
    const std::size_t bit = landed_bit(job, what);
    job.landed[bit / 64] |= uint64_t{1} << (bit % 64);
    ++job.landed_count;
    return;
  }
  start_commit(job, what);
  if (job.landed_count > 0) {
    try_commits(job, commit.slot, what.segment, what.instance);
  }
}

// Commits what has landed on the slot, as far as the order lets it.
void Engine::try_commits(JobState& job, int32_t slot, int32_t segment, int32_t instance) {
  const Order& order = job.plan->order();
  const auto arrivals = order.slot_commits(slot);
  for (;;) {
    const auto next = at(job.cursor->commits(slot, segment, instance));
    if (next >= arrivals.size()) {
      return;
    }
    const PendingCommit what{arrivals[next], segment, instance};
    const std::size_t bit = landed_bit(job, what);
    if ((job.landed[bit / 64] >> (bit % 64) & 1) == 0 ||
        !job.cursor->may_commit(order.commit(what.commit), segment, instance)) {
      return;
    }
    job.landed[bit / 64] &= ~(uint64_t{1} << (bit % 64));
    --job.landed_count;
    start_commit(job, what);
  }
}

void Engine::start_commit(JobState& job, const PendingCommit& what) {
  const Order& order = job.plan->order();
  const Commit& commit = order.commit(what.commit);
  if (options_.reduce_bandwidth_bytes_per_s == 0 ||
      order.stream(commit.stream).op == TransferOp::kCopy) {
    return finish_commit(job, what);
  }
  const Slot& slot = order.slot(commit.slot);
  const int32_t rank = job.plan->rank_in(slot.rank, what.instance);
  Reducer& reducer = job.reducers[at(rank)];
  const int64_t bytes = job.plan->segment_bytes(slot.chunk, what.segment, what.instance);
  reducer.free_ps = add_times_ps(std::max(reducer.free_ps, now_ps_),
                                 transmit_time_ps(bytes, options_.reduce_bandwidth_bytes_per_s));
  reducer.queue.push_back(what);
  push(reducer.free_ps, EventKind::kReduced, job.first_rank + rank);
}

void Engine::reduced(int32_t number) {
  JobState& job = jobs_[at(rank_job_[at(number)])];
  Reducer& reducer = job.reducers[at(number - job.first_rank)];
  const PendingCommit what = reducer.queue.front();
  reducer.queue.pop_front();
  finish_commit(job, what);
  if (job.landed_count > 0) {
    const int32_t slot = job.plan->order().commit(what.commit).slot;
    try_commits(job, slot, what.segment, what.instance);
  }
}

void Engine::finish_commit(JobState& job, const PendingCommit& what) {
  const Order& order = job.plan->order();
  const Commit& commit = order.commit(what.commit);
  job.cursor->finish_commit(commit, what.segment, what.instance);
  if (job.record != nullptr) {
    job.record->push_back({RecordEvent::Kind::kCommit, what.commit, what.segment, what.instance});
  }
  if (--job.commits_left == 0) {
    finish_job(job);
  }
  if (job.landing != nullptr) {
    const int32_t own_number = job.plan->connection_of(commit.stream, what.instance);
    if (job.landing->commit(own_number, commit.stream, what.segment, what.instance)) {
      touch(job.first_connection + own_number);
    }
  }
  const int32_t now = commit.after_commits + 1;
  const auto reads = order.slot_reads(commit.slot);
  auto enabled = reads.begin();
  if (reads.size() > 8) {
    enabled = std::partition_point(reads.begin(), reads.end(), [&](int32_t read) {
      return order.read(read).after_commits < now;
    });
  }
  for (; enabled != reads.end(); ++enabled) {
    const Read& read = order.read(*enabled);
    if (read.after_commits > now) {
      break;
    }
    if (read.after_commits == now &&
        (order.reads(read.stream).size() == 1 ||
         job.cursor->may_start(read.stream, what.segment, what.instance))) {
      make_ready(job, read.stream, what.segment, what.instance);
    }
  }
}

Error Engine::stuck(const JobState& job) const {
  const Order& order = job.plan->order();
  for (int32_t index = 0; index < order.commit_count(); ++index) {
    const Commit& commit = order.commit(index);
    for (int32_t segment = 0; segment < options_.segment_count; ++segment) {
      if (job.cursor->commits(commit.slot, segment) <= commit.after_commits) {
        const Slot& slot = order.slot(commit.slot);
        return {ErrorCode::kInvalidArgument,
                fmt::format("the schedule never finishes: the arrival of chunk {} at rank {} in "
                            "step {} (segment {}) never commits",
                            slot.chunk, slot.rank, order.stream(commit.stream).step, segment)};
      }
    }
  }
  return {ErrorCode::kInvalidArgument, "the schedule never finishes"};
}

Simulation Engine::collect() const {
  Simulation result;
  result.links.resize(topology_.links().size());
  for (std::size_t number = 0; number < connections_.size(); ++number) {
    const Connection& connection = connections_[number];
    for (const LinkId link : connection.plan->links) {
      result.links[link.index()].wire_bytes += connection.sent_bytes;
      result.links[link.index()].busy_ps += connection.busy_ps;
    }
  }
  shared_.add_busy(result.links);
  for (const JobState& job : jobs_) {
    result.job_finish_ps.push_back(job.finish_ps);
    result.finish_ps = std::max(result.finish_ps, job.finish_ps);
  }
  result.event_count = delivered_;
  return result;
}

}  // namespace pleach
