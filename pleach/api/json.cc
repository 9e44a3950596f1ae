#include "pleach/api/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "pleach/api/nccl_tests.h"
#include "pleach/base/units.h"

namespace pleach {
namespace {

using Json = nlohmann::ordered_json;

// Names may hold any bytes: malformed UTF-8 is replaced, so that the output always parses.
std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json certificate_json(const Certificate& certificate) {
  return {{"bound_algbw_bytes_per_s", certificate.bound_algbw_bytes_per_s},
          {"algbw_bytes_per_s", certificate.algbw_bytes_per_s},
          {"fraction", certificate.fraction},
          {"exact", certificate.exact},
          {"witness", certificate.witness},
          {"alpha_s", certificate.alpha_s},
          {"beta_s_per_byte", certificate.beta_s_per_byte}};
}

}  // namespace

std::string to_json(const TopologySummary& summary) {
  Json bounds = Json::object();
  for (const CollectiveBound& entry : summary.bounds) {
    bounds[std::string(to_text(entry.collective))] = {
        {"algbw_bytes_per_s", entry.bound.algbw_bytes_per_s},
        {"exact", entry.bound.exact},
        {"witness", entry.bound.witness}};
  }
  return text_of({{"name", summary.name},
                  {"rank_count", summary.rank_count},
                  {"node_count", summary.node_count},
                  {"link_count", summary.link_count},
                  {"bisection_bytes_per_s", summary.bisection.bytes_per_s},
                  {"bisection_exact", summary.bisection.exact},
                  {"diameter", summary.diameter.link_count},
                  {"bounds", bounds}});
}

std::string to_json(const ScheduleSummary& summary, double wall_s) {
  return text_of({{"algorithm", summary.algorithm},
                  {"options", summary.options},
                  {"collective", to_text(summary.collective)},
                  {"rank_count", summary.rank_count},
                  {"step_count", summary.step_count},
                  {"phase_steps", summary.phase_steps},
                  {"chunk_count", summary.chunk_count},
                  {"transfer_count", summary.transfer_count},
                  {"max_transfers_per_link_step", summary.max_transfers_per_link_step},
                  {"symmetric", summary.symmetric},
                  {"certificate", certificate_json(summary.certificate)},
                  {"period", summary.period},
                  {"wall_s", wall_s}});
}

std::string to_json(const Verification& verification, bool on_topology, double wall_s) {
  return text_of(
      {{"correct", verification.correct},
       {"contention_free", on_topology ? Json(verification.contention_free) : Json(nullptr)},
       {"bitwise_replicated", verification.bitwise_replicated},
       {"violations", verification.violations},
       {"wall_s", wall_s}});
}

std::string to_json(const ScheduleSummary& schedule, const TimingRequest& request,
                    const Timing& timing, double wall_s) {
  return text_of({{"algorithm", schedule.algorithm},
                  {"collective", to_text(schedule.collective)},
                  {"model", request.model},
                  {"size_bytes", request.size_bytes},
                  {"segments", timing.segment_count},
                  {"time_ps", timing.time_ps},
                  {"cycles", timing.cycles},
                  {"algbw_bytes_per_s", timing.algbw_bytes_per_s},
                  {"busbw_bytes_per_s", timing.busbw_bytes_per_s},
                  {"bytes_on_wire", timing.bytes_on_wire},
                  {"link_utilization_mean", timing.link_utilization_mean},
                  {"bottleneck_link", timing.bottleneck_link},
                  {"bottleneck_utilization", timing.bottleneck_utilization},
                  {"events", timing.simulation.use.event_count},
                  {"folded", timing.simulation.use.folded},
                  {"certificate", certificate_json(schedule.certificate)},
                  {"wall_s", wall_s}});
}

namespace {

Json measurement_json(const std::optional<Measurement>& measurement) {
  if (!measurement) {
    return nullptr;
  }
  return {
      {"time_s", measurement->time_s},
      {"algbw_bytes_per_s", measurement->algbw_bytes_per_s},
      {"busbw_bytes_per_s", measurement->busbw_bytes_per_s},
      {"wrong_count", measurement->wrong_count ? Json(*measurement->wrong_count) : Json(nullptr)}};
}

}  // namespace

std::string to_json(const BenchmarkReport& report) {
  Json rows = Json::array();
  for (const BenchmarkRow& row : report.rows) {
    // The row's own numbers are those of the out-of-place run where there is one.
    Json entry = measurement_json(row.out_of_place ? row.out_of_place : row.in_place);
    entry["size_bytes"] = row.size_bytes;
    entry["element_count"] = row.element_count;
    entry["out_of_place"] = measurement_json(row.out_of_place);
    entry["in_place"] = measurement_json(row.in_place);
    rows.push_back(entry);
  }
  return text_of({{"collective", to_text(report.collective)},
                  {"algorithm", report.algorithm},
                  {"transport", report.transport},
                  {"rank_count", report.rank_count},
                  {"rows", rows},
                  {"wrong_count", report.wrong_count()},
                  {"average_busbw_bytes_per_s", report.average_busbw_bytes_per_s()}});
}

std::string to_json(std::span<const RegistryListing> listings) {
  Json object = Json::object();
  for (const RegistryListing& listing : listings) {
    Json entries = Json::array();
    for (const RegistryEntry& entry : listing.entries) {
      entries.push_back({{"name", entry.name},
                         {"summary", entry.summary},
                         {"source", entry.source},
                         {"details", entry.details}});
    }
    object[listing.registry] = entries;
  }
  return text_of(object);
}

std::string to_json(const MachineReport& report) {
  Json checks = Json::array();
  for (const MachineCheck& check : report.checks) {
    checks.push_back(
        {{"name", check.name}, {"available", check.available}, {"detail", check.detail}});
  }
  return text_of({{"core_count", report.core_count},
                  {"memory_bytes", report.memory_bytes},
                  {"available_bytes", report.available_bytes},
                  {"checks", checks}});
}

namespace {

double seconds(int64_t time_ps) {
  return static_cast<double>(time_ps) / static_cast<double>(kPicosecondsPerSecond);
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

Json row_json(const TrainingRow& row, const TrainingRow& first, bool with_buckets) {
  const auto worker = std::max_element(
      row.run.workers.begin(), row.run.workers.end(),
      [](const auto& left, const auto& right) { return left.compute_ps < right.compute_ps; });
  const auto ratio = [](int64_t over, int64_t under) {
    return under > 0 ? Json(static_cast<double>(over) / static_cast<double>(under)) : Json(nullptr);
  };
  Json json = {{"policy", row.policy},
               {"iteration_s", seconds(row.run.iteration_ps)},
               {"compute_s", seconds(row.compute_ps)},
               {"exposed_communication_s", seconds(row.exposed_ps)},
               {"speedup", ratio(first.run.iteration_ps, row.run.iteration_ps)},
               {"bound_s", seconds(row.bound_ps)},
               {"over_bound", ratio(row.run.iteration_ps, row.bound_ps)},
               {"gradient_wait_s", seconds(worker->gradient_wait_ps)},
               {"collective_wait_s", seconds(worker->collective_wait_ps)},
               {"receive_wait_s", seconds(worker->receive_wait_ps)},
               {"load_wait_s", seconds(worker->load_wait_ps)},
               {"steady", row.run.steady},
               {"iterations", row.run.iterations},
               {"period", row.run.period},
               {"deviation_s", seconds(row.run.deviation_ps)},
               {"workers", row.run.workers.size()},
               {"events", row.run.event_count},
               {"wall_s", row.wall_s}};
  if (with_buckets) {
    Json buckets = Json::array();
    for (const BucketReport& bucket : explain(row)) {
      buckets.push_back(bucket_json(bucket));
    }
    json["buckets"] = buckets;
  }
  return json;
}

}  // namespace

namespace {

Json rows_json(const TrainingReport& report) {
  Json rows = Json::array();
  for (const TrainingRow& row : report.rows) {
    rows.push_back(row_json(row, report.rows.front(), report.with_buckets));
  }
  return rows;
}

}  // namespace

std::string to_json(std::span<const SweepReport> points, int64_t target_ps,
                    std::span<const std::string> policies,
                    std::span<const int64_t> needed_bytes_per_s, double wall_s) {
  Json list = Json::array();
  for (const SweepReport& point : points) {
    list.push_back({{"bandwidth_bytes_per_s", point.bandwidth_bytes_per_s},
                    {"rows", rows_json(point.report)}});
  }
  Json needed = Json::array();
  for (std::size_t index = 0; index < needed_bytes_per_s.size(); ++index) {
    const int64_t bandwidth = needed_bytes_per_s[index];
    needed.push_back({{"policy", policies[index]},
                      {"bandwidth_bytes_per_s", bandwidth > 0 ? Json(bandwidth) : Json(nullptr)}});
  }
  return text_of({{"points", list},
                  {"target_s", target_ps > 0 ? Json(seconds(target_ps)) : Json(nullptr)},
                  {"needed", needed},
                  {"wall_s", wall_s}});
}

std::string to_json(const TrainingReport& report, double wall_s) {
  return text_of({{"workload", report.workload},
                  {"topology", report.topology},
                  {"strategy", report.strategy},
                  {"algorithm", report.algorithm},
                  {"costs", report.costs},
                  {"rank_count", report.rank_count},
                  {"memory_bytes", report.memory_bytes},
                  {"rows", rows_json(report)},
                  {"wall_s", wall_s}});
}

namespace {

// nccl-tests writes booleans as strings.
Json boolean_text(bool value) {
  return value ? "true" : "false";
}

Json nccl_tests_measurement(const std::optional<Measurement>& measurement) {
  if (!measurement) {
    return nullptr;
  }
  return {{"time", measurement->time_s * 1e6},
          {"alg_bw", measurement->algbw_bytes_per_s * 1e-9},
          {"bus_bw", measurement->busbw_bytes_per_s * 1e-9},
          {"nwrong", measurement->wrong_count ? Json(static_cast<double>(*measurement->wrong_count))
                                              : Json(nullptr)}};
}

Json nccl_tests_config(const BenchmarkReport& report, const BenchmarkOptions& options) {
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

std::string nccl_tests_json(const BenchmarkReport& report, const BenchmarkOptions& options,
                            std::span<const std::string> arguments) {
  Json results = Json::array();
  for (const BenchmarkRow& row : report.rows) {
    results.push_back({{"size", row.size_bytes},
                       {"count", row.element_count},
                       {"type", nccl_tests_type(options.type)},
                       {"redop", nccl_tests_op(report.collective, options.op)},
                       {"root", nccl_tests_root(report.collective, report.root)},
                       {"out_of_place", nccl_tests_measurement(row.out_of_place)},
                       {"in_place", nccl_tests_measurement(row.in_place)},
                       {"actual_iterations", options.iterations},
                       {"experiment_name", nccl_tests_program(report.collective)}});
  }
  const int64_t wrong = report.wrong_count();
  return text_of(
      {{"version", 3},
       {"start_time", report.start_time},
       {"args", std::vector<std::string>(arguments.begin(), arguments.end())},
       {"env", Json::array()},
       {"nccl_version", 0},
       {"config", nccl_tests_config(report, options)},
       {"results", results},
       {"out_of_bounds", {{"count", wrong}, {"okay", boolean_text(wrong == 0)}}},
       {"average_bus_bandwidth",
        {{"bandwidth", report.average_busbw_bytes_per_s() * 1e-9}, {"okay", "unchecked"}}},
       {"errors", Json::array()},
       {"end_time", report.end_time}});
}

}  // namespace pleach
