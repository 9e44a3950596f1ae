#include "pleach/runtime/program_index.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "pleach/base/index.h"

namespace pleach {
namespace {

int32_t find_rank(std::span<const Rank> ranks, Rank rank) {
  const auto found = std::lower_bound(ranks.begin(), ranks.end(), rank);
  return found != ranks.end() && *found == rank ? static_cast<int32_t>(found - ranks.begin()) : -1;
}

int32_t find_stream(const std::unordered_map<int32_t, int32_t>& streams,
                    std::span<const ProgramMessage> messages, Rank peer, int32_t stream) {
  const auto found = streams.find(stream);
  return found != streams.end() && messages[at(found->second)].peer == peer ? found->second : -1;
}

// Sorts the items by slot and then by the number of commits that they wait for.
template <typename Item>
void group_by_slot(std::span<const Item> items, std::size_t slot_count,
                   std::vector<int32_t>& grouped, std::vector<int32_t>& first) {
  grouped.resize(items.size());
  std::iota(grouped.begin(), grouped.end(), 0);
  std::sort(grouped.begin(), grouped.end(), [&](int32_t left, int32_t right) {
    return std::pair(items[at(left)].slot, items[at(left)].after_commits) <
           std::pair(items[at(right)].slot, items[at(right)].after_commits);
  });
  first.assign(slot_count + 1, 0);
  for (const Item& item : items) {
    ++first[at(item.slot) + 1];
  }
  std::partial_sum(first.begin(), first.end(), first.begin());
}

std::span<const int32_t> group(const std::vector<int32_t>& grouped,
                               const std::vector<int32_t>& first, int32_t slot) {
  return std::span(grouped).subspan(at(first[at(slot)]), at(first[at(slot) + 1] - first[at(slot)]));
}

}  // namespace

ProgramIndex::ProgramIndex(Program program) : program_(std::move(program)) {
  index_peers();
  order_sends();
  index_slots();
}

void ProgramIndex::index_peers() {
  for (const ProgramMessage& send : program_.sends) {
    if (targets_.empty() || targets_.back() != send.peer) {
      targets_.push_back(send.peer);
    }
  }
  const int32_t segments = program_.segment_count;
  for (const ProgramMessage& receive : program_.receives) {
    if (sources_.empty() || sources_.back().peer != receive.peer) {
      sources_.push_back({receive.peer});
    }
    int64_t elements = 0;
    for (int32_t k = 0; k < receive.item_count; ++k) {
      const int32_t slot = program_.commits[at(receive.first_item + k)].slot;
      elements += (program_.slots[at(slot)].length + segments - 1) / segments;
    }
    sources_.back().segment_total += segments;
    sources_.back().place_elements = std::max(sources_.back().place_elements, elements);
  }
  peers_ = targets_;
  for (const Source& source : sources_) {
    peers_.push_back(source.peer);
  }
  std::sort(peers_.begin(), peers_.end());
  peers_.erase(std::unique(peers_.begin(), peers_.end()), peers_.end());
}

void ProgramIndex::order_sends() {
  const int32_t segments = program_.segment_count;
  const auto key = [this](const Unit& unit) {
    const ProgramMessage& send = program_.sends[at(unit.send)];
    return std::tuple(int64_t{unit.segment} * program_.period + send.step, unit.segment,
                      send.first_chunk);
  };
  orders_.resize(targets_.size());
  places_.resize(program_.sends.size() * at(segments));
  int32_t send = 0;
  for (std::size_t target = 0; target < targets_.size(); ++target) {
    std::vector<Unit>& order = orders_[target];
    for (; at(send) < program_.sends.size() && program_.sends[at(send)].peer == targets_[target];
         ++send) {
      for (int32_t segment = 0; segment < segments; ++segment) {
        order.push_back({send, segment});
      }
    }
    std::sort(order.begin(), order.end(),
              [&key](const Unit& left, const Unit& right) { return key(left) < key(right); });
    for (std::size_t position = 0; position < order.size(); ++position) {
      const Unit& unit = order[position];
      places_[at(unit.send) * at(segments) + at(unit.segment)] = {static_cast<int32_t>(target),
                                                                  static_cast<int32_t>(position)};
    }
  }
}

void ProgramIndex::index_slots() {
  const auto index = [](std::span<const ProgramMessage> messages, std::size_t item_count,
                        std::unordered_map<int32_t, int32_t>& of_stream,
                        std::vector<int32_t>& of_item) {
    of_item.resize(item_count);
    for (int32_t message = 0; message < count_of(messages); ++message) {
      const ProgramMessage& what = messages[at(message)];
      of_stream.emplace(what.stream, message);
      std::fill_n(of_item.begin() + what.first_item, what.item_count, message);
    }
  };
  index(program_.sends, program_.reads.size(), send_of_stream_, send_of_read_);
  index(program_.receives, program_.commits.size(), receive_of_stream_, receive_of_commit_);
  group_by_slot(std::span<const ProgramRead>(program_.reads), program_.slots.size(), slot_reads_,
                slot_first_read_);
  group_by_slot(std::span<const ProgramCommit>(program_.commits), program_.slots.size(),
                slot_commits_, slot_first_commit_);
}

int32_t ProgramIndex::target_index(Rank peer) const {
  return find_rank(targets_, peer);
}

int32_t ProgramIndex::peer_index(Rank peer) const {
  return find_rank(peers_, peer);
}

int32_t ProgramIndex::find_send(Rank peer, int32_t stream) const {
  return find_stream(send_of_stream_, program_.sends, peer, stream);
}

int32_t ProgramIndex::find_receive(Rank peer, int32_t stream) const {
  return find_stream(receive_of_stream_, program_.receives, peer, stream);
}

std::span<const int32_t> ProgramIndex::slot_commits(int32_t slot) const {
  return group(slot_commits_, slot_first_commit_, slot);
}

std::span<const int32_t> ProgramIndex::reads_after(int32_t slot, int32_t commit_count) const {
  const std::span<const int32_t> all = group(slot_reads_, slot_first_read_, slot);
  const auto waits = [this](int32_t read) { return program_.reads[at(read)].after_commits; };
  const auto begin = std::partition_point(all.begin(), all.end(),
                                          [&](int32_t read) { return waits(read) < commit_count; });
  const auto end = std::partition_point(begin, all.end(),
                                        [&](int32_t read) { return waits(read) == commit_count; });
  return {begin, end};
}

}  // namespace pleach
