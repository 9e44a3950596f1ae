#include "pleach/training/fabric_planners.h"

#include <algorithm>
#include <functional>

#include "pleach/base/index.h"
#include "pleach/base/options.h"
#include "pleach/planning/list_planner.h"

namespace pleach {

NodeId node_of(const Topology& topology, int32_t rank) {
  return topology.rank_nodes()[at(rank)];
}

std::vector<NodeId> nodes_of(const Topology& topology, const std::vector<int32_t>& ranks) {
  std::vector<NodeId> nodes;
  nodes.reserve(ranks.size());
  for (const int32_t rank : ranks) {
    nodes.push_back(node_of(topology, rank));
  }
  return nodes;
}

namespace {

const std::string& source_of(const FabricOptions& options, const Family& family,
                             CollectiveKind kind) {
  const auto own = options.family_algorithms.find(family.name);
  if (own != options.family_algorithms.end()) {
    return own->second;
  }
  return kind == CollectiveKind::kAllToAll ? options.exchange_algorithm : options.algorithm;
}

}  // namespace

Result<Planner*> FabricPlanners::planner(int32_t family, CollectiveKind kind) {
  const std::string& source = source_of(options_, trace_.families[at(family)], kind);
  std::unique_ptr<Planner>& planner = planners_[source];
  if (planner == nullptr) {
    PLEACH_ASSIGN(sources, split_specs(source));
    PLEACH_SET(planner, make_list_planner(topology_, sources,
                                          {.segment_count = options_.segment_count,
                                           .model = options_.model,
                                           .simulation = options_.simulation,
                                           .wants_certificate = false}));
  }
  return planner.get();
}

Status check_schedule_files(const Topology& topology, const Trace& trace,
                            const FabricOptions& options) {
  struct File {
    std::unique_ptr<Planner> planner;
    bool is_used = false;
  };
  std::map<std::string, File> files;  // by path
  for (const Family& family : trace.families) {
    for (const CollectiveKind kind : kAllCollectives) {
      PLEACH_ASSIGN(sources, split_specs(source_of(options, family, kind)));
      std::erase_if(sources, std::not_fn(names_schedule_file));
      for (const std::string& source : sources) {
        File& file = files[source];
        if (file.planner == nullptr) {
          PLEACH_SET(file.planner, make_planner(topology, source));
        }
        file.is_used |= std::ranges::any_of(family.groups, [&](const auto& group) {
          return file.planner->takes(
              {.collective = kind, .participants = nodes_of(topology, group)});
        });
      }
    }
  }
  for (const auto& [path, file] : files) {
    if (!file.is_used) {
      return invalid(path,
                     "it is of no collective of a group that it could serve: its ranks, in their "
                     "order, are those of no such group");
    }
  }
  return ok();
}

}  // namespace pleach
