#include "pleach/report/nccl_tests.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

namespace pleach {
namespace {

// A number in a column of `width`: as many decimals as fit, at most two.
std::string column(double value, int width) {
  const int digits = value < 1 ? 0 : static_cast<int>(std::floor(std::log10(value))) + 1;
  if (digits > width) {
    return fmt::format("{:{}.{}e}", value, width, width >= 7 ? 1 : 0);
  }
  const int decimals = digits < width - 2 ? 2 : (digits < width - 1 ? 1 : 0);
  return fmt::format("{:{}.{}f}", value, width, decimals);
}

std::string measurement_columns(const std::optional<Measurement>& measurement) {
  if (!measurement) {
    return std::string(33, ' ');
  }
  const std::string wrong =
      measurement->wrong_count
          ? fmt::format("{:6g}", static_cast<double>(*measurement->wrong_count))
          : "   N/A";
  return fmt::format("  {}  {}  {}  {}", column(measurement->time_s * 1e6, 7),
                     column(measurement->algbw_bytes_per_s * 1e-9, 6),
                     column(measurement->busbw_bytes_per_s * 1e-9, 6), wrong);
}

}  // namespace

std::string nccl_tests_type(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return "float";
    case ElementType::kFloat64:
      return "double";
    case ElementType::kFloat16:
      return "half";
    default:
      return std::string(to_text(type));
  }
}

std::string nccl_tests_op(CollectiveKind collective, ReduceOp op) {
  if (!reduces(collective)) {
    return "none";
  }
  return op == ReduceOp::kProduct   ? "prod"
         : op == ReduceOp::kAverage ? "avg"
                                    : std::string(to_text(op));
}

std::string nccl_tests_root(CollectiveKind collective, Rank root) {
  return has_root(collective) ? std::to_string(root.value) : "-1";
}

std::string nccl_tests_program(CollectiveKind collective) {
  return collective == CollectiveKind::kAllToAll ? "alltoall_perf"
                                                 : std::string(to_text(collective)) + "_perf";
}

std::string nccl_tests_header(const BenchmarkReport& report) {
  const BenchmarkOptions& options = report.options;
  const auto [least, most] =
      std::minmax_element(options.sizes_bytes.begin(), options.sizes_bytes.end());
  std::string text = fmt::format(
      "# pleach algorithm {} transport {} ranks {}{}\n# Collective test starting: {}\n"
      "# nThread 1 nGpus 1 minBytes {} maxBytes {} sizes: {} warmup iters: {} iters: {} "
      "agg iters: 1 validation: {} graph: 0 unalign: 0\n#\n# Using devices\n",
      report.algorithm, report.transport, report.rank_count,
      options.wire ? fmt::format(" wire {}", to_text(*options.wire)) : "",
      nccl_tests_program(report.collective), *least, *most, options.sizes_bytes.size(),
      options.warmup_iterations, options.iterations, options.check ? 1 : 0);
  for (const RankInformation& rank : report.ranks) {
    fmt::format_to(std::back_inserter(text),
                   "#  Rank {:2} Group  0 Pid {:6} on {:>10} device  0 [0000:00:00] cpu\n",
                   rank.rank, rank.process, rank.host);
  }
  const auto titles = [](const char* time, const char* bandwidth, const char* wrong) {
    return fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", time, bandwidth,
                       std::string_view(bandwidth) == "algbw" ? "busbw" : bandwidth, wrong);
  };
  const std::string names = titles("time", "algbw", "#wrong");
  const std::string units = titles("(us)", "(GB/s)", "");
  fmt::format_to(std::back_inserter(text),
                 "#\n# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}           out-of-place             "
                 "          in-place          \n",
                 "", "", "", "", "");
  fmt::format_to(std::back_inserter(text), "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{}{} \n", "size",
                 "count", "type", "redop", "root", names, names);
  fmt::format_to(std::back_inserter(text), "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{}{} \n", "(B)",
                 "(elements)", "", "", "", units, units);
  return text;
}

std::string nccl_tests_row(const BenchmarkReport& report, const BenchmarkRow& row) {
  return fmt::format("{:12}  {:12}  {:>8}  {:>6}  {:>6}{}{}\n", row.size_bytes, row.element_count,
                     nccl_tests_type(report.options.type),
                     nccl_tests_op(report.collective, report.options.op),
                     nccl_tests_root(report.collective, report.root),
                     measurement_columns(row.out_of_place), measurement_columns(row.in_place));
}

std::string nccl_tests_choice(const BenchmarkReport& report) {
  const BenchmarkRow& row = report.rows.back();
  const BenchmarkRow* before = report.rows.size() > 1 ? &report.rows.end()[-2] : nullptr;
  const bool is_new = before == nullptr || before->algorithm != row.algorithm ||
                      before->segment_count != row.segment_count;
  return is_new && report.algorithm == kSeveralAlgorithms
             ? fmt::format("# algorithm {} segments {}\n", row.algorithm, row.segment_count)
             : "";
}

std::string nccl_tests_footer(const BenchmarkReport& report) {
  const int64_t wrong = report.wrong_count();
  return fmt::format("# {:<20} : {} {}\n# {:<20} : {:g} \n#\n# Collective test concluded: {}\n",
                     "Out of bounds values", wrong, wrong == 0 ? "OK" : "FAILED",
                     "Avg bus bandwidth", report.average_busbw_bytes_per_s() * 1e-9,
                     nccl_tests_program(report.collective));
}

}  // namespace pleach
