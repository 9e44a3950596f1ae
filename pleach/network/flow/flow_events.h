// FlowEvents: what is going to happen in the flow model, in order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pleach/network/flow/event_queue.h"

namespace pleach {

struct FlowEvent {
  // Events of one time come in this order, then by number. What has left by then needs no rate any
  // more, whatever class of traffic comes.
  enum class Kind : uint8_t {
    kSent,
    kJobStart,
    kFlowBegin,
    kArrived,
    kReduced,
    kNopOver,
    kReduce,
    kResume
  };
  int64_t time_ps = 0;
  Kind kind = Kind::kJobStart;
  int32_t number = 0;       // of the job, connection or rank
  uint32_t generation = 0;  // modulo 2^28: tells an event from one that is no longer due
};

class FlowEvents {
 public:
  static constexpr uint32_t kGenerationMask = (uint32_t{1} << 28) - 1;

  bool empty() const { return queue_.empty(); }
  // The queue must not be empty.
  int64_t next_ps() { return queue_.top().time_ps; }
  FlowEvent top() {
    const auto [time_ps, tag] = queue_.top();
    return {time_ps, static_cast<FlowEvent::Kind>(tag >> 60),
            static_cast<int32_t>(tag >> 28 & 0xffffffff),
            static_cast<uint32_t>(tag) & kGenerationMask};
  }
  FlowEvent pop() {
    const FlowEvent event = top();
    queue_.pop();
    return event;
  }
  void push(int64_t time_ps, FlowEvent::Kind kind, int32_t number, uint32_t generation = 0) {
    queue_.push({time_ps, static_cast<uint64_t>(kind) << 60 |
                              static_cast<uint64_t>(static_cast<uint32_t>(number)) << 28 |
                              static_cast<uint64_t>(generation & kGenerationMask)});
  }
  // Nothing is under way: what is still in the queue is no longer due.
  void clear();
  // So many connections join, whose transmissions take up to `transmission_ps`; so many leave().
  // Buckets are as narrow as the busiest time asks for, and widen when nothing is left to sort.
  void join(std::size_t connections, int64_t transmission_ps, int64_t now_ps);
  void leave(std::size_t connections) { connections_ -= connections; }

 private:
  EventQueue queue_{0};
  std::size_t connections_ = 0;
  int64_t slowest_ps_ = 1;
  bool is_fresh_ = true;
};

}  // namespace pleach
