#include "pleach/cli/timing_options.h"

#include <algorithm>

#include "pleach/base/names.h"
#include "pleach/base/text.h"
#include "pleach/cli/log.h"

namespace pleach {
void declare_timing(CommandLine& line, const std::string& segments) {
  std::vector<std::string> models = network_models().names();
  std::ranges::sort(models);
  line.option("--model", alternatives(models) + " (pleach list models)", kDefaultNetworkModel);
  line.option(
      "--gate",
      "dataflow, or steps one after another: in_order, begun by each rank, lockstep, by each "
      "rank's own time, oracle, for all at once",
      "dataflow");
  line.option("--flow-control", "headers per packet, or per message", "packet");
  line.option("--segments", "parts of each chunk that pipeline; auto tries 1, 2, 4, ... 64",
              segments);
  line.option("--landing-places", "of each connection; 0: as many as needed", "0");
  line.option(
      "--reduce-bandwidth",
      "of a rank's reductions: 100GB/s, none: they take no time; not given: none, or as the "
      "model has it");
  line.option("--admission",
              "what a switch that does not carry whatever enters has inside: what it carries "
              "together, one phase (class of traffic) at a time, or all, as if it were free",
              "together");
  line.option("--reconfiguration",
              "time in which such a switch changes its configuration, by which a stream starts "
              "later that it was not configured for, in flow",
              "0s");
  line.flag("--no-fold", "simulate every rank even where symmetry allows one");
}

Result<TimingRequest> timing_request(const CommandLine& line) {
  TimingRequest request;
  PLEACH_ASSIGN(segments, segments_option(line));
  request.choose_segments = !segments.has_value();
  SimulationOptions& options = request.options;
  options.segment_count = segments.value_or(1);
  PLEACH_SET(options.landing_places, line.count("--landing-places", 0, INT32_MAX));
  PLEACH_SET(options.gate, parse_name(kGates, "--gate", line.text("--gate")));
  PLEACH_SET(options.flow_control,
             parse_name(kFlowControls, "--flow-control", line.text("--flow-control")));
  PLEACH_SET(options.admission,
             parse_name(kAdmissionRules, "--admission", line.text("--admission")));
  PLEACH_SET(options.reconfiguration_ps, line.value("--reconfiguration", parse_time_ps));
  if (line.given("--reduce-bandwidth")) {
    options.reduce_bandwidth_bytes_per_s = 0;
    if (line.text("--reduce-bandwidth") != "none") {
      PLEACH_SET(options.reduce_bandwidth_bytes_per_s,
                 line.value("--reduce-bandwidth", parse_bandwidth_bytes_per_s));
    }
  }
  options.fold = !line.given("--no-fold");
  options.progress = log_runs("messages");
  return request;
}

Result<std::vector<std::string>> models_option(const CommandLine& line) {
  PLEACH_ASSIGN(models, line.value("--model", split_specs));
  for (const std::string& model : models) {
    PLEACH_TRY(from_option("--model", network_models().select(model)));
  }
  return models;
}

}  // namespace pleach
