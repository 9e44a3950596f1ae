#include "pleach/report/schedule.h"

#include <algorithm>
#include <utility>

#include "pleach/report/json.h"

namespace pleach {

namespace {

Json table_entry_json(const InterfaceTables& tables, const TableEntry& entry) {
  if (entry.op == TableOp::kNop) {
    return {{"opcode", to_text(entry.op)}, {"step", entry.step}};
  }
  Json json = {{"opcode", to_text(entry.op)},
               {"flow", entry.flow()},
               {"parents", tables.table.parents(entry)},
               {"children", tables.table.children(entry)},
               {"step", entry.step},
               {"chunk_count", entry.chunk_count}};
  if (tables.placement.has_value()) {
    const Interval bytes = interval_of(entry, &*tables.placement);
    json["start_bytes"] = bytes.begin;
    json["size_bytes"] = bytes.end - bytes.begin;
  }
  return json;
}

// Entries only of a rank that is listed.
Json table_json(const InterfaceTables& tables, int32_t rank) {
  Json json = {{"rank", rank},
               {"entry_count", entry_count(tables, rank)},
               {"nop_count", nop_count(tables, rank)},
               {"bits", table_bits(tables, rank)}};
  if (!std::ranges::binary_search(tables.listed_ranks, rank)) {
    return json;
  }
  Json entries = Json::array(), ends = Json::array();
  for (const TableEntry& entry : tables.table.entries(rank)) {
    entries.push_back(table_entry_json(tables, entry));
  }
  for (int32_t phase = 0; phase < tables.table.phase_count(); ++phase) {
    for (const TableEntry& end : tables.table.ends(rank, phase)) {
      ends.push_back(table_entry_json(tables, end));
    }
  }
  json["entries"] = std::move(entries);
  json["phase_ends"] = std::move(ends);
  return json;
}

Json tables_json(const InterfaceTables& tables) {
  const TableWidths& widths = tables.widths;
  Json ranks = Json::array();
  for (int32_t rank = 0; rank < tables.table.rank_count(); ++rank) {
    ranks.push_back(table_json(tables, rank));
  }
  return {{"entry_bits", widths.entry()},
          {"field_bits",
           {{"opcode", widths.opcode},
            {"flow", widths.flow},
            {"parent", widths.parent},
            {"children", widths.children},
            {"step", widths.step},
            {"start", widths.start},
            {"size", widths.size}}},
          {"most_entries", entry_count(tables, fullest_rank(tables))},
          {"room", tables.room},
          {"overfull_ranks", overfull_ranks(tables)},
          {"ranks", std::move(ranks)}};
}

}  // namespace

std::string to_json(const ScheduleSummary& summary, double wall_s, const InterfaceTables* tables) {
  Json json = {{"algorithm", summary.provenance.algorithm},
               {"options", summary.provenance.options},
               {"collective", to_text(summary.collective)},
               {"rank_count", summary.rank_count},
               {"step_count", summary.step_count},
               {"phase_steps", summary.phase_steps},
               {"chunk_count", summary.chunk_count},
               {"transfer_count", summary.transfer_count},
               {"max_transfers_per_link_step", summary.max_transfers_per_link_step},
               {"symmetric", summary.symmetric},
               {"certificate", certificate_json(summary.provenance.certificate)},
               {"period", summary.period},
               {"wall_s", wall_s}};
  if (tables != nullptr) {
    json["tables"] = tables_json(*tables);
  }
  return line_of(json);
}

}  // namespace pleach
