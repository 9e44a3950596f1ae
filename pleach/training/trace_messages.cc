#include "pleach/training/trace_messages.h"

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

std::vector<TraceWait> TraceMessages::waits() const {
  std::vector<TraceWait> waits;
  for (const auto& [message, node] : waiting_) {
    waits.push_back({{message.target, node}, message.source});
  }
  return waits;
}

}  // namespace pleach
