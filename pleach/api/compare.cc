#include "pleach/api/compare.h"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>

#include "pleach/api/inspect.h"
#include "pleach/api/schedule_source.h"
#include "pleach/synthesis/algorithm.h"

namespace pleach {
namespace {

// What is asked for twice would be two rows that nothing tells apart.
Status refuse_repetition(std::vector<std::string> texts) {
  std::ranges::sort(texts);
  const auto repeated = std::ranges::adjacent_find(texts);
  return repeated == texts.end() ? ok() : invalid(*repeated + " is asked for twice");
}

Status check_request(const ComparisonRequest& request) {
  std::vector<std::string> cases, sizes;
  for (const ComparisonCase& one : request.cases) {
    if (!names_schedule_file(one.source)) {
      PLEACH_TRY(algorithms().select(one.source));
    }
    cases.push_back(fmt::format("{} on {}", one.source, one.topology_text));
  }
  for (const int64_t size_bytes : request.sizes_bytes) {
    sizes.push_back(fmt::format("size {}", size_bytes));
  }
  PLEACH_TRY(refuse_repetition(std::move(cases)));
  PLEACH_TRY(refuse_repetition(std::move(sizes)));
  return refuse_repetition(request.models);
}

Result<std::shared_ptr<const Schedule>> obtain(const ComparisonCase& one) {
  const CollectiveKind collective = one.request.collective.value_or(CollectiveKind::kAllReduce);
  if (!names_schedule_file(one.source) && !algorithm_does(one.source, collective)) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("{}: it does no {}", one.source, to_text(collective))};
  }
  return obtain_schedule(*one.topology, one.source, one.request);
}

void mark_best(std::vector<ComparisonRow>& rows) {
  for (ComparisonRow& row : rows) {
    row.is_best = std::ranges::none_of(rows, [&](const ComparisonRow& other) {
      return other.time_ps < row.time_ps &&
             std::tie(other.topology, other.model, other.size_bytes) ==
                 std::tie(row.topology, row.model, row.size_bytes);
    });
  }
}

Status add_rows(const ComparisonRequest& request, const ComparisonCase& one,
                const std::shared_ptr<const Schedule>& schedule, Comparison& comparison) {
  PLEACH_ASSIGN(summary, summarize(*schedule, *one.topology));
  for (const std::string& model : request.models) {
    for (const int64_t size_bytes : request.sizes_bytes) {
      TimingRequest how = request.how;
      how.model = model;
      how.size_bytes = size_bytes;
      PLEACH_ASSIGN(timing, time_schedule(*one.topology, schedule, how));
      comparison.rows.push_back(
          {.topology = one.topology_text,
           .algorithm = one.source,
           .model = model,
           .size_bytes = size_bytes,
           .segment_count = timing.segment_count,
           .time_ps = timing.time_ps,
           .algbw_bytes_per_s = timing.algbw_bytes_per_s,
           .busbw_bytes_per_s = timing.busbw_bytes_per_s,
           .bound_algbw_bytes_per_s = summary.provenance.certificate.bound_algbw_bytes_per_s,
           .messages_are_free = timing.messages_are_free});
    }
  }
  return ok();
}

}  // namespace

Result<Comparison> compare(const ComparisonRequest& request) {
  PLEACH_TRY(check_request(request));
  Comparison comparison;
  for (const ComparisonCase& one : request.cases) {
    request.progress(fmt::format("{} on {}", one.source, one.topology_text));
    const auto schedule = obtain(one);
    if (schedule) {
      comparison.collective = to_text((*schedule)->collective);
      PLEACH_TRY(add_rows(request, one, *schedule, comparison));
      continue;
    }
    const Error& error = schedule.error();
    if (error.code != ErrorCode::kInfeasible && error.code != ErrorCode::kUnsupported) {
      return error;
    }
    comparison.refusals.push_back({one.topology_text, one.source, error.message});
  }
  if (comparison.rows.empty() && !comparison.refusals.empty()) {
    const ComparisonRefusal& first = comparison.refusals.front();
    return invalid(fmt::format("not possible on {}: {}", first.topology, first.why));
  }
  mark_best(comparison.rows);
  return comparison;
}

}  // namespace pleach
