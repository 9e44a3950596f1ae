#include "pleach/training/trace_collectives.h"

#include <algorithm>
#include <utility>

#include "pleach/base/index.h"

namespace pleach {

TraceCollectives::TraceCollectives(const TraceIndex& index) : index_(index) {
  for (const TraceChannel& channel : index.channels()) {
    channels_.emplace_back().issued.resize(channel.workers.size());
  }
}

void TraceCollectives::come(WorkerNode node) {
  const int32_t channel = index_.channel_of(node.worker, index_.node(node).family);
  const int32_t position = index_.position_in(channel, node.worker);
  channels_[at(channel)].issued[at(position)].push_back(node.node);
  touched_.push_back(channel);
}

std::vector<int32_t> TraceCollectives::start() {
  std::ranges::sort(touched_);
  touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
  std::vector<int32_t> started;
  for (const int32_t number : std::exchange(touched_, {})) {
    Channel& channel = channels_[at(number)];
    if (!channel.running.empty() ||
        std::ranges::any_of(channel.issued, [](const auto& queue) { return queue.empty(); })) {
      continue;
    }
    for (std::size_t i = 0; i < channel.issued.size(); ++i) {
      channel.running.push_back(
          {index_.channels()[at(number)].workers[i], channel.issued[i].front()});
      channel.issued[i].pop_front();
    }
    started.push_back(number);
  }
  return started;
}

std::vector<WorkerNode> TraceCollectives::finish(int32_t channel) {
  touched_.push_back(channel);
  return std::exchange(channels_[at(channel)].running, {});
}

std::vector<TraceWait> TraceCollectives::waits() const {
  std::vector<TraceWait> waits;
  for (std::size_t number = 0; number < channels_.size(); ++number) {
    const std::vector<int32_t>& workers = index_.channels()[number].workers;
    const auto& issued = channels_[number].issued;
    const auto missing = std::ranges::find_if(issued, [](const auto& one) { return one.empty(); });
    if (missing == issued.end()) {
      continue;
    }
    for (std::size_t i = 0; i < issued.size(); ++i) {
      if (!issued[i].empty()) {
        waits.push_back({{workers[i], issued[i].front()}, workers[at(missing - issued.begin())]});
      }
    }
  }
  return waits;
}

}  // namespace pleach
