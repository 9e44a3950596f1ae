// A schedule, described.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pleach/base/collective_kind.h"
#include "pleach/collective/schedule.h"
#include "pleach/report/schedule_table.h"

namespace pleach {

struct ScheduleSummary {
  Provenance provenance;
  CollectiveKind collective = CollectiveKind::kAllReduce;
  int32_t rank_count = 0;
  int32_t step_count = 0;
  std::vector<int32_t> phase_steps;
  int32_t chunk_count = 0;
  int64_t transfer_count = 0;
  int64_t max_transfers_per_link_step = 0;  // 1: no two messages meet on a link in a step
  int32_t period = 1;
  bool symmetric = false;
};

// One line: the JSON object of docs/cli.md, "synthesize". `wall_s`: how long the command took.
//   tables  may be null
std::string to_json(const ScheduleSummary& summary, double wall_s,
                    const InterfaceTables* tables = nullptr);

}  // namespace pleach
