#include "pleach/synthesis/builder.h"

#include <fmt/format.h>

namespace pleach {
namespace {

constexpr int64_t kTransferLimit = 50'000'000;
constexpr int64_t kRouteLinkLimit = int64_t{1} << 28;

}  // namespace

Status check_transfer_count(int64_t transfer_count) {
  if (transfer_count > kTransferLimit) {
    return Error{ErrorCode::kInfeasible,
                 fmt::format("the schedule would have {} transfers; the limit is {}",
                             transfer_count, kTransferLimit)};
  }
  return ok();
}

ScheduleBuilder::ScheduleBuilder(const SynthesisRequest& request, CollectiveKind collective,
                                 int32_t chunk_count)
    : topology_(request.topology),
      router_(request.topology),
      route_of_link_(request.topology.links().size(), kNoRoute),
      link_to_(request.topology.nodes().size()) {
  schedule_.collective = collective;
  schedule_.root = has_root(collective) ? request.root : Rank{0};
  schedule_.participants = request.participants;
  schedule_.chunks = ChunkGrid::uniform(chunk_count);
}

LinkId ScheduleBuilder::direct_link(NodeId source, NodeId target) {
  if (direct_source_ != source) {
    if (direct_source_.value >= 0) {
      for (const LinkId link : topology_.links_out(direct_source_)) {
        link_to_[topology_.link(link).target.index()] = LinkId{};
      }
    }
    direct_source_ = source;
    for (const LinkId link : topology_.links_out(source)) {
      LinkId& first = link_to_[topology_.link(link).target.index()];
      first = first.value < 0 ? link : first;
    }
  }
  return link_to_[target.index()];
}

int32_t ScheduleBuilder::add_route(std::span<const LinkId> links) {
  route_link_count_ += static_cast<int64_t>(links.size());
  if (route_link_count_ > kRouteLinkLimit && !error_) {
    error_ = Error{ErrorCode::kInfeasible,
                   fmt::format("the routes would have more than {} links", kRouteLinkLimit)};
  }
  return error_ ? kNoRoute : schedule_.routes.add(links);
}

int32_t ScheduleBuilder::route(LinkId link) {
  int32_t& route = route_of_link_[link.index()];
  if (route == kNoRoute) {
    route = add_route(std::span(&link, 1));
  }
  return route;
}

int32_t ScheduleBuilder::route(NodeId source, NodeId target) {
  if (const LinkId link = direct_link(source, target); link.value >= 0) {
    return route(link);
  }
  const int64_t pair = static_cast<int64_t>(source.value) << 32 | target.value;
  const auto [entry, is_new] = route_of_pair_.emplace(pair, kNoRoute);
  if (is_new && !error_) {
    const Result<std::vector<LinkId>> links = router_.route(source, target);
    if (links) {
      entry->second = add_route(*links);
    } else {
      error_ = links.error();
    }
  }
  return entry->second;
}

void ScheduleBuilder::add(const Message& message, NodeId source, NodeId target, int32_t route) {
  schedule_.transfers.push_back(
      {message.first_chunk, message.chunk_count, source, target, message.step, route, message.op});
}

Result<Schedule> ScheduleBuilder::finish(std::vector<int32_t> phase_steps, int32_t period) && {
  if (error_) {
    return *error_;
  }
  schedule_.phase_steps = std::move(phase_steps);
  schedule_.period = period > 0 ? period : schedule_.step_count();
  sort_transfers(schedule_);
  return std::move(schedule_);
}

}  // namespace pleach
