#include "pleach/cli/comparison.h"

#include <fmt/core.h>

#include <algorithm>
#include <deque>

#include "pleach/base/files.h"
#include "pleach/cli/log.h"
#include "pleach/cli/table.h"
#include "pleach/cli/timing_options.h"

namespace pleach {
namespace {

using Rows = std::vector<const ComparisonRow*>;

// "1.25 ms  98.4 %", the best with a star.
std::string cell_of(const ComparisonRow& row) {
  const std::optional<double> fraction = fraction_of_bound(row);
  return fmt::format("{}{}{}", row.is_best ? "* " : "", format_time(row.time_ps),
                     fraction.has_value() ? fmt::format(" {:5.1f} %", 100 * *fraction) : "");
}

// A line for each algorithm, a column for each size.
std::string table_of(const Rows& rows) {
  std::vector<int64_t> sizes;
  for (const ComparisonRow* row : rows) {
    if (std::ranges::find(sizes, row->size_bytes) == sizes.end()) {
      sizes.push_back(row->size_bytes);
    }
  }
  std::vector<Table::Column> titles = {{"algorithm", Table::Align::kLeft}};
  for (const int64_t size : sizes) {
    titles.push_back({format_size(size), Table::Align::kRight});
  }
  Table table(titles);
  for (std::size_t first = 0; first < rows.size(); first += sizes.size()) {
    std::vector<std::string> cells = {rows[first]->algorithm};
    for (std::size_t index = first; index < first + sizes.size(); ++index) {
      cells.push_back(cell_of(*rows[index]));
    }
    table.add(cells);
  }
  return table.text("  ");
}

std::string title_of(const Comparison& comparison, const ComparisonRow& row) {
  const std::string bound = row.bound_algbw_bytes_per_s > 0
                                ? fmt::format(", and how near algbw is to the bound {}",
                                              format_bandwidth(row.bound_algbw_bytes_per_s))
                                : "";
  return fmt::format("{} on {} by {}: time{}\n", comparison.collective, row.topology, row.model,
                     bound);
}

std::string text_of(const Comparison& comparison) {
  std::vector<Rows> panels;
  for (const ComparisonRow& row : comparison.rows) {
    const auto own = std::ranges::find_if(panels, [&](const Rows& rows) {
      return rows.front()->topology == row.topology && rows.front()->model == row.model;
    });
    if (own == panels.end()) {
      panels.push_back({&row});
    } else {
      own->push_back(&row);
    }
  }
  std::string text;
  for (const Rows& rows : panels) {
    text += (text.empty() ? "" : "\n") + title_of(comparison, *rows.front()) + table_of(rows);
  }
  for (const ComparisonRefusal& refusal : comparison.refusals) {
    text += fmt::format("\nnot possible on {}: {}", refusal.topology, refusal.why);
  }
  text += comparison.refusals.empty() ? "" : "\n";
  const bool rests_on_free_messages = std::ranges::any_of(
      comparison.rows,
      [](const ComparisonRow& row) { return row.messages_are_free && row.segment_count > 1; });
  if (rests_on_free_messages) {
    text +=
        "\nMessages are free where no overhead= or link= is given; with them, fewer segments may "
        "win.\n";
  }
  return text;
}

}  // namespace

Result<ExitCode> print_comparison(const CommandLine& line, const Invocation& invocation,
                                  const std::vector<std::string>& sources,
                                  const std::string& plot_file) {
  const Stopwatch watch;
  ComparisonRequest request;
  request.progress = log_step;
  PLEACH_SET(request.how, timing_request(line));
  PLEACH_SET(request.models, models_option(line));
  PLEACH_SET(request.sizes_bytes,
             line.value(line.text("--sizes").empty() ? "--size" : "--sizes", parse_sizes));
  std::deque<Topology> topologies;
  for (const std::string& text : line.texts("--topology")) {
    PLEACH_ASSIGN(topology, from_option("--topology", parse_topology(text)));
    const Topology& kept = topologies.emplace_back(std::move(topology));
    for (const std::string& source : sources) {
      PLEACH_ASSIGN(schedule, schedule_request(line, kept, source));
      request.cases.push_back({&kept, text, source, std::move(schedule)});
    }
  }
  PLEACH_ASSIGN(comparison, compare(request));
  if (line.given("--csv")) {
    PLEACH_TRY(write_csv(line, {{"comparison.csv", comparison_csv(comparison)}}));
  }
  if (!plot_file.empty()) {
    PLEACH_TRY(from_option("--plot", write_file(plot_file, comparison_svg(comparison))));
  }
  if (line.json()) {
    fmt::print(invocation.out, "{}\n", to_json(comparison, watch.elapsed_s()));
  } else {
    fmt::print(invocation.out, "{}", text_of(comparison));
  }
  return ExitCode::kDone;
}

}  // namespace pleach
