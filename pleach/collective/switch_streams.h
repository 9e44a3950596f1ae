// SwitchStreams: the transfers of a schedule that switches join into streams.
//
// A hop is a transfer that begins or ends at a switch, a node that is no participant. The hops of
// one step and one interval of chunks that meet at a switch in one pass cross it together, and what
// crossings and hops connect is one stream. It may so cross a switch more than once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/index.h"
#include "pleach/collective/rank_of_node.h"
#include "pleach/collective/schedule.h"

namespace pleach {

inline constexpr int32_t kNoCrossing = -1;

// Either end is a rank or a crossing.
struct Hop {
  int32_t transfer = 0;
  int32_t source_rank = kNoRank;
  int32_t target_rank = kNoRank;
  int32_t from = kNoCrossing;
  int32_t to = kNoCrossing;
};

struct Crossing {
  int32_t node = 0;  // the switch
  int32_t pass = 0;
  int32_t stream = 0;
  int32_t arrival_count = 0;    // of hops that end here
  int32_t departure_count = 0;  // of hops that begin here
};

// Immutable. Takes any transfers between nodes: whether the streams are trees is not its concern.
class SwitchStreams {
 public:
  // Precondition: check_ranges found nothing. Hops are numbered as their transfers, crossings by
  // (step, switch, pass, first chunk, chunk count), streams by one of their crossings. Cost:
  // O(transfers + hops log hops).
  SwitchStreams(const Schedule& schedule, const RankOfNode& rank_of);

  std::span<const Hop> hops() const { return hops_; }
  std::span<const Crossing> crossings() const { return crossings_; }
  // The numbers of the hops that begin or end there, ascending.
  std::span<const int32_t> hops_at(int32_t crossing) const {
    const std::size_t begin = first_hop_[at(crossing)];
    return std::span(meeting_).subspan(begin, first_hop_[at(crossing) + 1] - begin);
  }
  int32_t stream_count() const { return stream_count_; }
  // Crossings such that every hop leads on; those that lie on loops or behind them are left out.
  std::vector<int32_t> onward() const;
  int32_t stream_of(const Hop& hop) const {
    return crossings_[at(hop.from == kNoCrossing ? hop.to : hop.from)].stream;
  }

 private:
  void join();

  std::vector<Hop> hops_;
  std::vector<Crossing> crossings_;
  std::vector<std::size_t> first_hop_;  // by crossing, and behind the last: in meeting_
  std::vector<int32_t> meeting_;        // hops, grouped by crossing
  int32_t stream_count_ = 0;
};

// The longest way through each stream from a source to a target, where a hop takes `hop_ps` [ps],
// which may count what comes before it at a source. Precondition: the streams are trees.
std::vector<int64_t> longest_ways_ps(const SwitchStreams& streams, std::span<const int64_t> hop_ps);

}  // namespace pleach
