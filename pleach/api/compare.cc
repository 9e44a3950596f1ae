#include "pleach/api/compare.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "pleach/api/inspect.h"
#include "pleach/api/schedule_source.h"
#include "pleach/base/units.h"
#include "pleach/collective/formats.h"
#include "pleach/report/plan.h"
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
    if (names_schedule_file(one.source)) {
      PLEACH_TRY(read_schedule(one.source));
    } else if (one.source != kAutoAlgorithm) {
      PLEACH_TRY(algorithms().select(one.source));
    }
    cases.push_back(fmt::format("{} on {}", one.source, one.topology_text));
  }
  for (const int64_t size_bytes : request.sizes_bytes) {
    sizes.push_back(fmt::format("a size of {} bytes", size_bytes));
  }
  PLEACH_TRY(refuse_repetition(std::move(cases)));
  PLEACH_TRY(refuse_repetition(std::move(sizes)));
  return refuse_repetition(request.models);
}

Status check_does(const ComparisonCase& one) {
  const CollectiveKind collective = one.request.collective.value_or(CollectiveKind::kAllReduce);
  if (!names_schedule_file(one.source) && one.source != kAutoAlgorithm &&
      !algorithm_does(one.source, collective)) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("{}: it does no {}", one.source, to_text(collective))};
  }
  return ok();
}

// "broadcast with root 2".
std::string describe(CollectiveKind collective, Rank root) {
  return has_root(collective) ? fmt::format("{} with root {}", to_text(collective), root.value)
                              : std::string(to_text(collective));
}

class Comparer {
 public:
  explicit Comparer(const ComparisonRequest& request) : request_(request) {}

  Comparison run() {
    for (const ComparisonCase& one : request_.cases) {
      if (request_.progress) {
        request_.progress(fmt::format("{} on {}", one.source, one.topology_text));
      }
      if (const Status added = add_case(one); !added) {
        refuse(one, added.error().message);
      }
    }
    mark_best();
    return std::move(comparison_);
  }

 private:
  void refuse(const ComparisonCase& one, const std::string& why) {
    comparison_.refusals.push_back({one.topology_text, one.source, why});
  }

  // Times of different work are not compared. What the work is says the first schedule.
  Status check_alike(const ComparisonCase& one, const Schedule& schedule) {
    if (!work_.has_value()) {
      work_ = {schedule.collective, schedule.root};
      comparison_.collective = to_text(schedule.collective);
    }
    if (*work_ != std::pair(schedule.collective, schedule.root)) {
      return invalid(one.source, fmt::format("{}, where the others do {}",
                                             describe(schedule.collective, schedule.root),
                                             describe(work_->first, work_->second)));
    }
    const auto [known, is_first] =
        participants_.try_emplace(one.topology_text, schedule.participants);
    return is_first || known->second == schedule.participants
               ? ok()
               : invalid(one.source, "it is of other ranks than the ones before");
  }

  Status add_case(const ComparisonCase& one) {
    PLEACH_TRY(check_does(one));
    if (one.source == kAutoAlgorithm) {  // chooses for each size, as each model has it
      for (const std::string& model : request_.models) {
        PLEACH_TRY(add_choices(one, model));
      }
      return ok();
    }
    PLEACH_ASSIGN(schedule, obtain_schedule(*one.topology, one.source, one.request));
    PLEACH_TRY(check_alike(one, *schedule));
    PLEACH_ASSIGN(summary, summarize(*schedule, *one.topology));
    for (const std::string& model : request_.models) {
      for (const int64_t wanted_bytes : request_.sizes_bytes) {
        add_row(one,
                timing_of(model, possible_bytes(schedule->collective, schedule->rank_count(),
                                                wanted_bytes)),
                schedule, summary.provenance.certificate);
      }
    }
    return ok();
  }

  Status add_choices(const ComparisonCase& one, const std::string& model) {
    PLEACH_ASSIGN(planner,
                  make_planner(*one.topology, one.source, planner_options(timing_of(model, 0))));
    const CollectiveKind collective = one.request.collective.value_or(CollectiveKind::kAllReduce);
    const int32_t ranks =
        count_of(one.request.participants.empty() ? one.topology->rank_nodes()
                                                  : std::span(one.request.participants));
    for (const int64_t wanted_bytes : request_.sizes_bytes) {
      ScheduleRequest request = one.request;
      request.size_bytes = possible_bytes(collective, ranks, wanted_bytes);
      PLEACH_ASSIGN(choice, planner->choose(request));
      PLEACH_TRY(check_alike(one, *choice.schedule));
      add_row(one, timing_of(model, request.size_bytes), choice.schedule,
              choice.schedule->provenance.certificate);
    }
    return ok();
  }

  TimingRequest timing_of(const std::string& model, int64_t size_bytes) const {
    TimingRequest how = request_.how;
    how.model = model;
    how.size_bytes = size_bytes;
    return how;
  }

  void add_row(const ComparisonCase& one, const TimingRequest& how,
               const std::shared_ptr<const Schedule>& schedule, const Certificate& certificate) {
    const auto timing = time_schedule(*one.topology, schedule, how);
    if (!timing) {
      refuse(one, fmt::format("{}: {} by {}: {}", one.source, format_size(how.size_bytes),
                              how.model, timing.error().message));
      return;
    }
    comparison_.rows.push_back({.topology = one.topology_text,
                                .algorithm = one.source,
                                .chosen = algorithm_text(schedule->provenance),
                                .model = how.model,
                                .rank_count = schedule->rank_count(),
                                .size_bytes = how.size_bytes,
                                .segment_count = timing->segment_count,
                                .time_ps = timing->time_ps,
                                .algbw_bytes_per_s = timing->algbw_bytes_per_s,
                                .busbw_bytes_per_s = timing->busbw_bytes_per_s,
                                .bound_algbw_bytes_per_s = certificate.bound_algbw_bytes_per_s,
                                .messages_are_free = timing->messages_are_free});
  }

  // An all_to_all is of whole blocks, one for each rank.
  static int64_t possible_bytes(CollectiveKind collective, int64_t ranks, int64_t size_bytes) {
    return collective == CollectiveKind::kAllToAll
               ? std::max(size_bytes / ranks, int64_t{1}) * ranks
               : size_bytes;
  }

  void mark_best() {
    const auto place_of = [](const ComparisonRow& row) {
      return std::tuple(row.topology, row.model, row.size_bytes);
    };
    std::map<std::tuple<std::string, std::string, int64_t>, int64_t> least_ps;
    for (const ComparisonRow& row : comparison_.rows) {
      const auto known = least_ps.try_emplace(place_of(row), row.time_ps).first;
      known->second = std::min(known->second, row.time_ps);
    }
    for (ComparisonRow& row : comparison_.rows) {
      row.is_best = row.time_ps == least_ps.at(place_of(row));
    }
  }

  const ComparisonRequest& request_;
  std::optional<std::pair<CollectiveKind, Rank>> work_;
  std::map<std::string, std::vector<NodeId>> participants_;  // by topology
  Comparison comparison_;
};

}  // namespace

Result<Comparison> compare(const ComparisonRequest& request) {
  PLEACH_TRY(check_request(request));
  Comparison comparison = Comparer(request).run();
  if (comparison.rows.empty() && !comparison.refusals.empty()) {
    const ComparisonRefusal& first = comparison.refusals.front();
    return invalid(fmt::format("not possible on {}: {}", first.topology, first.why));
  }
  return comparison;
}

}  // namespace pleach
