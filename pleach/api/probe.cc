#include "pleach/api/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pleach/api/schedule_source.h"
#include "pleach/base/index.h"
#include "pleach/base/units.h"
#include "pleach/runtime/communicator.h"
#include "pleach/runtime/kernels.h"
#include "pleach/topology/shapes.h"

namespace pleach {
namespace {

constexpr int32_t kSmallIterations = 10, kLargeIterations = 5;  // short enough to be undisturbed

// One kind of exchange, and the time that it takes.
struct Exchange {
  std::shared_ptr<const PreparedSchedule> schedule;
  int64_t size_bytes = 0;  // whole buffer
  int32_t segment_count = 1;
  int32_t iterations = kSmallIterations;
  double least_s = HUGE_VAL;  // of one operation, of all rounds: what disturbs only adds to it
};

Result<std::shared_ptr<const PreparedSchedule>> prepare(Communicator& communicator,
                                                        const char* algorithm,
                                                        CollectiveKind collective) {
  std::shared_ptr<const Schedule> schedule;
  if (communicator.rank().value == 0) {
    PLEACH_ASSIGN(topology,
                  parse_topology(fmt::format("fully_connected:{}", communicator.rank_count())));
    PLEACH_SET(schedule, obtain_schedule(topology, algorithm, {.collective = collective}));
  }
  return communicator.prepare(schedule.get());
}

Status time_once(Communicator& communicator, Exchange& exchange, std::span<std::byte> memory) {
  const RunRequest request = {.type = ElementType::kUint8,
                              .count = exchange.size_bytes,
                              .segment_count = exchange.segment_count,
                              .input = memory.data(),
                              .output = memory.data()};
  PLEACH_TRY(communicator.run(*exchange.schedule, request));
  PLEACH_TRY(communicator.barrier());
  const SteadyClock clock;
  const TimePoint start = clock.now();
  for (int32_t iteration = 0; iteration < exchange.iterations; ++iteration) {
    PLEACH_TRY(communicator.run(*exchange.schedule, request));
  }
  exchange.least_s =
      std::min(exchange.least_s, seconds_of(clock.now() - start) / exchange.iterations);
  return ok();
}

// Rounds of all exchanges, one after the other, so that what disturbs disturbs all.
Result<ProbeTimes> time_exchanges(Communicator& communicator, int32_t rounds) {
  const int64_t ranks = communicator.rank_count();
  PLEACH_ASSIGN(chain, prepare(communicator, "tree,arity=1", CollectiveKind::kAllReduce));
  PLEACH_ASSIGN(all, prepare(communicator, "direct", CollectiveKind::kAllGather));
  std::vector<Exchange> exchanges = {
      {.schedule = chain, .size_bytes = kProbeSmallBytes},
      {.schedule = chain, .size_bytes = kProbeLargeBytes, .iterations = kLargeIterations},
      {.schedule = all, .size_bytes = ranks * kProbeSmallBytes},
      {.schedule = all, .size_bytes = ranks * kProbeLargeBytes, .iterations = kLargeIterations},
      {.schedule = all, .size_bytes = ranks * kProbeSmallBytes, .segment_count = kProbeSegments}};
  std::vector<std::byte> memory(at(ranks * kProbeLargeBytes));
  for (int32_t round = 0; round < rounds; ++round) {
    for (Exchange& exchange : exchanges) {
      PLEACH_TRY(time_once(communicator, exchange, memory));
    }
  }
  return ProbeTimes{exchanges[0].least_s, exchanges[1].least_s, exchanges[2].least_s,
                    exchanges[3].least_s, exchanges[4].least_s};
}

// Of sums of float32 in cache.
int64_t time_reductions() {
  constexpr int32_t kRepetitions = 200;
  constexpr int64_t kCount = int64_t{16} * 1024;
  std::vector<float> sum(kCount, 1);
  const std::vector<float> term(kCount, 1);
  std::byte* const out = std::as_writable_bytes(std::span(sum)).data();
  const std::byte* const other = std::as_bytes(std::span(term)).data();
  const SteadyClock clock;
  const TimePoint start = clock.now();
  for (int32_t repetition = 0; repetition < kRepetitions; ++repetition) {
    reduce({ElementType::kFloat32, ReduceOp::kSum}, out, out, {&other, 1}, kCount);
  }
  const double elapsed_s = seconds_of(clock.now() - start);
  return std::llround(kRepetitions * kCount * sizeof(float) / std::max(elapsed_s, 1e-9));
}

}  // namespace

Result<HostModel> fit_host_model(const ProbeTimes& times, int64_t ranks) {
  const auto hops = static_cast<double>(2 * (ranks - 1));
  const auto messages = static_cast<double>(ranks * (ranks - 1));
  const double growth = kProbeLargeBytes - kProbeSmallBytes;
  const double rank_bandwidth = hops * growth / (times.large_chain - times.small_chain);
  const double host_bandwidth = messages * growth / (times.large_exchange - times.small_exchange);
  if (!(rank_bandwidth > 1) || !(host_bandwidth > 1) || !std::isfinite(rank_bandwidth) ||
      !std::isfinite(host_bandwidth)) {
    return invalid(
        "larger messages took no longer than small ones: the machine is too busy to measure");
  }
  const double message_s = std::max(times.exchange_in_parts - times.small_exchange, 0.0) /
                           (messages * (kProbeSegments - 1));
  const double message_bytes = message_s * host_bandwidth;
  // No hop is copying alone, whatever a busy machine measures.
  const double hop_s = times.small_chain / hops;
  const double latency_s =
      std::max(hop_s - (message_bytes + kProbeSmallBytes) / rank_bandwidth, hop_s / 10);
  constexpr double kMostMessageBytes = 1 << 20;  // a topology's header
  HostModel model;
  model.rank_bandwidth_bytes_per_s = std::llround(rank_bandwidth);
  model.host_bandwidth_bytes_per_s = std::llround(std::max(host_bandwidth, rank_bandwidth));
  model.message_bytes = std::llround(std::min(message_bytes, kMostMessageBytes));
  model.latency_ps = std::llround(latency_s * kPicosecondsPerSecond);
  return model;
}

Result<HostModel> probe_host(EndpointOptions options, int32_t rounds) {
  const std::string name = options.name;
  PLEACH_ASSIGN(endpoint, Endpoint::create(std::move(options)));
  PLEACH_ASSIGN(communicator, Communicator::create(std::move(endpoint), {.name = name}));
  PLEACH_ASSIGN(times, time_exchanges(*communicator, rounds));
  PLEACH_TRY(communicator->close());
  if (communicator->rank().value != 0) {
    return HostModel{};
  }
  PLEACH_ASSIGN(model, fit_host_model(times, communicator->rank_count()));
  model.reduce_bandwidth_bytes_per_s = time_reductions();
  return model;
}

}  // namespace pleach
