// Oracle: runs a small schedule in every legal interleaving. States the rules of execution afresh,
// from docs/architecture.md, so that Order, Cursor and verifier can be tested against it.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <optional>
#include <set>
#include <unordered_set>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/collective/schedule.h"

namespace pleach::support {

// The rules; every default but the first three is the real one, every other value a weaker one.
struct OracleRules {
  enum class Tie : uint8_t { kSegmentThenChunk, kNone, kChunk, kChunkThenSegment };
  enum class Scratch : uint8_t { kEverySegment, kByPeriod, kOneSegment };

  int32_t segment_count = 1;
  int32_t landing_places = 0;  // per connection; 0: as many as wanted
  Scratch scratch = Scratch::kEverySegment;

  Tie tie = Tie::kSegmentThenChunk;
  bool messages_commit_whole = false;
  bool receiver_reserves = false;  // the reserved place is for the receiver's smallest
  bool fusion_waits = false;       // a reduction waits for the arrivals of later steps too
  bool sources_by_node = false;
  bool pull_only = false;  // no landing place: a read is its commit
  bool aliased = false;    // in-place all_to_all on the bare buffers
  // Messages that are read at their source when they are committed, by their place among the
  // schedule's; empty: none. A chunk's read is over with its commit, or with all of its message.
  std::vector<bool> borrowed = {};
  bool borrows_whole = false;
  bool folds_early = false;  // by rank: an arrival does not wait for the others of its step
};

struct OracleVerdict {
  bool decided = true;         // false: too large, or more states than the limit
  bool stuck = false;          // some interleaving cannot go on
  bool empty_slot = false;     // some interleaving reads or reduces into an empty slot
  bool wrong = false;          // some interleaving ends with a wrong output
  bool replicated = true;      // in every interleaving all outputs of a chunk have the same bits
  std::set<uint64_t> results;  // one number for all outputs of a complete interleaving
  int64_t state_count = 0;

  bool right() const { return decided && !stuck && !empty_slot && !wrong; }
};

// What the collective asks of the ranks, stated afresh. Chunk numbers are of a uniform grid.
struct OracleTask {
  CollectiveKind collective;
  int32_t root = 0;
  int32_t rank_count = 1;
  int32_t chunk_count = 1;

  int32_t block_of(int32_t chunk, int32_t blocks) const {
    return static_cast<int32_t>(int64_t{chunk} * blocks / chunk_count);
  }
  bool has_input(int32_t rank, int32_t chunk) const;
  bool has_output(int32_t rank, int32_t chunk) const;
};

// What can happen in a schedule, and what each event waits for.
class OracleEvents {
 public:
  static constexpr std::size_t kLimit = 256;
  using Done = std::bitset<kLimit>;

  struct Message {  // a stream
    int32_t first_chunk = 0;
    int32_t chunk_count = 1;
    int32_t step = 0;
    TransferOp op = TransferOp::kCopy;
    std::vector<int32_t> sources = {};  // ranks, ascending
    std::vector<int32_t> targets = {};
    int32_t first_event = 0;  // of segment 0: its read, then its commits
    int32_t connection = 0;

    bool carries(int32_t chunk) const {
      return chunk >= first_chunk && chunk < first_chunk + chunk_count;
    }
    int32_t commit_count() const { return chunk_count * count_of(targets); }
  };
  struct Event {
    int32_t message = 0;
    int32_t segment = 0;
    int32_t target = -1;  // rank; -1: the read
    int32_t chunk = 0;    // of the schedule
  };

  // Grids are uniform. `only_chunk`: the part of the schedule that moves this chunk.
  OracleEvents(const Schedule& schedule, const OracleRules& rules,
               std::optional<int32_t> only_chunk = std::nullopt);

  // Whether it is small enough, and every message has two ends: else there is nothing to explore.
  bool fits() const;
  bool is_borrowed(int32_t message) const {
    return !rules_.borrowed.empty() && rules_.borrowed[at(message)];
  }
  const OracleRules& rules() const { return rules_; }
  const OracleTask& task() const { return task_; }
  int32_t period() const { return period_; }
  bool folds_by_rank() const { return folds_by_rank_; }
  const std::vector<Message>& messages() const { return messages_; }
  const std::vector<Event>& all() const { return events_; }

  // Of a commit, its own read aside.
  bool may_happen(const Done& done, int32_t event) const { return has(done, needs_[at(event)]); }
  // The part of a read that one source has; `chunk` counts from the message's first.
  bool may_read(const Done& done, int32_t message, std::size_t source, int32_t chunk,
                int32_t segment) const {
    return has(done, reads_of_source_[read_part(message, source, chunk, segment)]);
  }
  bool may_commit(const Done& done, int32_t message, std::size_t target, int32_t chunk,
                  int32_t segment) const {
    return may_happen(done, commit_event(message, target, chunk, segment));
  }
  int32_t read_event(int32_t message, int32_t segment) const {
    const Message& what = messages_[at(message)];
    return what.first_event + segment * (1 + what.commit_count());
  }
  int32_t commit_event(int32_t message, std::size_t target, int32_t chunk, int32_t segment) const {
    return read_event(message, segment) + 1 +
           static_cast<int32_t>(target) * messages_[at(message)].chunk_count + chunk;
  }

 private:
  static bool has(const Done& done, const Done& needed) { return (done & needed) == needed; }
  void join_messages(const Schedule& schedule, std::optional<int32_t> only_chunk);
  void add_events();
  void add_needs();
  Done read_needs(const Message& message, std::size_t source, int32_t chunk, int32_t segment) const;
  Done commit_needs(const Message& message, int32_t target, int32_t chunk, int32_t segment) const;
  Done scratch_needs(int32_t rank, int32_t chunk, int32_t segment) const;
  bool source_before(const Message& left, const Message& right) const;
  void need_read(Done& needs, int32_t event, int32_t chunk) const;
  std::size_t read_part(int32_t message, std::size_t source, int32_t chunk, int32_t segment) const {
    const Message& what = messages_[at(message)];
    return first_read_part_[at(message)] +
           (source * at(what.chunk_count) + at(chunk)) * at(rules_.segment_count) + at(segment);
  }

  OracleRules rules_;
  OracleTask task_;
  int32_t period_;
  bool folds_by_rank_;
  std::vector<int32_t> node_of_rank_;
  std::vector<Message> messages_;
  std::vector<Event> events_;
  std::vector<Done> needs_;                   // by event; of a commit, its own read aside
  std::vector<Done> reads_of_source_;         // by read part
  std::vector<std::size_t> first_read_part_;  // by message
};

// Values are pairs: the sum of random 64-bit inputs, which tells whether each was counted once, and
// a number of the expression that is equal when the bits must be, whatever the reduction: it is
// neither commutative nor associative.
class Oracle {
 public:
  Oracle(const Schedule& schedule, const OracleRules& rules,
         std::optional<int32_t> only_chunk = std::nullopt);

  bool fits() const { return events_.fits(); }
  OracleVerdict explore(int64_t state_limit, bool stop_at_fault);
  // One random interleaving.
  OracleVerdict walk(Rng& rng);

 private:
  using Message = OracleEvents::Message;
  using Event = OracleEvents::Event;
  struct Value {
    uint64_t sum = 0;
    uint64_t expression = 0;  // 0: empty
  };
  struct Change {
    std::size_t place = 0;
    Value old;
  };

  static uint64_t mix(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
    return value ^ (value >> 31);
  }
  static Value add(const Value& left, const Value& right) {
    return {left.sum + right.sum, mix(left.expression * 3 + mix(right.expression)) | 1};
  }

  void place_cells();
  void fill_inputs();
  Value input(int32_t rank, int32_t chunk, int32_t segment) const;
  uint64_t expected_sum(int32_t chunk, int32_t segment) const;
  std::size_t slot(int32_t rank, int32_t chunk, int32_t segment) const {
    const std::size_t segments = at(events_.rules().segment_count);
    return (at(rank) * at(events_.task().chunk_count) + at(chunk)) * segments + at(segment);
  }
  std::size_t cell(int32_t rank, int32_t chunk, int32_t segment) const {
    return cell_of_slot_[slot(rank, chunk, segment)];
  }
  const Message& message_of(const Event& event) const {
    return events_.messages()[at(event.message)];
  }
  std::size_t payload(const Event& event, int32_t chunk) const {
    return first_payload_[at(event.message)] +
           at(chunk - message_of(event).first_chunk) * at(events_.rules().segment_count) +
           at(event.segment);
  }

  bool enabled(int32_t event) const;
  bool admitted(const Event& read) const;
  bool precedes(const Event& left, const Event& right) const;  // in key order
  bool has_left(const Event& read) const;
  bool committed(const Event& read) const;
  bool apply(int32_t event, std::vector<Change>& changes);  // false: an empty slot
  Value folded(const Event& commit, const Value& own) const;
  void undo(int32_t event, const std::vector<Change>& changes);
  void set(std::size_t place, const Value& value);
  void flip(int32_t event);
  void judge(OracleVerdict& verdict) const;
  void visit(OracleVerdict& verdict, int64_t state_limit, bool stop_at_fault);
  void restart();

  OracleEvents events_;
  std::optional<int32_t> only_chunk_;
  std::vector<std::size_t> first_payload_;  // by message
  std::vector<std::size_t> cell_of_slot_;
  std::vector<uint64_t> random_;  // of the inputs
  std::vector<Value> initial_;

  OracleEvents::Done done_;
  std::vector<Value> values_;  // cells, then payloads
  uint64_t hash_ = 0;
  std::unordered_set<uint64_t> visited_;
};

}  // namespace pleach::support

// IWYU pragma: begin_exports
#include "tests/support/oracle_rules.h"
#include "tests/support/oracle_run.h"
// IWYU pragma: end_exports
