#include "pleach/collective/schedule_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <compare>

#include "pleach/base/check.h"

namespace pleach {
namespace {

// A stream as its source sees it, in the order of the source's entries.
struct SentStream {
  int32_t source;
  int32_t step;
  int32_t first_chunk;
  int32_t chunk_count;
  TableOp op;
  int32_t target;
  int32_t stream;
  auto operator<=>(const SentStream&) const = default;

  // Whether one entry sends both.
  bool shares_entry(const SentStream& other) const {
    return op == TableOp::kGather && other.op == op && source == other.source &&
           step == other.step && first_chunk == other.first_chunk &&
           chunk_count == other.chunk_count;
  }
};

std::vector<SentStream> sent_streams(const Order& order) {
  std::vector<SentStream> sent;
  sent.reserve(at(order.stream_count()));
  for (int32_t stream = 0; stream < order.stream_count(); ++stream) {
    PLEACH_CHECK(order.sources(stream).size() == 1 && order.targets(stream).size() == 1,
                 "a table's streams go from one rank to one");
    const Stream& what = order.stream(stream);
    const TableOp op = what.op == TransferOp::kReduce ? TableOp::kReduce : TableOp::kGather;
    sent.push_back({order.sources(stream).front(), what.step, what.first_chunk, what.chunk_count,
                    op, order.targets(stream).front(), stream});
  }
  std::ranges::sort(sent);
  return sent;
}

// A chunk that a rank awaits at the end of a phase.
struct LastArrival {
  int32_t rank;
  int32_t phase;
  int32_t chunk;
  int32_t commit;
  auto operator<=>(const LastArrival&) const = default;
};

int32_t width_of(int64_t greatest) {
  return static_cast<int32_t>(std::bit_width(static_cast<uint64_t>(greatest)));
}

}  // namespace

class ScheduleTableBuilder {
 public:
  ScheduleTableBuilder(const Schedule& schedule, const Order& order)
      : order_(order), phase_end_(schedule.phase_steps) {
    for (std::size_t phase = 1; phase < phase_end_.size(); ++phase) {
      phase_end_[phase] += phase_end_[phase - 1];
    }
    table_.rank_count_ = schedule.rank_count();
    table_.phase_count_ = count_of(phase_end_);
  }

  ScheduleTable build() && {
    add_entries();
    add_ends();
    return std::move(table_);
  }

 private:
  int32_t phase_of(int32_t step) const {
    return static_cast<int32_t>(std::ranges::upper_bound(phase_end_, step) - phase_end_.begin());
  }
  const Stream& stream_of(int32_t commit) const {
    return order_.stream(order_.commit(commit).stream);
  }
  int32_t source_of(int32_t commit) const {
    return order_.sources(order_.commit(commit).stream).front();
  }

  void add_entries() {
    const std::vector<SentStream> sent = sent_streams(order_);
    auto next = sent.begin();
    for (int32_t rank = 0; rank < table_.rank_count_; ++rank) {
      table_.first_entry_.push_back(count_of(table_.entries_));
      for (int32_t step = 0; next != sent.end() && next->source == rank;) {
        for (; step < next->step; ++step) {
          table_.entries_.push_back({.op = TableOp::kNop, .step = step});
        }
        const auto last = std::find_if(next + 1, sent.end(), [&](const SentStream& other) {
          return !next->shares_entry(other);
        });
        add_entry({next, last});
        step = next->step + 1;
        next = last;
      }
    }
    table_.first_entry_.push_back(count_of(table_.entries_));
  }

  void add_entry(std::span<const SentStream> sent) {
    const SentStream& one = sent.front();
    TableEntry entry{one.op, one.step, one.first_chunk, one.chunk_count};
    entry.sends = {count_of(table_.streams_), count_of(sent)};
    for (const SentStream& each : sent) {
      table_.streams_.push_back(each.stream);
      table_.targets_.push_back(each.target);
    }
    entry.commits.first = count_of(table_.commits_);
    ranks_.clear();
    for (const Read& read : order_.reads(one.stream)) {
      if (read.after_commits > 0) {
        const auto commits = order_.slot_commits(read.slot).first(at(read.after_commits));
        table_.commits_.push_back(commits.back());
        find_awaited(commits, phase_of(one.step));
      }
    }
    entry.commits.count = count_of(table_.commits_) - entry.commits.first;
    entry.awaited = add_awaited();
    table_.entries_.push_back(entry);
  }

  // Adds to ranks_ whose messages of the phase are in the value of a slot after these commits.
  void find_awaited(std::span<const int32_t> commits, int32_t phase) {
    for (std::size_t place = commits.size(); place-- > 0;) {
      const Stream& stream = stream_of(commits[place]);
      if (phase_of(stream.step) != phase) {
        return;
      }
      ranks_.push_back(source_of(commits[place]));
      if (stream.op == TransferOp::kCopy) {
        return;
      }
    }
  }

  // The table's list of ranks_, each once.
  TableEntry::List add_awaited() {
    std::ranges::sort(ranks_);
    ranks_.erase(std::unique(ranks_.begin(), ranks_.end()), ranks_.end());
    table_.awaited_.insert(table_.awaited_.end(), ranks_.begin(), ranks_.end());
    return {count_of(table_.awaited_) - count_of(ranks_), count_of(ranks_)};
  }

  // The last arrivals in phases that no read of the phase comes after.
  std::vector<LastArrival> last_arrivals() const {
    std::vector<LastArrival> arrivals;
    for (int32_t slot = 0; slot < order_.slot_count(); ++slot) {
      const std::span<const int32_t> commits = order_.slot_commits(slot);
      for (std::size_t place = 0; place < commits.size(); ++place) {
        const int32_t phase = phase_of(stream_of(commits[place]).step);
        const bool is_last =
            place + 1 == commits.size() || phase_of(stream_of(commits[place + 1]).step) != phase;
        const std::span<const SlotRead> reads = order_.slot_reads(slot);
        const auto after = static_cast<int32_t>(place) + 1;
        const auto first = std::ranges::lower_bound(reads, after, {}, &SlotRead::after_commits);
        const auto end = std::ranges::upper_bound(reads, after, {}, &SlotRead::after_commits);
        const bool is_sent_on = std::any_of(first, end, [&](const SlotRead& read) {
          return phase_of(order_.stream(read.stream).step) == phase;
        });
        if (is_last && !is_sent_on && phase + 1 < table_.phase_count_) {
          const auto& [rank, chunk] = order_.slot(slot);
          arrivals.push_back({rank, phase, chunk, commits[place]});
        }
      }
    }
    std::ranges::sort(arrivals);
    return arrivals;
  }

  void add_ends() {
    const std::vector<LastArrival> arrivals = last_arrivals();
    auto next = arrivals.begin();
    for (int32_t rank = 0; rank < table_.rank_count_; ++rank) {
      for (int32_t phase = 0; phase < table_.phase_count_; ++phase) {
        table_.first_end_.push_back(count_of(table_.ends_));
        for (; next != arrivals.end() && next->rank == rank && next->phase == phase; ++next) {
          add_end(*next);
        }
      }
    }
    table_.first_end_.push_back(count_of(table_.ends_));
  }

  // Neighbouring chunks that end alike are one.
  void add_end(const LastArrival& arrival) {
    const Commit& last = order_.commit(arrival.commit);
    ranks_.clear();
    find_awaited(order_.slot_commits(last.slot).first(at(last.after_commits) + 1), arrival.phase);
    table_.commits_.push_back(arrival.commit);
    TableEntry end;
    end.op =
        stream_of(arrival.commit).op == TransferOp::kReduce ? TableOp::kReduce : TableOp::kGather;
    end.step = phase_end_[at(arrival.phase)];
    end.first_chunk = arrival.chunk;
    end.chunk_count = 1;
    end.commits = {count_of(table_.commits_) - 1, 1};
    end.awaited = add_awaited();
    if (count_of(table_.ends_) > table_.first_end_.back()) {
      TableEntry& before = table_.ends_.back();
      if (before.op == end.op && before.first_chunk + before.chunk_count == end.first_chunk &&
          std::ranges::equal(table_.awaited(before), table_.awaited(end))) {
        ++before.chunk_count;
        ++before.commits.count;
        table_.awaited_.resize(at(end.awaited.first));
        return;
      }
    }
    table_.ends_.push_back(end);
  }

  const Order& order_;
  std::vector<int32_t> phase_end_;  // the step after each
  ScheduleTable table_;
  std::vector<int32_t> ranks_;  // whom the entry that is being added waits for
};

std::string_view to_text(TableOp op) {
  constexpr std::array<std::string_view, 3> kTexts = {"reduce", "gather", "nop"};
  return kTexts[at(op)];
}

ScheduleTable ScheduleTable::build(const Schedule& schedule, const Order& order) {
  PLEACH_CHECK(!schedule.symmetry, "a table is of a schedule that is written out");
  return ScheduleTableBuilder(schedule, order).build();
}

Interval interval_of(const TableEntry& entry, const Placement* placement) {
  const int32_t end = entry.first_chunk + entry.chunk_count;
  if (placement == nullptr || entry.chunk_count == 0) {
    return {entry.first_chunk, end};
  }
  return {placement->begin(entry.first_chunk),
          placement->begin(end - 1) + placement->length(end - 1)};
}

TableWidths widths_of(const ScheduleTable& table, const Placement* placement) {
  const int64_t ranks = table.rank_count();
  int64_t flow = 0, parents = 0, children = 0, step = 0, start = 0, size = 0;
  for (int32_t rank = 0; rank < table.rank_count(); ++rank) {
    for (const TableEntry& entry : table.entries(rank)) {
      const Interval interval = interval_of(entry, placement);
      flow = std::max<int64_t>(flow, entry.flow());
      parents = std::max<int64_t>(parents, count_of(table.parents(entry)));
      children = std::max<int64_t>(children, count_of(table.children(entry)));
      step = std::max<int64_t>(step, entry.step);
      start = std::max(start, interval.begin);
      size = std::max(size, interval.end - interval.begin);
    }
  }
  const auto width_of_ranks = [&](int64_t most) {
    return static_cast<int32_t>(std::min(ranks, most * width_of(ranks)));
  };
  return {.flow = width_of(flow),
          .parent = width_of_ranks(parents),
          .children = width_of_ranks(children),
          .step = width_of(step),
          .start = width_of(start),
          .size = width_of(size)};
}

}  // namespace pleach
