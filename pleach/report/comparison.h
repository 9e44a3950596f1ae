// Algorithms side by side: at some sizes, on some topologies, in some network models.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pleach {

struct ComparisonRow {
  std::string topology;     // as it was asked for
  std::string algorithm;    // the same: a spec, a file or auto
  std::string chosen = {};  // what that came to: an algorithm and its options
  std::string model;
  int32_t rank_count = 0;  // that take part
  int64_t size_bytes = 0;  // whole buffer of one rank
  int32_t segment_count = 1;
  int64_t time_ps = 0;
  double algbw_bytes_per_s = 0;
  double busbw_bytes_per_s = 0;
  double bound_algbw_bytes_per_s = 0;  // no schedule is faster; 0: unknown
  bool messages_are_free = false;      // on this topology (topology/metrics.h)
  bool is_best = false;  // none takes less time at this size, on this topology, in this model
};

// An algorithm that cannot do what is asked on a topology, at all or at a size in a model, and why.
struct ComparisonRefusal {
  std::string topology;
  std::string algorithm;
  std::string why;
};

// Rows of one topology have one collective, ranks and bound. Those of an algorithm are next to each
// other, by model and size.
struct Comparison {
  std::string collective;
  std::vector<ComparisonRow> rows;
  std::vector<ComparisonRefusal> refusals;
};

// The rows of each topology and model, in their order.
std::vector<std::vector<const ComparisonRow*>> panels_of(const Comparison& comparison);

// algbw over its bound; none where that is unknown.
std::optional<double> fraction_of_bound(const ComparisonRow& row);

// One line: the JSON object of docs/cli.md, "compare". `wall_s`: how long the command took.
std::string to_json(const Comparison& comparison, double wall_s);

// One line per row, after a line of titles. Texts that hold commas are in double quotes.
std::string comparison_csv(const Comparison& comparison);

// A picture in SVG: algbw over the size, a panel for each topology and model, the bound dashed.
std::string comparison_svg(const Comparison& comparison);

}  // namespace pleach
