// How fast routers are simulated, as one JSON object: cycles per second of processor, medians of
// rounds in which all settings take turns.
//   routers_benchmark [--check] [--rounds N]
// Each setting's accepted load is held to that of another simulator (BookSim2). --check: exit 1
// when a setting is slower than its limit.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/api/library.h"

namespace pleach {
namespace {

struct Setting {
  const char* name;
  const char* topology;
  const char* model;
  double rate;
  int64_t cycles;
  double accepted;   // flits per rank and cycle, of BookSim2
  double tolerance;  // of it
  double least_cycles_per_cpu_s;
};

constexpr std::array kSettings = {
    Setting{"torus 8x8, 4 VCs, rate 0.9", "torus:8x8,latency=2ns", "flit,vcs=4", 0.9, 30000, 0.420,
            0.015, 95'000},
    Setting{"torus 8x8, 8 VCs, rate 0.9", "torus:8x8,latency=2ns", "flit,vcs=8", 0.9, 30000, 0.545,
            0.015, 65'000},
    Setting{"torus 32x32, 4 VCs, rate 0.9", "torus:32x32,latency=2ns", "flit,vcs=4", 0.9, 10000,
            0.054, 0.03, 8'000},
    Setting{"torus 8x8, 4 VCs, rate 0.02", "torus:8x8,latency=2ns", "flit,vcs=4", 0.02, 1'000'000,
            0.02, 0.015, 900'000},
};
constexpr double kMostBytes = 512.0 * 1024 * 1024;

[[noreturn]] void fail(const std::string& message) {
  fmt::print(stderr, "routers_benchmark: {}\n", message);
  std::exit(1);
}

double run_once(const Setting& setting) {
  const auto topology = parse_topology(setting.topology);
  auto options = traffic_options(setting.model, {});
  if (!topology || !options) {
    fail(setting.name);
  }
  options->rate = setting.rate;
  options->cycles = setting.cycles;
  const auto traffic = simulate_traffic(*topology, setting.model, *options);
  if (!traffic) {
    fail(traffic.error().message);
  }
  const double accepted = traffic->result.accepted;
  if (std::abs(accepted / setting.accepted - 1) > setting.tolerance) {
    fail(fmt::format("{}: {} flits accepted, not {}", setting.name, accepted, setting.accepted));
  }
  return traffic->cycles_per_cpu_s();
}

double memory_bytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

int run(bool check, int rounds) {
  std::array<std::vector<double>, kSettings.size()> speeds;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < kSettings.size(); ++i) {
      speeds[i].push_back(run_once(kSettings[i]));
    }
  }
  bool slow = memory_bytes() > kMostBytes;
  fmt::print("{{\"memory_bytes\": {:.0f}, \"settings\": [", memory_bytes());
  for (std::size_t i = 0; i < kSettings.size(); ++i) {
    std::ranges::sort(speeds[i]);
    const double median = speeds[i][speeds[i].size() / 2];
    slow = slow || median < kSettings[i].least_cycles_per_cpu_s;
    fmt::print(
        "{}\n  {{\"name\": \"{}\", \"cycles_per_cpu_s\": {:.0f}, \"least\": {:.0f}, "
        "\"limit\": {:.0f}}}",
        i == 0 ? "" : ",", kSettings[i].name, median, speeds[i].front(),
        kSettings[i].least_cycles_per_cpu_s);
  }
  fmt::print("]}}\n");
  return check && slow ? 1 : 0;
}

}  // namespace
}  // namespace pleach

int main(int argument_count, char** arguments) {
  bool check = false;
  int rounds = 5;
  for (int index = 1; index < argument_count; ++index) {
    const std::string_view name = arguments[index];
    if (name == "--check") {
      check = true;
    } else if (name == "--rounds" && index + 1 < argument_count) {
      rounds = std::max(1, std::atoi(arguments[++index]));
    } else {
      pleach::fail(fmt::format("unknown argument '{}'", name));
    }
  }
  return pleach::run(check, rounds);
}
