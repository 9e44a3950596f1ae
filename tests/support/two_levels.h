// A tree of reducing switches over ranks, and all_reduces through it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/check.h"
#include "pleach/collective/schedule.h"
#include "pleach/topology/topology.h"

namespace pleach::support {

// Ranks are nodes 0, 1, ...; then come the leaves, each over as many ranks, and then the root.
// Cables of 1 GB/s and 100 ns; ranks have an overhead of 5 ns.
struct TwoLevels {
  int32_t ranks = 4;
  int32_t leaves = 2;
  std::string switch_model = {};
  int32_t trunk_lanes = 1;  // of the cables of leaves to the root

  int32_t root() const { return ranks + leaves; }
  int32_t above(int32_t node) const {
    return node < ranks ? ranks + node / (ranks / leaves) : root();
  }

  Topology topology() const {
    TopologyBuilder builder("two levels");
    for (int32_t node = 0; node <= root(); ++node) {
      const bool is_switch = node >= ranks;
      const auto added = builder.add_node({.name = std::to_string(node),
                                           .kind = is_switch ? NodeKind::kSwitch : NodeKind::kRank,
                                           .reduces = is_switch,
                                           .multicasts = is_switch,
                                           .switch_model = is_switch ? switch_model : "",
                                           .overhead_ps = is_switch ? 0 : 5'000});
      PLEACH_CHECK(added, "a node of two levels");
    }
    for (int32_t node = 0; node < root(); ++node) {
      Link link{NodeId{node}, NodeId{above(node)}, 1'000'000'000, 100'000};
      if (node >= ranks) {
        link.lanes = trunk_lanes;
        link.bandwidth_bytes_per_s *= trunk_lanes;
      }
      const Status added = builder.add_cable(link);
      PLEACH_CHECK(added, "a cable of two levels");
    }
    auto built = std::move(builder).build();
    PLEACH_CHECK(built, "two levels");
    return std::move(built).value();
  }

  Schedule all_reduce() const {
    std::vector<int32_t> all;
    for (int32_t rank = 0; rank < ranks; ++rank) {
      all.push_back(rank);
    }
    return all_reduce(all);
  }
  // One stream of all of `group`, ascending: up to the root, where their leaves meet, and down
  // again.
  Schedule all_reduce(const std::vector<int32_t>& group) const {
    Schedule schedule;
    std::vector<int32_t> nodes = group;
    for (const int32_t rank : group) {
      schedule.participants.push_back(NodeId{rank});
      if (nodes.back() != above(rank)) {
        nodes.push_back(above(rank));
      }
    }
    schedule.phase_steps = {1};
    for (const int32_t node : nodes) {
      const NodeId here{node}, up{above(node)};
      // A leaf is passed a second time on the way down.
      const auto second_here = static_cast<uint16_t>(node >= ranks ? 1 : 0);
      const auto second_up = static_cast<uint16_t>(up.value < root() ? 1 : 0);
      schedule.transfers.push_back({0, 1, here, up, 0, kNoRoute, TransferOp::kReduce});
      schedule.transfers.push_back(
          {0, 1, up, here, 0, kNoRoute, TransferOp::kCopy, second_up, second_here});
    }
    sort_transfers(schedule);
    return schedule;
  }
};

}  // namespace pleach::support
