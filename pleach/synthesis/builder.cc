#include "pleach/synthesis/builder.h"

#include <fmt/format.h>

#include "pleach/base/interruption.h"

namespace pleach {
namespace {

constexpr int64_t kTransferLimit = 50'000'000;

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
    : topology_(request.topology), routes_(request.topology) {
  schedule_.collective = collective;
  schedule_.root = has_root(collective) ? request.root : Rank{0};
  schedule_.participants = request.participants;
  schedule_.chunks = ChunkGrid::uniform(chunk_count);
}

void ScheduleBuilder::add(const Message& message, NodeId source, NodeId target, int32_t route) {
  check_interruption();
  move_count_ += message.chunk_count;
  schedule_.transfers.push_back({message.first_chunk, message.chunk_count, source, target,
                                 message.step, route, message.op, message.source_pass,
                                 message.target_pass});
}

Result<Schedule> ScheduleBuilder::finish(std::vector<int32_t> phase_steps, int32_t period) && {
  if (routes_.error()) {
    return *routes_.error();
  }
  PLEACH_TRY(check_size(static_cast<int64_t>(schedule_.transfers.size()), move_count_));
  schedule_.phase_steps = std::move(phase_steps);
  schedule_.period = period > 0 ? period : schedule_.step_count();
  if (routes_.leaves_open()) {
    PLEACH_TRY(fill_routes(schedule_, topology_));
  }
  sort_transfers(schedule_);
  return std::move(schedule_);
}

}  // namespace pleach
