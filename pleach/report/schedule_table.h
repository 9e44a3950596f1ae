// The tables of the network interfaces that run a schedule.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "pleach/collective/placement.h"
#include "pleach/collective/schedule.h"
#include "pleach/collective/schedule_table.h"

namespace pleach {

// Entries that MultiTree's interfaces have room for (section IV, for 64 nodes).
inline constexpr int32_t kPublishedTableEntries = 128;

struct InterfaceTables {
  std::shared_ptr<const Schedule> schedule;  // written out; the placement borrows it
  ScheduleTable table;
  std::optional<Placement> placement;  // of bytes; none: starts and sizes are chunks
  TableWidths widths;
  int32_t room = kPublishedTableEntries;  // entries that an interface holds
  std::vector<int32_t> listed_ranks;      // whose entries are shown, ascending
};

// Entries of a rank, NOPs too, and their bits.
int32_t entry_count(const InterfaceTables& tables, int32_t rank);
int64_t table_bits(const InterfaceTables& tables, int32_t rank);
// NOPs among them.
int32_t nop_count(const InterfaceTables& tables, int32_t rank);
// The rank with the most entries, the first of several.
int32_t fullest_rank(const InterfaceTables& tables);
// The ranks that have more entries than there is room for.
std::vector<int32_t> overfull_ranks(const InterfaceTables& tables);

}  // namespace pleach
