#include "pleach/training/training_phases.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/topology/nodes_of_kind.h"
#include "pleach/training/fabric_planners.h"
#include "pleach/workload/rank_grid.h"
#include "pleach/workload/strategy_groups.h"

namespace pleach {
namespace {

class PhaseBuilder {
 public:
  PhaseBuilder(const Topology& topology, const Strategy& strategy)
      : topology_(topology), strategy_(strategy), grid_(strategy) {}

  std::vector<TrainingPhase> build() {
    using enum CollectiveKind;
    const bool scatters = strategy_.tensor_sequence;
    add("tensor", scatters ? kReduceScatter : kAllReduce, FamilyRole::kTensor);
    if (scatters) {
      add("tensor", kAllGather, FamilyRole::kTensor);
    }
    add("sequence", kAllToAll, FamilyRole::kSequence);
    if (strategy_.expert > 1) {
      add("expert", kAllToAll, FamilyRole::kExpert);
    }
    add_outputs("pipeline forward", 1);
    add_outputs("pipeline backward", -1);
    add_gradients("data", FamilyRole::kData);
    if (strategy_.expert > 1) {
      add_gradients("expert data", FamilyRole::kExpertData);
    }
    add_streams();
    return std::move(phases_);
  }

 private:
  void add(const std::string& name, CollectiveKind collective, FamilyRole role) {
    std::vector<NodeGroup> groups;
    for (const std::vector<int32_t>& ranks : strategy_groups(strategy_, grid_, role)) {
      if (ranks.size() > 1) {
        groups.push_back(nodes_of(topology_, ranks));
      }
    }
    if (!groups.empty()) {
      phases_.push_back({name, collective, {std::move(groups)}});
    }
  }

  void add_gradients(const std::string& name, FamilyRole role) {
    if (strategy_.zero == 0) {
      add(name, CollectiveKind::kAllReduce, role);
      return;
    }
    add(name, CollectiveKind::kReduceScatter, role);
    add(name, CollectiveKind::kAllGather, role);
  }

  void add_outputs(const std::string& name, int32_t by) {
    const int32_t stages = strategy_.pipeline;
    std::vector<NodeGroup> groups;
    for (int32_t source = 0; source < stages; ++source) {
      int32_t target = source + by;
      if (strategy_.streams()) {
        target = (target + stages) % stages;
      }
      if (target < 0 || target >= stages || target == source) {
        continue;
      }
      for (const std::vector<int32_t>& ranks : output_groups(strategy_, grid_, source, target)) {
        groups.push_back(nodes_of(topology_, ranks));
      }
    }
    if (!groups.empty()) {
      phases_.push_back({name, CollectiveKind::kBroadcast, {std::move(groups)}});
    }
  }

  void add_streams() {
    const std::vector<NodeId> io = nodes_of_kind(topology_, NodeKind::kIo);
    if (io.empty()) {
      return;
    }
    const auto sharing = strategy_groups(strategy_, grid_, FamilyRole::kData);
    const int32_t active = std::min(count_of(io), count_of(sharing));
    const int32_t rounds = std::max(count_of(io), count_of(sharing));
    TrainingPhase in = {"stream in", CollectiveKind::kBroadcast, {}};
    for (int32_t round = 0; round < rounds; ++round) {
      std::vector<NodeGroup>& groups = in.rounds.emplace_back();
      for (int32_t one = 0; one < active; ++one) {
        NodeGroup& group = groups.emplace_back();
        group.push_back(io[at((count_of(io) == rounds ? round + one : one) % count_of(io))]);
        const int32_t to = (count_of(io) == rounds ? one : round + one) % count_of(sharing);
        std::ranges::copy(nodes_of(topology_, sharing[at(to)]), std::back_inserter(group));
      }
    }
    TrainingPhase out = in;
    out.name = "stream out";
    out.collective = CollectiveKind::kReduce;
    phases_.push_back(std::move(in));
    phases_.push_back(std::move(out));
  }

  const Topology& topology_;
  const Strategy& strategy_;
  const RankGrid grid_;
  std::vector<TrainingPhase> phases_;
};

}  // namespace

Result<std::vector<TrainingPhase>> training_phases(const Topology& topology,
                                                   const Strategy& strategy) {
  const int32_t ranks = count_of(topology.rank_nodes());
  if (strategy.rank_end() > ranks) {
    return invalid(fmt::format("{}: rank {} of a strategy of {}: the topology has {} ranks",
                               topology.name(), strategy.rank_end() - 1, to_text(strategy), ranks));
  }
  return PhaseBuilder(topology, strategy).build();
}

bool is_io_phase(const Topology& topology, const TrainingPhase& phase) {
  return topology.node(phase.rounds.front().front().front()).kind == NodeKind::kIo;
}

}  // namespace pleach
