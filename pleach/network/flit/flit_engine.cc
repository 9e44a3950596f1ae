#include "pleach/network/flit/flit_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <tuple>

#include "pleach/base/check.h"
#include "pleach/base/index.h"
#include "pleach/base/interruption.h"
#include "pleach/base/units.h"
#include "pleach/network/flit/credit_loop.h"
#include "pleach/network/flit/deadlock.h"
#include "pleach/network/job_checks.h"

namespace pleach {
namespace {

// The unit of MultiTree's evaluation: 128 bytes in a cycle, in blocks of 2 KiB.
constexpr int64_t kReducedBytesPerCycle = 128;
constexpr int64_t kReducedBlock = 2048;
// How often a run is looked at.
constexpr int64_t kLookCycles = 4096;

ReduceRules reduce_rules(const SimulationOptions& simulation, const FlitOptions& options,
                         const FlitClock& clock, int64_t bytes_per_s) {
  const __int128 usual = __int128{bytes_per_s} * kReducedBytesPerCycle / options.shape.flit_bytes;
  ReduceRules rules;
  rules.bandwidth_bytes_per_s = simulation.reduce_bandwidth_bytes_per_s.value_or(
      static_cast<int64_t>(std::max<__int128>(1, usual)));
  rules.turn = options.is_published ? ReduceRules::Turn::kTold : ReduceRules::Turn::kArrival;
  rules.extra_ps = clock.ps_of(1);
  rules.block_bytes = options.streams_reductions ? options.shape.packet_bytes : kReducedBlock;
  rules.last_block_only = options.streams_reductions;
  return rules;
}

}  // namespace

Result<std::unique_ptr<FlitEngine>> FlitEngine::create(const Topology& topology,
                                                       const SimulationOptions& simulation,
                                                       const FlitOptions& options,
                                                       std::vector<Job> jobs) {
  PLEACH_ASSIGN(fabric, fabric_of(topology, {.flit_bytes = options.shape.flit_bytes,
                                             .interfaces = options.interfaces}));
  const FlitClock clock(fabric.flit_bytes, fabric.cycle_bytes_per_s);
  if (clock.ps_of(1) < FlitClock::kShortestCyclePs) {
    return invalid(fmt::format(
        "flit '{}': takes {} ps on the fastest link of {}, less than {}; "
        "larger flits will do",
        fabric.flit_bytes, clock.ps_of(1), topology.name(), FlitClock::kShortestCyclePs));
  }
  std::vector<LoweredJob> lowered;
  for (const Job& job : jobs) {
    lowered.push_back(job.lowered);
  }
  PLEACH_ASSIGN(ways, MessageWays::create(topology, fabric, options, lowered));
  RouterOptions how = options.routers;
  how.takes_steady_cycles_together = true;
  how.classes = ways.vc_classes();
  how.shortest_packet = static_cast<int32_t>(std::min<int64_t>(ways.shortest_packet(), INT32_MAX));
  PLEACH_ASSIGN(routers, Routers::create(fabric.fabric, how));
  auto interfaces =
      std::make_unique<Interfaces>(*routers, options.shape, fabric.fabric.interface_count);
  std::unique_ptr<FlitEngine> engine(new FlitEngine(
      topology, options,
      {std::move(fabric), clock, std::move(ways), std::move(routers), std::move(interfaces)}));
  engine->counted_.progress = simulation.progress;
  for (Job& job : jobs) {
    engine->add(std::move(job), simulation);
  }
  return engine;
}

// As long as MultiTree's interfaces estimate that a step's messages take to leave them: its buffers
// take in so many sub-messages as fast as they come.
NopTimes FlitEngine::nop_times(const LoweredJob& job) const {
  const InterfaceShape& shape = options_.shape;
  constexpr int64_t kQueued = 10;
  const int64_t absorbed = shape.message_places + shape.send_places + kQueued;
  const int64_t count = shape.sub_messages(job.largest_payload_bytes());
  int64_t estimate = count;
  if (count > absorbed) {
    const int64_t flits = shape.packet_flits();
    estimate = shape.flow_control == FlowControl::kMessage
                   ? (count - absorbed) * flits
                   : count * (flits + shape.header_flits) - absorbed * flits;
  }
  const int64_t later_ps = network_.clock.ps_of(estimate);
  return {.first_ps = add_times_ps(later_ps, later_ps), .later_ps = later_ps};
}

void FlitEngine::add(Job job, const SimulationOptions& simulation) {
  const LoweredSchedule& schedule = job.lowered.schedule();
  const int32_t number = count_of(jobs_);
  counted_.all_messages += int64_t{schedule.order().stream_count()} * schedule.segment_count();
  RunningJob& running = jobs_.emplace_back();
  running.start_cycle = network_.clock.cycle_of(job.start_ps);
  running.pool_of.assign(schedule.connections().size(), -1);
  for (int32_t stream = 0; stream < schedule.order().stream_count(); ++stream) {
    const int32_t connection = schedule.connection_class(stream);
    if (running.pool_of[at(connection)] >= 0) {
      continue;
    }
    const int32_t rank = schedule.order().sources(stream).front();
    const NodeId source = schedule.schedule().participants[at(rank)];
    int32_t first = network_.fabric.first_interface[source.index()];
    int32_t count = options_.interfaces;
    if (options_.binds_links) {
      first = interface_of_link(network_.fabric, source, topology_.links_out(source),
                                schedule.connections()[at(connection)].links.front());
      count = 1;
    }
    running.pool_of[at(connection)] = pools_.of(first, count);
    SendPools::Pool& pool = pools_[running.pool_of[at(connection)]];
    pool.sources.push_back({number, connection});
    pool.overhead_cycles = network_.clock.cycle_of(topology_.node(source).overhead_ps);
  }
  const InterfaceRules rules{
      nop_times(job.lowered),
      reduce_rules(simulation, options_, network_.clock, network_.fabric.cycle_bytes_per_s),
      options_.is_published,
      options_.is_published ? StepGate::Phases::kApart : StepGate::Phases::kOverlap};
  running.execution = std::make_unique<Execution>(std::move(job.lowered), simulation, rules);
  ++unfinished_;
}

std::optional<int64_t> FlitEngine::next_cycle() const {
  if (pools_.has_touched()) {
    return now_ + 1;
  }
  int64_t next = network_.routers->next_cycle().value_or(INT64_MAX);
  next = std::min(next, network_.interfaces->next(now_ + 1).value_or(INT64_MAX));
  if (!alarms_.empty()) {
    next = std::min(next, alarms_.top().cycle);
  }
  for (const RunningJob& job : jobs_) {
    if (!job.has_started) {
      next = std::min(next, job.start_cycle);
    }
  }
  return next == INT64_MAX ? std::nullopt : std::optional(std::max(next, now_ + 1));
}

int64_t FlitEngine::next_ps() const {
  return network_.clock.ps_of(next_cycle().value_or(now_ + 1));
}

Status FlitEngine::advance(int64_t until_ps) {
  while (!is_idle() && finished_.empty()) {
    check_interruption();
    const auto cycle = next_cycle();
    if (!cycle.has_value()) {
      return stuck();
    }
    const int64_t time_ps = network_.clock.ps_of(*cycle);
    if (time_ps > until_ps) {
      return ok();
    }
    if (time_ps > kLongestPs) {
      return takes_too_long();
    }
    run_cycle(*cycle);
    if (++counted_.cycles % kLookCycles == 0) {
      PLEACH_TRY(look());
    }
  }
  return ok();
}

// Tells how far the run is, and finds out whether it has got stuck: interfaces with something to
// send never rest.
Status FlitEngine::look() {
  if (counted_.progress) {
    counted_.progress(counted_.messages, counted_.all_messages);
  }
  if (options_.allow_deadlock) {
    network_.routers->settle();
    if (auto error = deadlock_of(topology_, network_.fabric.fabric, *network_.routers)) {
      return std::move(*error);
    }
  }
  return ok();
}

std::string FlitEngine::inconsistency() {
  network_.routers->settle();
  return network_.routers->inconsistency();
}

void FlitEngine::run_cycle(int64_t cycle) {
  now_ = cycle;
  const int64_t now_ps = network_.clock.ps_of(cycle);
  Routers& routers = *network_.routers;
  routers.skip_to(cycle);
  network_.interfaces->move(cycle);
  for (const int32_t number : network_.interfaces->taken()) {
    const SendPools::Flight flight = pools_.flight(number);
    jobs_[at(flight.job)].execution->sent(flight.send, now_ps);
    jobs_[at(flight.job)].execution->over(flight.send, now_ps);
    follow(flight.job);
    pools_.touch(flight.pool);
  }
  while (pools_.has_touched()) {
    check_interruption();
    take_from(pools_.next_touched());
  }
  routers.begin_cycle();
  deliver(now_ps);
  for (int32_t job = 0; job < count_of(jobs_); ++job) {
    if (!jobs_[at(job)].has_started && jobs_[at(job)].start_cycle <= cycle) {
      jobs_[at(job)].has_started = true;
      jobs_[at(job)].execution->start(now_ps);
      follow(job);
    }
  }
  while (!alarms_.empty() && alarms_.top().cycle <= cycle) {
    const Alarm alarm = alarms_.top();
    alarms_.pop();
    ring(alarm);
  }
  routers.end_cycle();
}

// Messages arrive whose last flits came out: with published interfaces, one after the other.
void FlitEngine::deliver(int64_t now_ps) {
  const auto delivered = network_.routers->delivered();
  std::vector<FlitDelivery> sorted;
  if (options_.is_published) {
    sorted.assign(delivered.begin(), delivered.end());
    std::ranges::sort(sorted, {}, &FlitDelivery::interface);
  }
  for (const FlitDelivery& flit : options_.is_published ? std::span(sorted) : delivered) {
    if (!flit.tail) {
      continue;
    }
    if (const auto number = network_.interfaces->complete(flit.packet)) {
      const SendPools::Flight flight = pools_.remove(*number);
      ++counted_.messages;
      jobs_[at(flight.job)].execution->arrived(flight.send, now_ps);
      follow(flight.job);
    }
  }
}

// Of a message of so many bytes over these links.
void FlitEngine::count_headers(const std::vector<LinkId>& links, int64_t bytes) {
  const int64_t flits = options_.shape.header_flits_of(bytes);
  counted_.header_flits += flits;
  for (const LinkId link : links) {
    counted_.link_header_flits[link.index()] += flits;
  }
}

// Which of a pool has the smallest send that may begin; null: none has any.
const SendPools::Source* FlitEngine::first_of(const SendPools::Pool& pool) const {
  const SendPools::Source* best = nullptr;
  std::tuple<int64_t, int32_t, int32_t> smallest;
  for (const SendPools::Source& source : pool.sources) {
    const Send* send = jobs_[at(source.job)].execution->next(source.connection);
    if (send == nullptr) {
      continue;
    }
    const std::tuple place(send->key, send->segment, network_.ways.turn(source.job, send->stream));
    if (best == nullptr || place < smallest) {
      smallest = place;
      best = &source;
    }
  }
  return best;
}

// Every free interface of the pool takes the smallest of what may be sent.
void FlitEngine::take_from(int32_t number) {
  SendPools::Pool& pool = pools_[number];
  for (const int32_t interface : pool.interfaces) {
    if (!network_.interfaces->is_free(interface)) {
      continue;
    }
    const SendPools::Source* best = first_of(pool);
    if (best == nullptr) {
      return;
    }
    Execution& execution = *jobs_[at(best->job)].execution;
    const Send send = execution.begin(best->connection, network_.clock.ps_of(now_));
    const int32_t flight = pools_.add({best->job, send, number});
    const int64_t bytes = execution.job().payload_bytes(send);
    count_headers(execution.job().schedule().connections()[at(best->connection)].links, bytes);
    network_.interfaces->take(
        {.interface = interface,
         .bytes = bytes,
         .hops = network_.ways.hops(best->job, send.stream),
         .priority = static_cast<int32_t>(std::min<int64_t>(send.key, INT32_MAX)),
         .tag = flight,
         .overhead_cycles = pool.overhead_cycles},
        now_);
    follow(best->job);
  }
}

void FlitEngine::ring(const Alarm& alarm) {
  Execution& execution = *jobs_[at(alarm.job)].execution;
  const int64_t now_ps = network_.clock.ps_of(now_);
  switch (alarm.kind) {
    case Execution::Alarm::Kind::kReduced:
      execution.reduced(alarm.rank, now_ps);
      break;
    case Execution::Alarm::Kind::kNopOver:
      execution.nop_over(alarm.rank, now_ps);
      break;
    case Execution::Alarm::Kind::kReduce:
      execution.reduce(alarm.rank, now_ps);
      break;
  }
  follow(alarm.job);
}

// Does what follows from what the job's interfaces were told.
void FlitEngine::follow(int32_t number) {
  RunningJob& job = jobs_[at(number)];
  auto& [connections, alarms] = job.execution->answers();
  for (const int32_t connection : connections) {
    pools_.touch(job.pool_of[at(connection)]);
  }
  connections.clear();
  for (const auto& [kind, rank, time_ps] : alarms) {
    alarms_.push({std::max(now_, network_.clock.cycle_of(time_ps)), kind, number, rank});
  }
  alarms.clear();
  if (!job.has_finished && job.execution->is_finished()) {
    job.has_finished = true;
    --unfinished_;
    finished_.push_back({number, network_.clock.ps_of(now_)});
  }
}

Error FlitEngine::stuck() const {
  if (auto error = deadlock_of(topology_, network_.fabric.fabric, *network_.routers)) {
    return std::move(*error);
  }
  return std::ranges::find(jobs_, false, &RunningJob::has_finished)->execution->stuck();
}

NetworkUse FlitEngine::use() {
  Routers& routers = *network_.routers;
  while (const auto next = routers.next_cycle()) {
    check_interruption();
    routers.skip_to(*next);
    routers.begin_cycle();
    routers.end_cycle();
  }
  const std::string wrong = inconsistency();
  PLEACH_CHECK(wrong.empty(), wrong.c_str());
  NetworkUse use;
  use.event_count = counted_.messages;
  use.cycles = routers.now();
  std::vector<int64_t> flits = routers.channel_flits();
  flits.resize(topology_.links().size());  // what follows is of the interfaces' channels
  int64_t link_flits = 0;
  for (std::size_t i = 0; i < flits.size(); ++i) {
    const int64_t bytes = flits[i] * options_.shape.flit_bytes;
    use.links.push_back(
        {transmit_time_ps(bytes, topology_.links()[i].bandwidth_bytes_per_s), bytes});
    link_flits += flits[i];
  }
  use.counters = flit_counters(routers.counts(), link_flits, counted_.header_flits);
  use.note = credit_note(options_.routers.buffer,
                         credit_round_trip_cycles(network_.fabric.fabric, options_.routers, false));
  use.link_counters = {{"flits", std::move(flits)}, {"header_flits", counted_.link_header_flits}};
  return use;
}

}  // namespace pleach
