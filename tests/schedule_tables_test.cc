// The tables of network interfaces, of whatever schedule: they send all that it sends and nothing
// else, and what an entry waits for is what the order says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "pleach/api/inspect.h"
#include "pleach/collective/cursor.h"
#include "pleach/collective/program.h"
#include "pleach/collective/schedule_table.h"
#include "pleach/synthesis/algorithm.h"
#include "tests/support/algorithms.h"
#include "tests/support/random_schedules.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

using support::pick;
using support::specs_of;

// What a rank sends or receives, as the transfers say.
struct Event {
  int32_t step, source, target, chunk;
  TransferOp op;
  auto operator<=>(const Event&) const = default;
};

// A schedule, its table, and its transfers chunk by chunk.
struct Subject {
  explicit Subject(const Schedule& written_out)
      : schedule(written_out),
        order(Order::build(schedule)),
        table(ScheduleTable::build(schedule, order)) {
    for (int32_t stream = 0; stream < order.stream_count(); ++stream) {
      const Stream& what = order.stream(stream);
      const int32_t source = order.sources(stream).front(), target = order.targets(stream).front();
      for (int32_t chunk = what.first_chunk; chunk < what.first_chunk + what.chunk_count; ++chunk) {
        events.push_back({what.step, source, target, chunk, what.op});
      }
    }
    std::ranges::sort(events);
    for (const Event& event : events) {
      arrivals_at[{event.target, event.chunk}].push_back(event);
    }
  }
  int32_t phase_of(int32_t step) const {
    int32_t phase = 0;
    for (int32_t end = schedule.phase_steps[0]; end <= step;) {
      end += schedule.phase_steps[at(++phase)];
    }
    return phase;
  }
  // Arrivals of the chunk at the rank in steps before this one, in their order.
  std::vector<Event> arrivals(int32_t rank, int32_t chunk, int32_t before_step) const {
    std::vector<Event> found;
    const auto all = arrivals_at.find({rank, chunk});
    for (const Event& event : all == arrivals_at.end() ? std::vector<Event>() : all->second) {
      if (event.step < before_step) {
        found.push_back(event);
      }
    }
    return found;
  }

  const Schedule& schedule;
  Order order;
  ScheduleTable table;
  std::vector<Event> events;
  std::map<std::pair<int32_t, int32_t>, std::vector<Event>> arrivals_at;  // by rank and chunk
};

// Adds those of the phase that the value after these arrivals is made of.
void add_awaited(const Subject& subject, const std::vector<Event>& arrivals, int32_t phase,
                 std::set<int32_t>& ranks) {
  for (auto event = arrivals.rbegin(); event != arrivals.rend(); ++event) {
    if (subject.phase_of(event->step) == phase) {
      ranks.insert(event->source);
    }
    if (event->op == TransferOp::kCopy) {
      break;
    }
  }
}

std::set<int32_t> set_of(std::span<const int32_t> ranks) {
  return {ranks.begin(), ranks.end()};
}

// One line for each commit: from whom, when, of what.
std::set<Event> events_of(const Subject& subject, std::span<const int32_t> commits) {
  std::set<Event> found;
  for (const int32_t commit : commits) {
    const Commit& what = subject.order.commit(commit);
    const Stream& stream = subject.order.stream(what.stream);
    const Slot& slot = subject.order.slot(what.slot);
    found.insert({stream.step, subject.order.sources(what.stream).front(), slot.rank, slot.chunk,
                  stream.op});
  }
  return found;
}

void expect_waits(const Subject& subject, int32_t rank, const TableEntry& entry) {
  std::set<int32_t> awaited;
  std::set<Event> last;
  for (int32_t chunk = entry.first_chunk; chunk < entry.first_chunk + entry.chunk_count; ++chunk) {
    const auto arrivals = subject.arrivals(rank, chunk, entry.step);
    add_awaited(subject, arrivals, subject.phase_of(entry.step), awaited);
    if (!arrivals.empty()) {
      last.insert(arrivals.back());
    }
  }
  EXPECT_EQ(set_of(subject.table.awaited(entry)), awaited);
  EXPECT_EQ(events_of(subject, subject.table.commits(entry)), last);
}

// All streams once, merged and sorted; NOPs where nothing is sent though something is later on.
void expect_entries(const Subject& subject) {
  const auto& [schedule, order, table, events, arrivals_at] = subject;
  std::vector<int32_t> sent(at(order.stream_count()), 0);
  for (int32_t rank = 0; rank < table.rank_count(); ++rank) {
    std::set<std::tuple<int32_t, int32_t, int32_t>> gathers;
    std::vector<std::tuple<int32_t, int32_t, int32_t, TableOp>> places;
    std::set<int32_t> busy, nops;
    for (const TableEntry& entry : table.entries(rank)) {
      places.emplace_back(entry.step, entry.first_chunk, entry.chunk_count, entry.op);
      (entry.op == TableOp::kNop ? nops : busy).insert(entry.step);
      EXPECT_EQ(table.streams(entry).empty(), entry.op == TableOp::kNop);
      EXPECT_TRUE(entry.op != TableOp::kReduce || table.streams(entry).size() == 1);
      for (std::size_t k = 0; k < table.streams(entry).size(); ++k) {
        const int32_t stream = table.streams(entry)[k];
        const Stream& what = order.stream(stream);
        ++sent[at(stream)];
        EXPECT_EQ(order.sources(stream).front(), rank);
        EXPECT_EQ(order.targets(stream).front(), table.targets(entry)[k]);
        EXPECT_EQ(what.step, entry.step);
        EXPECT_EQ(what.first_chunk, entry.first_chunk);
        EXPECT_EQ(what.chunk_count, entry.chunk_count);
        EXPECT_EQ(what.op == TransferOp::kReduce, entry.op == TableOp::kReduce);
      }
      if (entry.op == TableOp::kGather) {
        EXPECT_TRUE(gathers.emplace(entry.step, entry.first_chunk, entry.chunk_count).second);
      }
      expect_waits(subject, rank, entry);
    }
    EXPECT_TRUE(std::ranges::is_sorted(places));
    for (int32_t step = 0; step < schedule.step_count(); ++step) {
      EXPECT_EQ(nops.contains(step),
                !busy.contains(step) && !busy.empty() && step < *busy.rbegin());
    }
  }
  EXPECT_EQ(sent, std::vector<int32_t>(sent.size(), 1));
}

// The end of a phase: what came in it and was not sent on in it.
void expect_ends(const Subject& subject) {
  const auto& [schedule, order, table, events, arrivals_at] = subject;
  int32_t end_step = 0;
  for (int32_t phase = 0; phase + 1 < table.phase_count(); ++phase) {
    end_step += schedule.phase_steps[at(phase)];
    for (int32_t rank = 0; rank < table.rank_count(); ++rank) {
      std::set<Event> expected, found;
      for (int32_t chunk = 0; chunk < schedule.chunks.count(); ++chunk) {
        const auto arrivals = subject.arrivals(rank, chunk, end_step);
        if (arrivals.empty() || subject.phase_of(arrivals.back().step) != phase) {
          continue;
        }
        const bool is_sent_on = std::ranges::any_of(events, [&](const Event& event) {
          return event.source == rank && event.chunk == chunk &&
                 event.step > arrivals.back().step && event.step < end_step;
        });
        if (!is_sent_on) {
          expected.insert(arrivals.back());
        }
      }
      for (const TableEntry& end : table.ends(rank, phase)) {
        EXPECT_EQ(end.step, end_step);
        EXPECT_TRUE(table.streams(end).empty());
        found.merge(events_of(subject, table.commits(end)));
        std::set<int32_t> awaited;
        add_awaited(subject, subject.arrivals(rank, end.first_chunk, end_step), phase, awaited);
        EXPECT_EQ(set_of(table.awaited(end)), awaited);
      }
      EXPECT_EQ(found, expected);
    }
  }
}

// Interfaces that walk their lists in any order, as messages come.
class Walk {
 public:
  // How interfaces tell what may be sent: by commits(), or by the ranks in an entry's fields, one
  // phase after the other.
  enum class By : uint8_t { kCommits, kFields };
  Walk(const Subject& subject, By by, Rng& rng)
      : subject_(subject),
        by_(by),
        rng_(rng),
        cursor_(subject.order, 1),
        committed_(at(subject.order.commit_count())) {
    for (int32_t rank = 0; rank < subject.table.rank_count(); ++rank) {
      for (const TableEntry& entry : subject.table.entries(rank)) {
        if (entry.op != TableOp::kNop) {
          waiting_.emplace_back(rank, entry);
        }
      }
    }
  }

  void run() {
    while (!waiting_.empty() || !in_flight_.empty()) {
      const bool sends_first = rng_.below(2) == 0;
      const bool moved = sends_first ? send() || commit() : commit() || send();
      ASSERT_TRUE(moved) << waiting_.size() << " entries and " << in_flight_.size()
                         << " chunks are stuck";
    }
  }

 private:
  using Waiting = std::pair<int32_t, TableEntry>;  // a rank and what it has to send

  bool has_committed(std::span<const int32_t> commits) const {
    return std::ranges::all_of(commits, [&](int32_t commit) { return committed_[at(commit)]; });
  }
  // Whether the rank's lists of phases before this one are done.
  bool has_reached(int32_t rank, int32_t phase) const {
    for (const Waiting& other : waiting_) {
      if (other.first == rank && subject_.phase_of(other.second.step) < phase) {
        return false;
      }
    }
    for (int32_t before = 0; before < phase; ++before) {
      for (const TableEntry& end : subject_.table.ends(rank, before)) {
        if (!has_committed(subject_.table.commits(end))) {
          return false;
        }
      }
    }
    return true;
  }
  bool is_clear(const Waiting& waiting) const {
    const auto& [rank, entry] = waiting;
    if (by_ == By::kCommits) {
      return has_committed(subject_.table.commits(entry));
    }
    const int32_t phase = subject_.phase_of(entry.step);
    const std::set<int32_t> awaited = set_of(subject_.table.awaited(entry));
    for (int32_t commit = 0; commit < subject_.order.commit_count(); ++commit) {
      const Commit& what = subject_.order.commit(commit);
      const Slot& slot = subject_.order.slot(what.slot);
      const int32_t step = subject_.order.stream(what.stream).step;
      if (slot.rank == rank && slot.chunk >= entry.first_chunk &&
          slot.chunk < entry.first_chunk + entry.chunk_count && step < entry.step &&
          subject_.phase_of(step) == phase &&
          awaited.contains(subject_.order.sources(what.stream).front()) &&
          !committed_[at(commit)]) {
        return false;
      }
    }
    return has_reached(rank, phase);
  }
  bool send() {
    std::vector<std::size_t> clear;
    for (std::size_t k = 0; k < waiting_.size(); ++k) {
      const std::span<const int32_t> streams = subject_.table.streams(waiting_[k].second);
      const bool may_start = cursor_.may_start(streams.front(), 0);
      const bool is_clear_now = is_clear(waiting_[k]);
      if (by_ == By::kCommits) {
        EXPECT_EQ(is_clear_now, may_start);
      }
      if (is_clear_now) {
        EXPECT_TRUE(may_start);
        clear.push_back(k);
      }
    }
    if (clear.empty()) {
      return false;
    }
    const auto chosen =
        waiting_.begin() + static_cast<std::ptrdiff_t>(clear[rng_.below(clear.size())]);
    for (const int32_t stream : subject_.table.streams(chosen->second)) {
      for (const Read& read : subject_.order.reads(stream)) {
        cursor_.finish_read(read, 0);
      }
      for (int32_t k = 0; k < count_of(subject_.order.commits(stream)); ++k) {
        in_flight_.push_back(subject_.order.first_commit(stream) + k);
      }
    }
    waiting_.erase(chosen);
    return true;
  }
  bool commit() {
    std::vector<std::size_t> ready;
    for (std::size_t k = 0; k < in_flight_.size(); ++k) {
      if (cursor_.may_commit(subject_.order.commit(in_flight_[k]), 0)) {
        ready.push_back(k);
      }
    }
    if (ready.empty()) {
      return false;
    }
    const std::size_t chosen = ready[rng_.below(ready.size())];
    cursor_.finish_commit(subject_.order.commit(in_flight_[chosen]), 0);
    committed_[at(in_flight_[chosen])] = true;
    in_flight_.erase(in_flight_.begin() + static_cast<std::ptrdiff_t>(chosen));
    return true;
  }

  const Subject& subject_;
  const By by_;
  Rng& rng_;
  Cursor cursor_;
  std::vector<bool> committed_;
  std::vector<Waiting> waiting_;
  std::vector<int32_t> in_flight_;  // commits
};

void expect_table(const Schedule& schedule, Rng& rng) {
  const Subject subject(schedule);
  expect_entries(subject);
  expect_ends(subject);
  if (subject.events.size() <= 120) {  // each move looks at all entries
    Walk(subject, Walk::By::kCommits, rng).run();
    Walk(subject, Walk::By::kFields, rng).run();
  }
}

TEST(ScheduleTables, SayWhatSchedulesOfAllAlgorithmsSay) {
  Rng rng(1);
  for (const char* const place :
       {"ring:5", "torus:3x4", "mesh:3x3", "fully_connected:5", "switch:4,reduce,multicast",
        "hypercube:8", "fat_tree:16,radix=4", "bigraph:2x4", "dgx_h100:1"}) {
    const Topology topology = support::topology_of(place);
    int32_t made = 0;
    for (const Algorithm* algorithm : algorithms()) {
      for (const std::string& spec : specs_of(*algorithm)) {
        for (const CollectiveKind collective : algorithm->collectives) {
          SCOPED_TRACE(std::string(place) + " " + spec + " " + std::string(to_text(collective)));
          SynthesisRequest request{topology, {}, collective};
          request.wants_certificate = false;
          const auto schedule = synthesize(request, spec);
          if (!schedule || !check_switchless(*schedule)) {
            continue;
          }
          const auto written_out = expand(*schedule, nullptr);
          ASSERT_TRUE(written_out) << written_out.error().message;
          expect_table(*written_out, rng);
          ++made;
        }
      }
    }
    EXPECT_GT(made, 20) << place;
  }
}

TEST(ScheduleTables, SayWhatAnySchedulesSay) {
  const uint64_t seed = 3;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  for (int32_t round = 0; round < support::repeated(2000); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Schedule schedule =
        support::random_schedule({.most_ranks = 5, .most_steps = 7, .most_moves = 20}, rng);
    // Phases anywhere, empty ones too.
    for (int32_t left = pick(rng, 4), steps = schedule.step_count(); left > 0; --left) {
      const int32_t first = pick(rng, steps + 1);
      steps -= first;
      schedule.phase_steps.back() = first;
      schedule.phase_steps.push_back(steps);
    }
    ASSERT_TRUE(check_form(schedule, nullptr).empty());
    expect_table(schedule, rng);
    if (HasFailure()) {
      return;
    }
  }
}

std::shared_ptr<const Schedule> made_by(const std::string& spec, const Topology& topology) {
  return std::make_shared<const Schedule>(*synthesize({topology, {}}, spec));
}

TEST(ScheduleTables, AreThoseOfTheScheduleWrittenOut) {
  const Topology topology = support::topology_of("ring:12");
  const auto symmetric = made_by("ring", topology);
  const auto written = made_by("ring,form=explicit", topology);
  ASSERT_TRUE(symmetric->symmetry && !written->symmetry);
  const auto tables = tabulate(symmetric, 1200), expected = tabulate(written, 1200);
  ASSERT_TRUE(tables && expected);
  EXPECT_EQ(entry_count(*tables, 5), 22);
  EXPECT_EQ(tables->widths.entry(), expected->widths.entry());
  for (int32_t rank = 0; rank < 12; ++rank) {
    EXPECT_EQ(entry_count(*tables, rank), entry_count(*expected, rank));
    for (int32_t k = 0; k < entry_count(*tables, rank); ++k) {
      const TableEntry& left = tables->table.entries(rank)[at(k)];
      const TableEntry& right = expected->table.entries(rank)[at(k)];
      EXPECT_EQ(interval_of(left, &*tables->placement), interval_of(right, &*expected->placement));
      EXPECT_EQ(set_of(tables->table.parents(left)), set_of(expected->table.parents(right)));
      EXPECT_EQ(set_of(tables->table.children(left)), set_of(expected->table.children(right)));
    }
  }
}

TEST(ScheduleTables, HaveNoEntriesForSwitches) {
  const Topology topology = support::topology_of("switch:4,reduce,multicast");
  const auto tables = tabulate(made_by("in_switch", topology), std::nullopt);
  ASSERT_FALSE(tables);
  EXPECT_EQ(tables.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(tables.error().message,
            "the schedule needs a switch that reduces: node 4, step 0, chunk 0");
}

}  // namespace
}  // namespace pleach
