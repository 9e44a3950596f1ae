#include "pleach/training/phase_streams.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <span>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/collective/rank_of_node.h"
#include "pleach/collective/switch_passes.h"
#include "pleach/collective/switch_streams.h"

namespace pleach {
namespace {

// Of planners whose choice depends on the size.
constexpr int64_t kSizeBytes = int64_t{1} << 26;

// The streams of a schedule without symmetry, by step.
std::vector<std::vector<PhaseStream>> streams_of(const Topology& topology,
                                                 const Schedule& schedule) {
  std::vector<std::vector<PhaseStream>> steps(at(schedule.step_count()));
  const RankOfNode rank_of(schedule.participants);
  for (const Transfer& transfer : schedule.transfers) {
    if (rank_of(transfer.source) != kNoRank && rank_of(transfer.target) != kNoRank) {
      const std::span<const LinkId> route = schedule.routes[transfer.route];
      steps[at(transfer.step)].push_back(
          {0, {route.begin(), route.end()}, switch_passes(topology, route)});
    }
  }
  const SwitchStreams streams(schedule, rank_of);
  std::vector<std::vector<SwitchPass>> passes = switch_passes(topology, schedule, streams);
  std::vector<std::pair<std::size_t, std::size_t>> place(passes.size());  // step and place there
  std::vector<bool> is_known(passes.size());
  for (const Hop& hop : streams.hops()) {
    const Transfer& transfer = schedule.transfers[at(hop.transfer)];
    const std::size_t stream = at(streams.stream_of(hop));
    if (!is_known[stream]) {
      is_known[stream] = true;
      std::vector<PhaseStream>& step = steps[at(transfer.step)];
      place[stream] = {at(transfer.step), step.size()};
      step.push_back({0, {}, std::move(passes[stream])});
    }
    std::ranges::copy(schedule.routes[transfer.route],
                      std::back_inserter(steps[place[stream].first][place[stream].second].links));
  }
  for (std::vector<PhaseStream>& step : steps) {
    for (PhaseStream& stream : step) {
      std::ranges::sort(stream.links);
      const auto rest = std::ranges::unique(stream.links);
      stream.links.erase(rest.begin(), rest.end());
    }
  }
  return steps;
}

}  // namespace

Result<PhaseSteps> PhasePlanner::steps(const TrainingPhase& phase) {
  PhaseSteps result;
  for (int32_t round = 0; round < count_of(phase.rounds); ++round) {
    const std::vector<NodeGroup>& groups = phase.rounds[at(round)];
    const std::size_t first = result.steps.size();
    for (int32_t group = 0; group < count_of(groups); ++group) {
      PLEACH_ASSIGN(own, of_group(phase.collective, groups[at(group)]));
      if (!own->algorithm.empty() &&
          std::ranges::find(result.algorithms, own->algorithm) == result.algorithms.end()) {
        result.algorithms.push_back(own->algorithm);
      }
      for (std::size_t step = 0; step < own->steps.size(); ++step) {
        if (result.steps.size() == first + step) {
          result.steps.push_back({round, {}});
        }
        for (const PhaseStream& stream : own->steps[step]) {
          result.steps[first + step].streams.push_back(stream);
          result.steps[first + step].streams.back().group = group;
        }
      }
    }
  }
  return result;
}

Result<const PhasePlanner::GroupSteps*> PhasePlanner::of_group(CollectiveKind collective,
                                                               const NodeGroup& nodes) {
  const std::pair key(collective, nodes);
  auto known = known_.find(key);
  if (known == known_.end()) {
    const bool is_message = nodes.size() == 2;
    if (is_message && collective == CollectiveKind::kBroadcast) {
      PLEACH_ASSIGN(own, message(nodes[0], nodes[1]));
      known = known_.emplace(key, std::move(own)).first;
    } else if (is_message && collective == CollectiveKind::kReduce) {
      PLEACH_ASSIGN(own, message(nodes[1], nodes[0]));
      known = known_.emplace(key, std::move(own)).first;
    } else {
      PLEACH_ASSIGN(own, plan(collective, nodes));
      known = known_.emplace(key, std::move(own)).first;
    }
  }
  return &known->second;
}

Result<PhasePlanner::GroupSteps> PhasePlanner::plan(CollectiveKind collective,
                                                    const NodeGroup& nodes) {
  PLEACH_ASSIGN(
      choice,
      planner_.choose(
          {.collective = collective, .participants = nodes, .root = {}, .size_bytes = kSizeBytes}));
  GroupSteps own = {choice.schedule->provenance.algorithm, {}};
  if (choice.schedule->symmetry) {
    PLEACH_ASSIGN(whole, expand(*choice.schedule, &topology_));
    own.steps = streams_of(topology_, whole);
  } else {
    own.steps = streams_of(topology_, *choice.schedule);
  }
  return own;
}

Result<PhasePlanner::GroupSteps> PhasePlanner::message(NodeId source, NodeId target) {
  PLEACH_ASSIGN(route, router_.route(source, target));
  PhaseStream stream = {0, route, switch_passes(topology_, route)};
  std::ranges::sort(stream.links);
  return GroupSteps{"", {{std::move(stream)}}};
}

LinkLoad most_loaded_link(const Topology& topology, const PhaseSteps& steps) {
  std::vector<int32_t> all(topology.links().size());  // of the rounds before
  for (std::size_t begin = 0, end = 0; begin < steps.steps.size(); begin = end) {
    std::vector<int32_t> most(all.size());
    for (; end < steps.steps.size() && steps.steps[end].round == steps.steps[begin].round; ++end) {
      std::vector<int32_t> now(all.size());
      for (const PhaseStream& stream : steps.steps[end].streams) {
        for (const LinkId link : stream.links) {
          most[link.index()] = std::max(most[link.index()], ++now[link.index()]);
        }
      }
    }
    std::ranges::transform(all, most, all.begin(), std::plus());
  }
  LinkLoad worst;
  double worst_share = 0;
  for (std::size_t link = 0; link < all.size(); ++link) {
    const double share =
        static_cast<double>(topology.links()[link].bandwidth_bytes_per_s) / std::max(1, all[link]);
    if (all[link] > 0 && (worst.streams == 0 || share < worst_share)) {
      worst = {all[link], LinkId{static_cast<int32_t>(link)}};
      worst_share = share;
    }
  }
  return worst;
}

}  // namespace pleach
