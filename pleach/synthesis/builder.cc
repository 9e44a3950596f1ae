#include "pleach/synthesis/builder.h"

#include <fmt/format.h>

namespace pleach {
namespace {

constexpr int64_t kTransferLimit = 50'000'000;
constexpr int64_t kRouteLinkLimit = int64_t{1} << 27;
constexpr int64_t kDistanceLimit = int64_t{1} << 28;  // entries of the router's distance fields

}  // namespace

Status check_size(int64_t transfer_count, int64_t move_count) {
  if (transfer_count > kTransferLimit) {
    return Error{ErrorCode::kInfeasible,
                 fmt::format("the schedule would have {} transfers; the limit is {}",
                             transfer_count, kTransferLimit)};
  }
  if (move_count > kMaxScheduleMoves) {
    return Error{ErrorCode::kInfeasible,
                 fmt::format("the schedule would move {} chunks; the limit is {}", move_count,
                             kMaxScheduleMoves)};
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
  if (const auto known = route_of_pair_.find(pair); known != route_of_pair_.end()) {
    return known->second;
  }
  const int32_t route = error_ ? kNoRoute : find_route(source, target);
  if (!error_) {
    route_of_pair_.emplace(pair, route);
  }
  return route;
}

int32_t ScheduleBuilder::find_route(NodeId source, NodeId target) {
  routed_targets_.insert(target.value);
  const auto node_count = static_cast<int64_t>(topology_.nodes().size());
  if (static_cast<int64_t>(routed_targets_.size()) * node_count > kDistanceLimit) {
    error_ = Error{ErrorCode::kInfeasible,
                   fmt::format("it would take routes over several links to more than {} of the {} "
                               "nodes",
                               routed_targets_.size() - 1, node_count)};
    return kNoRoute;
  }
  const Result<std::vector<LinkId>> links = router_.route(source, target);
  if (!links) {
    error_ = links.error();
    return kNoRoute;
  }
  return add_route(*links);
}

void ScheduleBuilder::add(const Message& message, NodeId source, NodeId target, int32_t route) {
  move_count_ += message.chunk_count;
  schedule_.transfers.push_back(
      {message.first_chunk, message.chunk_count, source, target, message.step, route, message.op});
}

Result<Schedule> ScheduleBuilder::finish(std::vector<int32_t> phase_steps, int32_t period) && {
  if (error_) {
    return *error_;
  }
  PLEACH_TRY(check_size(static_cast<int64_t>(schedule_.transfers.size()), move_count_));
  schedule_.phase_steps = std::move(phase_steps);
  schedule_.period = period > 0 ? period : schedule_.step_count();
  sort_transfers(schedule_);
  return std::move(schedule_);
}

}  // namespace pleach
