#include "pleach/training/trace_messages.h"

#include <algorithm>

namespace pleach {

std::optional<WorkerNode> TraceMessages::arrive(const TraceMessage& message) {
  const auto waiting = waiting_.lower_bound({message, 0});
  if (waiting == waiting_.end() || waiting->first != message) {
    arrived_.insert(message);
    return std::nullopt;
  }
  const WorkerNode receive = {message.target, waiting->second};
  waiting_.erase(waiting);
  return receive;
}

bool TraceMessages::receive(const TraceMessage& message, int32_t node) {
  if (arrived_.erase(message) > 0) {
    return true;
  }
  waiting_.emplace(message, node);
  return false;
}

bool TraceMessages::waits(WorkerNode receive) const {
  return std::ranges::any_of(waiting_, [&](const auto& one) {
    return WorkerNode{one.first.target, one.second} == receive;
  });
}

}  // namespace pleach
