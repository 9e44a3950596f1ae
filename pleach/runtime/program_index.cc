#include "pleach/runtime/program_index.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "pleach/base/index.h"

namespace pleach {
namespace {

// By slot: how many keys those before it take, one for each number of commits; then of all.
std::vector<int32_t> number_keys(std::span<const ProgramSlot> slots) {
  std::vector<int32_t> first(1, 0);
  for (const ProgramSlot& slot : slots) {
    first.push_back(first.back() + slot.commit_count + 1);
  }
  return first;
}

}  // namespace

ProgramIndex::Messages::Messages(std::span<const ProgramMessage> messages, std::size_t item_count)
    : of_item(item_count) {
  for (int32_t message = 0; message < count_of(messages); ++message) {
    const ProgramMessage& what = messages[at(message)];
    of_stream.emplace_back(what.stream, message);
    std::fill_n(of_item.begin() + what.first_item, what.item_count, message);
  }
  std::sort(of_stream.begin(), of_stream.end());
}

int32_t ProgramIndex::Messages::find(std::span<const ProgramMessage> messages, Rank peer,
                                     int32_t stream) const {
  const auto found = std::lower_bound(of_stream.begin(), of_stream.end(), std::pair(stream, 0));
  const bool is_it = found != of_stream.end() && found->first == stream &&
                     messages[at(found->second)].peer == peer;
  return is_it ? found->second : -1;
}

template <typename Items, typename KeyOf>
ProgramIndex::ByKey::ByKey(const Items& all, std::size_t key_count, const KeyOf& key_of)
    : items(all.size()), first(key_count + 1) {
  std::iota(items.begin(), items.end(), 0);
  std::sort(items.begin(), items.end(), [&](int32_t left, int32_t right) {
    return std::tuple(key_of(all[at(left)]), all[at(left)].after_commits) <
           std::tuple(key_of(all[at(right)]), all[at(right)].after_commits);
  });
  for (const auto& item : all) {
    ++first[at(key_of(item)) + 1];
  }
  std::partial_sum(first.begin(), first.end(), first.begin());
}

ProgramIndex::Reads::Reads(const Program& program)
    : first(number_keys(program.slots)),
      by_key(program.reads, at(first.back()), [this](const ProgramRead& read) {
        return first[at(read.slot)] + read.after_commits;
      }) {}

ProgramIndex::ProgramIndex(Program program)
    : program_(std::move(program)),
      sends_(program_.sends, program_.reads.size()),
      receives_(program_.receives, program_.commits.size()),
      slot_commits_(program_.commits, program_.slots.size(),
                    [](const ProgramCommit& commit) { return commit.slot; }),
      reads_(program_) {
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
    if (sources_.empty() || sources_.back() != receive.peer) {
      sources_.push_back(receive.peer);
    }
  }
  auto& [peers, of_rank] = peers_;
  peers = targets_;
  peers.insert(peers.end(), sources_.begin(), sources_.end());
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  of_rank.assign(peers.empty() ? 0 : peers.back().index() + 1, -1);
  for (std::size_t peer = 0; peer < peers.size(); ++peer) {
    of_rank[peers[peer].index()] = static_cast<int32_t>(peer);
  }
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

}  // namespace pleach
