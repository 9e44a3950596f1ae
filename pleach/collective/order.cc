#include "pleach/collective/order.h"

#include <algorithm>
#include <compare>
#include <numeric>
#include <tuple>
#include <unordered_map>

#include "pleach/base/index.h"

namespace pleach {
namespace {

constexpr int32_t kNotARank = -1;

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

class RankOfNode {
 public:
  explicit RankOfNode(const Schedule& schedule) {
    for (int32_t rank = 0; rank < schedule.rank_count(); ++rank) {
      ranks_.emplace(schedule.participants[at(rank)].value, rank);
    }
  }
  int32_t operator()(NodeId node) const {
    const auto found = ranks_.find(node.value);
    return found == ranks_.end() ? kNotARank : found->second;
  }

 private:
  std::unordered_map<int32_t, int32_t> ranks_;
};

// Adds one hop of a switch tree to the stream.
void add_hop(Joined& draft, const Schedule& schedule, int32_t index, const RankOfNode& rank_of) {
  const Transfer& hop = schedule.transfers[at(index)];
  draft.stream.first_chunk = hop.first_chunk;
  draft.stream.chunk_count = hop.chunk_count;
  draft.stream.step = hop.step;
  draft.transfers.push_back(index);
  if (const int32_t source = rank_of(hop.source); source != kNotARank) {
    draft.sources.push_back(source);
  }
  if (const int32_t target = rank_of(hop.target); target != kNotARank) {
    draft.targets.push_back(target);
    draft.stream.op = hop.op;
  }
}

// Groups hops (indices of one step and first chunk) that share a switch. Quadratic in the number of
// switches of one stream only.
void join_hops(std::span<const int32_t> hops, const Schedule& schedule, const RankOfNode& rank_of,
               std::vector<Joined>& drafts) {
  std::vector<std::size_t> parent(hops.size());
  std::iota(parent.begin(), parent.end(), std::size_t{0});
  const auto find = [&parent](std::size_t hop) {
    while (parent[hop] != hop) {
      hop = parent[hop] = parent[parent[hop]];
    }
    return hop;
  };
  std::unordered_map<int32_t, std::size_t> at_switch;
  for (std::size_t hop = 0; hop < hops.size(); ++hop) {
    const Transfer& transfer = schedule.transfers[at(hops[hop])];
    for (const NodeId node : {transfer.source, transfer.target}) {
      if (rank_of(node) == kNotARank) {
        const auto [entry, is_new] = at_switch.emplace(node.value, hop);
        parent[find(hop)] = find(entry->second);
      }
    }
  }
  std::unordered_map<std::size_t, std::size_t> draft_of;
  for (std::size_t hop = 0; hop < hops.size(); ++hop) {
    const auto [entry, is_new] = draft_of.emplace(find(hop), drafts.size());
    if (is_new) {
      drafts.emplace_back();
    }
    add_hop(drafts[entry->second], schedule, hops[hop], rank_of);
  }
}

// Groups all hops that touch a switch into streams.
std::vector<Joined> join_all(std::vector<int32_t> hops, const Schedule& schedule,
                             const RankOfNode& rank_of) {
  std::vector<Joined> joined;
  const auto key = [&schedule](int32_t index) {
    const Transfer& transfer = schedule.transfers[at(index)];
    return std::pair(transfer.step, transfer.first_chunk);
  };
  std::stable_sort(hops.begin(), hops.end(),
                   [&](int32_t left, int32_t right) { return key(left) < key(right); });
  for (std::size_t begin = 0, end = 0; begin < hops.size(); begin = end) {
    while (end < hops.size() && key(hops[end]) == key(hops[begin])) {
      ++end;
    }
    join_hops(std::span(hops).subspan(begin, end - begin), schedule, rank_of, joined);
  }
  for (Joined& draft : joined) {
    std::sort(draft.sources.begin(), draft.sources.end());
    std::sort(draft.targets.begin(), draft.targets.end());
  }
  return joined;
}

// One read or commit, with what orders it within its slot: sends of a step before its arrivals,
// arrivals by smallest source.
struct SlotEvent {
  int32_t chunk;
  int32_t rank;
  int32_t step;
  int32_t place;  // -1: a read, else the smallest source rank of the arriving stream
  int32_t index;  // of the read or commit
  auto operator<=>(const SlotEvent&) const = default;
};

}  // namespace

Order Order::build(const Schedule& schedule) {
  const RankOfNode rank_of(schedule);
  std::vector<StreamKey> keys;
  keys.reserve(schedule.transfers.size());
  std::vector<int32_t> hops;
  for (int32_t index = 0; index < count_of(schedule.transfers); ++index) {
    const Transfer& transfer = schedule.transfers[at(index)];
    const int32_t source = rank_of(transfer.source), target = rank_of(transfer.target);
    if (source == kNotARank || target == kNotARank) {
      hops.push_back(index);
    } else {
      keys.push_back({transfer.step, transfer.first_chunk, source, target, index});
    }
  }
  const std::vector<Joined> joined = join_all(std::move(hops), schedule, rank_of);
  for (std::size_t index = 0; index < joined.size(); ++index) {
    const Joined& draft = joined[index];
    keys.push_back({draft.stream.step, draft.stream.first_chunk, draft.sources.front(),
                    draft.targets.front(), -1 - static_cast<int32_t>(index)});
  }
  std::sort(keys.begin(), keys.end());
  Order order;
  order.streams_.reserve(keys.size());
  order.first_.reserve(keys.size() + 1);
  for (const StreamKey& key : keys) {
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
  order.first_.push_back(order.next_);
  order.reads_.resize(at(order.next_.read));
  order.commits_.resize(at(order.next_.commit));
  order.order_slots();
  return order;
}

void Order::add_stream(const Stream& stream, std::span<const int32_t> sources,
                       std::span<const int32_t> targets, std::span<const int32_t> transfers) {
  first_.push_back(next_);
  streams_.push_back(stream);
  sources_.insert(sources_.end(), sources.begin(), sources.end());
  targets_.insert(targets_.end(), targets.begin(), targets.end());
  transfers_.insert(transfers_.end(), transfers.begin(), transfers.end());
  const auto source_count = count_of(sources);
  const auto target_count = count_of(targets);
  next_.source += source_count;
  next_.target += target_count;
  next_.transfer += count_of(transfers);
  next_.read += source_count * stream.chunk_count;
  next_.commit += target_count * stream.chunk_count;
}

void Order::order_slots() {
  std::vector<SlotEvent> events;
  events.reserve(reads_.size() + commits_.size());
  for (int32_t stream = 0; stream < stream_count(); ++stream) {
    const Stream& what = streams_[at(stream)];
    int32_t read = first_[at(stream)].read, commit = first_[at(stream)].commit;
    const int32_t last_chunk = what.first_chunk + what.chunk_count;
    for (const int32_t rank : sources(stream)) {
      for (int32_t chunk = what.first_chunk; chunk < last_chunk; ++chunk, ++read) {
        reads_[at(read)].stream = stream;
        events.push_back({chunk, rank, what.step, -1, read});
      }
    }
    for (const int32_t rank : targets(stream)) {
      for (int32_t chunk = what.first_chunk; chunk < last_chunk; ++chunk, ++commit) {
        commits_[at(commit)].stream = stream;
        events.push_back({chunk, rank, what.step, sources(stream).front(), commit});
      }
    }
  }
  std::sort(events.begin(), events.end());
  slot_reads_.reserve(reads_.size());
  slot_commits_.reserve(commits_.size());
  for (const SlotEvent& event : events) {
    if (slots_.empty() || slots_.back().chunk != event.chunk || slots_.back().rank != event.rank) {
      slots_.push_back({event.rank, event.chunk});
      slot_first_.push_back({count_of(slot_reads_), count_of(slot_commits_)});
    }
    const int32_t slot = slot_count() - 1;
    const int32_t reads = count_of(slot_reads_) - slot_first_.back().read;
    const int32_t commits = count_of(slot_commits_) - slot_first_.back().commit;
    max_slot_events_ = std::max({max_slot_events_, reads + 1, commits + 1});
    if (event.place < 0) {
      reads_[at(event.index)].slot = slot;
      reads_[at(event.index)].after_commits = commits;
      slot_reads_.push_back(event.index);
    } else {
      Commit& commit = commits_[at(event.index)];
      commit.slot = slot;
      commit.after_commits = commits;
      commit.after_reads = reads;
      slot_commits_.push_back(event.index);
    }
  }
  slot_first_.push_back({count_of(slot_reads_), count_of(slot_commits_)});
}

int32_t Order::find_slot(int32_t rank, int32_t chunk) const {
  const auto found = std::lower_bound(
      slots_.begin(), slots_.end(), std::pair(chunk, rank),
      [](const Slot& slot, const auto& key) { return std::pair(slot.chunk, slot.rank) < key; });
  const bool present = found != slots_.end() && found->chunk == chunk && found->rank == rank;
  return present ? static_cast<int32_t>(found - slots_.begin()) : -1;
}

}  // namespace pleach
