// The Oracle's execution: what may happen next, and the walk over all that can.
#pragma once

#include <vector>

#include "pleach/base/index.h"
#include "tests/support/oracle.h"

namespace pleach::support {

inline bool Oracle::precedes(const Event& left, const Event& right) const {
  const auto key = [this](const Event& read) {
    const Message& message = messages_[at(read.message)];
    const int32_t slot = read.segment * period_ + message.step;
    switch (rules_.tie) {
      case OracleRules::Tie::kNone:
        return std::tuple(slot, 0, 0);
      case OracleRules::Tie::kChunk:
        return std::tuple(slot, message.first_chunk, 0);
      case OracleRules::Tie::kChunkThenSegment:
        return std::tuple(slot, message.first_chunk, read.segment);
      case OracleRules::Tie::kSegmentThenChunk:
        break;
    }
    return std::tuple(slot, read.segment, message.first_chunk);
  };
  return key(left) < key(right);
}

inline bool Oracle::committed(const Event& read) const {
  const int32_t event = read_event(read.message, read.segment);
  for (int32_t commit = 1; commit <= messages_[at(read.message)].commit_count(); ++commit) {
    if (!done_[at(event + commit)]) {
      return false;
    }
  }
  return true;
}

// "A segment other than the connection's smallest uncommitted one is admitted only if afterwards a
// place is still free or is held by that smallest one."
inline bool Oracle::admitted(const Event& read) const {
  const Message& message = messages_[at(read.message)];
  int32_t held = 0;
  std::vector<const Event*> reserving;  // uncommitted, of those the reservation is for
  for (const Event& other : events_) {
    if (other.target >= 0 || committed(other)) {
      continue;
    }
    const Message& what = messages_[at(other.message)];
    const bool same = what.connection == message.connection;
    held += same && done_[at(read_event(other.message, other.segment))] ? 1 : 0;
    if (same || (rules_.receiver_reserves && what.targets == message.targets)) {
      reserving.push_back(&other);
    }
  }
  if (held >= rules_.landing_places) {
    return false;
  }
  bool is_smallest = true, smallest_holds = false;
  for (const Event* other : reserving) {
    is_smallest = is_smallest && !precedes(*other, read);
    const bool smallest = std::none_of(reserving.begin(), reserving.end(), [&](const Event* third) {
      return precedes(*third, *other);
    });
    smallest_holds = smallest_holds ||
                     (smallest && messages_[at(other->message)].connection == message.connection &&
                      done_[at(read_event(other->message, other->segment))]);
  }
  return is_smallest || smallest_holds || held + 1 < rules_.landing_places;
}

inline bool Oracle::enabled(int32_t index) const {
  const Event& event = events_[at(index)];
  if (done_[at(index)] || !has(done_, needs_[at(index)])) {
    return false;
  }
  const int32_t read = read_event(event.message, event.segment);
  if (event.target >= 0) {
    return done_[at(read)];
  }
  if (rules_.pull_only) {
    Done with_read = done_;
    with_read.set(at(read));
    for (int32_t commit = 1; commit <= messages_[at(event.message)].commit_count(); ++commit) {
      if (!has(with_read, needs_[at(read + commit)])) {
        return false;
      }
    }
  }
  return rules_.landing_places == 0 || admitted(event);
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

inline bool Oracle::apply(int32_t index, std::vector<Change>& changes) {
  const Event& event = events_[at(index)];
  const Message& message = messages_[at(event.message)];
  const auto change = [&](std::size_t place, const Value& value) {
    changes.push_back({place, values_[place]});
    set(place, value);
  };
  flip(index);
  if (event.target >= 0) {
    const std::size_t target = cell(event.target, event.chunk, event.segment);
    const std::size_t source = payload(event.message, event.chunk, event.segment);
    if (message.op == TransferOp::kReduce && values_[target].expression == 0) {
      return false;
    }
    change(target, message.op == TransferOp::kCopy ? values_[source]
                                                   : add(values_[target], values_[source]));
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
    change(payload(event.message, chunk, event.segment), value);
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
  for (int32_t chunk = 0; chunk < chunk_count_; ++chunk) {
    if (only_chunk_ && chunk != *only_chunk_) {
      continue;
    }
    for (int32_t segment = 0; segment < rules_.segment_count; ++segment) {
      const Value* first = nullptr;
      for (int32_t rank = 0; rank < rank_count_; ++rank) {
        if (!has_output(rank, chunk)) {
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
  for (int32_t event = 0; event < count_of(events_); ++event) {
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
  if (is_end && done_.count() == events_.size()) {
    judge(verdict);
  } else if (is_end) {
    verdict.stuck = true;
  }
}

inline OracleVerdict Oracle::explore(int64_t state_limit, bool stop_at_fault) {
  OracleVerdict verdict;
  if (!fits_) {
    verdict.decided = false;
    return verdict;
  }
  restart();
  visit(verdict, state_limit, stop_at_fault);
  return verdict;
}

inline OracleVerdict Oracle::walk(Rng& rng) {
  OracleVerdict verdict;
  if (!fits_) {
    verdict.decided = false;
    return verdict;
  }
  restart();
  std::vector<Change> changes;
  while (done_.count() < events_.size()) {
    std::vector<int32_t> choices;
    for (int32_t event = 0; event < count_of(events_); ++event) {
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
