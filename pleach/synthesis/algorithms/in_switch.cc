// In-switch collectives: switches combine what the ranks send and replicate the result.
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/synthesis/builder.h"
#include "pleach/synthesis/switch_tree.h"

namespace pleach {
namespace {

// One stream through the tree: chunk and step are the same number. Returns what keeps a switch from
// its part; empty: nothing.
std::string add_stream(ScheduleBuilder& builder, const Topology& topology, int32_t chunk,
                       const SwitchTree::Stream& stream) {
  for (const SwitchTree::Hop& hop : stream.hops) {
    const Link& link = topology.link(hop.link);
    builder.add({.first_chunk = chunk,
                 .step = chunk,
                 .op = hop.op,
                 .source_pass = hop.source_pass,
                 .target_pass = hop.target_pass},
                link.source, link.target, builder.route(std::span(&hop.link, 1)));
  }
  return stream.obstacle;
}

std::vector<NodeId> all_but(std::span<const NodeId> nodes, NodeId node) {
  std::vector<NodeId> others(nodes.begin(), nodes.end());
  std::erase(others, node);
  return others;
}

// What an I/O node holds does not travel, so that all of its links into the network are for what it
// sends: it adds what the others send, added up on their way, to that.
SwitchTree::Stream into_io(const SwitchTree& tree, const Topology& topology,
                           std::span<const NodeId> ranks, NodeId root) {
  SwitchTree::Stream stream = tree.stream(all_but(ranks, root), std::span(&root, 1));
  for (SwitchTree::Hop& hop : stream.hops) {
    hop.op = topology.link(hop.link).target == root ? TransferOp::kReduce : hop.op;
  }
  return stream;
}

// Between all ranks, n - 1 permutations, by the ways of the tree.
Result<Schedule> exchange(const SynthesisRequest& request, const SwitchTree& tree) {
  const auto rank_count = count_of(request.participants);
  PLEACH_TRY(check_size(int64_t{rank_count} * rank_count, 0));
  ScheduleBuilder builder(request, request.collective, rank_count * rank_count);
  for (int32_t source = 0; source < rank_count; ++source) {
    for (int32_t distance = 1; distance < rank_count; ++distance) {
      const int32_t target = (source + distance) % rank_count;
      builder.add({.first_chunk = source * rank_count + target, .step = distance - 1},
                  builder.node(source), builder.node(target),
                  builder.route(tree.route(builder.node(source), builder.node(target))));
    }
  }
  return std::move(builder).finish({rank_count - 1});
}

Result<Schedule> through(const SynthesisRequest& request, const SwitchTree& tree) {
  if (request.collective == CollectiveKind::kAllToAll) {
    return exchange(request, tree);
  }
  const std::span<const NodeId> ranks = request.participants;
  const bool is_scattered = request.collective == CollectiveKind::kReduceScatter ||
                            request.collective == CollectiveKind::kAllGather;
  const int32_t stream_count = is_scattered ? count_of(ranks) : 1;
  PLEACH_TRY(check_size(int64_t{stream_count} * (count_of(ranks) + 1), 0));
  ScheduleBuilder builder(request, request.collective, stream_count);
  for (int32_t chunk = 0; chunk < stream_count; ++chunk) {
    // The one rank at the narrow end of the stream, if there is one.
    const NodeId one = ranks[at(is_scattered ? chunk : request.root.value)];
    SwitchTree::Stream stream;
    switch (request.collective) {
      case CollectiveKind::kReduce:
      case CollectiveKind::kReduceScatter:
        stream = request.topology.node(one).kind == NodeKind::kIo
                     ? into_io(tree, request.topology, ranks, one)
                     : tree.stream(ranks, std::span(&one, 1));
        break;
      case CollectiveKind::kBroadcast:
      case CollectiveKind::kAllGather:
        stream = tree.stream(std::span(&one, 1), all_but(ranks, one));
        break;
      default:
        stream = tree.stream(ranks, ranks);
    }
    if (std::string obstacle = add_stream(builder, request.topology, chunk, stream);
        !obstacle.empty()) {
      return Error{ErrorCode::kInfeasible, std::move(obstacle)};
    }
  }
  return std::move(builder).finish({stream_count});
}

Result<Schedule> in_switch(const SynthesisRequest& request, const Options& /*options*/) {
  PLEACH_ASSIGN(trees, SwitchTree::find(request.topology, request.participants));
  std::optional<Error> first;
  for (const SwitchTree& tree : trees) {
    Result<Schedule> schedule = through(request, tree);
    if (schedule || schedule.error().code != ErrorCode::kInfeasible) {
      return schedule;
    }
    first = first.has_value() ? first : schedule.error();
  }
  return *first;
}

}  // namespace

extern const Algorithm kInSwitch = {
    .name = "in_switch",
    .summary = "switches combine what the ranks send and replicate the result, level by level",
    .source =
        "Graham et al. 2016 (SHARP); Klenk et al. 2020 (in-network multicast and reduction); "
        "FRED, ISCA 2025, sec. 5.3 (several switches)",
    .collectives = {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter,
                    CollectiveKind::kAllGather, CollectiveKind::kBroadcast, CollectiveKind::kReduce,
                    CollectiveKind::kAllToAll},
    .options = {},
    .create = &in_switch,
};

}  // namespace pleach
