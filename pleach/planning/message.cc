#include "pleach/planning/message.h"

namespace pleach {

std::shared_ptr<const Schedule> message_schedule(NodeId source, NodeId target) {
  Schedule schedule;
  schedule.collective = CollectiveKind::kBroadcast;
  schedule.participants = {source, target};
  schedule.phase_steps = {1};
  schedule.transfers = {{.source = source, .target = target}};
  return std::make_shared<const Schedule>(std::move(schedule));
}

}  // namespace pleach
