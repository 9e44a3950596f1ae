#include "pleach/collective/order.h"

#include <algorithm>
#include <compare>

#include "pleach/base/index.h"
#include "pleach/base/interruptible_sort.h"
#include "pleach/base/interruption.h"
#include "pleach/collective/rank_of_node.h"
#include "pleach/collective/switch_streams.h"

namespace pleach {
namespace {

// A stream of several hops joined at switches, before it has a number.
struct Joined {
  Stream stream;
  std::vector<int32_t> sources, targets, transfers;
};

// What sorts streams; `index` is a transfer that is a stream by itself, or a Joined when negative.
struct StreamKey {
  int32_t step;
  int32_t first_chunk;
  int32_t source;  // smallest rank
  int32_t target;  // smallest rank
  int32_t index;
  auto operator<=>(const StreamKey&) const = default;
};

// The streams through switches.
std::vector<Joined> join_hops(const Schedule& schedule, const SwitchStreams& streams) {
  std::vector<Joined> joined(at(streams.stream_count()));
  for (const Hop& hop : streams.hops()) {
    check_interruption();
    const Transfer& transfer = schedule.transfers[at(hop.transfer)];
    Joined& draft = joined[at(streams.stream_of(hop))];
    draft.stream.first_chunk = transfer.first_chunk;
    draft.stream.chunk_count = transfer.chunk_count;
    draft.stream.step = transfer.step;
    draft.transfers.push_back(hop.transfer);
    if (hop.source_rank != kNoRank) {
      draft.sources.push_back(hop.source_rank);
    }
    if (hop.target_rank != kNoRank) {
      draft.targets.push_back(hop.target_rank);
      draft.stream.op = transfer.op;
    }
  }
  for (Joined& draft : joined) {
    std::sort(draft.sources.begin(), draft.sources.end());
    std::sort(draft.targets.begin(), draft.targets.end());
  }
  return joined;
}

// One read or commit. Sorted by slot, that is (chunk, rank), then by time: sends of a step before
// its arrivals, arrivals by smallest source. Two numbers, each a word, as most of the cost of an
// order is to sort these.
struct SlotEvent {
  uint64_t slot;
  uint64_t time;
  int32_t index;  // of the read or commit
  auto operator<=>(const SlotEvent&) const = default;

  // Both from 0.
  static uint64_t join(int32_t high, int32_t low) {
    return uint64_t{static_cast<uint32_t>(high)} << 32 | static_cast<uint32_t>(low);
  }
  int32_t chunk() const { return static_cast<int32_t>(slot >> 32); }
  int32_t rank() const { return static_cast<int32_t>(slot & UINT32_MAX); }
  bool is_read() const { return (time & UINT32_MAX) == 0; }
};

}  // namespace

Order Order::build(const Schedule& schedule) {
  const RankOfNode rank_of(schedule.participants);
  std::vector<StreamKey> keys;
  keys.reserve(schedule.transfers.size());
  for (int32_t index = 0; index < count_of(schedule.transfers); ++index) {
    const Transfer& transfer = schedule.transfers[at(index)];
    const int32_t source = rank_of(transfer.source), target = rank_of(transfer.target);
    if (source != kNoRank && target != kNoRank) {
      keys.push_back({transfer.step, transfer.first_chunk, source, target, index});
    }
  }
  std::vector<Joined> joined;
  if (keys.size() < schedule.transfers.size()) {
    joined = join_hops(schedule, SwitchStreams(schedule, rank_of));
  }
  for (std::size_t index = 0; index < joined.size(); ++index) {
    const Joined& draft = joined[index];
    keys.push_back({draft.stream.step, draft.stream.first_chunk, draft.sources.front(),
                    draft.targets.front(), -1 - static_cast<int32_t>(index)});
  }
  sort_interruptibly(keys);
  Order order;
  order.streams_.reserve(keys.size());
  order.first_.reserve(keys.size() + 1);
  order.first_.emplace_back();
  for (const StreamKey& key : keys) {
    check_interruption();
    if (key.index < 0) {
      const Joined& draft = joined[at(-1 - key.index)];
      order.add_stream(draft.stream, draft.sources, draft.targets, draft.transfers);
    } else {
      const Transfer& transfer = schedule.transfers[at(key.index)];
      order.add_stream({key.first_chunk, transfer.chunk_count, key.step, transfer.op},
                       std::span(&key.source, 1), std::span(&key.target, 1),
                       std::span(&key.index, 1));
    }
  }
  order.reads_.resize(at(order.first_.back().read));
  order.commits_.resize(at(order.first_.back().commit));
  order.order_slots();
  return order;
}

void Order::add_stream(const Stream& stream, std::span<const int32_t> sources,
                       std::span<const int32_t> targets, std::span<const int32_t> transfers) {
  streams_.push_back(stream);
  sources_.insert(sources_.end(), sources.begin(), sources.end());
  targets_.insert(targets_.end(), targets.begin(), targets.end());
  transfers_.insert(transfers_.end(), transfers.begin(), transfers.end());
  First next = first_.back();
  next.source += count_of(sources);
  next.target += count_of(targets);
  next.transfer += count_of(transfers);
  next.read += count_of(sources) * stream.chunk_count;
  next.commit += count_of(targets) * stream.chunk_count;
  first_.push_back(next);
}

void Order::order_slots() {
  std::vector<SlotEvent> events;
  events.reserve(reads_.size() + commits_.size());
  for (int32_t stream = 0; stream < stream_count(); ++stream) {
    check_interruption();
    const Stream& what = streams_[at(stream)];
    int32_t read = first_[at(stream)].read, commit = first_[at(stream)].commit;
    const int32_t last_chunk = what.first_chunk + what.chunk_count;
    for (const int32_t rank : sources(stream)) {
      for (int32_t chunk = what.first_chunk; chunk < last_chunk; ++chunk, ++read) {
        reads_[at(read)].stream = stream;
        events.push_back({SlotEvent::join(chunk, rank), SlotEvent::join(what.step, 0), read});
      }
    }
    for (const int32_t rank : targets(stream)) {
      for (int32_t chunk = what.first_chunk; chunk < last_chunk; ++chunk, ++commit) {
        commits_[at(commit)].stream = stream;
        const int32_t place = 1 + sources(stream).front();
        events.push_back({SlotEvent::join(chunk, rank), SlotEvent::join(what.step, place), commit});
      }
    }
  }
  sort_interruptibly(events);
  std::vector<Slot>& slots = slots_.all;
  slots_.reads.reserve(reads_.size());
  slots_.commits.reserve(commits_.size());
  for (const SlotEvent& event : events) {
    check_interruption();
    if (slots.empty() || slots.back().chunk != event.chunk() || slots.back().rank != event.rank()) {
      slots.push_back({event.rank(), event.chunk()});
      slots_.first.push_back({count_of(slots_.reads), count_of(slots_.commits)});
    }
    const int32_t slot = slot_count() - 1;
    const int32_t reads = count_of(slots_.reads) - slots_.first.back().read;
    const int32_t commits = count_of(slots_.commits) - slots_.first.back().commit;
    slots_.most_events = std::max(slots_.most_events, 1 + (event.is_read() ? reads : commits));
    if (event.is_read()) {
      reads_[at(event.index)].slot = slot;
      reads_[at(event.index)].after_commits = commits;
      slots_.reads.push_back({reads_[at(event.index)].stream, commits});
    } else {
      Commit& commit = commits_[at(event.index)];
      commit.slot = slot;
      commit.after_commits = commits;
      commit.after_reads = reads;
      slots_.commits.push_back(event.index);
    }
  }
  slots_.first.push_back({count_of(slots_.reads), count_of(slots_.commits)});
}

}  // namespace pleach
