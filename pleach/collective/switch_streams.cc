#include "pleach/collective/switch_streams.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "pleach/base/interruption.h"
#include "pleach/base/units.h"

namespace pleach {
namespace {

// One end of a hop at a switch, by what it shares with those that cross with it.
struct SwitchEnd {
  int32_t step = 0;
  int32_t node = 0;
  int32_t pass = 0;
  int32_t first_chunk = 0;
  int32_t chunk_count = 0;
  int32_t hop = 0;
  bool arrives = false;
  auto crossing() const { return std::tie(step, node, pass, first_chunk, chunk_count); }
};

}  // namespace

SwitchStreams::SwitchStreams(const Schedule& schedule, const RankOfNode& rank_of) {
  std::vector<SwitchEnd> ends;
  for (int32_t transfer = 0; transfer < count_of(schedule.transfers); ++transfer) {
    check_interruption();
    const Transfer& what = schedule.transfers[at(transfer)];
    const int32_t source = rank_of(what.source), target = rank_of(what.target);
    if (source != kNoRank && target != kNoRank) {
      continue;
    }
    const int32_t hop = count_of(hops_);
    hops_.push_back({transfer, source, target});
    for (const bool arrives : {false, true}) {
      if ((arrives ? target : source) == kNoRank) {
        const NodeId node = arrives ? what.target : what.source;
        const int32_t pass = arrives ? what.target_pass : what.source_pass;
        ends.push_back(
            {what.step, node.value, pass, what.first_chunk, what.chunk_count, hop, arrives});
      }
    }
  }
  std::sort(ends.begin(), ends.end(), [](const SwitchEnd& left, const SwitchEnd& right) {
    return std::tuple_cat(left.crossing(), std::tie(left.hop)) <
           std::tuple_cat(right.crossing(), std::tie(right.hop));
  });
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const SwitchEnd& end = ends[i];
    if (i == 0 || end.crossing() != ends[i - 1].crossing()) {
      first_hop_.push_back(i);
      crossings_.push_back({.node = end.node, .pass = end.pass});
    }
    meeting_.push_back(end.hop);
    Hop& hop = hops_[at(end.hop)];
    Crossing& crossing = crossings_.back();
    (end.arrives ? hop.to : hop.from) = count_of(crossings_) - 1;
    ++(end.arrives ? crossing.arrival_count : crossing.departure_count);
  }
  first_hop_.push_back(ends.size());
  join();
}

std::vector<int32_t> SwitchStreams::onward() const {
  std::vector<int32_t> waiting(crossings_.size(), 0);  // hops from crossings that are not placed
  std::vector<int32_t> placed;
  for (const Hop& hop : hops_) {
    check_interruption();
    if (hop.from != kNoCrossing && hop.to != kNoCrossing) {
      ++waiting[at(hop.to)];
    }
  }
  for (int32_t crossing = 0; crossing < count_of(crossings_); ++crossing) {
    if (waiting[at(crossing)] == 0) {
      placed.push_back(crossing);
    }
  }
  for (std::size_t i = 0; i < placed.size(); ++i) {
    const int32_t crossing = placed[i];
    for (const int32_t index : hops_at(crossing)) {
      const Hop& hop = hops_[at(index)];
      if (hop.from == crossing && hop.to != kNoCrossing && --waiting[at(hop.to)] == 0) {
        placed.push_back(hop.to);
      }
    }
  }
  return placed;
}

// Numbers the streams: what hops between crossings connect.
void SwitchStreams::join() {
  std::vector<int32_t> joined_to(crossings_.size());
  std::iota(joined_to.begin(), joined_to.end(), 0);
  const auto find = [&joined_to](int32_t crossing) {
    while (joined_to[at(crossing)] != crossing) {
      crossing = joined_to[at(crossing)] = joined_to[at(joined_to[at(crossing)])];
    }
    return crossing;
  };
  for (const Hop& hop : hops_) {
    check_interruption();
    if (hop.from != kNoCrossing && hop.to != kNoCrossing) {
      joined_to[at(find(hop.to))] = find(hop.from);
    }
  }
  for (int32_t crossing = 0; crossing < count_of(crossings_); ++crossing) {
    if (find(crossing) == crossing) {
      crossings_[at(crossing)].stream = stream_count_++;
    }
  }
  for (int32_t crossing = 0; crossing < count_of(crossings_); ++crossing) {
    crossings_[at(crossing)].stream = crossings_[at(find(crossing))].stream;
  }
}

std::vector<int64_t> longest_ways_ps(const SwitchStreams& streams,
                                     std::span<const int64_t> hop_ps) {
  std::vector<int64_t> longest_ps(at(streams.stream_count()), 0);
  std::vector<int64_t> reached_ps(streams.crossings().size(), 0);
  const auto take = [&](int32_t index, int64_t begin_ps) {
    const Hop& hop = streams.hops()[at(index)];
    int64_t& end_ps =
        hop.to == kNoCrossing ? longest_ps[at(streams.stream_of(hop))] : reached_ps[at(hop.to)];
    end_ps = std::max(end_ps, add_times_ps(begin_ps, hop_ps[at(index)]));
  };
  for (int32_t index = 0; index < count_of(streams.hops()); ++index) {
    if (streams.hops()[at(index)].from == kNoCrossing) {
      take(index, 0);
    }
  }
  for (const int32_t crossing : streams.onward()) {
    for (const int32_t index : streams.hops_at(crossing)) {
      if (streams.hops()[at(index)].from == crossing) {
        take(index, reached_ps[at(crossing)]);
      }
    }
  }
  return longest_ps;
}

}  // namespace pleach
