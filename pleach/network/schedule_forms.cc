#include "pleach/network/schedule_forms.h"

#include <algorithm>

#include "pleach/base/index.h"
#include "pleach/collective/merge_chunks.h"
#include "pleach/network/job_checks.h"

namespace pleach {
namespace {

// The schedule with every route filled in.
Result<std::shared_ptr<const Schedule>> with_routes(const Topology& topology,
                                                    const std::shared_ptr<const Schedule>& given) {
  const bool is_complete = std::ranges::none_of(
      given->transfers, [](const Transfer& transfer) { return transfer.route == kNoRoute; });
  if (is_complete) {
    return given;
  }
  auto routed = std::make_shared<Schedule>(*given);
  PLEACH_TRY(fill_routes(*routed, topology));
  return std::shared_ptr<const Schedule>(std::move(routed));
}

// The same on a grid of fewer chunks, where that is as much as the transfers tell apart and takes
// exactly as long: chunks are cut into segments, reduced and recorded one by one.
std::shared_ptr<const Schedule> with_few_chunks(std::shared_ptr<const Schedule> given,
                                                const SimulationOptions& options) {
  if (options.segment_count > 1 || options.reduce_bandwidth_bytes_per_s.value_or(0) > 0 ||
      options.keep_records) {
    return given;
  }
  std::optional<MergedChunks> merged = merge_alike_chunks(*given);
  const bool folds = given->symmetry.has_value() && given->chunks.is_uniform();
  if (!merged || (folds && !merged->schedule.chunks.is_uniform())) {
    return given;
  }
  return std::make_shared<const Schedule>(std::move(merged->schedule));
}

}  // namespace

Result<std::unique_ptr<ScheduleForms>> ScheduleForms::create(
    const Topology& topology, const std::shared_ptr<const Schedule>& schedule,
    const SimulationOptions& options) {
  PLEACH_ASSIGN(routed, with_routes(topology, schedule));
  std::unique_ptr<ScheduleForms> forms(
      new ScheduleForms(topology, with_few_chunks(std::move(routed), options), options));
  forms->simulated_ = forms->schedule_;
  if (!forms->schedule_->symmetry.has_value()) {
    return forms;
  }
  PLEACH_ASSIGN(folded, LoweredSchedule::create(topology, forms->simulated_, options, true));
  if (!folded->has_plain_priorities()) {
    PLEACH_ASSIGN(written_out, expand(*forms->simulated_, &topology));
    forms->simulated_ = std::make_shared<const Schedule>(std::move(written_out));
    return forms;
  }
  auto links = LinkTranslation::create(*forms->simulated_, topology, true);
  // Ways of one link: on longer ones a rank's messages meet those of the others.
  const bool keeps_apart = std::ranges::all_of(
      folded->connections(),
      [](const LoweredConnection& connection) { return connection.links.size() == 1; });
  if (options.fold && !options.keep_records && forms->schedule_->chunks.is_uniform() && links &&
      keeps_apart) {
    forms->folded_ = std::move(folded);
    forms->links_ = std::move(*links);
  }
  return forms;
}

Result<std::shared_ptr<const SegmentSizes>> ScheduleForms::sizes(int64_t size_bytes) {
  if (const auto known = sizes_.find(size_bytes); known != sizes_.end()) {
    return known->second;
  }
  PLEACH_ASSIGN(made, SegmentSizes::create(*schedule_, size_bytes, options_.segment_count));
  PLEACH_TRY(check_wire_bytes(topology_, *simulated_, size_bytes, options_));
  auto sizes = std::make_shared<const SegmentSizes>(std::move(made));
  if (sizes_.size() < kMostSizes) {
    sizes_.emplace(size_bytes, sizes);
  }
  return sizes;
}

Result<std::optional<LoweredJob>> ScheduleForms::folded(int64_t size_bytes) {
  PLEACH_ASSIGN(found, sizes(size_bytes));
  if (folded_ == nullptr || !found->chunks_are_alike()) {
    return std::optional<LoweredJob>();
  }
  return std::optional(LoweredJob(folded_, std::move(found)));
}

Result<LoweredJob> ScheduleForms::whole(int64_t size_bytes) {
  PLEACH_ASSIGN(found, sizes(size_bytes));
  if (whole_ == nullptr) {
    PLEACH_SET(whole_, LoweredSchedule::create(topology_, simulated_, options_, false));
  }
  return LoweredJob(whole_, std::move(found));
}

std::vector<LinkUse> ScheduleForms::sum_classes(std::span<const LinkUse> links) const {
  std::vector<LinkUse> classes(at(links_->class_count()));
  for (std::size_t link = 0; link < links.size(); ++link) {
    classes[at(links_->class_of(LinkId{static_cast<int32_t>(link)}))].add(links[link]);
  }
  return classes;
}

void ScheduleForms::spread_classes(std::span<const LinkUse> classes, int64_t times,
                                   std::vector<LinkUse>& links) const {
  for (std::size_t link = 0; link < links.size(); ++link) {
    links[link].add(classes[at(links_->class_of(LinkId{static_cast<int32_t>(link)}))], times);
  }
}

Result<ScheduleForms*> KnownSchedules::find(const std::shared_ptr<const Schedule>& schedule) {
  const auto found = forms_.find(schedule);
  if (found != forms_.end()) {
    return found->second.get();
  }
  PLEACH_ASSIGN(made, ScheduleForms::create(topology_, schedule, options_));
  return forms_.emplace(schedule, std::move(made)).first->second.get();
}

}  // namespace pleach
