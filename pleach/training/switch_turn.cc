#include "pleach/training/switch_turn.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/fabric/fred_faults.h"

namespace pleach {
namespace {

// Streams as JointLanes asks for them, which all hold their ports.
class Together {
 public:
  Together(const CellSwitches& switches, const RouteOptions& options,
           std::span<const PhaseStream> streams)
      : switches_(switches), options_(options), flows_(at(switches.count())) {
    for (const PhaseStream& stream : streams) {
      const SwitchWay& way =
          ways_.emplace_back(switches.topology(), switches.cores(),
                             LoweredConnection{stream.links, stream.passes}, false);
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
  std::span<const LinkId> wide_links(std::size_t stream) const {
    return ways_[stream].wide_links();
  }

 private:
  int32_t number(std::size_t stream, std::size_t stop) const {
    return switches_.find(switches_.cores().nodes()[ways_[stream].stops()[stop].at_switch]);
  }
  std::vector<PortFlow>& here(std::size_t stream, std::size_t stop) {
    return flows_[at(number(stream, stop))];
  }
  std::vector<PortFlow> asked(std::size_t stream, std::size_t stop,
                              const pleach::Lanes& lanes) const {
    return ways_[stream].flows(switches_.cores(), stop, lanes);
  }
  bool fits(std::size_t stream, std::size_t stop, const pleach::Lanes& lanes) {
    std::vector<PortFlow> flows = here(stream, stop);
    std::ranges::copy(asked(stream, stop, lanes), std::back_inserter(flows));
    return route_flows(switches_.size(number(stream, stop)), flows, options_).routed;
  }

  const CellSwitches& switches_;
  const RouteOptions& options_;
  std::deque<SwitchWay> ways_;
  std::deque<pleach::Lanes> starts_;
  std::vector<JointLanes::Stream> streams_;
  std::vector<int32_t> key_;
  std::vector<std::vector<PortFlow>> flows_;  // by switch: of those that are put
};

}  // namespace

CellSwitches::CellSwitches(const Topology& topology) : topology_(topology), cores_(topology) {
  for (const NodeId node : cores_.nodes()) {
    if (cores_.of(node)->cells() != nullptr) {
      nodes_.push_back(node);
      ports_.emplace_back(topology, node);
    }
  }
}

int32_t CellSwitches::find(NodeId node) const {
  const auto found = std::ranges::lower_bound(nodes_, node);
  return found != nodes_.end() && *found == node ? static_cast<int32_t>(found - nodes_.begin())
                                                 : -1;
}

bool CellSwitches::has_end_at(const Link& link) const {
  return find(link.source) >= 0 || find(link.target) >= 0;
}

// Lanes of a stream's links, found switch by switch.
class SwitchTurn::LaneSearch {
 public:
  LaneSearch(const SwitchTurn& turn, const PhaseStream& stream, Lanes lanes)
      : turn_(turn), stream_(stream), lanes_(std::move(lanes)) {
    const CellSwitches& switches = *turn.switches_;
    std::set<LinkId> known;
    for (const SwitchPass& pass : stream.passes) {
      const int32_t number = switches.find(pass.node);
      if (number < 0) {
        continue;
      }
      const auto stop = std::ranges::find(stops_, number, &Stop::number);
      Stop& own = stop == stops_.end() ? stops_.emplace_back(Stop{number, {}}) : *stop;
      for (const auto* links : {&pass.inputs, &pass.outputs}) {
        for (const LinkId link : *links) {
          if (switches.topology().link(link).lanes > 1 && known.insert(link).second) {
            own.wide.push_back(link);
          }
        }
      }
    }
  }

  std::optional<Lanes> run() { return fits_from(0) ? std::optional(lanes_) : std::nullopt; }
  int32_t refusing() const { return refusing_; }  // the first switch that did
  const std::vector<Flow>& refused() const { return refused_; }

 private:
  struct Stop {
    int32_t number = 0;
    std::vector<LinkId> wide;  // that no stop before has
  };

  bool fits_from(std::size_t stop) { return stop == stops_.size() || try_lanes(stop, 0); }

  bool try_lanes(std::size_t stop, std::size_t wide) {
    if (wide == stops_[stop].wide.size()) {
      return stop_fits(stops_[stop].number) && fits_from(stop + 1);
    }
    const LinkId link = stops_[stop].wide[wide];
    const auto taken = turn_.group_on_lanes_.find(link);
    for (int32_t lane = 0; lane < turn_.switches_->topology().link(link).lanes; ++lane) {
      if (taken != turn_.group_on_lanes_.end() && taken->second.contains(lane)) {
        continue;
      }
      lanes_[link] = lane;
      if (try_lanes(stop, wide + 1)) {
        return true;
      }
      if (tries_ >= kMostTries) {
        return false;
      }
    }
    return false;
  }

  bool stop_fits(int32_t number) {
    if (tries_++ >= kMostTries) {
      return false;
    }
    std::vector<Flow> more = turn_.asked(stream_, lanes_)[number];
    if (turn_.routes(number, more)) {
      return true;
    }
    if (refusing_ < 0) {
      refusing_ = number;
      refused_ = std::move(more);
    }
    return false;
  }

  const SwitchTurn& turn_;
  const PhaseStream& stream_;
  Lanes lanes_;
  std::vector<Stop> stops_;
  int32_t tries_ = 0;
  int32_t refusing_ = -1;
  std::vector<Flow> refused_;
};

bool SwitchTurn::routes(int32_t number, std::span<const Flow> more, FlowRouting* routing) const {
  std::vector<PortFlow> all;
  for (const Flow& flow : flows_[at(number)]) {
    all.push_back(flow.flow);
  }
  for (const Flow& flow : more) {
    all.push_back(flow.flow);
  }
  FlowRouting found = route_flows(switches_->size(number), all, *options_);
  const bool routed = found.routed;
  if (routing != nullptr) {
    *routing = std::move(found);
  }
  return routed;
}

std::map<int32_t, std::vector<SwitchTurn::Flow>> SwitchTurn::asked(const PhaseStream& stream,
                                                                   const Lanes& lanes) const {
  std::map<int32_t, std::vector<Flow>> asked;
  for (const SwitchPass& pass : stream.passes) {
    const int32_t number = switches_->find(pass.node);
    if (number < 0) {
      continue;
    }
    const SwitchPorts& ports = switches_->ports(number);
    Flow& flow = asked[number].emplace_back(Flow{{}, stream.group});
    for (const LinkId link : pass.inputs) {
      flow.flow.inputs.push_back(ports.input({link, lanes.at(link)}));
    }
    for (const LinkId link : pass.outputs) {
      flow.flow.outputs.push_back(ports.output({link, lanes.at(link)}));
    }
    std::ranges::sort(flow.flow.inputs);
    std::ranges::sort(flow.flow.outputs);
  }
  return asked;
}

std::optional<SwitchTurn::Lanes> SwitchTurn::first_lanes(const PhaseStream& stream,
                                                         LinkId* full) const {
  Lanes lanes;
  for (const LinkId id : stream.links) {
    const Link& link = switches_->topology().link(id);
    if (!switches_->has_end_at(link)) {
      continue;
    }
    int32_t lane = 0;
    const auto taken = group_on_lanes_.find(id);
    while (taken != group_on_lanes_.end() && taken->second.contains(lane)) {
      ++lane;
    }
    if (lane >= link.lanes) {
      *full = id;
      return std::nullopt;
    }
    lanes[id] = lane;
  }
  return lanes;
}

void SwitchTurn::take(const PhaseStream& stream, const Lanes& lanes) {
  streams_.push_back(stream);
  for (const auto& [link, lane] : lanes) {
    group_on_lanes_[link][lane] = stream.group;
  }
  for (auto& [number, flows] : asked(stream, lanes)) {
    std::ranges::move(flows, std::back_inserter(flows_[at(number)]));
  }
}

std::optional<SwitchTurn::Clash> SwitchTurn::add(const PhaseStream& stream) {
  LinkId full;
  std::optional<Lanes> lanes = first_lanes(stream, &full);
  std::set<int32_t> groups = {stream.group};
  if (!lanes) {
    for (const auto& [lane, group] : group_on_lanes_.at(full)) {
      groups.insert(group);
    }
    return Clash{{}, full, 0, {groups.begin(), groups.end()}, true};
  }
  LaneSearch search(*this, stream, std::move(*lanes));
  if (const std::optional<Lanes> found = search.run()) {
    take(stream, *found);
    return std::nullopt;
  }
  FlowRouting routing;
  const int32_t number = search.refusing();
  const std::vector<Flow>& here = flows_[at(number)];
  routes(number, search.refused(), &routing);
  Clash clash = {.node = switches_->node(number), .link = {}};
  if (routing.conflicts.empty()) {  // the search gave up
    for (const Flow& flow : here) {
      groups.insert(flow.group);
    }
  } else {
    clash.level = routing.conflicts.front().level;
    clash.proved = !has_lanes(streams_) && !has_lanes({&stream, 1});
    std::vector<PortFlow> own;
    for (const int32_t flow : routing.conflicts.front().flows) {
      const bool is_here = flow < count_of(here);
      groups.insert(is_here ? here[at(flow)].group : stream.group);
      own.push_back(is_here ? here[at(flow)].flow
                            : search.refused()[at(flow - count_of(here))].flow);
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
    return std::ranges::any_of(stream.links, [&](LinkId id) {
      const Link& link = switches_->topology().link(id);
      return link.lanes > 1 && switches_->has_end_at(link);
    });
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
    Lanes lanes;
    for (const LinkId link : streams[stream].links) {
      if (switches_->has_end_at(switches_->topology().link(link))) {
        lanes[link] = 0;
      }
    }
    const std::span<const LinkId> wide = together.wide_links(stream);
    for (std::size_t link = 0; link < wide.size(); ++link) {
      lanes[wide[link]] = answer.lanes[stream][link];
    }
    put.take(streams[stream], lanes);
  }
  *this = std::move(put);
  return true;
}

bool SwitchTurn::add_all(std::span<const PhaseStream> streams) {
  SwitchTurn whole = *this;
  LinkId full;
  for (const PhaseStream& stream : streams) {
    const std::optional<Lanes> lanes = whole.first_lanes(stream, &full);
    if (!lanes) {
      return false;
    }
    whole.take(stream, *lanes);
  }
  for (int32_t number = 0; number < switches_->count(); ++number) {
    if (!whole.flows_[at(number)].empty() && !whole.routes(number, {})) {
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
  std::ranges::sort(flows, {}, [](const PortFlow& flow) { return flow.inputs; });
  return flows;
}

}  // namespace pleach
