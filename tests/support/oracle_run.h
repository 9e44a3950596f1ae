// The Oracle's execution: where values are, what may happen next, and the walk over all that can.
#pragma once

#include <iterator>
#include <map>
#include <vector>

#include "pleach/base/index.h"
#include "tests/support/oracle.h"

namespace pleach::support {

inline Oracle::Oracle(const Schedule& schedule, const OracleRules& rules,
                      std::optional<int32_t> only_chunk)
    : events_(schedule, rules, only_chunk), only_chunk_(only_chunk) {
  if (fits()) {
    place_cells();
    fill_inputs();
    restart();
  }
}

// The cell of a slot is its own, except where in-place all_to_all puts block (i, j) of rank i's
// input and block (j, i) of its output into one place.
inline void Oracle::place_cells() {
  const OracleTask& task = events_.task();
  const int32_t blocks = task.rank_count * task.rank_count;
  for (int32_t rank = 0; rank < task.rank_count; ++rank) {
    for (int32_t chunk = 0; chunk < task.chunk_count; ++chunk) {
      int32_t cell_chunk = chunk;
      if (events_.rules().aliased && task.collective == CollectiveKind::kAllToAll) {
        const int32_t block = task.block_of(chunk, blocks);
        const int32_t source = block / task.rank_count, target = block % task.rank_count;
        const int32_t part = chunk - block * (task.chunk_count / blocks);
        if (target == rank) {  // the place of the block that goes to where this one comes from
          cell_chunk = (target * task.rank_count + source) * (task.chunk_count / blocks) + part;
        }
      }
      for (int32_t segment = 0; segment < events_.rules().segment_count; ++segment) {
        cell_of_slot_.push_back(slot(rank, cell_chunk, segment));
      }
    }
  }
}

inline void Oracle::fill_inputs() {
  constexpr uint64_t kSeed = 20;
  Rng rng(kSeed);
  const OracleTask& task = events_.task();
  const int32_t segments = events_.rules().segment_count;
  initial_.resize(cell_of_slot_.size());
  for (std::size_t count = cell_of_slot_.size(); count > 0; --count) {
    random_.push_back(rng.next());
  }
  for (int32_t rank = 0; rank < task.rank_count; ++rank) {
    for (int32_t chunk = 0; chunk < task.chunk_count; ++chunk) {
      for (int32_t segment = 0; segment < segments; ++segment) {
        if (task.has_input(rank, chunk)) {
          initial_[cell(rank, chunk, segment)] = input(rank, chunk, segment);
        }
      }
    }
  }
  std::size_t size = initial_.size();
  for (const Message& message : events_.messages()) {
    first_payload_.push_back(size);
    size += at(message.chunk_count) * at(segments);
  }
  initial_.resize(size);
}

inline Oracle::Value Oracle::input(int32_t rank, int32_t chunk, int32_t segment) const {
  const std::size_t number = slot(rank, chunk, segment);
  return {random_[number], mix(number + 1) | 1};
}

inline uint64_t Oracle::expected_sum(int32_t chunk, int32_t segment) const {
  uint64_t sum = 0;
  for (int32_t rank = 0; rank < events_.task().rank_count; ++rank) {
    sum += events_.task().has_input(rank, chunk) ? input(rank, chunk, segment).sum : 0;
  }
  return sum;
}

inline bool Oracle::precedes(const Event& left, const Event& right) const {
  const auto key_of = [this](const Event& read) {
    const Message& message = message_of(read);
    const int32_t key = read.segment * events_.period() + message.step;
    switch (events_.rules().tie) {
      case OracleRules::Tie::kNone:
        return std::tuple(key, 0, 0);
      case OracleRules::Tie::kChunk:
        return std::tuple(key, message.first_chunk, 0);
      case OracleRules::Tie::kChunkThenSegment:
        return std::tuple(key, message.first_chunk, read.segment);
      case OracleRules::Tie::kSegmentThenChunk:
        break;
    }
    return std::tuple(key, read.segment, message.first_chunk);
  };
  return key_of(left) < key_of(right);
}

inline bool Oracle::has_left(const Event& read) const {
  return done_[at(events_.read_event(read.message, read.segment))];
}

inline bool Oracle::committed(const Event& read) const {
  const int32_t event = events_.read_event(read.message, read.segment);
  for (int32_t commit = 1; commit <= message_of(read).commit_count(); ++commit) {
    if (!done_[at(event + commit)]) {
      return false;
    }
  }
  return true;
}

// "A segment other than the connection's smallest uncommitted one is admitted only if afterwards a
// place is still free or is held by that smallest one."
inline bool Oracle::admitted(const Event& read) const {
  const Message& message = message_of(read);
  const OracleRules& rules = events_.rules();
  int32_t held = 0;
  std::vector<const Event*> reserving;  // uncommitted, of those the reservation is for
  for (const Event& other : events_.all()) {
    if (other.target >= 0 || committed(other)) {
      continue;
    }
    const Message& what = message_of(other);
    const bool same = what.connection == message.connection;
    held += same && has_left(other) ? 1 : 0;
    if (same || (rules.receiver_reserves && what.targets == message.targets)) {
      reserving.push_back(&other);
    }
  }
  if (held >= rules.landing_places) {
    return false;
  }
  bool is_smallest = true, smallest_holds = false;
  for (const Event* other : reserving) {
    is_smallest = is_smallest && !precedes(*other, read);
    const bool smallest = std::none_of(reserving.begin(), reserving.end(), [&](const Event* third) {
      return precedes(*third, *other);
    });
    smallest_holds =
        smallest_holds ||
        (smallest && message_of(*other).connection == message.connection && has_left(*other));
  }
  return is_smallest || smallest_holds || held + 1 < rules.landing_places;
}

inline bool Oracle::enabled(int32_t index) const {
  const Event& event = events_.all()[at(index)];
  if (done_[at(index)] || !events_.may_happen(done_, index)) {
    return false;
  }
  if (event.target >= 0) {
    return has_left(event);
  }
  if (events_.rules().pull_only) {
    const int32_t read = events_.read_event(event.message, event.segment);
    OracleEvents::Done with_read = done_;
    with_read.set(at(read));
    for (int32_t commit = 1; commit <= message_of(event).commit_count(); ++commit) {
      if (!events_.may_happen(with_read, read + commit)) {
        return false;
      }
    }
  }
  return events_.rules().landing_places == 0 || admitted(event);
}

inline void Oracle::set(std::size_t place, const Value& value) {
  const auto code = [place](const Value& what) {
    return mix(mix(what.expression + place * 0x9e3779b97f4a7c15U) + what.sum);
  };
  hash_ ^= code(values_[place]) ^ code(value);
  values_[place] = value;
}

inline void Oracle::flip(int32_t event) {
  done_.flip(at(event));
  hash_ ^= mix(at(event) + 0x5bd1e995U);
}

// What the slot holds after that commit, where own values fold at their rank's place: after the
// last of its step the fold of all; before it nobody looks.
inline Oracle::Value Oracle::folded(const Event& commit, const Value& own) const {
  const Message& message = message_of(commit);
  if (!events_.folds_by_rank() || events_.rules().folds_early) {
    const Value& value = values_[payload(commit, commit.chunk)];
    const bool is_before = events_.folds_by_rank() && message.sources.front() < commit.target;
    return is_before ? add(value, own) : add(own, value);
  }
  std::map<int32_t, Value> operands = {{commit.target, own}};  // by rank
  for (std::size_t index = 0; index < events_.all().size(); ++index) {
    const Event& event = events_.all()[index];
    if (event.target != commit.target || event.chunk != commit.chunk ||
        event.segment != commit.segment || message_of(event).step != message.step) {
      continue;
    }
    if (!done_[index]) {
      return own;
    }
    operands[message_of(event).sources.front()] = values_[payload(event, event.chunk)];
  }
  Value sum = operands.begin()->second;
  for (auto operand = std::next(operands.begin()); operand != operands.end(); ++operand) {
    sum = add(sum, operand->second);
  }
  return sum;
}

inline bool Oracle::apply(int32_t index, std::vector<Change>& changes) {
  const Event& event = events_.all()[at(index)];
  const Message& message = message_of(event);
  const auto change = [&](std::size_t place, const Value& value) {
    changes.push_back({place, values_[place]});
    set(place, value);
  };
  flip(index);
  if (event.target >= 0) {
    const std::size_t target = cell(event.target, event.chunk, event.segment);
    if (events_.is_borrowed(event.message)) {  // it is read now
      change(payload(event, event.chunk),
             values_[cell(message.sources.front(), event.chunk, event.segment)]);
    }
    if (message.op == TransferOp::kReduce && values_[target].expression == 0) {
      return false;
    }
    change(target, message.op == TransferOp::kCopy ? values_[payload(event, event.chunk)]
                                                   : folded(event, values_[target]));
    return true;
  }
  for (int32_t chunk = message.first_chunk; message.carries(chunk); ++chunk) {
    Value value;
    for (const int32_t source : message.sources) {
      const Value& part = values_[cell(source, chunk, event.segment)];
      if (part.expression == 0) {
        return false;
      }
      value = value.expression == 0 ? part : add(value, part);
    }
    change(payload(event, chunk), value);
  }
  return true;
}

inline void Oracle::undo(int32_t event, const std::vector<Change>& changes) {
  for (auto change = changes.rbegin(); change != changes.rend(); ++change) {
    set(change->place, change->old);
  }
  flip(event);
}

inline void Oracle::judge(OracleVerdict& verdict) const {
  uint64_t result = 0;
  const OracleTask& task = events_.task();
  for (int32_t chunk = 0; chunk < task.chunk_count; ++chunk) {
    if (only_chunk_ && chunk != *only_chunk_) {
      continue;
    }
    for (int32_t segment = 0; segment < events_.rules().segment_count; ++segment) {
      const Value* first = nullptr;
      for (int32_t rank = 0; rank < task.rank_count; ++rank) {
        if (!task.has_output(rank, chunk)) {
          continue;
        }
        const Value& value = values_[cell(rank, chunk, segment)];
        verdict.wrong =
            verdict.wrong || value.expression == 0 || value.sum != expected_sum(chunk, segment);
        first = first == nullptr ? &value : first;
        verdict.replicated = verdict.replicated && value.expression == first->expression;
        result = mix(result + value.expression);
      }
    }
  }
  verdict.results.insert(result);
}

inline void Oracle::restart() {
  done_.reset();
  hash_ = 0;
  values_ = initial_;
  visited_.clear();
}

inline void Oracle::visit(OracleVerdict& verdict, int64_t state_limit, bool stop_at_fault) {
  if (!visited_.insert(hash_).second) {
    return;
  }
  if (++verdict.state_count > state_limit) {
    verdict.decided = false;
    return;
  }
  bool is_end = true;
  for (int32_t event = 0; event < count_of(events_.all()); ++event) {
    if (!enabled(event)) {
      continue;
    }
    is_end = false;
    std::vector<Change> changes;
    if (apply(event, changes)) {
      visit(verdict, state_limit, stop_at_fault);
    } else {
      verdict.empty_slot = true;
    }
    undo(event, changes);
    const bool fault = verdict.stuck || verdict.empty_slot || verdict.wrong;
    if (!verdict.decided || (stop_at_fault && fault)) {
      return;
    }
  }
  if (is_end && done_.count() == events_.all().size()) {
    judge(verdict);
  } else if (is_end) {
    verdict.stuck = true;
  }
}

inline OracleVerdict Oracle::explore(int64_t state_limit, bool stop_at_fault) {
  OracleVerdict verdict;
  if (!fits()) {
    verdict.decided = false;
    return verdict;
  }
  restart();
  visit(verdict, state_limit, stop_at_fault);
  return verdict;
}

inline OracleVerdict Oracle::walk(Rng& rng) {
  OracleVerdict verdict;
  if (!fits()) {
    verdict.decided = false;
    return verdict;
  }
  restart();
  std::vector<Change> changes;
  while (done_.count() < events_.all().size()) {
    std::vector<int32_t> choices;
    for (int32_t event = 0; event < count_of(events_.all()); ++event) {
      if (enabled(event)) {
        choices.push_back(event);
      }
    }
    if (choices.empty()) {
      verdict.stuck = true;
      return verdict;
    }
    ++verdict.state_count;
    if (!apply(choices[rng.below(choices.size())], changes)) {
      verdict.empty_slot = true;
      return verdict;
    }
  }
  judge(verdict);
  return verdict;
}

}  // namespace pleach::support
