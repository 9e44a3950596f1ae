#include "pleach/training/switch_turn.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/fabric/fred_faults.h"

namespace pleach {
namespace {

// A search that is cut short finds for a set of flows what their order lets it, so they are always
// in the order of their inputs.
void put_in_order(std::vector<PortFlow>& flows) {
  std::ranges::sort(flows, {}, &PortFlow::inputs);
}

// Streams as JointLanes asks for them, which all hold their ports.
class Together {
 public:
  Together(const CellSwitches& switches, const RouteOptions& options,
           std::span<const PhaseStream> streams)
      : switches_(switches), options_(options), flows_(at(switches.count())) {
    for (const PhaseStream& stream : streams) {
      const SwitchWay& way = ways_.emplace_back(switches.way_of(stream));
      std::ranges::copy(way.signature(), std::back_inserter(key_));
      key_.push_back(-1);
      streams_.push_back({&way, &starts_.emplace_back(way.aligned(0))});
    }
  }

  const JointLanes::Answer& find(JointLanes& joint) {
    return joint.find(key_, streams_,
                      {[this](std::size_t stream, std::size_t stop, const auto& lanes) {
                         return fits(stream, stop, lanes);
                       },
                       [this](std::size_t stream, std::size_t stop, const auto& lanes) {
                         std::ranges::copy(asked(stream, stop, lanes),
                                           std::back_inserter(here(stream, stop)));
                       },
                       [this](std::size_t stream, std::size_t stop, const auto& lanes) {
                         std::vector<PortFlow>& flows = here(stream, stop);
                         flows.resize(flows.size() - asked(stream, stop, lanes).size());
                       },
                       [this](LinkId link, int32_t lane) {
                         return switches_.cores().lane_group({link, lane});
                       }});
  }
  const SwitchWay& way(std::size_t stream) const { return ways_[stream]; }

 private:
  std::size_t at_switch(std::size_t stream, std::size_t stop) const {
    return ways_[stream].stops()[stop].at_switch;
  }
  std::vector<PortFlow>& here(std::size_t stream, std::size_t stop) {
    return flows_[at_switch(stream, stop)];
  }
  std::vector<PortFlow> asked(std::size_t stream, std::size_t stop, const Lanes& lanes) const {
    return ways_[stream].flows(switches_.cores(), stop, lanes);
  }
  bool fits(std::size_t stream, std::size_t stop, const Lanes& lanes) {
    std::vector<PortFlow> flows = here(stream, stop);
    std::ranges::copy(asked(stream, stop, lanes), std::back_inserter(flows));
    put_in_order(flows);
    const auto number = static_cast<int32_t>(at_switch(stream, stop));
    return route_flows(switches_.size(number), flows, options_).routed;
  }

  const CellSwitches& switches_;
  const RouteOptions& options_;
  std::deque<SwitchWay> ways_;
  std::deque<Lanes> starts_;
  std::vector<JointLanes::Stream> streams_;
  std::vector<int32_t> key_;
  std::vector<std::vector<PortFlow>> flows_;  // by switch: of those that are put
};

std::unique_ptr<SwitchCore> make_of_cells(const Topology& topology, NodeId node) {
  std::unique_ptr<SwitchCore> core = make_switch(topology, node);
  return core != nullptr && core->cells() != nullptr ? std::move(core) : nullptr;
}

}  // namespace

CellSwitches::CellSwitches(const Topology& topology)
    : topology_(topology), cores_(topology, make_of_cells) {}

int32_t CellSwitches::find(NodeId node) const {
  const std::span<const NodeId> nodes = cores_.nodes();
  const auto found = std::ranges::lower_bound(nodes, node);
  return found != nodes.end() && *found == node ? static_cast<int32_t>(found - nodes.begin()) : -1;
}

SwitchWay CellSwitches::way_of(const PhaseStream& stream) const {
  return {topology_, cores_, stream.passes};
}

FlowRouting SwitchTurn::route(int32_t number, std::span<const Flow> more) const {
  std::vector<PortFlow> all = flows(number);
  std::ranges::transform(more, std::back_inserter(all), &Flow::flow);
  put_in_order(all);
  return route_flows(switches_->size(number), all, *options_);
}

bool SwitchTurn::is_taken(LinkId link, int32_t lane) const {
  const auto taken = group_on_lanes_.find(link);
  return taken != group_on_lanes_.end() && taken->second.contains(lane);
}

std::optional<Lanes> SwitchTurn::first_lanes(const SwitchWay& way, LinkId* full) const {
  Lanes lanes;
  std::vector<LinkId> all_full;
  for (int32_t wide = 0; wide < way.wide_count(); ++wide) {
    const LinkId link = way.wide_links()[at(wide)];
    int32_t lane = 0;
    while (is_taken(link, lane)) {
      ++lane;
    }
    lanes.push_back(lane);
    if (lane == way.lane_count(wide)) {
      all_full.push_back(link);
    }
  }
  std::ranges::copy_if(way.narrow_links(), std::back_inserter(all_full),
                       [&](LinkId link) { return is_taken(link, 0); });
  if (all_full.empty()) {
    return lanes;
  }
  *full = *std::ranges::min_element(all_full);
  return std::nullopt;
}

std::vector<SwitchTurn::Flow> SwitchTurn::asked(const SwitchWay& way, std::size_t stop,
                                                const Lanes& lanes, int32_t group) const {
  std::vector<Flow> asked;
  for (PortFlow& flow : way.flows(switches_->cores(), stop, lanes)) {
    asked.push_back({std::move(flow), group});
  }
  return asked;
}

void SwitchTurn::take(const PhaseStream& stream, const SwitchWay& way, const Lanes& lanes) {
  streams_.push_back(stream);
  for (const LinkId link : way.narrow_links()) {
    group_on_lanes_[link][0] = stream.group;
  }
  for (int32_t wide = 0; wide < way.wide_count(); ++wide) {
    group_on_lanes_[way.wide_links()[at(wide)]][lanes[at(wide)]] = stream.group;
  }
  for (std::size_t stop = 0; stop < way.stops().size(); ++stop) {
    std::ranges::move(asked(way, stop, lanes, stream.group),
                      std::back_inserter(flows_[way.stops()[stop].at_switch]));
  }
}

std::optional<SwitchTurn::Clash> SwitchTurn::add(const PhaseStream& stream) {
  const SwitchWay way = switches_->way_of(stream);
  LinkId full;
  const std::optional<Lanes> first = first_lanes(way, &full);
  if (!first) {
    std::set<int32_t> groups = {stream.group};
    for (const auto& [lane, group] : group_on_lanes_.at(full)) {
      groups.insert(group);
    }
    return Clash{{}, full, 0, {groups.begin(), groups.end()}, true};
  }
  SwitchWay::Question question;
  question.fits = [&](std::size_t stop, const Lanes& lanes) {
    return route(static_cast<int32_t>(way.stops()[stop].at_switch),
                 asked(way, stop, lanes, stream.group))
        .routed;
  };
  question.is_taken = [&](int32_t wide, int32_t lane) {
    return is_taken(way.wide_links()[at(wide)], lane);
  };
  question.may_share = false;
  const std::optional<Lanes> found = way.find(*first, question);
  std::optional<Clash> clash = found ? std::nullopt : clash_of(stream, way, *first);
  if (!clash) {
    take(stream, way, found.value_or(*first));
  }
  return clash;
}

// At the first switch on its way that does not carry it on the first lanes. None: all do, and a
// search that is cut short refused a part of the stream.
std::optional<SwitchTurn::Clash> SwitchTurn::clash_of(const PhaseStream& stream,
                                                      const SwitchWay& way,
                                                      const Lanes& first) const {
  int32_t number = -1;
  std::vector<Flow> refused;
  FlowRouting routing;
  const auto refuses = [&](const SwitchPass& pass) {
    number = switches_->find(pass.node);
    const auto stop = std::ranges::find_if(way.stops(), [&](const SwitchWay::Stop& its) {
      return static_cast<int32_t>(its.at_switch) == number;
    });
    if (stop == way.stops().end()) {
      return false;
    }
    refused = asked(way, at(stop - way.stops().begin()), first, stream.group);
    routing = route(number, refused);
    return !routing.routed;
  };
  if (std::ranges::none_of(stream.passes, refuses)) {
    return std::nullopt;
  }
  std::vector<Flow> all = flows_[at(number)];
  std::ranges::move(refused, std::back_inserter(all));
  std::ranges::sort(all, {}, [](const Flow& flow) { return flow.flow.inputs; });
  Clash clash = {.node = switches_->node(number), .link = {}};
  std::set<int32_t> groups = {stream.group};
  if (routing.conflicts.empty()) {  // the search gave up
    for (const Flow& flow : all) {
      groups.insert(flow.group);
    }
  } else {
    clash.level = routing.conflicts.front().level;
    clash.proved = !has_lanes(streams_) && !has_lanes({&stream, 1});
    std::vector<PortFlow> own;
    for (const int32_t flow : routing.conflicts.front().flows) {
      groups.insert(all[at(flow)].group);
      own.push_back(all[at(flow)].flow);
    }
    const FredSize& size = switches_->size(number);
    if (!size.dead.empty()) {
      clash.dead = faults_text(size, faults_in_the_way(size, own, *options_));
    }
  }
  clash.groups.assign(groups.begin(), groups.end());
  return clash;
}

bool SwitchTurn::has_lanes(std::span<const PhaseStream> streams) const {
  return std::ranges::any_of(streams, [&](const PhaseStream& stream) {
    return switches_->way_of(stream).wide_count() > 0;
  });
}

std::optional<SwitchTurn::Clash> SwitchTurn::add_or_move(const PhaseStream& stream,
                                                         JointLanes& joint) {
  std::optional<Clash> clash = add(stream);
  if (!clash || clash->proved) {
    return clash;
  }
  std::vector<PhaseStream> all = streams_;
  all.push_back(stream);
  const std::optional<bool> joined = put_together(std::move(all), joint);
  if (joined == true) {
    return std::nullopt;
  }
  clash->proved = joined.has_value();
  return clash;
}

std::optional<bool> SwitchTurn::put_together(std::vector<PhaseStream> streams, JointLanes& joint) {
  Together together(*switches_, *options_, streams);
  const JointLanes::Answer& answer = together.find(joint);
  if (answer.lanes.empty()) {
    return answer.is_certain ? std::optional(false) : std::nullopt;
  }
  SwitchTurn put(*switches_, *options_);
  for (std::size_t stream = 0; stream < streams.size(); ++stream) {
    put.take(streams[stream], together.way(stream), answer.lanes[stream]);
  }
  *this = std::move(put);
  return true;
}

bool SwitchTurn::add_all(std::span<const PhaseStream> streams) {
  SwitchTurn whole = *this;
  LinkId full;
  for (const PhaseStream& stream : streams) {
    const SwitchWay way = switches_->way_of(stream);
    const std::optional<Lanes> lanes = whole.first_lanes(way, &full);
    if (!lanes) {
      return false;
    }
    whole.take(stream, way, *lanes);
  }
  for (int32_t number = 0; number < switches_->count(); ++number) {
    if (!whole.flows_[at(number)].empty() && !whole.route(number, {}).routed) {
      return false;
    }
  }
  *this = std::move(whole);
  return true;
}

std::set<int32_t> SwitchTurn::groups() const {
  std::set<int32_t> groups;
  for (const PhaseStream& stream : streams_) {
    groups.insert(stream.group);
  }
  return groups;
}

std::vector<PortFlow> SwitchTurn::flows(int32_t number) const {
  std::vector<PortFlow> flows;
  for (const Flow& flow : flows_[at(number)]) {
    flows.push_back(flow.flow);
  }
  put_in_order(flows);
  return flows;
}

}  // namespace pleach
