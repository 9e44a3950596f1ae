#include "pleach/api/schedule_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/ranges.h"
#include "pleach/base/text.h"
#include "pleach/collective/formats.h"
#include "pleach/collective/io_roots.h"
#include "pleach/planning/file_planner.h"
#include "pleach/topology/nodes_of_kind.h"

namespace pleach {

Result<std::shared_ptr<const Schedule>> obtain_schedule(const Topology& topology,
                                                        std::string_view source,
                                                        const ScheduleRequest& request,
                                                        const PlannerOptions& options) {
  PLEACH_ASSIGN(planner, make_planner(topology, source, options));
  PLEACH_ASSIGN(choice, planner->choose(request));
  return std::move(choice.schedule);
}

Result<std::shared_ptr<const Schedule>> obtain_schedule_without_routes(
    const std::string& path, const ScheduleRequest& request) {
  PLEACH_ASSIGN(schedule, read_schedule(path));
  PLEACH_TRY(check_asked(schedule, path, request));
  PLEACH_TRY(check_proof(schedule, path, nullptr));
  return std::make_shared<const Schedule>(std::move(schedule));
}

Result<std::vector<NodeId>> parse_group(const Topology& topology, std::string_view text) {
  const auto ranks = topology.rank_nodes();
  PLEACH_ASSIGN(numbers, parse_ranges(text, "rank", count_of(ranks) - 1));
  std::vector<NodeId> nodes;
  for (const int32_t rank : numbers) {
    nodes.push_back(ranks[at(rank)]);
  }
  return nodes;
}

namespace {

bool has_io_root(const Topology& topology, const ScheduleRequest& request) {
  return request.root &&
         topology.node(request.participants[request.root->index()]).kind == NodeKind::kIo;
}

// The groups of one part of the text: of several I/O nodes as many, else one.
Result<std::vector<ScheduleRequest>> parse_part(const Topology& topology, std::string_view text,
                                                CollectiveKind collective) {
  const std::size_t colon = text.rfind(':');
  const bool names_root = colon != std::string_view::npos;
  PLEACH_ASSIGN(ranks, parse_group(topology, trim(names_root ? text.substr(colon + 1) : text)));
  const ScheduleRequest plain{.collective = collective, .participants = std::move(ranks)};
  if (!names_root) {
    return std::vector{plain};
  }
  if (!has_root(collective)) {
    return invalid(fmt::format("{}: {} has no root", quoted(trim(text)), to_text(collective)));
  }
  std::vector<std::string> roots = {std::string(trim(text.substr(0, colon)))};
  const std::vector<NodeId> all = nodes_of_kind(topology, NodeKind::kIo);
  const bool is_name =
      std::ranges::any_of(all, [&](NodeId node) { return topology.node(node).name == roots[0]; });
  if (roots[0] == "io" && !is_name) {
    if (all.empty()) {
      return invalid(
          fmt::format("{}: topology {} has no I/O nodes", quoted(trim(text)), topology.name()));
    }
    roots.clear();
    for (const NodeId node : all) {
      roots.push_back(topology.node(node).name);
    }
  }
  std::vector<ScheduleRequest> groups;
  for (const std::string& root : roots) {
    groups.push_back(plain);
    PLEACH_TRY(choose_root(topology, root, groups.back()));
  }
  return groups;
}

}  // namespace

Status choose_root(const Topology& topology, std::string_view text, ScheduleRequest& request) {
  const CollectiveKind collective = request.collective.value_or(CollectiveKind::kAllReduce);
  std::vector<NodeId>& participants = request.participants;
  const auto rank_count = count_of(participants.empty() ? topology.rank_nodes() : participants);
  const Result<int32_t> rank = parse_count(text, "root", 0, rank_count - 1);
  if (rank) {
    request.root = Rank{*rank};
    return ok();
  }
  std::vector<std::string> known;
  for (const NodeId node : nodes_of_kind(topology, NodeKind::kIo)) {
    known.push_back(topology.node(node).name);
    if (known.back() != text) {
      continue;
    }
    if (!allows_io_root(collective)) {
      return invalid(
          fmt::format("{} is an I/O node: the root of a broadcast or a reduce, not of {}",
                      quoted(text), to_text(collective)));
    }
    if (participants.empty()) {
      participants.assign(topology.rank_nodes().begin(), topology.rank_nodes().end());
    }
    participants.push_back(node);
    request.root = Rank{rank_count};
    return ok();
  }
  const bool is_number = text.find_first_not_of("+-0123456789") == std::string_view::npos;
  return known.empty() || is_number ? rank.error() : unknown_name("rank or I/O node", text, known);
}

Result<std::vector<ScheduleRequest>> parse_groups(const Topology& topology, std::string_view text,
                                                  CollectiveKind collective) {
  std::vector<ScheduleRequest> groups;
  std::map<NodeId, std::size_t> group_of;
  for (const std::string_view part : split(text, ';')) {
    PLEACH_ASSIGN(more, parse_part(topology, part, collective));
    for (ScheduleRequest& group : more) {
      if (group.participants.size() < 2) {
        return invalid(fmt::format("group {} ({}) is one rank: a collective takes at least 2",
                                   groups.size(), quoted(trim(part))));
      }
      for (const NodeId node : group.participants) {
        const auto [other, is_new] = group_of.try_emplace(node, groups.size());
        if (!is_new &&
            !(has_io_root(topology, group) && has_io_root(topology, groups[other->second]))) {
          return invalid(fmt::format("node {} is in group {} and in group {}",
                                     topology.node(node).name, other->second, groups.size()));
        }
      }
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

}  // namespace pleach
