#include "pleach/network/schedule_forms.h"

#include <algorithm>

#include "pleach/base/index.h"
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

}  // namespace

Result<std::unique_ptr<ScheduleForms>> ScheduleForms::create(
    const Topology& topology, std::shared_ptr<const Schedule> schedule,
    const SimulationOptions& options) {
  std::unique_ptr<ScheduleForms> forms(new ScheduleForms(topology, std::move(schedule), options));
  PLEACH_SET(forms->simulated_, with_routes(topology, forms->schedule_));
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
  const auto found = forms_.find(schedule.get());
  if (found != forms_.end()) {
    return found->second.get();
  }
  PLEACH_ASSIGN(made, ScheduleForms::create(topology_, schedule, options_));
  return forms_.emplace(schedule.get(), std::move(made)).first->second.get();
}

}  // namespace pleach
