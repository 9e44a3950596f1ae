#include "pleach/report/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "pleach/base/text.h"
#include "pleach/report/json.h"

namespace pleach {
namespace {

// One cell: in quotes where it needs them.
std::string cell(const std::string& text) {
  std::string line = one_line(text);
  if (line.find_first_of(",\"") == std::string::npos) {
    return line;
  }
  std::string quoted = "\"";
  for (const char letter : line) {
    quoted += letter == '"' ? "\"\"" : std::string(1, letter);
  }
  return quoted + "\"";
}

}  // namespace

std::vector<std::vector<const ComparisonRow*>> panels_of(const Comparison& comparison) {
  std::vector<std::vector<const ComparisonRow*>> panels;
  for (const ComparisonRow& row : comparison.rows) {
    const auto own = std::ranges::find_if(panels, [&](const auto& rows) {
      return rows.front()->topology == row.topology && rows.front()->model == row.model;
    });
    if (own == panels.end()) {
      panels.push_back({&row});
    } else {
      own->push_back(&row);
    }
  }
  return panels;
}

std::optional<double> fraction_of_bound(const ComparisonRow& row) {
  return row.bound_algbw_bytes_per_s > 0
             ? std::optional(row.algbw_bytes_per_s / row.bound_algbw_bytes_per_s)
             : std::nullopt;
}

std::string to_json(const Comparison& comparison, double wall_s) {
  Json rows = Json::array();
  for (const ComparisonRow& row : comparison.rows) {
    rows.push_back({{"topology", row.topology},
                    {"algorithm", row.algorithm},
                    {"model", row.model},
                    {"rank_count", row.rank_count},
                    {"size_bytes", row.size_bytes},
                    {"segments", row.segment_count},
                    {"time_ps", row.time_ps},
                    {"algbw_bytes_per_s", row.algbw_bytes_per_s},
                    {"busbw_bytes_per_s", row.busbw_bytes_per_s},
                    {"fraction_of_bound", or_null(fraction_of_bound(row))},
                    {"messages_are_free", row.messages_are_free},
                    {"best", row.is_best}});
  }
  Json refusals = Json::array();
  for (const auto& [topology, algorithm, why] : comparison.refusals) {
    refusals.push_back({{"topology", topology}, {"algorithm", algorithm}, {"why", why}});
  }
  return line_of({{"collective", comparison.collective},
                  {"rows", rows},
                  {"refused", refusals},
                  {"wall_s", wall_s}});
}

std::string comparison_csv(const Comparison& comparison) {
  std::string text =
      "topology,algorithm,model,size_bytes,segments,time_ps,algbw_bytes_per_s,busbw_bytes_per_s,"
      "fraction_of_bound,best\n";
  for (const ComparisonRow& row : comparison.rows) {
    const std::optional<double> fraction = fraction_of_bound(row);
    fmt::format_to(std::back_inserter(text), "{},{},{},{},{},{},{:.0f},{:.0f},{},{}\n",
                   cell(row.topology), cell(row.algorithm), row.model, row.size_bytes,
                   row.segment_count, row.time_ps, row.algbw_bytes_per_s, row.busbw_bytes_per_s,
                   fraction.has_value() ? fmt::format("{:.6f}", *fraction) : "",
                   row.is_best ? 1 : 0);
  }
  return text;
}

}  // namespace pleach
