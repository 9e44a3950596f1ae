// LinkPreset: what a link of a well-known kind does, so that nobody has to guess it. The registry.
#pragma once

#include <cstdint>
#include <string>

#include "pleach/base/registry.h"
#include "pleach/topology/topology.h"

namespace pleach {

struct LinkPreset {
  std::string name;
  std::string summary;
  std::string source;
  int64_t bandwidth_bytes_per_s = 0;  // of one direction, headers included
  int64_t latency_ps = 0;             // a way through one switch has two links
  int64_t overhead_ps = 0;            // of a message, at the rank that sends it
  Framing framing = {};

  std::string details() const;
};

Registry<LinkPreset> link_presets();

// The bandwidth with which a link carries full packets of a topology's framing as fast as it
// carries those of its own: a topology has one framing, its links may be of several kinds.
int64_t bandwidth_under(const LinkPreset& preset, const Framing& framing);

}  // namespace pleach
