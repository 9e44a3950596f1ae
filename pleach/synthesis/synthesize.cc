#include <fmt/format.h>

#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/collective/bounds.h"
#include "pleach/collective/io_roots.h"
#include "pleach/synthesis/algorithm.h"

namespace pleach {
namespace {

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
    if (!may_take_part(nodes[id.index()], Rank{static_cast<int32_t>(rank)}, request.collective,
                       request.root)) {
      return invalid(fmt::format("participant {} is node {} ({}), which hosts no rank", rank,
                                 id.value, nodes[id.index()].name));
    }
    if (is_used[id.index()]) {
      return invalid(fmt::format("participant {} is node {} ({}), which is one already", rank,
                                 id.value, nodes[id.index()].name));
    }
    is_used[id.index()] = true;
  }
  const auto rank_count = count_of(request.participants);
  if (rank_count < 2) {
    return invalid(fmt::format("{} participant of topology {}: a collective takes at least two",
                               rank_count, quoted(request.topology.name())));
  }
  if (request.root.value < 0 || request.root.value >= rank_count) {
    return invalid(fmt::format("root {}: ranks are 0 to {}", request.root.value, rank_count - 1));
  }
  return request;
}

}  // namespace

std::string Algorithm::details() const {
  std::vector<std::string> kinds;
  for (const CollectiveKind collective : collectives) {
    kinds.emplace_back(to_text(collective));
  }
  return join(kinds, ", ") + (options.empty() ? "" : "; ") + option_details(options);
}

bool algorithm_does(std::string_view algorithm_spec, CollectiveKind collective) {
  const auto found = algorithms().entry_of(algorithm_spec);
  return found &&
         std::ranges::find((*found)->collectives, collective) != (*found)->collectives.end();
}

Result<Schedule> synthesize(const SynthesisRequest& request, std::string_view algorithm_spec) {
  PLEACH_ASSIGN(selected, algorithms().select(algorithm_spec));
  const auto& [algorithm, options] = selected;
  PLEACH_TRY(check_collective(*algorithm, request.collective));
  PLEACH_ASSIGN(complete, completed(request));
  Result<Schedule> schedule = algorithm->create(complete, options);
  if (!schedule) {
    return prefixed(algorithm->name, schedule.error());
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
