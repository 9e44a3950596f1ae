// Network models: how long schedules take on a topology. The registry, and the batch simulation.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/options.h"
#include "pleach/base/registry.h"
#include "pleach/base/result.h"
#include "pleach/collective/schedule.h"
#include "pleach/network/session.h"
#include "pleach/topology/topology.h"

namespace pleach {

struct NetworkModel {
  std::string name;
  std::string summary;
  std::string source;
  std::vector<OptionDescriptor> options;  // of its own
  // Jobs that start while others run share the links with them; false: each takes its time as if
  // alone, or must not start.
  bool shares_links = true;
  // No link carries more than its bandwidth, and nothing arrives before its links' latencies.
  bool obeys_links = true;
  // Jobs of several classes of traffic (Job::traffic_class) share links by them. false: it takes
  // jobs of one class only, or of any where they do not meet.
  bool has_classes = false;
  bool has_clock = false;  // of its own: it counts NetworkUse::cycles
  // Where curves of a slow model end if nobody says otherwise: larger sizes follow the last slope.
  int64_t curve_end_bytes = INT64_MAX;
  // `options` are valid for every model. `topology` outlives the session. Deterministic; a session
  // is not thread safe, several are independent.
  //   errors  kUnsupported: the model cannot do what the options ask for
  Result<std::unique_ptr<NetworkSession>> (*open)(const Topology& topology,
                                                  const SimulationOptions& options,
                                                  const Options& own);
};

Registry<NetworkModel> network_models();

// Where nobody names one.
inline constexpr const char* kDefaultNetworkModel = "flow";

// "flow", or "NAME,key=value...": a session of that model.
//   errors  kInvalidArgument: unknown model or option, an option out of range; those of open()
Result<std::unique_ptr<NetworkSession>> open_network(std::string_view model,
                                                     const Topology& topology,
                                                     const SimulationOptions& options);

struct Simulation {
  int64_t finish_ps = 0;  // when the last chunk is in place
  std::vector<int64_t> job_finish_ps;
  NetworkUse use;
};

// Jobs whose starts are known beforehand, in a session of their own.
//   errors  those of open_network and of the session
Result<Simulation> simulate(std::string_view model, const Topology& topology,
                            std::span<const Job> jobs, const SimulationOptions& options);

}  // namespace pleach
