// A program outside the tree: synthesises, verifies and simulates with the installed package.
#include <pleach/api/pleach.h>

#include <cstdio>

int main() {
  const auto topology = pleach::parse_topology("torus:4x4");
  if (!topology) {
    return 1;
  }
  pleach::ScheduleRequest request;
  request.algorithm = "multitree";
  const auto schedule = pleach::obtain_schedule(*topology, request);
  if (!schedule || !pleach::verify(*schedule, &*topology).correct) {
    return 1;
  }
  pleach::TimingRequest timing_request;
  timing_request.size_bytes = 1 << 20;
  const auto timing = pleach::time_schedule(*topology, *schedule, timing_request);
  if (!timing) {
    return 1;
  }
  std::printf("%d steps, %lld ps\n", schedule->step_count(),
              static_cast<long long>(timing->time_ps));
  return timing->time_ps > 0 ? 0 : 1;
}
