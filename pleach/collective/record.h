// Record: what an executor did, in order; and its replay on the Cursor.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/collective/order.h"

namespace pleach {

// One chunk (`item`: read or commit index of the Order) of one segment read or committed.
struct RecordEvent {
  enum class Kind : uint8_t { kStartRead, kFinishRead, kCommit };
  Kind kind = Kind::kStartRead;
  int32_t item = 0;
  int32_t segment = 0;
  int32_t translate = 0;
  bool operator==(const RecordEvent&) const = default;
};

// Events of one rank, or of a whole simulation, in the order in which they happened.
using Record = std::vector<RecordEvent>;

// Replays records on a fresh Cursor. Records of several ranks are merged: a commit waits for its
// stream's reads to have started, nothing else is assumed between ranks.
//   errors  kInvalidArgument naming the first event that the order forbids, that happens twice, or
//           that is missing at the end
Status replay(const Order& order, std::span<const Record> records, int32_t segment_count,
              int32_t translate_count = 1);

}  // namespace pleach
