#include "pleach/training/trace_index.h"

#include <algorithm>
#include <numeric>

#include "pleach/base/index.h"

namespace pleach {
namespace {

int32_t find_root(std::vector<int32_t>& parent, int32_t worker) {
  while (parent[at(worker)] != worker) {
    parent[at(worker)] = parent[at(parent[at(worker)])];
    worker = parent[at(worker)];
  }
  return worker;
}

}  // namespace

TraceIndex::TraceIndex(const Trace& trace) : trace_(trace) {
  std::vector<int32_t> worker_of(at(trace.rank_count), -1);
  for (std::size_t worker = 0; worker < trace.workers.size(); ++worker) {
    const WorkerTrace& one = trace.workers[worker];
    for (const int32_t rank : one.ranks) {
      worker_of[at(rank)] = static_cast<int32_t>(worker);
    }
    Waiters& waiters = waiters_.emplace_back();
    waiters.first.assign(one.nodes.size() + 1, 0);
    for (const int32_t node : one.dependencies) {
      ++waiters.first[at(node) + 1];
    }
    std::partial_sum(waiters.first.begin(), waiters.first.end(), waiters.first.begin());
    waiters.nodes.resize(one.dependencies.size());
    std::vector<int32_t> next(waiters.first.begin(), waiters.first.end() - 1);
    for (std::size_t node = 0; node < one.nodes.size(); ++node) {
      for (int32_t i = one.first_dependency[node]; i < one.first_dependency[node + 1]; ++i) {
        waiters.nodes[at(next[at(one.dependencies[at(i)])]++)] = static_cast<int32_t>(node);
      }
    }
  }
  for (std::size_t family = 0; family < trace.families.size(); ++family) {
    find_channels(trace, static_cast<int32_t>(family), worker_of);
  }
}

// Workers of one group communicate together; so do all that are linked by such groups.
void TraceIndex::find_channels(const Trace& trace, int32_t family,
                               const std::vector<int32_t>& worker_of) {
  const auto& groups = trace.families[at(family)].groups;
  std::vector<int32_t> parent(trace.workers.size());
  std::iota(parent.begin(), parent.end(), 0);
  std::vector<bool> is_member(trace.workers.size(), false);
  for (const auto& group : groups) {
    for (const int32_t rank : group) {
      is_member[at(worker_of[at(rank)])] = true;
      parent[at(find_root(parent, worker_of[at(rank)]))] =
          find_root(parent, worker_of[at(group.front())]);
    }
  }
  auto& channels = channel_of_.emplace_back(trace.workers.size(), -1);
  std::vector<int32_t> number(trace.workers.size(), -1);
  for (std::size_t worker = 0; worker < trace.workers.size(); ++worker) {
    if (!is_member[worker]) {
      continue;
    }
    int32_t& channel = number[at(find_root(parent, static_cast<int32_t>(worker)))];
    if (channel < 0) {
      channel = count_of(channels_);
      channels_.push_back({.family = family, .groups = {}, .workers = {}});
    }
    channels[worker] = channel;
    channels_[at(channel)].workers.push_back(static_cast<int32_t>(worker));
  }
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const int32_t worker = worker_of[at(groups[group].front())];
    channels_[at(channels[at(worker)])].groups.push_back(static_cast<int32_t>(group));
  }
}

int32_t TraceIndex::position_in(int32_t channel, int32_t worker) const {
  const auto& workers = channels_[at(channel)].workers;
  return static_cast<int32_t>(std::lower_bound(workers.begin(), workers.end(), worker) -
                              workers.begin());
}

}  // namespace pleach
