// What the writers of JSON share. The one header that includes the JSON library: no other header,
// and nothing that is installed, includes it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "pleach/base/units.h"
#include "pleach/collective/schedule.h"
#include "pleach/network/session.h"

namespace pleach {

using Json = nlohmann::ordered_json;  // keys in the order in which they are written

// One line, of ASCII: what names hold reaches no terminal raw. Malformed UTF-8 is replaced, so that
// the text always parses.
inline std::string line_of(const Json& json) {
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

template <typename Value>
Json or_null(const std::optional<Value>& value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}

// Adds what a model has counted, if it has.
inline void add_counters(Json& json, std::span<const Counter> counters,
                         const std::optional<double>& energy_j) {
  for (const Counter& counter : counters) {
    json["counters"][counter.name] = counter.count;
  }
  if (energy_j.has_value()) {
    json["energy_j"] = *energy_j;
  }
}

// An AdmissionUse, or what has the same counts.
template <typename Use>
Json admission_json(const Use& use, Json conflicts) {
  return {{"configurations", use.configurations},     {"waited_ps", use.waited_ps},
          {"preemptions", use.preemptions},           {"undecided", use.undecided},
          {"reconfigurations", use.reconfigurations}, {"conflicts", std::move(conflicts)}};
}

inline double seconds(int64_t time_ps) {
  return static_cast<double>(time_ps) / static_cast<double>(kPicosecondsPerSecond);
}

inline Json certificate_json(const Certificate& certificate) {
  return {{"bound_algbw_bytes_per_s", certificate.bound_algbw_bytes_per_s},
          {"algbw_bytes_per_s", certificate.algbw_bytes_per_s},
          {"fraction", certificate.fraction},
          {"exact", certificate.exact},
          {"witness", certificate.witness},
          {"alpha_s", certificate.alpha_s},
          {"beta_s_per_byte", certificate.beta_s_per_byte}};
}

}  // namespace pleach
