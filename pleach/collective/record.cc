#include "pleach/collective/record.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "pleach/base/index.h"
#include "pleach/base/names.h"
#include "pleach/collective/cursor.h"

namespace pleach {
namespace {

using Kind = RecordEvent::Kind;

constexpr std::array<Name<Kind>, 3> kKindNames = {{
    {Kind::kStartRead, "start of read"},
    {Kind::kFinishRead, "end of read"},
    {Kind::kCommit, "commit"},
}};

class Replay {
 public:
  Replay(const Order& order, int32_t segment_count, int32_t translate_count)
      : order_(order),
        segment_count_(segment_count),
        translate_count_(translate_count),
        cursor_(order, segment_count, translate_count),
        read_state_(copies() * at(order.read_count())),
        committed_(copies() * at(order.commit_count())),
        started_count_(copies() * at(order.stream_count())) {}

  Status run(std::span<const Record> records);

 private:
  enum class ReadState : uint8_t { kWaiting, kStarted, kFinished };
  struct Place {  // of an event, for messages
    std::size_t record = 0;
    std::size_t index = 0;
  };

  std::size_t copies() const { return at(segment_count_) * at(translate_count_); }
  // Position of `item` for the event's segment and translate, in an array of all copies.
  std::size_t position(int32_t item, const RecordEvent& event) const {
    return at(item) * copies() + at(event.segment) * at(translate_count_) + at(event.translate);
  }

  Status check_range(const RecordEvent& event, Place place) const;
  // Whether the event must wait for events of another record.
  bool must_wait(const RecordEvent& event) const;
  Status apply(const RecordEvent& event, Place place);
  Status check_complete() const;
  Error error(const RecordEvent& event, Place place, std::string_view why) const;
  std::string describe(Kind kind, int32_t item, int32_t segment, int32_t translate) const;

  const Order& order_;
  int32_t segment_count_;
  int32_t translate_count_;
  Cursor cursor_;
  std::vector<ReadState> read_state_;
  std::vector<bool> committed_;
  std::vector<int32_t> started_count_;  // by stream: reads that have started
};

std::string Replay::describe(Kind kind, int32_t item, int32_t segment, int32_t translate) const {
  const bool is_commit = kind == Kind::kCommit;
  const int32_t slot = is_commit ? order_.commit(item).slot : order_.read(item).slot;
  const int32_t stream = is_commit ? order_.commit(item).stream : order_.read(item).stream;
  return fmt::format("{} {}: chunk {} at rank {}, step {}, segment {}, translate {}",
                     name_of(kKindNames, kind), item, order_.slot(slot).chunk,
                     order_.slot(slot).rank, order_.stream(stream).step, segment, translate);
}

Error Replay::error(const RecordEvent& event, Place place, std::string_view why) const {
  return invalid(fmt::format("record {} event {} ({}) {}", place.record, place.index,
                             describe(event.kind, event.item, event.segment, event.translate),
                             why));
}

Status Replay::check_range(const RecordEvent& event, Place place) const {
  const int32_t count = event.kind == Kind::kCommit ? order_.commit_count() : order_.read_count();
  if (event.item < 0 || event.item >= count || event.segment < 0 ||
      event.segment >= segment_count_ || event.translate < 0 ||
      event.translate >= translate_count_) {
    return invalid(
        fmt::format("record {} event {}: no such event: {} {} of {}, segment {} of {}, "
                    "translate {} of {}",
                    place.record, place.index, name_of(kKindNames, event.kind), event.item, count,
                    event.segment, segment_count_, event.translate, translate_count_));
  }
  return ok();
}

bool Replay::must_wait(const RecordEvent& event) const {
  if (event.kind != Kind::kCommit) {
    return false;
  }
  const int32_t stream = order_.commit(event.item).stream;
  return at(started_count_[position(stream, event)]) < order_.reads(stream).size();
}

Status Replay::apply(const RecordEvent& event, Place place) {
  if (event.kind == Kind::kCommit) {
    const Commit& commit = order_.commit(event.item);
    if (committed_[position(event.item, event)]) {
      return error(event, place, "happens twice");
    }
    if (!cursor_.may_commit(commit, event.segment, event.translate)) {
      return error(event, place,
                   fmt::format("must wait for {} commits and {} reads of its slot; done are {} "
                               "and {}",
                               commit.after_commits, commit.after_reads,
                               cursor_.commits(commit.slot, event.segment, event.translate),
                               cursor_.reads(commit.slot, event.segment, event.translate)));
    }
    committed_[position(event.item, event)] = true;
    cursor_.finish_commit(commit, event.segment, event.translate);
    return ok();
  }
  const Read& read = order_.read(event.item);
  ReadState& state = read_state_[position(event.item, event)];
  if (event.kind == Kind::kStartRead) {
    if (state != ReadState::kWaiting) {
      return error(event, place, "happens twice");
    }
    if (!cursor_.may_read(read, event.segment, event.translate)) {
      return error(
          event, place,
          fmt::format("must wait for {} commits of its slot; done are {}", read.after_commits,
                      cursor_.commits(read.slot, event.segment, event.translate)));
    }
    state = ReadState::kStarted;
    ++started_count_[position(read.stream, event)];
    return ok();
  }
  if (state != ReadState::kStarted) {
    return error(event, place,
                 state == ReadState::kWaiting ? "comes before its start" : "happens twice");
  }
  state = ReadState::kFinished;
  cursor_.finish_read(read, event.segment, event.translate);
  return ok();
}

Status Replay::check_complete() const {
  const auto missing = [this](Kind kind, std::size_t position) {
    const auto copy = static_cast<int32_t>(position % copies());
    return invalid(describe(kind, static_cast<int32_t>(position / copies()),
                            copy / translate_count_, copy % translate_count_) +
                   " is missing");
  };
  for (std::size_t position = 0; position < read_state_.size(); ++position) {
    if (read_state_[position] != ReadState::kFinished) {
      return missing(Kind::kFinishRead, position);
    }
  }
  for (std::size_t position = 0; position < committed_.size(); ++position) {
    if (!committed_[position]) {
      return missing(Kind::kCommit, position);
    }
  }
  return ok();
}

Status Replay::run(std::span<const Record> records) {
  std::vector<std::size_t> next(records.size());
  bool advanced = true;
  while (advanced) {
    advanced = false;
    for (std::size_t record = 0; record < records.size(); ++record) {
      const Record& events = records[record];
      for (std::size_t& index = next[record]; index < events.size(); ++index) {
        PLEACH_TRY(check_range(events[index], {record, index}));
        if (must_wait(events[index])) {
          break;
        }
        PLEACH_TRY(apply(events[index], {record, index}));
        advanced = true;
      }
    }
  }
  for (std::size_t record = 0; record < records.size(); ++record) {
    if (next[record] < records[record].size()) {
      return error(records[record][next[record]], {record, next[record]},
                   "comes before the reads of its stream have started");
    }
  }
  return check_complete();
}

}  // namespace

Status replay(const Order& order, std::span<const Record> records, int32_t segment_count,
              int32_t translate_count) {
  if (segment_count < 1 || translate_count < 1) {
    return invalid(
        fmt::format("replay of {} segments and {} translates", segment_count, translate_count));
  }
  return Replay(order, segment_count, translate_count).run(records);
}

}  // namespace pleach
