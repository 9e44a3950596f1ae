// A program outside the tree, with the installed package: synthesises, verifies and simulates, and
// writes a schedule by hand.
#include <pleach/api/pleach.h>

#include <cstdio>
#include <memory>
#include <utility>

namespace {

// An all_reduce through rank 0: everything to it, and then from it.
pleach::Result<pleach::Schedule> star(const pleach::Topology& topology) {
  const auto ranks = topology.rank_nodes();
  pleach::ScheduleBuilder builder(
      {.topology = topology, .participants = {ranks.begin(), ranks.end()}},
      pleach::CollectiveKind::kAllReduce, 1);
  for (int32_t rank = 1; rank < builder.rank_count(); ++rank) {
    builder.send({.step = 0, .op = pleach::TransferOp::kReduce}, rank, 0);
    builder.send({.step = 1}, 0, rank);
  }
  return std::move(builder).finish({1, 1});
}

// How long 1 MiB takes; 0 where the schedule is wrong.
int64_t time_ps(const pleach::Topology& topology,
                const std::shared_ptr<const pleach::Schedule>& schedule) {
  if (!pleach::verify(*schedule, &topology).correct) {
    return 0;
  }
  pleach::TimingRequest request;
  request.size_bytes = 1 << 20;
  const auto timing = pleach::time_schedule(topology, schedule, request);
  return timing ? timing->time_ps : 0;
}

}  // namespace

int main() {
  const auto topology = pleach::parse_topology("torus:4x4");
  if (!topology) {
    return 1;
  }
  const auto trees = pleach::obtain_schedule(*topology, "multitree");
  const auto by_hand = star(*topology);
  if (!trees || !by_hand) {
    return 1;
  }
  const int64_t trees_ps = time_ps(*topology, *trees);
  const int64_t star_ps = time_ps(*topology, std::make_shared<const pleach::Schedule>(*by_hand));
  std::printf("%d steps, %lld ps\n", (*trees)->step_count(), static_cast<long long>(trees_ps));
  std::printf("%d steps, %lld ps\n", by_hand->step_count(), static_cast<long long>(star_ps));
  return trees_ps > 0 && star_ps > trees_ps ? 0 : 1;
}
