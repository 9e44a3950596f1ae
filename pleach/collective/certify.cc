// certify: what a schedule attains, from the loads of links, beside what is possible.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/interruption.h"
#include "pleach/base/units.h"
#include "pleach/collective/bounds.h"
#include "pleach/collective/rank_of_node.h"
#include "pleach/collective/switch_streams.h"
#include "pleach/collective/symmetry.h"

namespace pleach {
namespace {

// A link, or a class of links that the symmetry of the schedule makes alike.
struct Place {
  double seconds_per_byte = 0;
  int64_t latency_ps = 0;  // of the hop, the largest of the class
  double load = 0;         // in whole buffers
  double step_load = 0;    // the same, of the current step
};

// How long the messages of each step take without their bytes.
class StepLatencies {
 public:
  StepLatencies(const Schedule& schedule, const Topology& topology)
      : schedule_(schedule), topology_(topology), rank_of_(schedule.participants) {
    for (const NodeId node : schedule.participants) {
      overhead_ps_ = std::max(overhead_ps_, topology.node(node).overhead_ps);
    }
  }

  // A transfer, in the schedule's order, over a route of this latency.
  void add(const Transfer& transfer, int64_t latency_ps) {
    if (transfer.step != step_) {
      step_ = transfer.step;
      longest_ps_.push_back(0);
    }
    const bool starts = rank_of_(transfer.source) != kNoRank;
    const int64_t time_ps = latency_ps + (starts ? overhead_of(transfer.source) : 0);
    if (starts && rank_of_(transfer.target) != kNoRank) {
      longest_ps_.back() = std::max(longest_ps_.back(), time_ps);
    } else {
      hop_ps_.push_back(time_ps);
      place_of_hop_.push_back(longest_ps_.size() - 1);
    }
  }

  // Of all steps, each of which takes as long as the longest of its messages.
  int64_t sum_ps() {
    if (!hop_ps_.empty()) {
      const SwitchStreams streams(schedule_, rank_of_);
      const std::vector<int64_t> ways_ps = longest_ways_ps(streams, hop_ps_);
      for (std::size_t hop = 0; hop < hop_ps_.size(); ++hop) {
        int64_t& longest_ps = longest_ps_[place_of_hop_[hop]];
        longest_ps = std::max(longest_ps, ways_ps[at(streams.stream_of(streams.hops()[hop]))]);
      }
    }
    return std::accumulate(longest_ps_.begin(), longest_ps_.end(), int64_t{0});
  }

 private:
  int64_t overhead_of(NodeId source) const {
    return schedule_.symmetry ? overhead_ps_ : topology_.node(source).overhead_ps;
  }

  const Schedule& schedule_;
  const Topology& topology_;
  const RankOfNode rank_of_;
  int32_t step_ = -1;
  std::vector<int64_t> longest_ps_;        // by step that has transfers
  std::vector<int64_t> hop_ps_;            // of those that begin or end at a switch
  std::vector<std::size_t> place_of_hop_;  // in longest_ps_
  int64_t overhead_ps_ = 0;                // the largest of all ranks
};

class LoadCounter {
 public:
  LoadCounter(const Schedule& schedule, const Topology& topology)
      : schedule_(schedule), topology_(topology), latencies_(schedule, topology) {}

  Status run() {
    PLEACH_TRY(make_places());
    const bool exchanges = schedule_.collective == CollectiveKind::kAllToAll;
    // The chunks of an all_to_all cover the buffers of all ranks.
    const double buffers = exchanges ? schedule_.rank_count() : 1;
    const double buffers_per_weight = buffers / static_cast<double>(schedule_.chunks.total());
    for (const Transfer& transfer : schedule_.transfers) {
      check_interruption();
      if (!is_well_formed(transfer)) {
        return invalid(fmt::format("transfer {}->{} of step {} does not fit topology {}",
                                   transfer.source.value, transfer.target.value, transfer.step,
                                   topology_.name()));
      }
      if (transfer.step != step_) {
        finish_step();
        step_ = transfer.step;
      }
      const int64_t weight =
          schedule_.chunks.cumulative(transfer.first_chunk + transfer.chunk_count) -
          schedule_.chunks.cumulative(transfer.first_chunk);
      count(transfer, static_cast<double>(weight) * buffers_per_weight);
    }
    finish_step();
    return ok();
  }

  double alpha_s() {
    return static_cast<double>(latencies_.sum_ps()) / static_cast<double>(kPicosecondsPerSecond);
  }
  double beta_s_per_byte() const { return beta_; }
  // Seconds per byte of the buffer on the link that is busy the longest.
  double busiest_s_per_byte() const {
    double busiest = 0;
    for (const Place& place : places_) {
      check_interruption();
      busiest = std::max(busiest, place.load * place.seconds_per_byte);
    }
    return busiest;
  }

 private:
  Status make_places() {
    const std::size_t link_count = topology_.links().size();
    place_of_.resize(link_count);
    std::size_t place_count = link_count;
    for (std::size_t link = 0; link < link_count; ++link) {
      place_of_[link] = static_cast<int32_t>(link);
    }
    if (schedule_.symmetry) {
      PLEACH_ASSIGN(translation, LinkTranslation::create(schedule_, topology_, false));
      place_count = at(translation.class_count());
      for (std::size_t link = 0; link < link_count; ++link) {
        place_of_[link] = translation.class_of(LinkId{static_cast<int32_t>(link)});
      }
    }
    places_.resize(place_count);
    for (std::size_t index = 0; index < link_count; ++index) {
      const Link& link = topology_.links()[index];
      Place& place = places_[at(place_of_[index])];
      place.seconds_per_byte = 1 / static_cast<double>(link.bandwidth_bytes_per_s);
      place.latency_ps =
          std::max(place.latency_ps, topology_.hop_latency_ps(LinkId{static_cast<int32_t>(index)}));
    }
    return ok();
  }

  bool is_well_formed(const Transfer& transfer) const {
    const auto is_node = [&](NodeId node) {
      return node.value >= 0 && node.index() < topology_.nodes().size();
    };
    const auto is_link = [&](LinkId link) {
      return link.value >= 0 && link.index() < topology_.links().size();
    };
    return is_node(transfer.source) && is_node(transfer.target) && transfer.first_chunk >= 0 &&
           transfer.chunk_count >= 1 &&
           transfer.chunk_count <= schedule_.chunks.count() - transfer.first_chunk &&
           transfer.route >= 0 && transfer.route < schedule_.routes.size() &&
           std::ranges::all_of(schedule_.routes[transfer.route], is_link);
  }

  void count(const Transfer& transfer, double load) {
    int64_t latency_ps = 0;
    for (const LinkId link : schedule_.routes[transfer.route]) {
      const int32_t index = place_of_[link.index()];
      Place& place = places_[at(index)];
      latency_ps += place.latency_ps;
      if (place.step_load == 0) {
        touched_.push_back(index);
      }
      place.step_load += load;
    }
    latencies_.add(transfer, latency_ps);
  }

  void finish_step() {
    double busiest = 0;
    for (const int32_t index : touched_) {
      Place& place = places_[at(index)];
      busiest = std::max(busiest, place.step_load * place.seconds_per_byte);
      place.load += std::exchange(place.step_load, 0);
    }
    touched_.clear();
    beta_ += busiest;
  }

  const Schedule& schedule_;
  const Topology& topology_;
  std::vector<int32_t> place_of_;  // by link
  std::vector<Place> places_;
  std::vector<int32_t> touched_;  // places of the current step
  StepLatencies latencies_;
  double beta_ = 0;
  int32_t step_ = 0;
};

bool has_all_routes(const Schedule& schedule) {
  return std::ranges::none_of(schedule.transfers,
                              [](const Transfer& transfer) { return transfer.route == kNoRoute; });
}

}  // namespace

Status certify(Schedule& schedule, const Topology& topology) {
  if (schedule.rank_count() < 2) {
    return ok();
  }
  BoundRequest request;
  request.collective = schedule.collective;
  request.participants = schedule.participants;
  request.root = schedule.root;
  PLEACH_ASSIGN(bound, algbw_bound(topology, request));
  Schedule routed;
  const bool complete = has_all_routes(schedule);
  if (!complete) {
    routed = schedule;
    PLEACH_TRY(fill_routes(routed, topology));
  }
  LoadCounter counter(complete ? schedule : routed, topology);
  PLEACH_TRY(counter.run());
  Certificate certificate;
  certificate.bound_algbw_bytes_per_s = bound.algbw_bytes_per_s;
  certificate.exact = bound.exact;
  certificate.witness = bound.witness;
  const double busiest = counter.busiest_s_per_byte();
  certificate.algbw_bytes_per_s = busiest > 0 ? 1 / busiest : 0;
  certificate.fraction = certificate.algbw_bytes_per_s / bound.algbw_bytes_per_s;
  certificate.alpha_s = counter.alpha_s();
  certificate.beta_s_per_byte = counter.beta_s_per_byte();
  schedule.provenance.certificate = certificate;
  return ok();
}

}  // namespace pleach
