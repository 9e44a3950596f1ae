// Priority: pieces of tensors that travel nearest to the input first, as far as they are there.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <queue>
#include <vector>

#include "pleach/policy/policy.h"
#include "pleach/policy/profile.h"
#include "pleach/policy/ready_ranges.h"

namespace pleach {

// Pieces whose gradients are there and that have not been taken, the most urgent (nearest to the
// input) in front. Not thread safe.
class ReadyPieces {
 public:
  // Every tensor is cut into pieces of `piece_bytes` > 0, at the nearest atoms.
  ReadyPieces(const ParameterSpace& space, int64_t piece_bytes);
  void gradient_ready(int32_t layer);
  bool empty() const { return ready_.empty(); }
  ByteRange front() const { return pieces_.range(ready_.top()); }
  void pop() { ready_.pop(); }

 private:
  ReadyRanges pieces_;  // in forward order
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready_;
};

// An all_reduce per piece, the most urgent ready one first, while no more than a window of bytes is
// on its way: what has started is not stopped. A piece is on its way from the start of its
// negotiation. A layer's forward waits for its own parameters only.
class PriorityPolicy : public Policy {
 public:
  struct Setting {
    int64_t piece_bytes = 0;     // of a piece, > 0
    int64_t window_bytes = 0;    // on their way, unless one piece alone is more; 0: one by one
    int64_t negotiation_ps = 0;  // before a piece goes, beside what is on the wire
  };
  PriorityPolicy(const ParameterSpace& space, const Setting& setting)
      : setting_(setting), pieces_(space, setting.piece_bytes) {}
  void observe(const PolicyEvent& event) override;
  void decide(int64_t now_ps, PolicyActions& actions) override;

 private:
  struct Negotiated {
    int64_t agreed_ps = 0;
    ByteRange piece;
  };

  Setting setting_;
  ReadyPieces pieces_;
  std::deque<Negotiated> negotiated_;     // not started, in the order in which they will
  std::map<int32_t, int64_t> under_way_;  // number → bytes, of pieces that have not arrived
  int64_t under_way_bytes_ = 0;           // theirs
  int32_t next_number_ = 0;
};

}  // namespace pleach
