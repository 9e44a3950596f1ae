#include "pleach/report/plan.h"

#include "pleach/base/index.h"
#include "pleach/report/json.h"

namespace pleach {

std::string plan_json(const Comparison& choices) {
  Json rows = Json::array();
  for (const ComparisonRow& row : choices.rows) {
    rows.push_back({{"size_bytes", row.size_bytes},
                    {"algorithm", row.chosen},
                    {"segments", row.segment_count},
                    {"time_ps", row.time_ps},
                    {"fraction_of_bound", or_null(fraction_of_bound(row))}});
  }
  return line_of({{"collective", choices.collective}, {"choices", rows}});
}

std::string plan_json(const Book& book) {
  Json entries = Json::array();
  for (const Book::Entry& entry : book.entries) {
    const Schedule& schedule = *book.schedules[at(entry.schedule)];
    entries.push_back({{"collective", to_text(entry.collective)},
                       {"up_to_bytes", entry.up_to_bytes},
                       {"algorithm", algorithm_text(schedule.provenance)},
                       {"segments", entry.segment_count}});
  }
  return line_of(
      {{"topology", book.topology}, {"rank_count", book.rank_count}, {"entries", entries}});
}

std::string algorithm_text(const Provenance& provenance) {
  return provenance.algorithm + (provenance.options.empty() ? "" : "," + provenance.options);
}

}  // namespace pleach
