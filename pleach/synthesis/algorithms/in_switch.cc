// In-switch collectives: the switch combines what the ranks send and replicates the result.
#include <fmt/format.h>

#include <algorithm>

#include "pleach/base/index.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/synthesis/builder.h"

namespace pleach {
namespace {

bool needs_multicast(const SynthesisRequest& request) {
  switch (request.collective) {
    case CollectiveKind::kAllReduce:
      return true;
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kAllGather:
      return request.participants.size() > 2;
    default:
      return false;
  }
}

bool has_link(const Topology& topology, NodeId source, NodeId target) {
  return std::ranges::any_of(topology.links_out(source),
                             [&](LinkId link) { return topology.link(link).target == target; });
}

// What keeps the switch from serving the request; empty: nothing.
std::string obstacle(const SynthesisRequest& request, NodeId id) {
  const Topology& topology = request.topology;
  const Node& node = topology.node(id);
  if (reduces(request.collective) && !node.reduces) {
    return fmt::format("switch {} does not reduce", node.name);
  }
  if (needs_multicast(request) && !node.multicasts) {
    return fmt::format("switch {} does not multicast", node.name);
  }
  for (std::size_t rank = 0; rank < request.participants.size(); ++rank) {
    const NodeId participant = request.participants[rank];
    for (const auto& [source, target] : {std::pair(participant, id), std::pair(id, participant)}) {
      if (!has_link(topology, source, target)) {
        return fmt::format("participant {} has no link {} -> {}", rank, topology.node(source).name,
                           topology.node(target).name);
      }
    }
  }
  return "";
}

Result<NodeId> find_switch(const SynthesisRequest& request) {
  std::string first_obstacle;
  int32_t switch_count = 0;
  const std::span<const Node> nodes = request.topology.nodes();
  for (std::size_t index = 0; index < nodes.size(); ++index) {
    if (nodes[index].kind != NodeKind::kSwitch) {
      continue;
    }
    const NodeId id{static_cast<int32_t>(index)};
    const std::string reason = obstacle(request, id);
    if (reason.empty()) {
      return id;
    }
    first_obstacle = switch_count++ == 0 ? reason : first_obstacle;
  }
  if (switch_count == 0) {
    return Error{ErrorCode::kInfeasible, "the topology has no switch"};
  }
  if (switch_count > 1) {
    first_obstacle += fmt::format("; no other of the {} switches will do either", switch_count);
  }
  return Error{ErrorCode::kInfeasible, first_obstacle};
}

// One stream through the switch: chunk and step are the same number.
struct HubStream {
  int32_t chunk = 0;
  std::span<const int32_t> sources;
  std::span<const int32_t> targets;
};

void add_stream(ScheduleBuilder& builder, NodeId hub, const HubStream& stream) {
  for (const int32_t rank : stream.sources) {
    builder.add({.first_chunk = stream.chunk, .step = stream.chunk, .op = TransferOp::kReduce},
                builder.node(rank), hub, builder.route(builder.node(rank), hub));
  }
  for (const int32_t rank : stream.targets) {
    builder.add({.first_chunk = stream.chunk, .step = stream.chunk, .op = TransferOp::kCopy}, hub,
                builder.node(rank), builder.route(hub, builder.node(rank)));
  }
}

std::vector<int32_t> all_but(const std::vector<int32_t>& ranks, int32_t rank) {
  std::vector<int32_t> others = ranks;
  std::erase(others, rank);
  return others;
}

Result<Schedule> in_switch(const SynthesisRequest& request, const Options& /*options*/) {
  PLEACH_ASSIGN(hub, find_switch(request));
  const auto rank_count = count_of(request.participants);
  const bool is_scattered = request.collective == CollectiveKind::kReduceScatter ||
                            request.collective == CollectiveKind::kAllGather;
  const int32_t stream_count = is_scattered ? rank_count : 1;
  PLEACH_TRY(check_size(int64_t{stream_count} * (rank_count + 1), 0));
  ScheduleBuilder builder(request, request.collective, stream_count);
  std::vector<int32_t> ranks(at(rank_count));
  for (int32_t rank = 0; rank < rank_count; ++rank) {
    ranks[at(rank)] = rank;
  }
  for (int32_t chunk = 0; chunk < stream_count; ++chunk) {
    // The one rank at the narrow end of the stream, if there is one.
    const int32_t one = is_scattered ? chunk : request.root.value;
    switch (request.collective) {
      case CollectiveKind::kReduce:
      case CollectiveKind::kReduceScatter:
        add_stream(builder, hub, {chunk, ranks, std::span(&one, 1)});
        break;
      case CollectiveKind::kBroadcast:
      case CollectiveKind::kAllGather:
        add_stream(builder, hub, {chunk, std::span(&one, 1), all_but(ranks, one)});
        break;
      default:
        add_stream(builder, hub, {chunk, ranks, ranks});
    }
  }
  return std::move(builder).finish({stream_count});
}

}  // namespace

extern const Algorithm kInSwitch = {
    .name = "in_switch",
    .summary = "one switch combines what the ranks send and replicates the result",
    .source = "Graham et al. 2016 (SHARP); Klenk et al. 2020 (in-network multicast and reduction)",
    .collectives = {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter,
                    CollectiveKind::kAllGather, CollectiveKind::kBroadcast,
                    CollectiveKind::kReduce},
    .options = {},
    .create = &in_switch,
};

}  // namespace pleach
