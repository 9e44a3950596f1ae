// FlitEngine: jobs on routers, cycle by cycle.
//
// Execution (one a job) says what a connection may send, Interfaces take it through their buffers
// to the Routers, and what comes out of those arrives. In a cycle, in this order: sub-messages move
// through the interfaces; free interfaces take what may be sent, as far as that was known when the
// cycle began; flits arrive; what has reduced or waited long enough is told; routers move flits. So
// what arrives in a cycle is sent on no earlier than four cycles later: an interface takes it in
// the next one, and its first sub-message moves three times.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/result.h"
#include "pleach/network/execution.h"
#include "pleach/network/flit/fabric.h"
#include "pleach/network/flit/flit_clock.h"
#include "pleach/network/flit/flit_options.h"
#include "pleach/network/flit/flit_run.h"
#include "pleach/network/flit/interfaces.h"
#include "pleach/network/flit/message_ways.h"
#include "pleach/network/flit/routers.h"
#include "pleach/network/flit/send_pools.h"
#include "pleach/network/lowered_schedule.h"
#include "pleach/network/session.h"
#include "pleach/topology/topology.h"

namespace pleach {

// Input-queued routers. All jobs have one class of traffic.
class FlitEngine final : public FlitRun {
 public:
  using Job = FlitJob;

  // Borrows the topology.
  // Errors: kInfeasible: VCs do not suffice for the routes; kInvalidArgument: what Routers::create
  // refuses; more than 2^44 flits times hops.
  static Result<std::unique_ptr<FlitEngine>> create(const Topology& topology,
                                                    const SimulationOptions& simulation,
                                                    const FlitOptions& options,
                                                    std::vector<Job> jobs);

  int32_t job_count() const override { return count_of(jobs_); }
  bool is_idle() const override { return unfinished_ == 0; }
  int64_t next_ps() const override;
  Status advance(int64_t until_ps) override;
  std::vector<NetworkSession::Finish> take_finished() override {
    return std::exchange(finished_, {});
  }
  Record take_record(int32_t job) override { return jobs_[at(job)].execution->take_record(); }
  NetworkUse use() override;
  // What of flits, credits and places in buffers does not add up, in words; empty: all of it does.
  std::string inconsistency();

 private:
  struct RunningJob {
    std::unique_ptr<Execution> execution;
    int64_t start_cycle = 0;
    bool has_started = false;
    bool has_finished = false;
    std::vector<int32_t> pool_of;  // by connection
  };
  struct Alarm {
    int64_t cycle = 0;
    Execution::Alarm::Kind kind = {};
    int32_t job = 0, rank = 0;
    auto operator<=>(const Alarm&) const = default;
  };
  struct Network {
    TopologyFabric fabric;
    FlitClock clock;
    MessageWays ways;
    std::unique_ptr<Routers> routers;
    std::unique_ptr<Interfaces> interfaces;
  };

  FlitEngine(const Topology& topology, const FlitOptions& options, Network network)
      : topology_(topology), options_(options), network_(std::move(network)) {
    counted_.link_header_flits.resize(topology.links().size());
  }
  void add(Job job, const SimulationOptions& simulation);
  NopTimes nop_times(const LoweredJob& job) const;
  std::optional<int64_t> next_cycle() const;
  void run_cycle(int64_t cycle);
  Status look();
  const SendPools::Source* first_of(const SendPools::Pool& pool) const;
  void take_from(int32_t pool);
  void deliver(int64_t now_ps);
  void count_headers(const std::vector<LinkId>& links, int64_t bytes);
  void ring(const Alarm& alarm);
  void follow(int32_t job);
  Error stuck() const;

  const Topology& topology_;
  const FlitOptions options_;
  Network network_;
  std::vector<RunningJob> jobs_;
  SendPools pools_;
  std::priority_queue<Alarm, std::vector<Alarm>, std::greater<>> alarms_;
  std::vector<NetworkSession::Finish> finished_;
  int64_t now_ = -1;  // the cycle that is or was under way
  int32_t unfinished_ = 0;
  struct {
    int64_t cycles = 0;        // run, not skipped
    int64_t messages = 0;      // delivered
    int64_t all_messages = 0;  // of all jobs
    int64_t header_flits = 0;  // of all that were sent
    std::vector<int64_t> link_header_flits;
    RunProgress progress;
  } counted_;
};

}  // namespace pleach
