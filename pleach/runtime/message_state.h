// MessageState: one message, as a rank that sends or receives it sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/progress.h"
#include "pleach/runtime/traffic.h"

namespace pleach {

// What a rank asks for. Ranks are the job's.
struct MessageRequest {
  bool is_send = false;
  Rank peer;                    // of a receive: -1: any
  int32_t tag = 0;              // ≥ 0
  std::byte* memory = nullptr;  // of a send: only read
  int64_t bytes = 0;            // of a receive: the most that the message may have
  Duration deadline = {};       // for the peer to take its part; max(): none
};

// Of one message, and later of another.
struct MessageState final : OperationState {
  Status begin(Traffic& traffic, uint64_t number, TimePoint now) override;
  bool is_over() const override { return course.is_over; }

  MessageRequest request;
  // How far it has come: the channel's.
  struct Course {
    Rank peer;                 // -1: not known yet
    uint64_t sequence = 0;     // of the message, from its source to its target: 1, 2, ...
    int64_t bytes = 0;         // of the message
    int64_t next_segment = 0;  // to be sent
    int64_t left = 0;          // segments that have not been sent, or have not come
    TimePoint expiry = {};     // unless it is matched before
    bool is_matched = false;   // a receive has its message, a send the grant for it
    bool is_granting = false;  // the grant has not left
    bool is_over = false;
  } course;
  // By segment: of a receive those that have come, of a send those that are lent.
  std::vector<bool> marked;
  MessageState* next = nullptr;       // that waits for the same
  MessageState* next_turn = nullptr;  // that goes to the same peer
};

}  // namespace pleach
