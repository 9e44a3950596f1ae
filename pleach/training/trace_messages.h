// TraceMessages: the messages between a trace's workers: those to be sent, those that have arrived
// before they are received, and the receives that wait.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "pleach/training/trace_index.h"
#include "pleach/training/trace_stop.h"

namespace pleach {

struct TraceMessage {
  int32_t source = 0;  // workers
  int32_t target = 0;
  int32_t tag = 0;
  int32_t iteration = 0;  // of either
  auto operator<=>(const TraceMessage&) const = default;
};

// Not thread safe.
class TraceMessages {
 public:
  // A worker has come to its node, a send: it starts when all that follows from the instant's
  // events is known.
  void send(WorkerNode node) { sends_.push_back(node); }
  bool has_sends() const { return !sends_.empty(); }
  std::vector<WorkerNode> take_sends() { return std::exchange(sends_, {}); }

  // The message arrives: the target's receive that has waited for it; nothing: none has yet.
  std::optional<WorkerNode> arrive(const TraceMessage& message);
  // The target has come to its node, the message's receive. Whether the message is there; if not,
  // the receive waits.
  bool receive(const TraceMessage& message, int32_t node);

  // The receives that wait, each for its source.
  std::vector<TraceWait> waits() const;

 private:
  std::vector<WorkerNode> sends_;
  std::set<TraceMessage> arrived_;
  std::set<std::pair<TraceMessage, int32_t>> waiting_;  // and the target's node
};

}  // namespace pleach
