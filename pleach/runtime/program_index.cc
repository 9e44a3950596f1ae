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

}  // namespace

ProgramIndex::Messages::Messages(std::span<const ProgramMessage> messages, std::size_t item_count)
    : of_item(item_count) {
  for (int32_t message = 0; message < count_of(messages); ++message) {
    const ProgramMessage& what = messages[at(message)];
    of_stream.emplace(what.stream, message);
    std::fill_n(of_item.begin() + what.first_item, what.item_count, message);
  }
}

int32_t ProgramIndex::Messages::find(std::span<const ProgramMessage> messages, Rank peer,
                                     int32_t stream) const {
  const auto found = of_stream.find(stream);
  return found != of_stream.end() && messages[at(found->second)].peer == peer ? found->second : -1;
}

template <typename Item>
ProgramIndex::BySlot::BySlot(std::span<const Item> all, std::size_t slot_count)
    : items(all.size()), first(slot_count + 1) {
  std::iota(items.begin(), items.end(), 0);
  std::sort(items.begin(), items.end(), [&](int32_t left, int32_t right) {
    return std::pair(all[at(left)].slot, all[at(left)].after_commits) <
           std::pair(all[at(right)].slot, all[at(right)].after_commits);
  });
  for (const Item& item : all) {
    ++first[at(item.slot) + 1];
  }
  std::partial_sum(first.begin(), first.end(), first.begin());
}

ProgramIndex::ProgramIndex(Program program)
    : program_(std::move(program)),
      sends_(program_.sends, program_.reads.size()),
      receives_(program_.receives, program_.commits.size()),
      slot_reads_(std::span<const ProgramRead>(program_.reads), program_.slots.size()),
      slot_commits_(std::span<const ProgramCommit>(program_.commits), program_.slots.size()) {
  index_peers();
  order_sends();
}

void ProgramIndex::index_peers() {
  for (const ProgramMessage& send : program_.sends) {
    if (targets_.empty() || targets_.back() != send.peer) {
      targets_.push_back(send.peer);
    }
  }
  for (const ProgramMessage& receive : program_.receives) {
    const int32_t segments = receive.segment_count;
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
      for (int32_t segment = 0; segment < program_.sends[at(send)].segment_count; ++segment) {
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

int32_t ProgramIndex::target_index(Rank peer) const {
  return find_rank(targets_, peer);
}

int32_t ProgramIndex::peer_index(Rank peer) const {
  return find_rank(peers_, peer);
}

std::span<const int32_t> ProgramIndex::reads_after(int32_t slot, int32_t commit_count) const {
  const std::span<const int32_t> all = slot_reads_.of(slot);
  const auto waits = [this](int32_t read) { return program_.reads[at(read)].after_commits; };
  const auto begin = std::partition_point(all.begin(), all.end(),
                                          [&](int32_t read) { return waits(read) < commit_count; });
  const auto end = std::partition_point(begin, all.end(),
                                        [&](int32_t read) { return waits(read) == commit_count; });
  return {begin, end};
}

}  // namespace pleach
