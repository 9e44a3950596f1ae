// MeasuredCosts: what the collectives of one group of ranks took, read from a file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/collective_kind.h"
#include "pleach/base/result.h"
#include "pleach/policy/profile.h"
#include "pleach/training/costs.h"
#include "pleach/training/trace_network.h"

namespace pleach {

// Piecewise linear between measured sizes, and never less for more bytes: a time below one of fewer
// bytes counts as that. Below the least size, the time of the least. Above the largest, a line
// through its time, as steep as the last piece or as the line from the least size to the largest,
// whichever is steeper (noise in two near sizes must not make bytes free); of a collective with one
// size, in proportion to the bytes. Immutable; thread safe.
class MeasuredCosts : public CostModel {
 public:
  struct Point {
    CollectiveKind kind = CollectiveKind::kAllReduce;
    int64_t size_bytes = 0;  // of one rank's whole buffer, 1 to 2^60
    double time_s = 0;       // 0 to 1e6
  };
  // Points in any order. Errors, naming `points[i]`: kInvalidArgument: none, numbers outside their
  // range, two of one collective and size; ranks not within 1 and 2^20.
  static Result<MeasuredCosts> from_points(int32_t rank_count, std::vector<Point> points);
  // A file of costs (docs/formats.md).
  //   where   what errors call the text: its path
  //   errors  kInvalidArgument in one line: WHERE:LINE:COLUMN, key and value
  static Result<MeasuredCosts> parse(std::string_view text, std::string_view where);
  static Result<MeasuredCosts> read(const std::string& path);

  int32_t rank_count() const { return rank_count_; }
  bool has(CollectiveKind kind) const override { return curves_.has(kind); }
  int64_t time_ps(CollectiveKind kind, int64_t size_bytes) const override {
    return curves_.time_ps(kind, size_bytes);
  }
  std::vector<int64_t> breakpoints(CollectiveKind kind) const override {
    return curves_.breakpoints(kind);
  }

 private:
  int32_t rank_count_ = 1;
  CurveCosts curves_;
};

// That groups of the trace have one rank or as many as were measured, and that no messages go from
// stage to stage.
Status check_measured(const Trace& trace, const MeasuredCosts& costs);

// The same costs for each of the trace's groups; groups of one rank pay nothing. Both outlive them;
// check_measured has passed.
std::unique_ptr<TraceCosts> measured_costs(const Trace& trace, const MeasuredCosts& costs);

}  // namespace pleach
