#include "pleach/network/flit/flit_counters.h"

#include <fmt/format.h>

#include <algorithm>

// The parser asserts on some malformed keys that it reports as errors right after.
#define TOML_ASSERT(condition) static_cast<void>(0)
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include "pleach/base/files.h"
#include "pleach/base/text.h"

namespace pleach {

std::vector<Counter> flit_counters(const RouterCounts& counts, int64_t link_flits,
                                   int64_t header_flits) {
  const std::array<int64_t, kFlitEvents.size()> events = {
      counts.buffer_writes, counts.switch_grants, counts.vc_grants,  counts.switch_grants,
      counts.switch_grants, link_flits,           counts.flits_sent, header_flits};
  std::vector<Counter> counters;
  for (std::size_t i = 0; i < events.size(); ++i) {
    counters.push_back({kFlitEvents[i], events[i]});
  }
  counters.push_back({"vc_stalls", counts.vc_stalls});
  counters.push_back({"credit_stalls", counts.credit_stalls});
  counters.push_back({"switch_stalls", counts.switch_stalls});
  counters.push_back({"deepest_buffer", counts.deepest_buffer, true});
  return counters;
}

Result<EventEnergies> read_event_energies(const std::string& path) {
  PLEACH_ASSIGN(text, read_text_file(path, int64_t{1} << 20));
  const toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) {
    return invalid(fmt::format("{}:{}: {}", path, parsed.error().source().begin.line,
                               parsed.error().description()));
  }
  EventEnergies energies;
  for (const auto& [key, value] : parsed.table()) {
    const std::string where = fmt::format("{}:{}", path, value.source().begin.line);
    const std::string name(key.str());
    const std::vector<std::string> known(kFlitEvents.begin(), kFlitEvents.end());
    if (std::ranges::find(known, name) == known.end()) {
      return invalid(fmt::format("{}: {}", where, unknown_name("event", name, known).message));
    }
    const auto energy_pj = value.value<double>();
    if (!energy_pj || !(*energy_pj >= 0 && *energy_pj <= 1e12)) {
      return invalid(fmt::format("{}: '{}' is a number of picojoules, 0 to 1e12", where, name));
    }
    energies.emplace_back(name, *energy_pj);
  }
  return energies;
}

double energy_of(const EventEnergies& energies, std::span<const Counter> counters) {
  constexpr double kJoules = 1e-12;
  double sum = 0;
  for (const auto& [name, energy_pj] : energies) {
    const auto counter = std::ranges::find(counters, name, &Counter::name);
    sum += counter == counters.end() ? 0 : energy_pj * static_cast<double>(counter->count);
  }
  return sum * kJoules;
}

}  // namespace pleach
