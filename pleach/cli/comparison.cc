#include "pleach/cli/comparison.h"

#include <fmt/core.h>

#include <algorithm>
#include <deque>

#include "pleach/base/files.h"
#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/cli/log.h"
#include "pleach/cli/print.h"
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
  for (auto row = rows.begin(); row != rows.end();) {
    std::vector<std::string> cells = {one_line((*row)->algorithm)};
    cells.resize(titles.size());
    for (const std::string algorithm = (*row)->algorithm;
         row != rows.end() && (*row)->algorithm == algorithm; ++row) {
      const auto column = std::ranges::find(sizes, (*row)->size_bytes) - sizes.begin();
      cells[at(column) + 1] = cell_of(**row);
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
  return fmt::format("{} of {} ranks on {} by {}: time{}\n", comparison.collective, row.rank_count,
                     one_line(row.topology), row.model, bound);
}

std::string text_of(const Comparison& comparison) {
  std::string text;
  for (const Rows& rows : panels_of(comparison)) {
    text += (text.empty() ? "" : "\n") + title_of(comparison, *rows.front()) + table_of(rows);
  }
  for (const ComparisonRefusal& refusal : comparison.refusals) {
    text +=
        fmt::format("\nnot possible on {}: {}", one_line(refusal.topology), one_line(refusal.why));
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
  if (line.text("--sizes").empty()) {
    PLEACH_ASSIGN(size_bytes, line.value("--size", parse_size_bytes));
    request.sizes_bytes = {size_bytes};
  } else {
    PLEACH_SET(request.sizes_bytes, line.value("--sizes", parse_sizes));
  }
  std::deque<Topology> topologies;
  for (const std::string& text : line.texts("--topology")) {
    PLEACH_ASSIGN(topology, from_option("--topology", load_topology(text)));
    const Topology& kept = topologies.emplace_back(std::move(topology));
    for (const std::string& source : sources) {
      PLEACH_ASSIGN(schedule, from_option(one_line(text), schedule_request(line, kept, source)));
      request.cases.push_back({&kept, text, source, std::move(schedule)});
    }
  }
  PLEACH_ASSIGN(comparison, compare(request));
  FileSet files;  // both or none
  if (line.given("--csv")) {
    PLEACH_TRY(add_csv(line, {{"comparison.csv", comparison_csv(comparison)}}, files));
  }
  if (!plot_file.empty()) {
    PLEACH_TRY(from_option("--plot", files.add(plot_file, comparison_svg(comparison))));
  }
  PLEACH_TRY(files.commit());
  if (line.json()) {
    print_text(invocation.out, to_json(comparison, watch.elapsed_s()) + "\n");
  } else {
    print_text(invocation.out, text_of(comparison));
  }
  return ExitCode::kDone;
}

}  // namespace pleach
