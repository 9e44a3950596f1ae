// NetworkTimer: how long jobs take that start together, with nothing else on the network.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "pleach/base/result.h"
#include "pleach/network/model.h"
#include "pleach/topology/topology.h"

namespace pleach {

// Networks stay open, one for each number of segments, so that what they derive of a schedule is
// derived once. Not thread safe.
class NetworkTimer {
 public:
  // Borrows `topology`. simulation: its segment_count is ignored.
  NetworkTimer(const Topology& topology, std::string model, SimulationOptions simulation)
      : topology_(topology), model_(std::move(model)), simulation_(std::move(simulation)) {}

  // Until the last of them ends; start_ps of the jobs is ignored.
  //   errors  those of open_network and of the session
  Result<int64_t> time_ps(std::span<const Job> jobs, int32_t segment_count);

 private:
  struct Network {
    std::unique_ptr<NetworkSession> session;
    int64_t now_ps = 0;
  };

  const Topology& topology_;
  const std::string model_;
  const SimulationOptions simulation_;
  std::map<int32_t, Network> networks_;  // by number of segments
};

}  // namespace pleach
