#include "pleach/training/phase_streams.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/collective/rank_of_node.h"
#include "pleach/collective/switch_passes.h"
#include "pleach/collective/switch_streams.h"
#include "pleach/topology/routes.h"

namespace pleach {
namespace {

// Of planners whose choice depends on the size.
constexpr int64_t kSizeBytes = int64_t{1} << 26;

// The streams of a schedule without symmetry, by step.
std::vector<std::vector<PhaseStream>> streams_of(const Topology& topology, const Schedule& schedule,
                                                 int32_t group) {
  std::vector<std::vector<PhaseStream>> steps(at(schedule.step_count()));
  const RankOfNode rank_of(schedule.participants);
  for (const Transfer& transfer : schedule.transfers) {
    if (rank_of(transfer.source) != kNoRank && rank_of(transfer.target) != kNoRank) {
      const std::span<const LinkId> route = schedule.routes[transfer.route];
      steps[at(transfer.step)].push_back(
          {group, {route.begin(), route.end()}, switch_passes(topology, route)});
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
      step.push_back({group, {}, std::move(passes[stream])});
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

class StepBuilder {
 public:
  StepBuilder(const Topology& topology, const TrainingPhase& phase, Planner& planner)
      : topology_(topology), phase_(phase), planner_(planner), router_(topology) {}

  Result<PhaseSteps> build() {
    for (int32_t round = 0; round < count_of(phase_.rounds); ++round) {
      const std::vector<NodeGroup>& groups = phase_.rounds[at(round)];
      const std::size_t first = result_.steps.size();
      for (int32_t group = 0; group < count_of(groups); ++group) {
        PLEACH_ASSIGN(streams, of_group(groups[at(group)], group));
        for (std::size_t step = 0; step < streams.size(); ++step) {
          if (result_.steps.size() == first + step) {
            result_.steps.push_back({round, {}});
          }
          std::ranges::move(streams[step], std::back_inserter(result_.steps[first + step].streams));
        }
      }
    }
    return std::move(result_);
  }

 private:
  Result<std::vector<std::vector<PhaseStream>>> of_group(const NodeGroup& nodes, int32_t group) {
    if (nodes.size() == 2 && phase_.collective == CollectiveKind::kBroadcast) {
      return message(nodes[0], nodes[1], group);
    }
    if (nodes.size() == 2 && phase_.collective == CollectiveKind::kReduce) {
      return message(nodes[1], nodes[0], group);
    }
    PLEACH_ASSIGN(choice, planner_.choose({.collective = phase_.collective,
                                           .participants = nodes,
                                           .root = {},
                                           .size_bytes = kSizeBytes}));
    const std::string& algorithm = choice.schedule->provenance.algorithm;
    if (std::ranges::find(result_.algorithms, algorithm) == result_.algorithms.end()) {
      result_.algorithms.push_back(algorithm);
    }
    if (choice.schedule->symmetry) {
      PLEACH_ASSIGN(whole, expand(*choice.schedule, &topology_));
      return streams_of(topology_, whole, group);
    }
    return streams_of(topology_, *choice.schedule, group);
  }

  Result<std::vector<std::vector<PhaseStream>>> message(NodeId source, NodeId target,
                                                        int32_t group) {
    PLEACH_ASSIGN(route, router_.route(source, target));
    PhaseStream stream = {group, route, switch_passes(topology_, route)};
    std::ranges::sort(stream.links);
    std::vector<std::vector<PhaseStream>> steps(1);
    steps[0].push_back(std::move(stream));
    return steps;
  }

  const Topology& topology_;
  const TrainingPhase& phase_;
  Planner& planner_;
  Router router_;
  PhaseSteps result_;
};

}  // namespace

Result<PhaseSteps> phase_steps(const Topology& topology, const TrainingPhase& phase,
                               Planner& planner) {
  return StepBuilder(topology, phase, planner).build();
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
  const auto found = std::ranges::max_element(all);
  if (found == all.end() || *found == 0) {
    return {};
  }
  return {*found, LinkId{static_cast<int32_t>(found - all.begin())}};
}

}  // namespace pleach
