#include "pleach/planning/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "pleach/base/index.h"
#include "pleach/collective/formats.h"
#include "pleach/planning/auto_planner.h"
#include "pleach/planning/file_planner.h"
#include "pleach/planning/fixed_planner.h"
#include "pleach/planning/io_shares.h"
#include "pleach/planning/padding.h"

namespace pleach {

SegmentSearch Planner::segment_search(double as_good) const {
  return {.model = options_.model,
          .simulation = options_.simulation,
          .least_bytes = options_.least_segment_bytes,
          .as_good = as_good};
}

Result<CommonChoice> Planner::with_segments(CommonChoice choice, int64_t size_bytes,
                                            std::optional<int32_t> segment_count) {
  if (segment_count) {
    choice.segment_count = *segment_count;
    return choice;
  }
  std::vector<Job> jobs;
  for (std::size_t index = 0; index < choice.schedules.size(); ++index) {
    jobs.push_back({choice.schedules[index], choice.bytes_of(index, size_bytes), 0});
  }
  std::map<int32_t, int64_t> times_ps;
  const auto time_ps = [&](int32_t count) -> Result<int64_t> {
    PLEACH_ASSIGN(one_ps, timer_.time_ps(jobs, count));
    times_ps[count] = one_ps;
    return one_ps;
  };
  PLEACH_SET(choice.segment_count,
             find_best_segments(jobs, segment_search(options_.as_good), time_ps));
  choice.time_ps = times_ps.at(choice.segment_count);
  return choice;
}

Result<Choice> Planner::choose(const ScheduleRequest& request) {
  PLEACH_ASSIGN(found, schedule(request));
  PLEACH_ASSIGN(choice,
                with_segments({.schedules = {found}}, request.size_bytes, options_.segment_count));
  return Choice{std::move(found), choice.segment_count};
}

Result<std::vector<std::shared_ptr<const Schedule>>> Planner::schedules(
    CollectiveKind collective, std::span<const std::vector<NodeId>> groups, int64_t size_bytes) {
  std::vector<std::shared_ptr<const Schedule>> found;
  for (const std::vector<NodeId>& group : groups) {
    found.emplace_back();
    PLEACH_SET(found.back(), schedule({collective, group, std::nullopt, size_bytes}));
  }
  return found;
}

Result<CommonChoice> Planner::choose_together(CollectiveKind collective,
                                              std::span<const std::vector<NodeId>> groups,
                                              int64_t size_bytes,
                                              std::optional<int32_t> segment_count) {
  CommonChoice choice;
  PLEACH_SET(choice.schedules, schedules(collective, groups, size_bytes));
  return with_segments(std::move(choice), size_bytes,
                       segment_count ? segment_count : options_.segment_count);
}

Result<CommonChoice> Planner::choose_together(std::span<const ScheduleRequest> requests,
                                              int64_t size_bytes) {
  CommonChoice choice;
  for (ScheduleRequest request : requests) {
    request.size_bytes = size_bytes;
    choice.schedules.emplace_back();
    PLEACH_SET(choice.schedules.back(), schedule(request));
  }
  return with_segments(std::move(choice), size_bytes, options_.segment_count);
}

Result<CommonChoice> Planner::choose_io(CollectiveKind collective,
                                        std::span<const std::vector<NodeId>> groups,
                                        int64_t size_bytes, std::optional<int32_t> segment_count) {
  PLEACH_ASSIGN(shares, IoShares::of(topology_, collective));
  CommonChoice choice;
  for (const std::vector<NodeId>& group : groups) {
    for (const auto& [node, part_bytes] : shares.parts(size_bytes)) {
      std::vector<NodeId> participants = group;
      participants.push_back(node);
      const Rank root{count_of(group)};
      choice.schedules.emplace_back();
      PLEACH_SET(choice.schedules.back(),
                 schedule({collective, std::move(participants), root, part_bytes}));
      const int64_t unit_bytes =
          padding_unit_bytes(*choice.schedules.back(), options_.segment_count.value_or(1));
      choice.part_bytes.push_back(padded_bytes(part_bytes, unit_bytes));
    }
  }
  return with_segments(std::move(choice), size_bytes,
                       segment_count ? segment_count : options_.segment_count);
}

bool names_schedule_file(std::string_view source) {
  const auto formats = schedule_formats();
  return source.find('/') != std::string_view::npos ||
         std::ranges::any_of(formats, [&](const ScheduleFormat* format) {
           return source.ends_with(format->extension);
         });
}

Result<std::unique_ptr<Planner>> make_planner(const Topology& topology, std::string_view source,
                                              PlannerOptions options) {
  if (options.segment_count && *options.segment_count < 1) {
    return invalid(fmt::format("segments {}: must be at least 1", *options.segment_count));
  }
  if (source == kAutoAlgorithm) {
    return make_auto_planner(topology, std::move(options));
  }
  return names_schedule_file(source) ? make_file_planner(topology, source, std::move(options))
                                     : make_fixed_planner(topology, source, std::move(options));
}

}  // namespace pleach
