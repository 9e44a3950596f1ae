#include "pleach/training/least_costs.h"

#include <memory>

#include "pleach/base/index.h"
#include "pleach/planning/message.h"

namespace pleach {

LeastCosts::LeastCosts(const Topology& topology, const Trace& trace, const FabricOptions& options)
    : topology_(topology),
      trace_(trace),
      segment_count_(options.segment_count.value_or(1)),
      obeys_links_((*network_models().entry_of(options.model))->obeys_links),
      planners_(topology, trace, options) {}

Result<const LeastTime*> LeastCosts::least(const GroupCollective& what) {
  Key key = {what.family, what.kind, *what.groups};
  if (const auto known = collectives_.find(key); known != collectives_.end()) {
    return &known->second;
  }
  PLEACH_ASSIGN(planner, planners_.planner(what.family, what.kind));
  std::vector<std::vector<NodeId>> groups;  // that have anything to do
  for (const int32_t group : *what.groups) {
    const std::vector<int32_t>& ranks = trace_.families[at(what.family)].groups[at(group)];
    if (ranks.size() > 1 && obeys_links_) {
      groups.push_back(nodes_of(topology_, ranks));
    }
  }
  PLEACH_ASSIGN(schedules, planner->schedules(what.kind, groups, 1));
  PLEACH_ASSIGN(time, LeastTime::of(topology_, schedules, segment_count_));
  return &collectives_.emplace(std::move(key), std::move(time)).first->second;
}

Result<int64_t> LeastCosts::collective_ps(const GroupCollective& what) {
  PLEACH_ASSIGN(time, least(what));
  return time->time_ps(what.size_bytes);
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
  PLEACH_ASSIGN(time, least(what));
  return time->ps_per_byte();
}

}  // namespace pleach
