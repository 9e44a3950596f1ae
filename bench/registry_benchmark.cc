// One row per algorithm and stage: synthesis, proof, flow simulation of an all_reduce on 64 ranks.
//   cmake --preset release -DPLEACH_BUILD_BENCHMARKS=ON && cmake --build --preset release
//   build/release/registry_benchmark
#include <benchmark/benchmark.h>

#include <array>
#include <optional>
#include <string>

#include "pleach/api/library.h"

namespace pleach {
namespace {

constexpr int64_t kSizeBytes = 1 << 20;

// The first of these on which the algorithm does an all_reduce.
constexpr std::array kTopologies = {"torus:8x8", "switch:64,reduce,multicast"};

struct Setting {
  Topology topology;
  Schedule schedule;
};

std::optional<Setting> setting_of(const Algorithm& algorithm) {
  for (const char* spec : kTopologies) {
    auto topology = parse_topology(spec);
    auto schedule = synthesize({.topology = *topology, .participants = {}}, algorithm.name);
    if (schedule) {
      return Setting{std::move(*topology), std::move(*schedule)};
    }
  }
  return std::nullopt;
}

void synthesis(benchmark::State& state, const Algorithm* algorithm, const Setting* setting) {
  for (auto _ : state) {
    const auto schedule =
        synthesize({.topology = setting->topology, .participants = {}}, algorithm->name);
    if (!schedule || schedule->transfers != setting->schedule.transfers) {
      state.SkipWithError("the schedule differs from the first one");
    }
  }
  state.counters["transfers"] = static_cast<double>(setting->schedule.transfer_count());
}

void proof(benchmark::State& state, const Setting* setting) {
  for (auto _ : state) {
    if (!verify(setting->schedule, &setting->topology).correct) {
      state.SkipWithError("the schedule is wrong");
    }
  }
}

void flow(benchmark::State& state, const Setting* setting) {
  const Job job{borrowed(setting->schedule), kSizeBytes, 0};
  int64_t finish_ps = 0, events = 0;
  for (auto _ : state) {
    const auto result = simulate("flow", setting->topology, std::span(&job, 1), {});
    if (!result || (finish_ps != 0 && result->finish_ps != finish_ps)) {
      state.SkipWithError("the time differs from the first one");
      break;
    }
    finish_ps = result->finish_ps;
    events += result->use.event_count;
  }
  state.counters["events_per_s"] =
      benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
}

}  // namespace
}  // namespace pleach

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 2;
  }
  std::vector<std::pair<const pleach::Algorithm*, pleach::Setting>> settings;
  for (const pleach::Algorithm* algorithm : pleach::algorithms()) {
    if (auto setting = pleach::setting_of(*algorithm)) {
      settings.emplace_back(algorithm, std::move(*setting));
    }
  }
  for (const auto& [algorithm, setting] : settings) {
    benchmark::RegisterBenchmark(("synthesis/" + algorithm->name).c_str(), pleach::synthesis,
                                 algorithm, &setting);
    benchmark::RegisterBenchmark(("proof/" + algorithm->name).c_str(), pleach::proof, &setting);
    benchmark::RegisterBenchmark(("flow/" + algorithm->name).c_str(), pleach::flow, &setting);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
