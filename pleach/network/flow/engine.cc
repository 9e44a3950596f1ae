#include "pleach/network/flow/engine.h"

#include <algorithm>
#include <utility>

#include "pleach/base/interruption.h"
#include "pleach/base/units.h"
#include "pleach/network/job_checks.h"

namespace pleach {

using Kind = FlowEvent::Kind;

namespace {

Kind event_of(Execution::Alarm::Kind kind) {
  switch (kind) {
    case Execution::Alarm::Kind::kReduced:
      return Kind::kReduced;
    case Execution::Alarm::Kind::kNopOver:
      return Kind::kNopOver;
    case Execution::Alarm::Kind::kReduce:
      return Kind::kReduce;
  }
  return Kind::kReduce;
}

}  // namespace

Engine::Engine(const Topology& topology, const SimulationOptions& options)
    : options_(options),
      transmissions_(topology, events_),
      admission_(topology, options.admission) {
  admission_.let_move();
}

Result<int32_t> Engine::add(LoweredJob lowered, int64_t start_ps, int32_t name,
                            int32_t traffic_class) {
  PLEACH_TRY(admission_.check(lowered.schedule()));
  if (is_idle()) {
    events_.clear();  // ends of transmissions that came earlier after all, steps of finished jobs
  }
  const int64_t slowest_ps = transmissions_.slowest_ps(lowered);
  events_.join(lowered.schedule().connections().size(), slowest_ps, now_ps_);
  FlowJob& job = jobs_.take(lowered.shared_schedule(), count_of(connections_));
  job.asked = {start_ps, name, traffic_class};
  if (job.first_connection == count_of(connections_)) {
    connect(job);
  }
  // A send is over when its bytes have left, so that a NOP lasts one estimate, not two.
  const NopTimes nops{slowest_ps, slowest_ps};
  const ReduceRules reductions{options_.reduce_bandwidth_bytes_per_s.value_or(0)};
  job.execution =
      std::make_unique<Execution>(std::move(lowered), options_, InterfaceRules{nops, reductions});
  events_.push(start_ps, Kind::kJobStart, job.number);
  return job.number;
}

void Engine::connect(const FlowJob& job) {
  for (const LoweredConnection& one : job.schedule->connections()) {
    connections_.emplace_back().job = job.number;
    transmissions_.add(one);
    admission_.add(one);
  }
}

Record Engine::release(int32_t number) {
  Record record = jobs_[number].execution->take_record();
  jobs_.release(jobs_[number]);
  return record;
}

int64_t Engine::next_ps() {
  if (entries_.are_open && !has_due()) {
    return now_ps_ + 1;
  }
  return events_.empty() ? now_ps_ : events_.next_ps();
}

Status Engine::advance(int64_t until_ps) {
  while (!is_idle() && !jobs_.has_finished()) {
    if (entries_.are_open && !has_due()) {
      if (until_ps <= now_ps_) {
        return ok();
      }
      close_instant();
      continue;
    }
    if (events_.empty()) {
      return std::ranges::find_if(jobs_, &FlowJob::is_running)->execution->stuck();
    }
    if (events_.next_ps() > until_ps) {
      return ok();
    }
    now_ps_ = events_.next_ps();
    if (now_ps_ > kLongestPs) {
      return takes_too_long();
    }
    run_due();
  }
  return ok();
}

// Everything of one time, in rounds: what starts may end at once.
void Engine::run_due() {
  do {
    do {
      const FlowEvent event = events_.pop();
      check_interruption();
      prefetch_next();
      handle(event);
    } while (has_due());
    entries_.are_open = has_admission();
    if (!entries_.are_open) {
      close_instant();
    }
  } while (has_due());
}

void Engine::close_instant() {
  entries_.are_open = false;
  start_touched();
  transmissions_.update(now_ps_);
}

// What the next event is about comes from memory while this one is handled.
void Engine::prefetch_next() {
  if (events_.empty()) {
    return;
  }
  const FlowEvent next = events_.top();
  if (next.kind == Kind::kSent || next.kind == Kind::kArrived) {
    __builtin_prefetch(&connections_[at(next.number)], 1);
    transmissions_.prefetch(next.number);
  }
}

void Engine::handle(const FlowEvent& event) {
  switch (event.kind) {
    case Kind::kJobStart:
      return start_job(jobs_[event.number]);
    case Kind::kFlowBegin:
      return transmissions_.flow(event.number, now_ps_);
    case Kind::kSent:
      if (transmissions_.end(event.number, event.generation, now_ps_)) {
        sent(event.number);
      }
      return;
    case Kind::kArrived:
      return arrived(event.number);
    case Kind::kReduced:
    case Kind::kNopOver:
    case Kind::kReduce:
      return alarm(event);
    case Kind::kResume:
      return resume(event.number);
  }
}

void Engine::start_job(FlowJob& job) {
  transmissions_.attach(job.first_connection, job.connection_count(), now_ps_,
                        job.asked.traffic_class);
  job.execution->start(now_ps_);
  follow(job);
}

// The last byte has left: the sources may be overwritten, the connection is free.
void Engine::sent(int32_t number) {
  Connection& connection = connections_[at(number)];
  FlowJob& job = jobs_[connection.job];
  connection.flying.push(connection.active);
  events_.push(add_times_ps(now_ps_, transmissions_.latency_ps(number)), Kind::kArrived, number);
  job.execution->sent(connection.active, now_ps_);
  job.execution->over(connection.active, now_ps_);
  if (!job.execution->answers().empty()) {
    follow(job);
  }
  if (has_admission()) {
    std::vector<int32_t> woken;
    admission_.leave(number, woken);
    for (const int32_t other : woken) {
      touch(other);
    }
  }
  if (job.execution->has_ready(number - job.first_connection)) {
    touch(number);
  }
}

void Engine::arrived(int32_t number) {
  Connection& connection = connections_[at(number)];
  FlowJob& job = jobs_[connection.job];
  ++delivered_;
  job.execution->arrived(connection.flying.pop(), now_ps_);
  follow(job);
}

void Engine::alarm(const FlowEvent& event) {
  FlowJob& job = jobs_[jobs_.of_rank(event.number)];
  const int32_t rank = event.number - job.first_rank;
  if (event.kind == Kind::kReduced) {
    job.execution->reduced(rank, now_ps_);
  } else if (event.kind == Kind::kReduce) {
    job.execution->reduce(rank, now_ps_);
  } else if (job.is_running && (job.generation & FlowEvents::kGenerationMask) == event.generation) {
    job.execution->nop_over(rank, now_ps_);
  } else {
    return;  // a step after the last chunk was in place
  }
  follow(job);
}

// Does what follows from what the job's interfaces were told.
void Engine::follow(FlowJob& job) {
  auto& [connections, alarms] = job.execution->answers();
  for (const int32_t connection : connections) {
    touch(job.first_connection + connection);
  }
  connections.clear();
  for (const auto& [kind, rank, time_ps] : alarms) {
    events_.push(time_ps, event_of(kind), job.first_rank + rank, job.generation);
  }
  alarms.clear();
  if (job.is_running && job.execution->is_finished()) {
    transmissions_.detach(job.first_connection, job.connection_count());
    events_.leave(at(job.connection_count()));
    jobs_.finish(job, now_ps_);
  }
}

void Engine::touch(int32_t number) {
  Connection& connection = connections_[at(number)];
  if (!connection.is_touched && !transmissions_.is_busy(number)) {
    connection.is_touched = true;
    touched_.push_back(number);
  }
}

const Send* Engine::next(int32_t number) {
  const FlowJob& job = jobs_[connections_[at(number)].job];
  return job.is_running ? job.execution->next(number - job.first_connection) : nullptr;
}

Admission::Turn Engine::turn_of(int32_t number, const Send& send) const {
  const Connection& connection = connections_[at(number)];
  const FlowJob& job = jobs_[connection.job];
  return {job.asked.traffic_class, connection.asked_ps.value_or(now_ps_), job.asked.start_ps,
          job.asked.name, send};
}

// Those that may start, in their turn.
void Engine::sort_by_turn() {
  entries_.turns.clear();
  for (const int32_t number : touched_) {
    if (const Send* send = next(number)) {
      entries_.turns.emplace_back(turn_of(number, *send), number);
    } else {
      connections_[at(number)].is_touched = false;
    }
  }
  std::ranges::sort(entries_.turns);
  touched_.clear();
  for (const auto& [turn, number] : entries_.turns) {
    touched_.push_back(number);
  }
}

void Engine::start_touched() {
  if (has_admission()) {
    sort_by_turn();
  }
  for (const int32_t number : touched_) {
    connections_[at(number)].is_touched = false;
    try_start(number);
  }
  touched_.clear();
  pace();
}

bool Engine::enter(int32_t number, const Send& send) {
  Connection& connection = connections_[at(number)];
  const Admission::Turn turn = turn_of(number, send);
  if (!admission_.enter(number, turn)) {
    if (!connection.asked_ps.has_value()) {
      entries_.conflicts.note(admission_, number, admission_.last_refusal(), [&](int32_t one) {
        return jobs_[connections_[at(one)].job].asked.name;
      });
    }
    connection.asked_ps = turn.asked_ps;
    return false;
  }
  entries_.waited_ps += now_ps_ - turn.asked_ps;
  connection.asked_ps.reset();
  return true;
}

// How long switches take until they are configured for one that has entered, or goes on.
int64_t Engine::reconfiguration_ps(int32_t number) {
  if (options_.reconfiguration_ps == 0) {
    return 0;
  }
  const auto [time_ps, changes] =
      admission_.configure(number, now_ps_, options_.reconfiguration_ps);
  entries_.reconfigurations += changes ? 1 : 0;
  return time_ps - now_ps_;
}

// When all has entered and left that does at one time.
void Engine::pace() {
  for (const int32_t number : admission_.take_paced()) {
    const bool is_suspended = admission_.is_suspended(number);
    Connection& connection = connections_[at(number)];
    connection.resumes_ps.reset();
    if (!transmissions_.is_busy(number) || is_suspended == transmissions_.is_suspended(number)) {
      continue;
    }
    if (is_suspended) {
      transmissions_.suspend(number, true, now_ps_);
      ++entries_.preemptions;
      continue;
    }
    if (const int64_t later_ps = reconfiguration_ps(number); later_ps > 0) {
      connection.resumes_ps = add_times_ps(now_ps_, later_ps);
      events_.push(*connection.resumes_ps, Kind::kResume, number);
    } else {
      transmissions_.suspend(number, false, now_ps_);
    }
  }
}

void Engine::resume(int32_t number) {
  std::optional<int64_t>& resumes_ps = connections_[at(number)].resumes_ps;
  if (resumes_ps == now_ps_) {  // else it has been suspended again
    resumes_ps.reset();
    transmissions_.suspend(number, false, now_ps_);
  }
}

void Engine::try_start(int32_t number) {
  const Send* send = next(number);
  if (send == nullptr) {
    return;
  }
  if (has_admission() && !enter(number, *send)) {
    return;
  }
  Connection& connection = connections_[at(number)];
  const FlowJob& job = jobs_[connection.job];
  connection.active = job.execution->begin(number - job.first_connection, now_ps_);
  transmissions_.begin(number, job.execution->job().wire_bytes(connection.active), now_ps_,
                       has_admission() ? reconfiguration_ps(number) : 0);
}

NetworkUse Engine::use() const {
  NetworkUse use{.links = transmissions_.use(), .event_count = delivered_};
  if (has_admission()) {
    AdmissionUse& admission = use.admission.emplace();
    admission.configurations = admission_.configurations();
    admission.waited_ps = entries_.waited_ps;
    admission.preemptions = entries_.preemptions;
    admission.undecided = admission_.undecided();
    admission.reconfigurations = entries_.reconfigurations;
    admission.conflicts = entries_.conflicts.list();
  }
  if (transmissions_.starved_ps() > 0) {
    use.counters.push_back({"starved_ps", transmissions_.starved_ps()});
  }
  return use;
}

}  // namespace pleach
