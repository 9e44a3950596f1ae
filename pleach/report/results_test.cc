// Every result, written: the JSON and the tables that scripts rely on.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "pleach/report/benchmark.h"
#include "pleach/report/comparison.h"
#include "pleach/report/machine.h"
#include "pleach/report/probe.h"
#include "pleach/report/registries.h"
#include "pleach/report/schedule.h"
#include "pleach/report/sweep.h"
#include "pleach/report/timing.h"
#include "pleach/report/topology.h"
#include "pleach/report/traffic.h"
#include "pleach/report/training.h"
#include "pleach/report/verification.h"
#include "pleach/topology/shapes.h"
#include "tests/support/small_schedules.h"

namespace pleach {
namespace {

constexpr int64_t kMs = 1'000'000'000;

ScheduleSummary ring_summary() {
  ScheduleSummary summary;
  summary.provenance.algorithm = "ring";
  summary.provenance.certificate = {.bound_algbw_bytes_per_s = 4,
                                    .algbw_bytes_per_s = 2,
                                    .fraction = 0.5,
                                    .exact = true,
                                    .witness = "cut",
                                    .alpha_s = 1,
                                    .beta_s_per_byte = 0.25};
  summary.rank_count = 2;
  summary.step_count = 2;
  summary.phase_steps = {1, 1};
  summary.chunk_count = 2;
  summary.transfer_count = 4;
  summary.max_transfers_per_link_step = 1;
  summary.period = 2;
  summary.symmetric = true;
  return summary;
}

const std::string kCertificate =
    R"("certificate":{"bound_algbw_bytes_per_s":4.0,"algbw_bytes_per_s":2.0,"fraction":0.5,)"
    R"("exact":true,"witness":"cut","alpha_s":1.0,"beta_s_per_byte":0.25})";

Timing half_busy() {
  Timing timing;
  timing.model = "flow";
  timing.size_bytes = 8;
  timing.time_ps = 1000;
  timing.cycles = 1;
  timing.messages_are_free = true;
  timing.algbw_bytes_per_s = 2;
  timing.busbw_bytes_per_s = 3;
  timing.links = {.bytes = 2,
                  .utilization_mean = 0.25,
                  .busy_mean = 0.5,
                  .bottleneck = "0->1",
                  .bottleneck_utilization = 0.5,
                  .bottleneck_busy = 1};
  timing.simulation.use.links = {{.busy_ps = 1000, .wire_bytes = 2}, {}};
  timing.simulation.use.event_count = 7;
  return timing;
}

RouterTraffic some_traffic() {
  RouterTraffic traffic{.topology = "ring:2", .model = "flit,vcs=4", .cpu_s = 2};
  traffic.options.rate = 0.5;
  traffic.result.cycles = 40000;
  traffic.result.flits = 3;
  traffic.result.packets = 2;
  traffic.result.counters = {{"link_flits", 3}, {"deepest_buffer", 2, true}};
  traffic.result.energy_j = 0.5;
  return traffic;
}

TrainingRow row_of(const std::string& policy, int64_t iteration_ps, int64_t bound_ps) {
  TrainingRow row;
  row.policy = policy;
  row.trace = std::make_shared<const Trace>();
  row.run.iteration_ps = iteration_ps;
  row.run.steady = true;
  row.run.iterations = 3;
  row.run.workers = {{.compute_ps = 1 * kMs, .gradient_wait_ps = 5 * kMs},
                     {.compute_ps = 2 * kMs, .load_wait_ps = 3 * kMs, .input_wait_ps = 1 * kMs}};
  row.compute_ps = 2 * kMs;
  row.exposed_ps = iteration_ps - row.compute_ps;
  row.bound_ps = bound_ps;
  return row;
}

const std::string kFirstRow =
    R"({"policy":"ddp,bucket=1MB","iteration_s":0.004,"compute_s":0.002,)"
    R"("exposed_communication_s":0.002,"speedup":1.0,"bound_s":0.002,"over_bound":2.0,)"
    R"("gradient_wait_s":0.0,"collective_wait_s":0.0,"receive_wait_s":0.0,"load_wait_s":0.003,)"
    R"("bubble_wait_s":0.0,"input_wait_s":0.001,)"
    R"("planned_on_curves":true,"curve_end_bytes":1024,"samples_per_s":8.0,"tokens_per_s":16.0,)"
    R"("mfu":0.5,)"
    R"("memory_bytes":7,"activation_bytes":8,"bucket_bytes":9,"steady":true,)"
    R"("iterations":3,"period":1,"deviation_s":0.0,"workers":2,)"
    R"("events":0,"wall_s":0.0)";
const std::string kSecondRow =
    R"({"policy":"dear","iteration_s":0.002,"compute_s":0.002,"exposed_communication_s":0.0,)"
    R"("speedup":2.0,"bound_s":0.0,"over_bound":null,"gradient_wait_s":0.0,)"
    R"("collective_wait_s":0.0,"receive_wait_s":0.0,"load_wait_s":0.003,)"
    R"("bubble_wait_s":0.0,"input_wait_s":0.001,)"
    R"("planned_on_curves":false,"curve_end_bytes":null,"samples_per_s":null,)"
    R"("tokens_per_s":null,"mfu":null,)"
    R"("memory_bytes":0,"activation_bytes":0,"bucket_bytes":0,"steady":true,)"
    R"("iterations":3,"period":1,"deviation_s":0.0,"workers":2,"events":0,"wall_s":0.0)";

std::vector<TrainingRow> two_rows() {
  TrainingRow first = row_of("ddp,bucket=1MB", 4 * kMs, 2 * kMs);
  first.planned_on_curves = true;
  first.curve_end_bytes = 1024;
  first.samples_per_s = 8;
  first.tokens_per_s = 16;
  first.peak_share = 0.5;
  first.memory = {7, 8, 9};
  return {first, row_of("dear", 2 * kMs, 0)};
}

BenchmarkReport unchecked_in_place() {
  BenchmarkReport report;
  report.algorithm = "ring";
  report.transport = "tcp";
  report.rank_count = 2;
  report.rows = {{.size_bytes = 8,
                  .element_count = 2,
                  .algorithm = "ring,form=explicit",
                  .segment_count = 4,
                  .out_of_place = std::nullopt,
                  .in_place = Measurement{0.5, 16, 32, std::nullopt}}};
  return report;
}

TEST(Results, HaveTheirJson) {
  const TopologySummary topology = {
      .name = "a\xff",  // replaced: names may hold any bytes
      .rank_count = 2,
      .node_count = 3,
      .link_count = 4,
      .switch_latency_ps = {{6, 7}},
      .lanes = {},
      .bisection = {5, true},
      .diameter = {2, true},
      .bounds = {{CollectiveKind::kReduce, {.algbw_bytes_per_s = 6, .witness = "cut"}}}};
  const Verification wrong = {.violations = {"chunk 0"}};
  const RegistryListing listing = {"models", {{"flow", "fluid", "a book", ""}}};
  const MachineReport machine = {
      .core_count = 2, .memory_bytes = 3, .available_bytes = 1, .checks = {{"tcp", true, "yes"}}};
  TrainingReport training = {.workload = "w",
                             .topology = "",
                             .strategy = "dp=2",
                             .algorithm = "ring",
                             .costs = "curves",
                             .rank_count = 2,
                             .rows = two_rows()};
  TrainingReport explained = training;
  explained.with_buckets = true;
  const std::string head =
      R"({"workload":"w","topology":"","strategy":"dp=2","algorithm":"ring","costs":"curves",)"
      R"("rank_count":2,"memory_bytes":0,"rows":[)";
  const std::string measured =
      R"("time_s":0.5,"algbw_bytes_per_s":16.0,"busbw_bytes_per_s":32.0,"wrong_count":null)";
  const Sweep sweep = {.points = {{1'000'000, two_rows()}},
                       .target_ps = 3 * kMs,
                       .needed_bytes_per_s = {0, 1'000'000}};
  const std::vector<std::pair<std::string, std::string>> cases = {
      {to_json(topology), R"({"name":"a\ufffd","rank_count":2,"node_count":3,"link_count":4,)"
                          R"("switch_latency_ps":[6,7],"lanes":null,"switches":[],"parts":null,)"
                          R"("bisection_bytes_per_s":5,)"
                          R"("bisection_exact":true,"proportional_bisection_bytes_per_s":0,)"
                          R"("diameter":2,"bounds":{"reduce":)"
                          R"({"algbw_bytes_per_s":6.0,"exact":false,"witness":"cut"}}})"},
      {to_json(ring_summary(), 0.5),
       R"({"algorithm":"ring","options":"","collective":"all_reduce","rank_count":2,)"
       R"("step_count":2,"phase_steps":[1,1],"chunk_count":2,"transfer_count":4,)"
       R"("max_transfers_per_link_step":1,"symmetric":true,)" +
           kCertificate + R"(,"period":2,"wall_s":0.5})"},
      {to_json(wrong, false, std::nullopt, 1),
       R"({"correct":false,"contention_free":null,"planned_for_topology":null,)"
       R"("bitwise_replicated":false,)"
       R"("violations":["chunk 0"],"switch_conflicts":[],"wall_s":1.0})"},
      {to_json(wrong, true, false, 1),
       R"({"correct":false,"contention_free":false,"planned_for_topology":false,)"
       R"("bitwise_replicated":false,)"
       R"("violations":["chunk 0"],"switch_conflicts":[],"wall_s":1.0})"},
      {to_json(ring_summary(), half_busy(), 0, *parse_topology("ring:2")),
       R"({"algorithm":"ring","collective":"all_reduce","model":"flow","size_bytes":8,)"
       R"("segments":1,"time_ps":1000,"cycles":1,"algbw_bytes_per_s":2.0,)"
       R"("busbw_bytes_per_s":3.0,"bytes_on_wire":2,"link_utilization_mean":0.25,)"
       R"("link_busy_mean":0.5,"bottleneck_link":"0->1","bottleneck_utilization":0.5,)"
       R"("bottleneck_busy":1.0,"messages_are_free":true,"events":7,"folded":false,)" +
           kCertificate + R"(,"wall_s":0.0})"},
      {to_json(some_traffic()),
       R"({"topology":"ring:2","model":"flit,vcs=4","pattern":"uniform",)"
       R"("rate_flits_per_node_cycle":0.5,"packet_flits":1,"accepted_flits_per_node_cycle":0.0,)"
       R"("mean_latency_cycles":0.0,"p99_latency_cycles":0,"mean_hops":0.0,"packets":2,)"
       R"("cycles":40000,"flits":3,"credit_round_trip_cycles":0,"seed":1,"cpu_s":2.0,)"
       R"("cycles_per_cpu_s":20000.0,)"
       R"("counters":{"link_flits":3,"deepest_buffer":2},"energy_j":0.5})"},
      {to_json(unchecked_in_place()),
       R"({"collective":"all_reduce","algorithm":"ring","transport":"tcp",)"
       R"("wire":"float32","rank_count":2,)"
       R"("rows":[{)" +
           measured +
           R"(,"size_bytes":8,"element_count":2,"algorithm":"ring,form=explicit",)"
           R"("segments":4,"out_of_place":null,"in_place":{)" +
           measured + R"(}}],"wrong_count":0,"average_busbw_bytes_per_s":32.0})"},
      {to_json(ProbeReport{"shm", 4, 2, {3, 6, 500, 70, 8}}),
       R"({"transport":"shm","rank_count":4,"core_count":2,"latency_ps":500,"message_bytes":70,)"
       R"("rank_bandwidth_bytes_per_s":3,"host_bandwidth_bytes_per_s":6,)"
       R"("reduce_bandwidth_bytes_per_s":8})"},
      {to_json(std::span(&listing, 1)),
       R"({"models":[{"name":"flow","summary":"fluid","source":"a book","details":""}]})"},
      {to_json(machine),
       R"({"core_count":2,"memory_bytes":3,"available_bytes":1,"checks":[{"name":"tcp",)"
       R"("available":true,"detail":"yes"}]})"},
      {to_json(training, 2), head + kFirstRow + "}," + kSecondRow + R"(}],"wall_s":2.0})"},
      {to_json(explained, 2),
       head + kFirstRow + R"(,"buckets":[]},)" + kSecondRow + R"(,"buckets":[]}],"wall_s":2.0})"},
      {to_json(sweep, 2), R"({"points":[{"bandwidth_bytes_per_s":1000000,"rows":[)" + kFirstRow +
                              "}," + kSecondRow +
                              R"(}]}],"target_s":0.003,"needed":[{"policy":"ddp,bucket=1MB",)"
                              R"("bandwidth_bytes_per_s":null},{"policy":"dear",)"
                              R"("bandwidth_bytes_per_s":1000000}],"wall_s":2.0})"},
      {to_json(Sweep{}, 2), R"({"points":[],"target_s":null,"needed":[],"wall_s":2.0})"},
  };
  for (const auto& [json, expected] : cases) {
    EXPECT_EQ(json, expected);
  }
}

// The interfaces of ring_summary()'s two ranks, which hold an entry each.
InterfaceTables ring_tables() {
  Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 2);
  ring.phase_steps = {1, 1};
  InterfaceTables tables;
  tables.schedule = std::make_shared<const Schedule>(std::move(ring));
  tables.table = ScheduleTable::build(*tables.schedule, Order::build(*tables.schedule));
  tables.placement = *Placement::create(*tables.schedule, 9);
  tables.widths = widths_of(tables.table, &*tables.placement);
  tables.room = 1;
  tables.listed_ranks = {1};
  return tables;
}

TEST(Results, ScheduleHasItsInterfacesTablesIfAsked) {
  const std::string plain = to_json(ring_summary(), 0.5);
  const InterfaceTables tables = ring_tables();
  EXPECT_EQ(to_json(ring_summary(), 0.5, &tables),
            plain.substr(0, plain.size() - 1) +
                R"(,"tables":{"entry_bits":14,"field_bits":{"opcode":2,"flow":1,"parent":2,)"
                R"("children":2,"step":1,"start":3,"size":3},"most_entries":2,"room":1,)"
                R"("overfull_ranks":[0,1],"ranks":[)"
                R"({"rank":0,"entry_count":2,"nop_count":0,"bits":28},)"
                R"({"rank":1,"entry_count":2,"nop_count":0,"bits":28,"entries":[)"
                R"({"opcode":"reduce","flow":0,"parents":[0],"children":[],"step":0,)"
                R"("chunk_count":1,"start_bytes":0,"size_bytes":4},)"
                R"({"opcode":"gather","flow":1,"parents":[],"children":[0],"step":1,)"
                R"("chunk_count":1,"start_bytes":4,"size_bytes":5}],"phase_ends":[)"
                R"({"opcode":"reduce","flow":1,"parents":[],"children":[0],"step":1,)"
                R"("chunk_count":1,"start_bytes":4,"size_bytes":5}]}]}})");
}

TEST(Results, HaveTheirTables) {
  const Topology topology = parse_topology("ring:2,bandwidth=3GB/s").value();
  Schedule schedule;
  schedule.collective = CollectiveKind::kReduce;
  schedule.provenance.algorithm = "ring";
  EXPECT_EQ(links_csv(topology, half_busy()),
            "link,source,target,bandwidth_bytes_per_s,busy_ps,wire_bytes,utilization\n"
            "0,0,1,3000000000,1000,2,0.666667\n"
            "1,1,0,3000000000,0,0,0.000000\n");
  Timing counted = half_busy();
  counted.simulation.use.cycles = 7;
  counted.simulation.use.link_counters = {{"flits", {5, 0}}, {"header_flits", {1, 0}}};
  EXPECT_EQ(links_csv(topology, counted),
            "link,source,target,bandwidth_bytes_per_s,busy_ps,wire_bytes,utilization,cycles,flits,"
            "header_flits\n"
            "0,0,1,3000000000,1000,2,0.666667,7,5,1\n"
            "1,1,0,3000000000,0,0,0.000000,7,0,0\n");
  EXPECT_EQ(collectives_csv(schedule, half_busy()),
            "collective,algorithm,size_bytes,segments,start_ps,finish_ps,algbw_bytes_per_s,"
            "busbw_bytes_per_s\nreduce,ring,8,1,0,1000,2,3\n");
  EXPECT_EQ(rows_csv(two_rows()),
            "policy,iteration_ps,compute_ps,exposed_ps,bound_ps,steady,iterations\n"
            "\"ddp,bucket=1MB\",4000000000,2000000000,2000000000,2000000000,1,3\n"
            "\"dear\",2000000000,2000000000,0,0,1,3\n");
  EXPECT_EQ(buckets_csv(two_rows()),
            "policy,group,collective,first_layer,last_layer,size_bytes,ready_ps,issued_ps,"
            "started_ps,finished_ps,exposed_ps,waited_for\n");
}

TEST(Results, AddUpWhatBenchmarksMeasured) {
  BenchmarkReport report = unchecked_in_place();
  report.rows[0].out_of_place = Measurement{1, 8, 16, 5};
  report.rows.push_back(report.rows[0]);
  EXPECT_EQ(report.wrong_count(), 10);
  EXPECT_EQ(report.average_busbw_bytes_per_s(), 24);
  EXPECT_EQ(BenchmarkReport{}.average_busbw_bytes_per_s(), 0);
}

Comparison compared_rows() {
  Comparison comparison;
  comparison.collective = "all_reduce";
  comparison.rows = {{.topology = "ring:4",
                      .algorithm = "a,b=\"<&>\"",
                      .model = "flow",
                      .rank_count = 4,
                      .size_bytes = 8,
                      .segment_count = 2,
                      .time_ps = 1000,
                      .algbw_bytes_per_s = 2,
                      .busbw_bytes_per_s = 3,
                      .bound_algbw_bytes_per_s = 4,
                      .messages_are_free = true,
                      .is_best = true},
                     {.topology = "ring:4", .algorithm = "ring", .model = "flow", .time_ps = 2000}};
  comparison.refusals = {{"ring:4", "ring_2d", "no grid"}};
  return comparison;
}

TEST(Results, ComparisonIsJsonWithNullWhereNoBoundIsKnown) {
  EXPECT_EQ(
      to_json(compared_rows(), 0.5),
      R"({"collective":"all_reduce","rows":[{"topology":"ring:4","algorithm":"a,b=\"<&>\"",)"
      R"("model":"flow","rank_count":4,"size_bytes":8,"segments":2,"time_ps":1000,)"
      R"("algbw_bytes_per_s":2.0,)"
      R"("busbw_bytes_per_s":3.0,"fraction_of_bound":0.5,"messages_are_free":true,"best":true},)"
      R"({"topology":"ring:4","algorithm":"ring","model":"flow","rank_count":0,"size_bytes":0,)"
      R"("segments":1,)"
      R"("time_ps":2000,"algbw_bytes_per_s":0.0,"busbw_bytes_per_s":0.0,)"
      R"("fraction_of_bound":null,"messages_are_free":false,"best":false}],)"
      R"("refused":[{"topology":"ring:4","algorithm":"ring_2d","why":"no grid"}],"wall_s":0.5})");
}

TEST(Results, ComparisonIsCsvWithCommasInQuotes) {
  EXPECT_EQ(comparison_csv(compared_rows()),
            "topology,algorithm,model,size_bytes,segments,time_ps,algbw_bytes_per_s,"
            "busbw_bytes_per_s,fraction_of_bound,best\n"
            "ring:4,\"a,b=\"\"<&>\"\"\",flow,8,2,1000,2,3,0.500000,1\n"
            "ring:4,ring,flow,0,1,2000,0,0,,0\n");
}

// A dash for the bound, a dot for each row, and no letter that XML would take for its own.
TEST(Results, ComparisonIsAPicture) {
  const std::string svg = comparison_svg(compared_rows());
  const auto count = [&](const std::string& what) {
    int found = 0;
    for (std::size_t place = svg.find(what); place != std::string::npos;
         place = svg.find(what, place + 1)) {
      ++found;
    }
    return found;
  };
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
  EXPECT_EQ(count("<circle "), 2);
  EXPECT_EQ(count("stroke-dasharray=\"6 4\""), 1);
  EXPECT_EQ(count("a,b=\"&lt;&amp;&gt;\"</text>"), 1);
  EXPECT_EQ(count("nan"), 0);
}

}  // namespace
}  // namespace pleach
