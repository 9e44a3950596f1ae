#include "pleach/report/schedule_table.h"

#include <algorithm>

namespace pleach {

int32_t entry_count(const InterfaceTables& tables, int32_t rank) {
  return count_of(tables.table.entries(rank));
}

int64_t table_bits(const InterfaceTables& tables, int32_t rank) {
  return int64_t{entry_count(tables, rank)} * tables.widths.entry();
}

int32_t nop_count(const InterfaceTables& tables, int32_t rank) {
  return static_cast<int32_t>(
      std::ranges::count(tables.table.entries(rank), TableOp::kNop, &TableEntry::op));
}

int32_t fullest_rank(const InterfaceTables& tables) {
  int32_t fullest = 0;
  for (int32_t rank = 1; rank < tables.table.rank_count(); ++rank) {
    if (entry_count(tables, rank) > entry_count(tables, fullest)) {
      fullest = rank;
    }
  }
  return fullest;
}

std::vector<int32_t> overfull_ranks(const InterfaceTables& tables) {
  std::vector<int32_t> ranks;
  for (int32_t rank = 0; rank < tables.table.rank_count(); ++rank) {
    if (entry_count(tables, rank) > tables.room) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

}  // namespace pleach
