#include "pleach/api/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/base/units.h"
#include "pleach/policy/alpha_beta.h"

namespace pleach {
namespace {

using Json = nlohmann::json;

struct Row {
  int64_t size_bytes = 0;
  double time_s = 0;
};

struct Measurements {
  CollectiveKind collective = CollectiveKind::kAllReduce;
  int32_t rank_count = 0;
  std::vector<Row> rows;
};

std::optional<CollectiveKind> collective_of(const std::string& program) {
  const std::map<std::string, CollectiveKind> known = {
      {"all_reduce_perf", CollectiveKind::kAllReduce},
      {"reduce_scatter_perf", CollectiveKind::kReduceScatter},
      {"all_gather_perf", CollectiveKind::kAllGather},
      {"alltoall_perf", CollectiveKind::kAllToAll},
  };
  const auto found = known.find(program);
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

Result<Row> read_row(const std::string& path, std::size_t index, const Json& entry) {
  const auto place = fmt::format("results[{}]", index);
  if (!entry.is_object() || !entry.contains("size") || !entry["size"].is_number_integer()) {
    return invalid(path, place + " has no whole size");
  }
  const Json& block = entry.contains("out_of_place") && entry["out_of_place"].is_object()
                          ? entry["out_of_place"]
                          : entry.value("in_place", Json());
  if (!block.is_object() || !block.contains("time") || !block["time"].is_number()) {
    return invalid(path, place + " has no time");
  }
  const Row row = {entry["size"].get<int64_t>(), block["time"].get<double>() * 1e-6};
  if (row.size_bytes < 0 || !(row.time_s > 0) || !std::isfinite(row.time_s)) {
    return invalid(
        path, fmt::format("{}: {} bytes in {} us", place, row.size_bytes, block["time"].dump()));
  }
  return row;
}

Result<Measurements> read_measurements(const std::string& path) {
  PLEACH_ASSIGN(text, read_file(path, 1 << 28));
  const Json file = Json::parse(text, nullptr, false);
  if (!file.is_object() || !file.contains("results") || !file["results"].is_array() ||
      file["results"].empty() || !file["results"][0].is_object()) {
    return invalid(path, "is no result file of nccl-tests: it has no results");
  }
  const Json config = file.value("config", Json::object());
  if (!config.is_object() || !config.contains("devices") || !config["devices"].is_array() ||
      config["devices"].size() < 2) {
    return invalid(path, "config.devices does not list two ranks or more");
  }
  Measurements all;
  all.rank_count = static_cast<int32_t>(config["devices"].size());
  const Json name = file["results"][0].value("experiment_name", Json());
  const auto kind = collective_of(name.is_string() ? name.get<std::string>() : "");
  if (!kind.has_value()) {
    return invalid(
        path, fmt::format("results[0].experiment_name is {}, not all_reduce_perf, "
                          "reduce_scatter_perf, all_gather_perf or alltoall_perf",
                          one_line(name.dump(-1, ' ', false, Json::error_handler_t::replace))));
  }
  all.collective = *kind;
  for (std::size_t index = 0; index < file["results"].size(); ++index) {
    PLEACH_ASSIGN(row, read_row(path, index, file["results"][index]));
    if (row.size_bytes > 0) {
      all.rows.push_back(row);
    }
  }
  return all;
}

}  // namespace

// Minimises Σ (a·x_i/t_i + b·y_i/t_i − 1)², with x the hops and y the bytes a rank sends; if one
// number comes out negative, the other alone is fitted.
Result<Calibration> read_calibration(const std::string& path) {
  PLEACH_ASSIGN(all, read_measurements(path));
  const double ranks = all.rank_count;
  const double phases = all.collective == CollectiveKind::kAllReduce ? 2 : 1;
  const double hops = phases * (ranks - 1);
  double xx = 0;
  double xy = 0;
  double yy = 0;
  double x1 = 0;
  double y1 = 0;
  for (const Row& row : all.rows) {
    const double x = hops / row.time_s;
    const double y = hops / ranks * static_cast<double>(row.size_bytes) / row.time_s;
    xx += x * x;
    xy += x * y;
    yy += y * y;
    x1 += x;
    y1 += y;
  }
  const double determinant = xx * yy - xy * xy;
  if (all.rows.size() < 2 || !(determinant > 1e-12 * xx * yy)) {
    return invalid(path, "needs two sizes or more to tell latency from bandwidth");
  }
  double alpha_s = (x1 * yy - y1 * xy) / determinant;
  double beta_s = (xx * y1 - xy * x1) / determinant;
  if (alpha_s < 0) {
    alpha_s = 0;
    beta_s = y1 / yy;
  }
  if (!(beta_s > 0)) {
    return invalid(path, "larger sizes take no longer: there is no bandwidth to fit");
  }
  Calibration fit{.collective = all.collective,
                  .rank_count = all.rank_count,
                  .alpha_ps = std::llround(alpha_s * static_cast<double>(kPicosecondsPerSecond)),
                  .bandwidth_bytes_per_s = 1 / beta_s,
                  .worst_error = 0,
                  .rows = count_of(all.rows)};
  const AlphaBeta costs(fit.rank_count, fit.alpha_ps, fit.bandwidth_bytes_per_s);
  for (const Row& row : all.rows) {
    const double predicted_s = static_cast<double>(costs.time_ps(fit.collective, row.size_bytes)) /
                               static_cast<double>(kPicosecondsPerSecond);
    fit.worst_error = std::max(fit.worst_error, std::abs(predicted_s / row.time_s - 1));
  }
  return fit;
}

}  // namespace pleach
