// Sessions from specs, and the batch simulation over them.
#include <algorithm>

#include "pleach/base/index.h"
#include "pleach/fabric/switch_model.h"
#include "pleach/network/job_checks.h"
#include "pleach/network/model.h"

namespace pleach {

Result<std::unique_ptr<NetworkSession>> open_network(std::string_view model,
                                                     const Topology& topology,
                                                     const SimulationOptions& options) {
  PLEACH_ASSIGN(selected, network_models().select(model));
  PLEACH_TRY(check_options(options));
  PLEACH_TRY(check_switches(topology));
  return selected.entry->open(topology, options, selected.options);
}

Result<Simulation> simulate(std::string_view model, const Topology& topology,
                            std::span<const Job> jobs, const SimulationOptions& options) {
  PLEACH_ASSIGN(session, open_network(model, topology, options));
  Simulation result;
  for (const Job& job : jobs) {
    PLEACH_TRY(session->start(job));
  }
  result.job_finish_ps.resize(jobs.size());
  while (session->next_ps().has_value()) {
    PLEACH_ASSIGN(finished, session->advance(INT64_MAX));
    for (const NetworkSession::Finish& one : finished) {
      result.job_finish_ps[at(one.job)] = one.time_ps;
      result.finish_ps = std::max(result.finish_ps, one.time_ps);
    }
  }
  PLEACH_SET(result.use, session->use());
  return result;
}

}  // namespace pleach
