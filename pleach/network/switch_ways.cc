#include "pleach/network/switch_ways.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/collective/switch_passes.h"
#include "pleach/fabric/fred_switch.h"

namespace pleach {
namespace {

bool touches_io(const Topology& topology, std::span<const LinkId> links) {
  return std::ranges::any_of(links, [&](LinkId id) {
    const Link& link = topology.link(id);
    return topology.node(link.source).kind == NodeKind::kIo ||
           topology.node(link.target).kind == NodeKind::kIo;
  });
}

bool is_unicast(const SwitchPass& pass) {
  return pass.inputs.size() == 1 && pass.outputs.size() == 1;
}

// Goes through the stops in order, and through the lanes of each one's wide links that no stop
// before it has; what a stop refuses is not followed.
class LaneSearch {
 public:
  LaneSearch(std::span<const SwitchWay::Stop> stops, std::span<const int32_t> lane_counts,
             const Lanes& start, const SwitchWay::Question& question)
      : stops_(stops),
        lane_counts_(lane_counts),
        start_(start),
        question_(question),
        lanes_(start),
        tries_left_(std::max(question.most_tries, 2 * count_of(stops))),
        whole_left_(question.most_whole) {}

  // Whether the stop would fit on some lanes, if there were no others; true where it is not known.
  bool may_fit(std::size_t stop) {
    int32_t choices = 1;
    for (const int32_t link : stops_[stop].wide) {
      choices = std::min(choices, kMostChoices) * lane_counts_[at(link)];
    }
    return choices > kMostChoices ||
           choose(stop, 0, std::vector<bool>(lanes_.size(), false), [] { return true; });
  }
  bool find(std::size_t stop, std::vector<bool> is_set) {
    if (stop == stops_.size()) {
      return question_.whole == nullptr || (whole_left_-- > 0 && is_whole());
    }
    return choose(stop, 0, is_set, [&] {
      std::vector<bool> then = is_set;
      for (const int32_t link : stops_[stop].wide) {
        then[at(link)] = true;
      }
      return find(stop + 1, std::move(then));
    });
  }
  const Lanes& lanes() const { return lanes_; }

 private:
  bool is_taken(int32_t wide, int32_t lane) const {
    return question_.is_taken != nullptr && question_.is_taken(wide, lane);
  }
  // What is known of the lanes to start with is not asked again.
  bool fits(std::size_t stop) const {
    const std::optional<std::size_t>& refused = question_.start_refused_at;
    if (refused.has_value() && stop <= *refused && is_start(stop)) {
      return stop < *refused;
    }
    return question_.fits(stop, lanes_);
  }
  bool is_start(std::size_t stop) const {
    return std::ranges::all_of(stops_[stop].wide,
                               [&](int32_t link) { return lanes_[at(link)] == start_[at(link)]; });
  }
  bool is_whole() const {
    return (!question_.start_refused_at.has_value() || lanes_ != start_) && question_.whole(lanes_);
  }
  template <typename Then>
  bool choose(std::size_t stop, std::size_t link, const std::vector<bool>& is_set, Then then) {
    const std::vector<int32_t>& wide = stops_[stop].wide;
    if (link == wide.size()) {
      return tries_left_-- > 0 && fits(stop) && then();
    }
    const std::size_t chosen = at(wide[link]);
    if (is_set[chosen]) {
      return choose(stop, link + 1, is_set, then);
    }
    const int32_t start = lanes_[chosen];
    for (const bool taken : {false, true}) {
      if (taken && !question_.may_share) {
        break;
      }
      for (int32_t tried = 0; tried < lane_counts_[chosen]; ++tried) {
        lanes_[chosen] = (start + tried) % lane_counts_[chosen];
        if (is_taken(wide[link], lanes_[chosen]) != taken) {
          continue;
        }
        if (choose(stop, link + 1, is_set, then)) {
          return true;
        }
        if (tries_left_ <= 0 || whole_left_ <= 0) {
          return false;
        }
      }
    }
    lanes_[chosen] = start;
    return false;
  }

  const std::span<const SwitchWay::Stop> stops_;
  const std::span<const int32_t> lane_counts_;
  const Lanes& start_;
  const SwitchWay::Question& question_;
  Lanes lanes_;
  int32_t tries_left_;
  int32_t whole_left_;
  static constexpr int32_t kMostChoices = 64;
};

// Goes through the wide links in order, each on its live lanes, and asks both ends of each with
// the links before it alone. What a switch refuses of a part of a stream it refuses of all of it.
class LinkSearch {
 public:
  LinkSearch(const SwitchWay& way, std::vector<Lanes> live_lanes,
             const SwitchWay::Question& question)
      : way_(way),
        question_(question),
        lanes_of_(std::move(live_lanes)),
        stops_of_(lanes_of_.size()),
        lanes_(lanes_of_.size(), SwitchWay::kNoLane),
        tries_left_(
            std::max(question.most_tries, 2 * (count_of(way.stops()) + 2 * way.wide_count()))),
        whole_left_(question.most_whole) {
    for (std::size_t link = 0; question.may_be_dead && link < lanes_of_.size(); ++link) {
      lanes_of_[link].resize(at(way.lane_count(static_cast<int32_t>(link))));
      std::iota(lanes_of_[link].begin(), lanes_of_[link].end(), 0);
    }
    for (std::size_t stop = 0; stop < way.stops().size(); ++stop) {
      for (const int32_t link : way.stops()[stop].wide) {
        stops_of_[at(link)].push_back(stop);
      }
    }
  }

  bool find(const Lanes& start) {
    for (std::size_t stop = 0; stop < way_.stops().size(); ++stop) {
      if (way_.stops()[stop].wide.empty() && !fits(stop)) {
        return false;
      }
    }
    return std::ranges::none_of(lanes_of_, [](const auto& lanes) { return lanes.empty(); }) &&
           choose(0, start);
  }
  const Lanes& lanes() const { return lanes_; }

 private:
  bool fits(std::size_t stop) { return tries_left_-- > 0 && question_.fits(stop, lanes_); }
  bool is_taken(std::size_t link, int32_t lane) const {
    return question_.is_taken != nullptr && question_.is_taken(static_cast<int32_t>(link), lane);
  }
  bool choose(std::size_t link, const Lanes& start) {
    if (link == lanes_.size()) {
      return question_.whole == nullptr || (whole_left_-- > 0 && question_.whole(lanes_));
    }
    std::vector<int32_t> order = lanes_of_[link];
    std::ranges::rotate(order, std::ranges::lower_bound(order, start[link]));
    for (const bool taken : {false, true}) {
      if (taken && !question_.may_share) {
        break;
      }
      for (const int32_t lane : order) {
        if (is_taken(link, lane) != taken) {
          continue;
        }
        lanes_[link] = lane;
        if (std::ranges::all_of(stops_of_[link], [&](std::size_t stop) { return fits(stop); }) &&
            choose(link + 1, start)) {
          return true;
        }
        if (tries_left_ <= 0 || whole_left_ <= 0) {
          return false;
        }
      }
    }
    lanes_[link] = SwitchWay::kNoLane;
    return false;
  }

  const SwitchWay& way_;
  const SwitchWay::Question& question_;
  std::vector<Lanes> lanes_of_;                     // by wide link
  std::vector<std::vector<std::size_t>> stops_of_;  // by wide link
  Lanes lanes_;
  int32_t tries_left_;
  int32_t whole_left_;
};

bool has_dead_parts(const SwitchCores& cores, NodeId node) {
  const FredSize* cells = cores.of(node)->cells();
  return cells != nullptr && !cells->dead.empty();
}

// The lanes of a link that are live at both of its ends.
std::vector<int32_t> live_lanes(const Topology& topology, const SwitchCores& cores, LinkId id) {
  const std::vector<int32_t> source = cores.live_lanes(topology.link(id).source, id);
  const std::vector<int32_t> target = cores.live_lanes(topology.link(id).target, id);
  std::vector<int32_t> both;
  std::ranges::set_intersection(source, target, std::back_inserter(both));
  return both;
}

}  // namespace

SwitchWay::SwitchWay(const Topology& topology, const SwitchCores& cores,
                     const LoweredConnection& connection)
    : SwitchWay(topology, cores,
                connection.passes.empty() ? switch_passes(topology, connection.links)
                                          : connection.passes) {
  alternates_ =
      touches_io(topology, connection.links) || std::ranges::all_of(connection.passes, is_unicast);
}

SwitchWay::SwitchWay(const Topology& topology, const SwitchCores& cores,
                     std::span<const SwitchPass> passes) {
  std::map<std::size_t, Stop> stops;
  for (const SwitchPass& pass : passes) {
    if (cores.of(pass.node) != nullptr) {
      const auto place = std::ranges::lower_bound(cores.nodes(), pass.node);
      Stop& stop = stops[at(place - cores.nodes().begin())];
      stop.at_switch = at(place - cores.nodes().begin());
      stop.passes.push_back(pass);
      for (const std::vector<LinkId>* links : {&pass.inputs, &pass.outputs}) {
        for (const LinkId link : *links) {
          (topology.link(link).lanes > 1 ? wide_ : narrow_).push_back(link);
        }
      }
    }
  }
  for (std::vector<LinkId>* links : {&wide_, &narrow_}) {
    std::ranges::sort(*links);
    links->erase(std::unique(links->begin(), links->end()), links->end());
  }
  for (const LinkId link : wide_) {
    lane_counts_.push_back(topology.link(link).lanes);
  }
  for (auto& [at_switch, stop] : stops) {
    for (int32_t link = 0; link < count_of(wide_); ++link) {
      const bool is_here = std::ranges::any_of(stop.passes, [&](const SwitchPass& pass) {
        return std::ranges::binary_search(pass.inputs, wide_[at(link)]) ||
               std::ranges::binary_search(pass.outputs, wide_[at(link)]);
      });
      if (is_here) {
        stop.wide.push_back(link);
      }
    }
    stops_.push_back(std::move(stop));
  }
  std::ranges::stable_sort(stops_, {}, [](const Stop& stop) { return stop.wide.size(); });
  if (std::ranges::any_of(stops_, [&](const Stop& stop) {
        return has_dead_parts(cores, stop.passes.front().node);
      })) {
    std::ranges::transform(wide_, std::back_inserter(live_lanes_),
                           [&](LinkId link) { return live_lanes(topology, cores, link); });
  }
}

std::vector<int32_t> SwitchWay::signature() const {
  std::vector<int32_t> signature = {alternates_ ? 1 : 0};
  for (const Stop& stop : stops_) {
    for (const SwitchPass& pass : stop.passes) {
      signature.push_back(pass.node.value);
      for (const auto& links : {pass.inputs, pass.outputs}) {
        signature.push_back(count_of(links));
        for (const LinkId link : links) {
          signature.push_back(link.value);
        }
      }
    }
  }
  return signature;
}

Lanes SwitchWay::aligned(int32_t lane) const {
  Lanes lanes;
  for (const int32_t count : lane_counts_) {
    lanes.push_back(lane % count);
  }
  return lanes;
}

int32_t SwitchWay::most_lanes() const {
  return lane_counts_.empty() ? 1 : *std::ranges::max_element(lane_counts_);
}

std::vector<PortFlow> SwitchWay::flows(const SwitchCores& cores, std::size_t stop,
                                       const Lanes& lanes) const {
  const auto lane_of = [&](LinkId link) {
    const auto place = std::ranges::lower_bound(wide_, link);
    return place == wide_.end() || *place != link ? 0 : lanes[at(place - wide_.begin())];
  };
  const auto is_left_out = [&](LinkId link) { return lane_of(link) == kNoLane; };
  std::vector<PortFlow> flows;
  for (SwitchPass pass : stops_[stop].passes) {
    std::erase_if(pass.inputs, is_left_out);
    std::erase_if(pass.outputs, is_left_out);
    if (!pass.inputs.empty() && !pass.outputs.empty()) {
      flows.push_back(cores.flow_of(pass, lane_of));
    }
  }
  return flows;
}

std::optional<Lanes> SwitchWay::find(const Lanes& start, const Question& question) const {
  if (!live_lanes_.empty()) {
    LinkSearch search(*this, live_lanes_, question);
    return search.find(start) ? std::optional(search.lanes()) : std::nullopt;
  }
  // Else a stop that fits on no lanes at all would be asked again for all lanes of those before it.
  for (std::size_t stop = 0; stop < stops_.size() && wide_count() > 0; ++stop) {
    if (!LaneSearch(stops_, lane_counts_, start, question).may_fit(stop)) {
      return std::nullopt;
    }
  }
  LaneSearch search(stops_, lane_counts_, start, question);
  if (!search.find(0, std::vector<bool>(wide_.size(), false))) {
    return std::nullopt;
  }
  return search.lanes();
}

}  // namespace pleach
