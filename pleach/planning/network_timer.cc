#include "pleach/planning/network_timer.h"

#include <algorithm>

#include "pleach/base/units.h"

namespace pleach {

Result<int64_t> NetworkTimer::time_ps(std::span<const Job> jobs, int32_t segment_count) {
  Network& network = networks_[segment_count];
  // Where configurations take time, switches have none at the start, whatever was timed before.
  if (network.session == nullptr || network.now_ps > kLongestPs / 2 ||
      simulation_.reconfiguration_ps > 0) {
    SimulationOptions options = simulation_;
    options.segment_count = segment_count;
    PLEACH_SET(network.session, open_network(model_, topology_, options));
    network.now_ps = 0;
  }
  const int64_t start_ps = network.now_ps;
  for (Job job : jobs) {
    job.start_ps = start_ps;
    PLEACH_TRY(network.session->start(job));
  }
  int64_t finish_ps = start_ps;
  while (const auto next_ps = network.session->next_ps()) {
    PLEACH_ASSIGN(finished, network.session->advance(*next_ps));
    network.now_ps = std::max(network.now_ps, *next_ps);
    for (const NetworkSession::Finish& one : finished) {
      finish_ps = one.time_ps;
    }
  }
  return finish_ps - start_ps;
}

}  // namespace pleach
