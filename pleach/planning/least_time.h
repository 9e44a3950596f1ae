// LeastTime: what schedules that start together take at the least, whatever else is under way.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/collective/schedule.h"
#include "pleach/topology/topology.h"

namespace pleach {

// Two things hold however links are shared: every link carries the bytes of all its messages at
// its bandwidth at most, and a message follows those that brought what it sends by its source's
// overhead, its bytes at its slowest link's bandwidth and its links' latencies. So a lower bound is
// the greatest of three lines over the size: the busiest link, the chain of messages with the
// longest latencies and that with the most bytes. Immutable; thread safe.
class LeastTime {
 public:
  // Of correct schedules, in `segment_count` segments; buffers are of any size, or are padded as in
  // planning/padding.h, of which more is known.
  //   errors  those of fill_routes and expand
  //   cost    O(transfers · (links of a route + chunks)), translates written out
  static Result<LeastTime> of(const Topology& topology,
                              std::span<const std::shared_ptr<const Schedule>> schedules,
                              int32_t segment_count, bool is_padded = true);

  // `size_bytes` of a rank's buffer; 0 takes no time.
  int64_t time_ps(int64_t size_bytes) const;
  // No size takes less for a byte. 0 where chunks are cut unevenly, so that none of some small
  // buffer's bytes may cross the busiest link.
  double ps_per_byte() const;

 private:
  // first_ps + ps_per_byte · size. first_ps may be below 0: bytes that uneven cuts may save.
  struct Line {
    double first_ps = 0;
    double ps_per_byte = 0;
  };

  std::vector<Line> lines_;
  bool cuts_evenly_ = true;
};

}  // namespace pleach
