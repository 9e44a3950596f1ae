#include "pleach/api/schedule_source.h"

#include <fmt/core.h>

#include <algorithm>

#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/collective/bounds.h"
#include "pleach/collective/formats.h"
#include "pleach/collective/verify.h"
#include "pleach/synthesis/algorithm.h"

namespace pleach {

bool names_schedule_file(std::string_view algorithm) {
  if (algorithm.find('/') != std::string_view::npos) {
    return true;
  }
  const auto formats = schedule_formats();
  return std::any_of(formats.begin(), formats.end(), [&](const ScheduleFormat* format) {
    return algorithm.ends_with(format->extension);
  });
}

namespace {

Result<Schedule> read_proved_schedule(const Topology& topology, const ScheduleRequest& request) {
  PLEACH_ASSIGN(schedule, read_schedule(request.algorithm));
  if (request.collective_given && schedule.collective != request.collective) {
    return invalid(fmt::format("{}: a schedule of {}, not of {}", request.algorithm,
                               to_text(schedule.collective), to_text(request.collective)));
  }
  const Verification verification = verify(schedule, &topology);
  if (!verification.correct) {
    return invalid(fmt::format("{}: {}", request.algorithm, verification.violations.front()));
  }
  PLEACH_TRY(fill_routes(schedule, topology));
  PLEACH_TRY(certify(schedule, topology));  // a file's own may be of another topology
  return std::move(schedule);
}

}  // namespace

Result<Schedule> obtain_schedule(const Topology& topology, const ScheduleRequest& request) {
  if (names_schedule_file(request.algorithm)) {
    return read_proved_schedule(topology, request);
  }
  const SynthesisRequest synthesis = {topology, request.participants, request.collective,
                                      request.root};
  return synthesize(synthesis, request.algorithm);
}

Result<std::vector<NodeId>> parse_group(const Topology& topology, std::string_view text) {
  const auto ranks = topology.rank_nodes();
  const int64_t last_rank = static_cast<int64_t>(ranks.size()) - 1;
  std::vector<NodeId> nodes;
  for (const std::string_view piece : split(text, ',')) {
    const std::size_t dash = piece.find('-');
    PLEACH_ASSIGN(first, parse_integer(piece.substr(0, dash), "rank", 0, last_rank));
    int64_t last = first;
    if (dash != std::string_view::npos) {
      PLEACH_SET(last, parse_integer(piece.substr(dash + 1), "rank", first, last_rank));
    }
    for (int64_t rank = first; rank <= last; ++rank) {
      const NodeId node = ranks[at(rank)];
      if (std::find(nodes.begin(), nodes.end(), node) != nodes.end()) {
        return invalid(fmt::format("rank {} is twice in {}", rank, pleach::quoted(text)));
      }
      nodes.push_back(node);
    }
  }
  return nodes;
}

}  // namespace pleach
