#include "pleach/report/training.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "pleach/report/training_json.h"

namespace pleach {
namespace {

std::optional<double> ratio(int64_t over, int64_t under) {
  if (under <= 0) {
    return std::nullopt;
  }
  return static_cast<double>(over) / static_cast<double>(under);
}

std::optional<double> known(double value) {
  return value > 0 ? std::optional(value) : std::nullopt;
}

Json bucket_json(const BucketReport& bucket) {
  return {{"group", bucket.group},
          {"collective", to_text(bucket.kind)},
          {"first_layer", bucket.first_layer},
          {"last_layer", bucket.last_layer},
          {"size_bytes", bucket.size_bytes},
          {"ready_s", seconds(bucket.ready_ps)},
          {"issued_s", seconds(bucket.issued_ps)},
          {"started_s", seconds(bucket.started_ps)},
          {"finished_s", seconds(bucket.finished_ps)},
          {"exposed_s", seconds(bucket.exposed_ps)},
          {"waited_for", bucket.waited_for}};
}

Json conflicts_json(const TraceAdmission& admission) {
  Json conflicts = Json::array();
  for (const TraceConflict& conflict : admission.conflicts) {
    Json groups = Json::array();
    for (const TraceGroup& group : conflict.groups) {
      groups.push_back({{"family", group.family}, {"ranks", group.ranks}});
    }
    conflicts.push_back({{"switch", conflict.node},
                         {"groups", std::move(groups)},
                         {"level", or_null(conflict.level)},
                         {"count", conflict.count}});
  }
  return conflicts;
}

Json row_json(const TrainingRow& row, const TrainingRow& first) {
  const WorkerTimes& busiest = busiest_worker(row);
  Json json = {
      {"policy", row.policy},
      {"iteration_s", seconds(row.run.iteration_ps)},
      {"compute_s", seconds(row.compute_ps)},
      {"exposed_communication_s", seconds(row.exposed_ps)},
      {"speedup", or_null(speedup(row, first))},
      {"bound_s", seconds(row.bound_ps)},
      {"over_bound", or_null(over_bound(row))},
      {"gradient_wait_s", seconds(busiest.gradient_wait_ps)},
      {"collective_wait_s", seconds(busiest.collective_wait_ps)},
      {"receive_wait_s", seconds(busiest.receive_wait_ps)},
      {"load_wait_s", seconds(busiest.load_wait_ps)},
      {"bubble_wait_s", seconds(busiest.bubble_wait_ps)},
      {"input_wait_s", seconds(busiest.input_wait_ps)},
      {"planned_on_curves", row.planned_on_curves},
      {"curve_end_bytes",
       or_null(row.curve_end_bytes > 0 ? std::optional(row.curve_end_bytes) : std::nullopt)},
      {"samples_per_s", or_null(known(row.samples_per_s))},
      {"tokens_per_s", or_null(known(row.tokens_per_s))},
      {"mfu", or_null(known(row.peak_share))},
      {"memory_bytes", row.memory.state_bytes},
      {"activation_bytes", row.memory.activation_bytes},
      {"bucket_bytes", row.memory.bucket_bytes},
      {"steady", row.run.steady},
      {"iterations", row.run.iterations},
      {"period", row.run.period},
      {"deviation_s", seconds(row.run.deviation_ps)},
      {"workers", row.run.workers.size()},
      {"events", row.run.event_count},
      {"wall_s", row.wall_s}};
  if (row.admission.has_value()) {
    json["admission"] = admission_json(*row.admission, conflicts_json(*row.admission));
  }
  return json;
}

}  // namespace

std::optional<double> speedup(const TrainingRow& row, const TrainingRow& first) {
  return ratio(first.run.iteration_ps, row.run.iteration_ps);
}

const WorkerTimes& busiest_worker(const TrainingRow& row) {
  return *std::ranges::max_element(row.run.workers, {}, &WorkerTimes::compute_ps);
}

std::optional<double> over_bound(const TrainingRow& row) {
  return ratio(row.run.iteration_ps, row.bound_ps);
}

Json rows_json(std::span<const TrainingRow> rows, bool with_buckets) {
  Json list = Json::array();
  for (const TrainingRow& row : rows) {
    Json& json = list.emplace_back(row_json(row, rows.front()));
    if (with_buckets) {
      json["buckets"] = Json::array();
      for (const BucketReport& bucket : explain(row)) {
        json["buckets"].push_back(bucket_json(bucket));
      }
    }
  }
  return list;
}

std::string to_json(const TrainingReport& report, double wall_s) {
  return line_of({{"workload", report.workload},
                  {"topology", report.topology},
                  {"strategy", report.strategy},
                  {"algorithm", report.algorithm},
                  {"costs", report.costs},
                  {"rank_count", report.rank_count},
                  {"memory_bytes", report.memory_bytes},
                  {"rows", rows_json(report.rows, report.with_buckets)},
                  {"wall_s", wall_s}});
}

std::string rows_csv(std::span<const TrainingRow> rows) {
  std::string text = "policy,iteration_ps,compute_ps,exposed_ps,bound_ps,steady,iterations\n";
  for (const TrainingRow& row : rows) {
    fmt::format_to(std::back_inserter(text), "\"{}\",{},{},{},{},{},{}\n", row.policy,
                   row.run.iteration_ps, row.compute_ps, row.exposed_ps, row.bound_ps,
                   row.run.steady ? 1 : 0, row.run.iterations);
  }
  return text;
}

std::string buckets_csv(std::span<const TrainingRow> rows) {
  std::string text =
      "policy,group,collective,first_layer,last_layer,size_bytes,ready_ps,issued_ps,started_ps,"
      "finished_ps,exposed_ps,waited_for\n";
  for (const TrainingRow& row : rows) {
    for (const BucketReport& bucket : explain(row)) {
      fmt::format_to(std::back_inserter(text),
                     "\"{}\",\"{}\",{},\"{}\",\"{}\",{},{},{},{},{},{},{}\n", row.policy,
                     bucket.group, to_text(bucket.kind), bucket.first_layer, bucket.last_layer,
                     bucket.size_bytes, bucket.ready_ps, bucket.issued_ps, bucket.started_ps,
                     bucket.finished_ps, bucket.exposed_ps, bucket.waited_for);
    }
  }
  return text;
}

}  // namespace pleach
