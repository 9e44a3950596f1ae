#include "pleach/training/least_costs.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "pleach/base/index.h"
#include "pleach/planning/io_shares.h"
#include "pleach/planning/message.h"

namespace pleach {

LeastCosts::LeastCosts(const Topology& topology, const Trace& trace, const FabricOptions& options)
    : topology_(topology),
      trace_(trace),
      segment_count_(options.segment_count.value_or(1)),
      obeys_links_((*network_models().entry_of(options.model))->obeys_links),
      planners_(topology, trace, options) {}

Result<const std::vector<LeastCosts::Part>*> LeastCosts::least(const GroupCollective& what) {
  Key key = {what.family, what.kind, *what.groups};
  if (const auto known = collectives_.find(key); known != collectives_.end()) {
    return &known->second;
  }
  PLEACH_ASSIGN(planner, planners_.planner(what.family, what.kind));
  const Family& family = trace_.families[at(what.family)];
  const bool by_io = is_of_io(family.role);
  std::vector<std::vector<NodeId>> groups;  // that have anything to do
  for (const int32_t group : *what.groups) {
    const std::vector<int32_t>& ranks = family.groups[at(group)];
    if ((ranks.size() > 1 || by_io) && obeys_links_) {
      groups.push_back(nodes_of(topology_, ranks));
    }
  }
  std::vector<Part> parts;
  if (by_io) {
    PLEACH_SET(parts, io_parts(*planner, what.kind, groups));
  } else {
    PLEACH_ASSIGN(schedules, planner->schedules(what.kind, groups, 1));
    PLEACH_ASSIGN(time, LeastTime::of(topology_, schedules, segment_count_));
    parts.push_back({.time = std::move(time)});
  }
  return &collectives_.emplace(std::move(key), std::move(parts)).first->second;
}

// For each bandwidth that I/O nodes have: those with as much, or more, have a part as large.
Result<std::vector<LeastCosts::Part>> LeastCosts::io_parts(
    Planner& planner, CollectiveKind kind, const std::vector<std::vector<NodeId>>& groups) const {
  PLEACH_ASSIGN(shares, IoShares::of(topology_, kind));
  const int64_t all_bytes_per_s = shares.bandwidth_bytes_per_s();
  std::map<int64_t, std::vector<NodeId>, std::greater<>> nodes;  // by bandwidth
  for (const auto& [node, bytes_per_s] : shares.parts(all_bytes_per_s)) {
    nodes[bytes_per_s].push_back(node);
  }
  std::vector<std::shared_ptr<const Schedule>> schedules;
  std::vector<Part> parts;
  for (const auto& [bytes_per_s, own] : nodes) {
    for (const std::vector<NodeId>& group : groups) {
      for (const NodeId node : own) {
        std::vector<NodeId> participants = group;
        participants.push_back(node);
        PLEACH_ASSIGN(choice, planner.choose({.collective = kind,
                                              .participants = std::move(participants),
                                              .root = Rank{count_of(group)},
                                              .size_bytes = 1}));
        schedules.push_back(std::move(choice.schedule));
      }
    }
    PLEACH_ASSIGN(time, LeastTime::of(topology_, schedules, segment_count_));
    parts.push_back(
        {static_cast<double>(bytes_per_s) / static_cast<double>(all_bytes_per_s), std::move(time)});
  }
  return parts;
}

Result<int64_t> LeastCosts::collective_ps(const GroupCollective& what) {
  PLEACH_ASSIGN(parts, least(what));
  int64_t most_ps = 0;
  for (const auto& [share, time] : *parts) {
    const double part_bytes = std::floor(static_cast<double>(what.size_bytes) * share);
    most_ps = std::max(
        most_ps, time.time_ps(share == 1 ? what.size_bytes : static_cast<int64_t>(part_bytes)));
  }
  return most_ps;
}

Result<int64_t> LeastCosts::send_ps(const WorkerSend& what) {
  Pairs key = {*what.sources, *what.targets};
  auto known = sends_.find(key);
  if (known == sends_.end()) {
    std::vector<std::shared_ptr<const Schedule>> messages;
    for (std::size_t pair = 0; pair < what.sources->size() && obeys_links_; ++pair) {
      messages.push_back(message_schedule(node_of(topology_, (*what.sources)[pair]),
                                          node_of(topology_, (*what.targets)[pair])));
    }
    PLEACH_ASSIGN(time, LeastTime::of(topology_, messages, segment_count_));
    known = sends_.emplace(std::move(key), std::move(time)).first;
  }
  return known->second.time_ps(what.size_bytes);
}

Result<bool> LeastCosts::does(int32_t family, CollectiveKind kind) {
  PLEACH_ASSIGN(planner, planners_.planner(family, kind));
  return planner->does(kind);
}

Result<double> LeastCosts::ps_per_byte(const GroupCollective& what) {
  PLEACH_ASSIGN(parts, least(what));
  return parts->front().time.ps_per_byte();
}

}  // namespace pleach
