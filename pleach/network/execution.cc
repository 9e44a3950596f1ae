#include "pleach/network/execution.h"

#include <fmt/format.h>

#include <algorithm>

#include "pleach/base/units.h"

namespace pleach {

namespace {

// By commit, the place among its slot's arrivals of the first one of its run. A run is reductions
// that follow each other without a send between them.
std::vector<int32_t> any_order(const Order& order) {
  std::vector<int32_t> first(at(order.commit_count()));
  for (int32_t slot = 0; slot < order.slot_count(); ++slot) {
    int32_t before = -1;
    for (const int32_t index : order.slot_commits(slot)) {
      const Commit& commit = order.commit(index);
      const bool reduces = order.stream(commit.stream).op == TransferOp::kReduce;
      const bool goes_on =
          reduces && before >= 0 && order.commit(before).after_reads == commit.after_reads;
      first[at(index)] = goes_on ? first[at(before)] : commit.after_commits;
      before = reduces ? index : -1;
    }
  }
  return first;
}

}  // namespace

Execution::Execution(LoweredJob job, const SimulationOptions& options, const InterfaceRules& rules)
    : job_(std::move(job)),
      cursor_(job_.order(), job_.schedule().segment_count(), job_.schedule().translate_count()),
      ready_(job_.schedule().connections().size()),
      landed_(job_.schedule()),
      reducers_(job_.schedule().rank_count(), rules.reductions),
      commits_{int64_t{job_.order().commit_count()} * job_.schedule().segment_count() *
                   job_.schedule().translate_count(),
               {}} {
  if (options.landing_places > 0) {
    landing_.emplace(job_.schedule(), options.landing_places);
  }
  if (options.gate == Gate::kLockstep) {
    gate_.steps.emplace(job_.schedule(), rules.nops, StepGate::Ranks::kApart, rules.phases);
  } else if (options.gate == Gate::kInOrder) {
    gate_.steps.emplace(job_.schedule(), NopTimes(), StepGate::Ranks::kApart, rules.phases);
    gate_.leaves_at_begin = true;
  } else if (options.gate == Gate::kOracle) {
    gate_.steps.emplace(job_.schedule(), NopTimes(), StepGate::Ranks::kTogether, rules.phases);
  }
  if (rules.reduces_as_they_arrive) {
    commits_.any_order_from = any_order(job_.order());
  }
  if (options.keep_records) {
    record_.emplace();
  }
}

void Execution::start(int64_t now_ps) {
  const LoweredSchedule& schedule = job_.schedule();
  for (int32_t stream = 0; stream < job_.order().stream_count(); ++stream) {
    if (std::ranges::any_of(job_.order().reads(stream),
                            [](const Read& read) { return read.after_commits > 0; })) {
      continue;
    }
    for (int32_t segment = 0; segment < schedule.segment_count(); ++segment) {
      for (int32_t translate = 0; translate < schedule.translate_count(); ++translate) {
        make_ready(schedule.send(stream, segment, translate));
      }
    }
  }
  for (int32_t line = 0; gate_.steps.has_value() && line < gate_.steps->line_count(); ++line) {
    open_steps(line, false, now_ps);
  }
}

void Execution::make_ready(const Send& send) {
  const int32_t connection = job_.schedule().connection_of(send);
  ready_[at(connection)].push(send);
  answers_.connections.push_back(connection);
}

const Send* Execution::next(int32_t connection) const {
  const ReadySends& ready = ready_[at(connection)];
  if (ready.empty()) {
    return nullptr;
  }
  const Send& send = ready.top();
  if (gate_.steps.has_value() &&
      !std::ranges::all_of(job_.order().sources(send.stream), [&](int32_t source) {
        return gate_.steps->is_open(job_.schedule().rank_of(source, send.translate), send.key);
      })) {
    return nullptr;
  }
  return !landing_.has_value() || landing_->admits(send) ? &send : nullptr;
}

Send Execution::begin(int32_t connection, int64_t now_ps) {
  const Send send = ready_[at(connection)].pop();
  if (landing_.has_value()) {
    landing_->admit(send);
  }
  if (record_.has_value()) {
    const int32_t first = job_.order().first_read(send.stream);
    for (int32_t read = first; read < first + count_of(job_.order().reads(send.stream)); ++read) {
      note(RecordEvent::Kind::kStartRead, read, send);
    }
  }
  if (gate_.leaves_at_begin) {
    leave_step(send, now_ps);
  }
  return send;
}

void Execution::note(RecordEvent::Kind kind, int32_t item, const Send& send) {
  record_->push_back({kind, item, send.segment, send.translate});
}

void Execution::sent(const Send& send, int64_t now_ps) {
  int32_t index = job_.order().first_read(send.stream);
  for (const Read& read : job_.order().reads(send.stream)) {
    cursor_.finish_read(read, send.segment, send.translate);
    if (record_.has_value()) {
      note(RecordEvent::Kind::kFinishRead, index++, send);
    }
    if (!landed_.empty()) {
      commit_landed(read.slot, send.segment, send.translate, now_ps);
    }
  }
}

void Execution::leave_step(const Send& send, int64_t now_ps) {
  for (const int32_t source : job_.order().sources(send.stream)) {
    const int32_t rank = job_.schedule().rank_of(source, send.translate);
    gate_.steps->over(rank);
    open_steps(gate_.steps->line_of(rank), false, now_ps);
  }
}

void Execution::nop_over(int32_t rank, int64_t now_ps) {
  open_steps(gate_.steps->line_of(rank), true, now_ps);
}

void Execution::open_steps(int32_t line, bool after_nop, int64_t now_ps) {
  if (const auto nop_ps = gate_.steps->advance(line, after_nop)) {
    answers_.alarms.push_back({Alarm::Kind::kNopOver, line, add_times_ps(now_ps, *nop_ps)});
  }
  const auto connections = gate_.steps->connections(line);
  answers_.connections.insert(answers_.connections.end(), connections.begin(), connections.end());
}

void Execution::arrived(const Send& send, int64_t now_ps) {
  const int32_t first = job_.order().first_commit(send.stream);
  const int32_t count = count_of(job_.order().commits(send.stream));
  for (int32_t commit = first; commit < first + count; ++commit) {
    land({commit, send.segment, send.translate}, now_ps);
  }
}

bool Execution::may_commit(const Arrival& arrival) const {
  const Commit& commit = job_.order().commit(arrival.commit);
  if (commits_.any_order_from.empty()) {
    return cursor_.may_commit(commit, arrival.segment, arrival.translate);
  }
  return cursor_.commits(commit.slot, arrival.segment, arrival.translate) >=
             commits_.any_order_from[at(arrival.commit)] &&
         cursor_.reads(commit.slot, arrival.segment, arrival.translate) == commit.after_reads;
}

// Commits now, or waits for its turn.
void Execution::land(const Arrival& arrival, int64_t now_ps) {
  const Commit& commit = job_.order().commit(arrival.commit);
  if (!may_commit(arrival)) {
    return landed_.add(arrival);
  }
  start_commit(arrival, now_ps);
  if (!landed_.empty()) {
    commit_landed(commit.slot, arrival.segment, arrival.translate, now_ps);
  }
}

// Commits what has landed on the slot, as far as the order lets it.
void Execution::commit_landed(int32_t slot, int32_t segment, int32_t translate, int64_t now_ps) {
  const auto arrivals = job_.order().slot_commits(slot);
  for (auto next = at(cursor_.commits(slot, segment, translate)); next < arrivals.size(); ++next) {
    const Arrival arrival{arrivals[next], segment, translate};
    if (landed_.has(arrival) && may_commit(arrival)) {
      landed_.remove(arrival);
      start_commit(arrival, now_ps);
    } else if (commits_.any_order_from.empty()) {
      return;
    }
  }
}

void Execution::start_commit(const Arrival& arrival, int64_t now_ps) {
  const Order& order = job_.order();
  const Commit& commit = order.commit(arrival.commit);
  if (!reducers_.take_time() || order.stream(commit.stream).op == TransferOp::kCopy) {
    return finish_commit(arrival, now_ps);
  }
  const int32_t rank = job_.schedule().rank_of(order.slot(commit.slot).rank, arrival.translate);
  const Send send = job_.schedule().send(commit.stream, arrival.segment, arrival.translate);
  if (reducers_.push(rank, send, arrival, job_.bytes(arrival), now_ps)) {
    answers_.alarms.push_back({Alarm::Kind::kReduce, rank, now_ps});
  }
}

void Execution::reduce(int32_t rank, int64_t now_ps) {
  const int64_t end_ps = add_times_ps(now_ps, reducers_.begin(rank));
  answers_.alarms.push_back({Alarm::Kind::kReduced, rank, end_ps});
}

void Execution::reduced(int32_t rank, int64_t now_ps) {
  const bool goes_on = reducers_.has_waiting(rank);
  for (const Arrival& arrival : reducers_.end(rank)) {
    finish_commit(arrival, now_ps);
    if (!landed_.empty()) {
      commit_landed(job_.order().commit(arrival.commit).slot, arrival.segment, arrival.translate,
                    now_ps);
    }
  }
  if (goes_on) {
    answers_.alarms.push_back({Alarm::Kind::kReduce, rank, now_ps});
  }
}

void Execution::finish_commit(const Arrival& arrival, int64_t now_ps) {
  const Order& order = job_.order();
  const Commit& commit = order.commit(arrival.commit);
  cursor_.finish_commit(commit, arrival.segment, arrival.translate);
  if (record_.has_value()) {
    record_->push_back(
        {RecordEvent::Kind::kCommit, arrival.commit, arrival.segment, arrival.translate});
  }
  --commits_.left;
  if (landing_.has_value() && landing_->commit(arrival)) {
    answers_.connections.push_back(job_.schedule().connection_of(arrival));
  }
  if (gate_.steps.has_value() && gate_.steps->are_phases_apart()) {
    const int32_t rank = job_.schedule().rank_of(order.slot(commit.slot).rank, arrival.translate);
    if (gate_.steps->committed(rank, order.stream(commit.stream).step, arrival.segment)) {
      for (int32_t line = 0; line < gate_.steps->line_count(); ++line) {
        open_steps(line, false, now_ps);
      }
    } else {
      open_steps(gate_.steps->line_of(rank), false, now_ps);
    }
  }
  // The reads that waited for just this commit.
  const int32_t now = cursor_.commits(commit.slot, arrival.segment, arrival.translate);
  const auto reads = order.slot_reads(commit.slot);
  auto enabled = reads.begin();
  if (reads.size() > 8) {
    enabled = std::ranges::lower_bound(reads, now, {}, &SlotRead::after_commits);
  }
  for (; enabled != reads.end() && enabled->after_commits <= now; ++enabled) {
    const int32_t stream = enabled->stream;
    if (enabled->after_commits == now &&
        (order.reads(stream).size() == 1 ||
         cursor_.may_start(stream, arrival.segment, arrival.translate))) {
      make_ready(job_.schedule().send(stream, arrival.segment, arrival.translate));
    }
  }
}

Error Execution::stuck() const {
  const Order& order = job_.order();
  for (int32_t index = 0; index < order.commit_count(); ++index) {
    const Commit& commit = order.commit(index);
    for (int32_t segment = 0; segment < job_.schedule().segment_count(); ++segment) {
      if (cursor_.commits(commit.slot, segment) <= commit.after_commits) {
        const Slot& slot = order.slot(commit.slot);
        return invalid(
            fmt::format("the schedule never finishes: the arrival of chunk {} at rank {} in step "
                        "{} (segment {}) never commits",
                        slot.chunk, slot.rank, order.stream(commit.stream).step, segment));
      }
    }
  }
  return invalid("the schedule never finishes");
}

}  // namespace pleach
