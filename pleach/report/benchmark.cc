#include "pleach/report/benchmark.h"

#include "pleach/report/json.h"

namespace pleach {

int64_t BenchmarkReport::wrong_count() const {
  int64_t wrong = 0;
  for (const BenchmarkRow& row : rows) {
    for (const auto& measurement : {row.out_of_place, row.in_place}) {
      wrong += measurement ? measurement->wrong_count.value_or(0) : 0;
    }
  }
  return wrong;
}

double BenchmarkReport::average_busbw_bytes_per_s() const {
  double sum = 0;
  int32_t count = 0;
  for (const BenchmarkRow& row : rows) {
    for (const auto& measurement : {row.out_of_place, row.in_place}) {
      if (measurement) {
        sum += measurement->busbw_bytes_per_s;
        ++count;
      }
    }
  }
  return count == 0 ? 0 : sum / count;
}

namespace {

Json measurement_json(const std::optional<Measurement>& measurement) {
  if (!measurement) {
    return nullptr;
  }
  return {{"time_s", measurement->time_s},
          {"algbw_bytes_per_s", measurement->algbw_bytes_per_s},
          {"busbw_bytes_per_s", measurement->busbw_bytes_per_s},
          {"wrong_count", or_null(measurement->wrong_count)}};
}

}  // namespace

std::string to_json(const BenchmarkReport& report) {
  Json rows = Json::array();
  for (const BenchmarkRow& row : report.rows) {
    // The row's own numbers are those of the out-of-place run where there is one.
    Json entry = measurement_json(row.out_of_place ? row.out_of_place : row.in_place);
    entry["size_bytes"] = row.size_bytes;
    entry["element_count"] = row.element_count;
    entry["algorithm"] = row.algorithm;
    entry["segments"] = row.segment_count;
    entry["out_of_place"] = measurement_json(row.out_of_place);
    entry["in_place"] = measurement_json(row.in_place);
    rows.push_back(entry);
  }
  return line_of({{"collective", to_text(report.collective)},
                  {"algorithm", report.algorithm},
                  {"transport", report.transport},
                  {"wire", to_text(report.options.wire.value_or(report.options.type))},
                  {"rank_count", report.rank_count},
                  {"rows", rows},
                  {"wrong_count", report.wrong_count()},
                  {"average_busbw_bytes_per_s", report.average_busbw_bytes_per_s()}});
}

}  // namespace pleach
