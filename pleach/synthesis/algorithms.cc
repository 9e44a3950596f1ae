#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "pleach/base/text.h"
#include "pleach/collective/bounds.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/synthesis/algorithms/builtin.h"

namespace pleach {
namespace {

constexpr std::array kAlgorithms = {
    &kRing,   &kBidirectionalRing, &kRing2d,   &kRecursiveDoubling, &kHalvingDoubling,
    &kDirect, &kInSwitch,          &kMultitree};

Result<const Algorithm*> find_algorithm(const std::string& name) {
  std::vector<std::string> known;
  for (const Algorithm* algorithm : kAlgorithms) {
    if (algorithm->name == name) {
      return algorithm;
    }
    known.push_back(algorithm->name);
  }
  return unknown_name("algorithm", name, known);
}

Error invalid(std::string message) {
  return Error{ErrorCode::kInvalidArgument, std::move(message)};
}

Status check_collective(const Algorithm& algorithm, CollectiveKind collective) {
  std::vector<std::string> known;
  for (const CollectiveKind kind : algorithm.collectives) {
    if (kind == collective) {
      return ok();
    }
    known.emplace_back(to_text(kind));
  }
  return invalid(fmt::format("{} does not do {}; it does {}", algorithm.name, to_text(collective),
                             join(known, ", ")));
}

// Fills in the participants. Errors: kInvalidArgument naming the participant or root.
Result<SynthesisRequest> completed(SynthesisRequest request) {
  const std::span<const Node> nodes = request.topology.nodes();
  if (request.participants.empty()) {
    const std::span<const NodeId> all = request.topology.rank_nodes();
    request.participants.assign(all.begin(), all.end());
  }
  std::vector<bool> is_used(nodes.size());
  for (std::size_t rank = 0; rank < request.participants.size(); ++rank) {
    const NodeId id = request.participants[rank];
    if (id.value < 0 || id.index() >= nodes.size()) {
      return invalid(fmt::format("participant {} is node {}; {} has nodes 0 to {}", rank, id.value,
                                 request.topology.name(), nodes.size() - 1));
    }
    if (nodes[id.index()].kind != NodeKind::kRank) {
      return invalid(fmt::format("participant {} is node {} ({}), which hosts no rank", rank,
                                 id.value, nodes[id.index()].name));
    }
    if (is_used[id.index()]) {
      return invalid(fmt::format("participant {} is node {} ({}), which is one already", rank,
                                 id.value, nodes[id.index()].name));
    }
    is_used[id.index()] = true;
  }
  const auto rank_count = static_cast<int32_t>(request.participants.size());
  if (rank_count < 2) {
    return invalid(fmt::format("{} participant: a collective takes at least 2", rank_count));
  }
  if (request.root.value < 0 || request.root.value >= rank_count) {
    return invalid(fmt::format("root {}: ranks are 0 to {}", request.root.value, rank_count - 1));
  }
  return request;
}

}  // namespace

std::span<const Algorithm* const> algorithms() {
  return kAlgorithms;
}

Result<Schedule> synthesize(const SynthesisRequest& request, std::string_view algorithm_spec) {
  PLEACH_ASSIGN(spec, parse_spec(algorithm_spec));
  PLEACH_ASSIGN(algorithm, find_algorithm(spec.name));
  if (!spec.argument.empty()) {
    return invalid(fmt::format("algorithm {} takes options after a comma, not {}", spec.name,
                               quoted(":" + spec.argument)));
  }
  PLEACH_ASSIGN(options, Options::create(algorithm->options, spec.options,
                                         fmt::format("algorithm {}", spec.name)));
  PLEACH_TRY(check_collective(*algorithm, request.collective));
  PLEACH_ASSIGN(complete, completed(request));
  Result<Schedule> schedule = algorithm->function(complete, options);
  if (!schedule) {
    return Error{schedule.error().code,
                 fmt::format("{}: {}", algorithm->name, schedule.error().message)};
  }
  schedule->provenance.algorithm = algorithm->name;
  schedule->provenance.options = options.canonical();
  schedule->provenance.topology_fingerprint = request.topology.fingerprint();
  if (request.wants_certificate) {
    PLEACH_TRY(certify(*schedule, request.topology));
  }
  return schedule;
}

}  // namespace pleach
