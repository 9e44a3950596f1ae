// Random schedules of streams through switches, which they may pass several times.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/support/random_schedules.h"

namespace pleach::support {

// Ranks are nodes 0, 1, ...; these are switches.
inline constexpr NodeId kLeafSwitch{10}, kOtherLeafSwitch{11}, kSpineSwitch{12};

// One stream of chunk and step between ranks: through one switch; or as in a tree of two levels,
// where some switches see it twice, in the first pass on its way up and in the second on its way
// down.
class StreamDraft {
 public:
  StreamDraft(int32_t chunk, int32_t step, std::vector<Transfer>& transfers)
      : chunk_(chunk), step_(step), transfers_(transfers) {}

  void through(NodeId hub, uint16_t pass, const std::vector<int32_t>& sources,
               const std::vector<int32_t>& targets) {
    for (const int32_t rank : sources) {
      add({NodeId{rank}, 0}, {hub, pass}, kReduce);
    }
    for (const int32_t rank : targets) {
      add({hub, pass}, {NodeId{rank}, 0}, last_);
    }
  }
  // Even ranks hang on one leaf, odd ones on the other.
  void over_two_levels(uint16_t up, uint16_t down, uint16_t spine,
                       const std::vector<int32_t>& sources, const std::vector<int32_t>& targets) {
    for (const int32_t side : {0, 1}) {
      const NodeId leaf = side == 0 ? kLeafSwitch : kOtherLeafSwitch;
      const auto is_here = [side](int32_t rank) { return rank % 2 == side; };
      std::vector<int32_t> from, to;
      std::ranges::copy_if(sources, std::back_inserter(from), is_here);
      std::ranges::copy_if(targets, std::back_inserter(to), is_here);
      through(leaf, up, from, {});
      through(leaf, down, {}, to);
      if (!from.empty()) {
        add({leaf, up}, {kSpineSwitch, spine}, kReduce);
      }
      if (!to.empty()) {
        add({kSpineSwitch, spine}, {leaf, down}, kReduce);
      }
    }
  }
  void end_in(TransferOp op) { last_ = op; }

 private:
  using End = std::pair<NodeId, uint16_t>;
  void add(const End& source, const End& target, TransferOp op) {
    transfers_.push_back({.first_chunk = chunk_,
                          .source = source.first,
                          .target = target.first,
                          .step = step_,
                          .op = op,
                          .source_pass = source.second,
                          .target_pass = target.second});
  }

  int32_t chunk_;
  int32_t step_;
  TransferOp last_ = kCopy;
  std::vector<Transfer>& transfers_;
};

// At least one of the ranks.
inline std::vector<int32_t> some_ranks(int32_t rank_count, Rng& rng) {
  std::vector<int32_t> ranks;
  const uint64_t chosen = 1 + rng.below((uint64_t{1} << rank_count) - 1);
  for (int32_t rank = 0; rank < rank_count; ++rank) {
    if ((chosen >> rank & 1) != 0) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

// Often all_reduces and reduces that are right; streams of one step may use the same switches in
// passes that are theirs, or by chance each other's.
inline Schedule random_streams(Rng& rng) {
  const int32_t ranks = 2 + pick(rng, 3);
  Schedule schedule = make_schedule({.rank_count = ranks, .chunk_count = 1 + pick(rng, 2)}, {});
  schedule.collective = rng.below(2) == 0 ? CollectiveKind::kAllReduce : CollectiveKind::kReduce;
  const int32_t steps = 1 + pick(rng, 2);
  schedule.phase_steps = {steps};
  std::vector<int32_t> all = some_ranks(ranks, rng);
  for (int32_t chunk = 0; chunk < schedule.chunks.count(); ++chunk) {
    for (int32_t count = 1 + pick(rng, 2); count > 0; --count) {
      StreamDraft draft(chunk, pick(rng, steps), schedule.transfers);
      const bool is_whole = rng.below(3) > 0;
      if (is_whole) {
        all.clear();
        for (int32_t rank = 0; rank < ranks; ++rank) {
          all.push_back(rank);
        }
      } else {
        all = some_ranks(ranks, rng);
      }
      const std::vector<int32_t> targets = is_whole ? all : some_ranks(ranks, rng);
      draft.end_in(rng.below(4) == 0 ? kReduce : kCopy);
      const auto pass = static_cast<uint16_t>(pick(rng, 3));
      if (rng.below(3) == 0) {
        draft.through(kLeafSwitch, pass, all, targets);
      } else {
        const auto down = static_cast<uint16_t>(rng.below(4) == 0 ? pick(rng, 4) : pass + 1);
        draft.over_two_levels(pass, down, static_cast<uint16_t>(pick(rng, 2)), all, targets);
      }
    }
  }
  sort_transfers(schedule);
  return schedule;
}

// Changes a pass of a transfer that begins or ends at a switch, or anything else.
inline void mutate_streams(Schedule& schedule, Rng& rng) {
  Transfer& transfer = schedule.transfers[rng.below(schedule.transfers.size())];
  const auto is_switch = [](NodeId node) { return node.value >= kLeafSwitch.value; };
  if (rng.below(2) == 0) {
    mutate(schedule, rng.below(kMutations.size()), rng);
  } else if (is_switch(transfer.source)) {
    transfer.source_pass = static_cast<uint16_t>(pick(rng, 3));
  } else if (is_switch(transfer.target)) {
    transfer.target_pass = static_cast<uint16_t>(pick(rng, 3));
  }
  sort_transfers(schedule);
}

}  // namespace pleach::support
