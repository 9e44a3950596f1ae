// RankOfNode: which rank a node is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/index.h"
#include "pleach/collective/schedule.h"

namespace pleach {

inline constexpr int32_t kNoRank = -1;

// Immutable. Cost: a table up to the largest participant.
class RankOfNode {
 public:
  RankOfNode() = default;
  // Participants from 0 to `node_count` - 1 count; one that is there twice is the smaller rank.
  explicit RankOfNode(std::span<const NodeId> participants,
                      std::size_t node_count = at(kMaxScheduleNodes)) {
    const auto counts = [=](NodeId node) { return node.value >= 0 && node.index() < node_count; };
    for (int32_t rank = 0; rank < count_of(participants); ++rank) {
      const NodeId node = participants[at(rank)];
      if (counts(node) && (*this)(node) == kNoRank) {
        ranks_.resize(std::max(ranks_.size(), node.index() + 1), kNoRank);
        ranks_[node.index()] = rank;
      }
    }
  }

  // The rank, or kNoRank: the node takes no part.
  int32_t operator()(NodeId node) const {
    return node.index() < ranks_.size() ? ranks_[node.index()] : kNoRank;
  }

 private:
  std::vector<int32_t> ranks_;  // by node
};

}  // namespace pleach
