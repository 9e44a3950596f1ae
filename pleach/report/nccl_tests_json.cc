// nccl-tests' result file: written, and read.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "pleach/base/files.h"
#include "pleach/base/text.h"
#include "pleach/report/json.h"
#include "pleach/report/nccl_tests.h"
#include "pleach/workload/json_text.h"

namespace pleach {
namespace {

// nccl-tests writes booleans as strings.
Json boolean_text(bool value) {
  return value ? "true" : "false";
}

Json measurement_json(const std::optional<Measurement>& measurement) {
  if (!measurement) {
    return nullptr;
  }
  return {{"time", measurement->time_s * 1e6},
          {"alg_bw", measurement->algbw_bytes_per_s * 1e-9},
          {"bus_bw", measurement->busbw_bytes_per_s * 1e-9},
          {"nwrong", measurement->wrong_count ? Json(static_cast<double>(*measurement->wrong_count))
                                              : Json(nullptr)}};
}

Json config_json(const BenchmarkReport& report) {
  const BenchmarkOptions& options = report.options;
  const auto [least, most] =
      std::minmax_element(options.sizes_bytes.begin(), options.sizes_bytes.end());
  const bool several = options.sizes_bytes.size() > 1;
  Json config = {{"nthreads", 1},
                 {"ngpus", 1},
                 {"minimum_bytes", *least},
                 {"maximum_bytes", *most},
                 {"step_factor", several ? options.sizes_bytes[1] / options.sizes_bytes[0] : 2},
                 {"warmup_iters", options.warmup_iterations},
                 {"iterations", options.iterations},
                 {"aggregated_iterations", 1},
                 {"validation", options.check ? 1 : 0},
                 {"graph", 0},
                 {"blocking_collectives", boolean_text(false)},
                 {"per_iter_timing", boolean_text(false)},
                 {"per_iter_skip", 0},
                 {"parallel_init", boolean_text(false)}};
  Json devices = Json::array();
  for (const RankInformation& rank : report.ranks) {
    devices.push_back({{"rank", rank.rank},
                       {"group", 0},
                       {"pid", rank.process},
                       {"hostname", rank.host},
                       {"device", 0},
                       {"device_hex", "0000:00:00"},
                       {"device_info", "cpu"}});
  }
  config["devices"] = devices;
  return config;
}

}  // namespace

std::string nccl_tests_json(const BenchmarkReport& report, std::span<const std::string> arguments) {
  Json results = Json::array();
  for (const BenchmarkRow& row : report.rows) {
    results.push_back({{"size", row.size_bytes},
                       {"count", row.element_count},
                       {"type", nccl_tests_type(report.options.type)},
                       {"redop", nccl_tests_op(report.collective, report.options.op)},
                       {"root", nccl_tests_root(report.collective, report.root)},
                       {"out_of_place", measurement_json(row.out_of_place)},
                       {"in_place", measurement_json(row.in_place)},
                       {"actual_iterations", report.options.iterations},
                       {"experiment_name", nccl_tests_program(report.collective)}});
  }
  const int64_t wrong = report.wrong_count();
  return line_of(
      {{"version", 3},
       {"start_time", report.start_time},
       {"args", std::vector<std::string>(arguments.begin(), arguments.end())},
       {"env", Json::array()},
       {"nccl_version", 0},
       {"config", config_json(report)},
       {"results", results},
       {"out_of_bounds", {{"count", wrong}, {"okay", boolean_text(wrong == 0)}}},
       {"average_bus_bandwidth",
        {{"bandwidth", report.average_busbw_bytes_per_s() * 1e-9}, {"okay", "unchecked"}}},
       {"errors", Json::array()},
       {"end_time", report.end_time}});
}

namespace {

using Parsed = nlohmann::json;  // what is read needs no order of keys
using Pointer = Parsed::json_pointer;

// What is read, for errors that name the place in it.
struct ResultText {
  const std::string& path;
  std::string_view text;

  Error error(const Pointer& pointer, const std::string& what) const {
    return invalid(json_place(text, path, pointer), what);
  }
};

Result<NcclTestsFile::Row> read_row(const ResultText& source, std::size_t index,
                                    const Parsed& entry) {
  const auto place = fmt::format("results[{}]", index);
  const Pointer here = Pointer("/results") / index;
  if (!entry.is_object() || !entry.contains("size") || !entry["size"].is_number_integer()) {
    return source.error(here / "size", place + " has no whole size");
  }
  const bool has_out_of_place = entry.contains("out_of_place") && entry["out_of_place"].is_object();
  const std::string run = has_out_of_place ? "out_of_place" : "in_place";
  const Parsed block = entry.value(run, Parsed());
  if (!block.is_object() || !block.contains("time") || !block["time"].is_number()) {
    return source.error(here / run / "time", place + " has no time");
  }
  const NcclTestsFile::Row row = {entry["size"].get<int64_t>(), block["time"].get<double>() * 1e-6};
  if (row.size_bytes < 0) {
    return source.error(here / "size", fmt::format("{}: {} bytes", place, entry["size"].dump()));
  }
  if (!(row.time_s > 0) || !std::isfinite(row.time_s)) {
    return source.error(here / run / "time", fmt::format("{}: {} bytes in {} us", place,
                                                         row.size_bytes, block["time"].dump()));
  }
  return row;
}

Result<CollectiveKind> read_program(const ResultText& source, const Parsed& name,
                                    std::span<const CollectiveKind> wanted) {
  std::vector<std::string> programs;
  for (const CollectiveKind kind : wanted) {
    programs.push_back(nccl_tests_program(kind));
    if (name == programs.back()) {
      return kind;
    }
  }
  return source.error(Pointer("/results/0/experiment_name"),
                      fmt::format("results[0].experiment_name is {}, not {}",
                                  one_line(line_of(name)), alternatives(programs)));
}

}  // namespace

Result<NcclTestsFile> read_nccl_tests(const std::string& path,
                                      std::span<const CollectiveKind> wanted) {
  PLEACH_ASSIGN(text, read_text_file(path, 1 << 28));
  PLEACH_ASSIGN(json, parse_json(text, path));
  if (!json.is_object() || !json.contains("results") || !json["results"].is_array() ||
      json["results"].empty() || !json["results"][0].is_object()) {
    return invalid(path, "is no result file of nccl-tests: it has no results");
  }
  const ResultText source = {path, text};
  const Parsed config = json.value("config", Parsed::object());
  if (!config.is_object() || !config.contains("devices") || !config["devices"].is_array() ||
      config["devices"].size() < 2) {
    return source.error(Pointer("/config/devices"),
                        "config.devices does not list two ranks or more");
  }
  NcclTestsFile file;
  file.rank_count = static_cast<int32_t>(config["devices"].size());
  const Parsed& results = json["results"];
  PLEACH_SET(file.collective,
             read_program(source, results[0].value("experiment_name", Parsed()), wanted));
  for (std::size_t index = 0; index < results.size(); ++index) {
    PLEACH_ASSIGN(row, read_row(source, index, results[index]));
    if (row.size_bytes > 0) {
      file.rows.push_back(row);
    }
  }
  return file;
}

}  // namespace pleach
