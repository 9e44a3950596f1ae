// Borrowing: which messages of a schedule may be read at their source, by the rank that they go to.
#pragma once

#include <vector>

#include "pleach/collective/order.h"

namespace pleach {

// A borrowed message is not copied when it starts: each of its chunks is read when it is committed,
// and that read is over then. So the commits of a step come to wait for each other: of chunk c at
// the source for that of c at the target. Those of one step and chunk that are marked here form no
// directed cycle, from source to target; all others are to be copied. Any of the marked may be.
//   returns  by stream; false where it has several ends
//   cost     O(m log m) for m chunks of streams
//   source   docs/architecture.md, "Borrowed reads"
std::vector<bool> find_borrowable(const Order& order);

}  // namespace pleach
