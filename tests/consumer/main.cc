// A program outside the tree, with the installed package: synthesises, verifies, simulates and
// runs, and writes a schedule by hand.
#include <pleach/api/library.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

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

// Two operations in flight on every rank, the ranks as threads; whether all sums are right.
bool runs(const pleach::Schedule& schedule) {
  const auto store = pleach::make_local_store();
  std::atomic<int> right = 0;
  const auto rank_main = [&](pleach::Rank rank) -> pleach::Status {
    PLEACH_ASSIGN(endpoint, pleach::Endpoint::create({.rank = rank,
                                                      .rank_count = schedule.rank_count(),
                                                      .transport = "inproc",
                                                      .store = store}));
    PLEACH_ASSIGN(communicator, pleach::Communicator::create(endpoint));
    PLEACH_ASSIGN(prepared, communicator->prepare(rank.value == 0 ? &schedule : nullptr));
    std::vector<float> first(1000, 1), second(50, 2);
    const auto start = [&](std::vector<float>& data) {
      std::byte* const bytes = std::as_writable_bytes(std::span(data)).data();
      return communicator->start(
          *prepared, {.count = static_cast<int64_t>(data.size()), .input = bytes, .output = bytes});
    };
    PLEACH_ASSIGN(one, start(first));
    PLEACH_ASSIGN(other, start(second));
    PLEACH_TRY(other.wait());
    PLEACH_TRY(one.wait());
    const auto ranks = static_cast<float>(schedule.rank_count());
    right += first == std::vector<float>(1000, ranks) && second == std::vector<float>(50, 2 * ranks)
                 ? 1
                 : 0;
    return communicator->close();
  };
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < schedule.rank_count(); ++rank) {
    threads.emplace_back([&, rank] {
      if (const pleach::Status status = rank_main(pleach::Rank{rank}); !status) {
        std::printf("rank %d: %s\n", rank, status.error().message.c_str());
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return right == schedule.rank_count();
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
  return trees_ps > 0 && star_ps > trees_ps && runs(**trees) && runs(*by_hand) ? 0 : 1;
}
