#include "pleach/network/flit/packet_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "pleach/base/check.h"
#include "pleach/base/interruption.h"
#include "pleach/base/units.h"
#include "pleach/network/flit/packet_way.h"
#include "pleach/network/job_checks.h"

namespace pleach {
namespace {

using What = PacketNetwork::Report::What;

// How often progress is told, in messages.
constexpr int64_t kTellEvery = 4096;

std::unique_ptr<SwitchCore> carry_all(const Topology& /*topology*/, NodeId /*node*/) {
  return nullptr;
}

// Of all that is sent in a run, over all links.
Status check_amount(const std::vector<FlitJob>& jobs, const PacketShape& shape) {
  constexpr double kMost = 0x1p32;
  double sum = 0;
  for (const FlitJob& job : jobs) {
    const LoweredSchedule& schedule = job.lowered.schedule();
    for (int32_t stream = 0; stream < job.lowered.order().stream_count(); ++stream) {
      const auto links = static_cast<double>(
          schedule.connections()[at(schedule.connection_class(stream))].links.size());
      const auto bytes = static_cast<double>(
          job.lowered.payload_bytes(schedule.send(stream, schedule.segment_count() - 1, 0)));
      sum +=
          links * schedule.segment_count() * (1 + bytes / static_cast<double>(shape.payload_bytes));
    }
  }
  if (sum > kMost) {
    return invalid(
        fmt::format("the jobs move {:.3g} packets over links, router=fred at most "
                    "{:.3g}; use flow for such sizes",
                    sum, kMost));
  }
  return ok();
}

// How long one largest send takes on the job's slowest connection, with its overhead.
int64_t slowest_ps(const Topology& topology, const LoweredJob& job) {
  int64_t slowest_ps = 0;
  for (const LoweredConnection& connection : job.schedule().connections()) {
    for (const LinkId link : connection.links) {
      const int64_t time_ps =
          transmit_time_ps(job.largest_payload_bytes(), topology.link(link).bandwidth_bytes_per_s);
      slowest_ps = std::max(slowest_ps, add_times_ps(connection.overhead_ps, time_ps));
    }
  }
  return slowest_ps;
}

}  // namespace

PacketEngine::PacketEngine(const Topology& topology, const PacketShape& shape, AdmissionRule rule)
    : network_(topology, shape),
      switches_{Admission(topology, rule),
                SwitchCores(topology, rule == AdmissionRule::kFree ? carry_all : make_switch),
                PacketGates(rule == AdmissionRule::kPhase)} {
  progress_.is_lossless = shape.go_back_n.lost_per_million == 0;
}

PacketEngine::Alarm::Kind PacketEngine::alarm_of(Execution::Alarm::Kind kind) {
  switch (kind) {
    case Execution::Alarm::Kind::kReduced:
      return Alarm::Kind::kReduced;
    case Execution::Alarm::Kind::kNopOver:
      return Alarm::Kind::kNopOver;
    case Execution::Alarm::Kind::kReduce:
      return Alarm::Kind::kReduce;
  }
  return Alarm::Kind::kReduce;
}

Result<std::unique_ptr<PacketEngine>> PacketEngine::create(const Topology& topology,
                                                           const SimulationOptions& simulation,
                                                           const PacketShape& shape,
                                                           std::vector<FlitJob> jobs) {
  PLEACH_TRY(check_amount(jobs, shape));
  std::set<int32_t> classes;
  for (const FlitJob& job : jobs) {
    classes.insert(job.traffic_class);
  }
  if (count_of(classes) > shape.vcs) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("jobs of {} classes of traffic: router=fred has {} virtual channels "
                             "for data, data_vcs",
                             classes.size(), shape.vcs)};
  }
  // Not make_unique: the constructor is private.
  std::unique_ptr<PacketEngine> engine(new PacketEngine(topology, shape, simulation.admission));
  engine->progress_.tell = simulation.progress;
  for (FlitJob& job : jobs) {
    PLEACH_TRY(engine->switches_.admission.check(job.lowered.schedule()));
    const auto vc = std::distance(classes.begin(), classes.find(job.traffic_class));
    engine->add(topology, std::move(job), static_cast<int32_t>(vc), simulation);
  }
  return engine;
}

void PacketEngine::add(const Topology& topology, FlitJob job, int32_t vc,
                       const SimulationOptions& simulation) {
  const auto number = count_of(jobs_);
  const LoweredSchedule& schedule = job.lowered.schedule();
  RunningJob& running = jobs_.emplace_back();
  running.start_ps = job.start_ps;
  running.traffic_class = job.traffic_class;
  running.first_stream = count_of(streams_);
  std::vector<int32_t> example(schedule.connections().size(), -1);
  for (int32_t stream = 0; stream < job.lowered.order().stream_count(); ++stream) {
    example[at(schedule.connection_class(stream))] = stream;
  }
  for (std::size_t i = 0; i < example.size(); ++i) {
    const PacketWay way = packet_way(topology, switches_.cores, schedule, example[i]);
    Stream& stream = streams_.emplace_back();
    stream.job = number;
    stream.overhead_ps = schedule.connections()[i].overhead_ps;
    switches_.admission.add(schedule.connections()[i]);
    add_gates(count_of(streams_) - 1, way, network_.add(way, vc));
  }
  const int32_t count = job.lowered.order().stream_count();
  const int32_t segments = schedule.segment_count();
  const int64_t nop_ps = slowest_ps(topology, job.lowered);
  const InterfaceRules rules{{nop_ps, nop_ps},
                             ReduceRules{simulation.reduce_bandwidth_bytes_per_s.value_or(0)}};
  running.execution = std::make_unique<Execution>(std::move(job.lowered), simulation, rules);
  progress_.all += int64_t{count} * segments;
  alarms_.push({running.start_ps, Alarm::Kind::kStart, number, 0});
  ++progress_.unfinished;
}

void PacketEngine::add_gates(int32_t number, const PacketWay& way, std::vector<int32_t> gates) {
  Stream& stream = streams_[at(number)];
  stream.gates = std::move(gates);
  const auto links_of = [&](const std::vector<int32_t>& legs) {
    std::vector<LinkId> links;
    for (const int32_t leg : legs) {
      links.push_back(way.legs[at(leg)].link);
    }
    return links;
  };
  for (const PacketWay::Junction& junction : way.junctions) {
    if (junction.is_gated) {
      const int32_t gate = stream.gates[stream.passes.size()];
      switches_.gates.add(gate, number, *switches_.cores.of(junction.node),
                          switches_.admission.alternates(number));
      stream.passes.push_back(
          {junction.node, links_of(junction.inputs), links_of(junction.outputs)});
    }
  }
}

std::optional<int64_t> PacketEngine::next_event_ps() const {
  std::optional<int64_t> next = network_.next_ps();
  if (!alarms_.empty()) {
    next = std::min(next.value_or(INT64_MAX), alarms_.top().time_ps);
  }
  return next;
}

Status PacketEngine::advance(int64_t until_ps) {
  while (!is_idle() && finished_.empty()) {
    const auto next = next_event_ps();
    if (!next.has_value()) {
      return std::ranges::find(jobs_, false, &RunningJob::has_finished)->execution->stuck();
    }
    if (*next > until_ps) {
      return ok();
    }
    progress_.now_ps = *next;
    if (progress_.now_ps > kLongestPs) {
      return takes_too_long();
    }
    run_instant();
    if (progress_.is_hopeless) {
      return Error{ErrorCode::kInfeasible,
                   "a stream gets no packet to all of its targets, so many of its links lose some: "
                   "with less loss, or through fewer links, it would"};
    }
  }
  return ok();
}

// Everything of one time, in rounds: what begins may have something follow at once.
void PacketEngine::run_instant() {
  do {
    check_interruption();
    network_.run(progress_.now_ps);
    for (const PacketNetwork::Report& report : network_.take_reports()) {
      handle(report);
    }
    while (!alarms_.empty() && alarms_.top().time_ps == progress_.now_ps) {
      const Alarm alarm = alarms_.top();
      alarms_.pop();
      ring(alarm);
    }
    begin_touched();
    pace();
    network_.begin(progress_.now_ps);
  } while (network_.has_reports() || !asking_.touched.empty() ||
           next_event_ps() == progress_.now_ps);
}

void PacketEngine::ring(const Alarm& alarm) {
  if (alarm.kind == Alarm::Kind::kNopOver && jobs_[at(alarm.job)].has_finished) {
    return;  // a step after the last chunk was in place
  }
  Execution& execution = *jobs_[at(alarm.job)].execution;
  switch (alarm.kind) {
    case Alarm::Kind::kStart:
      execution.start(progress_.now_ps);
      break;
    case Alarm::Kind::kSupply: {
      const Send& send = streams_[at(alarm.number)].begun.back();
      return network_.send(alarm.number, execution.job().payload_bytes(send), progress_.now_ps);
    }
    case Alarm::Kind::kReduced:
      execution.reduced(alarm.number, progress_.now_ps);
      break;
    case Alarm::Kind::kNopOver:
      execution.nop_over(alarm.number, progress_.now_ps);
      break;
    case Alarm::Kind::kReduce:
      execution.reduce(alarm.number, progress_.now_ps);
      break;
  }
  follow(alarm.job);
}

void PacketEngine::handle(const PacketNetwork::Report& report) {
  Stream& stream = streams_[at(report.way)];
  Execution& execution = *jobs_[at(stream.job)].execution;
  switch (report.what) {
    case What::kLeft: {
      const Send send = *std::exchange(stream.sends, std::nullopt);
      execution.sent(send, progress_.now_ps);
      execution.over(send, progress_.now_ps);
      touch(report.way);
      return follow(stream.job);
    }
    case What::kArrived:
      return arrived(report.way);
    case What::kPassed:
      if (network_.has_passed(report.gate)) {
        switches_.gates.passed(report.gate);
        follow_gates();
      }
      return;
    case What::kSettled:
      if (stream.is_inside && !stream.sends.has_value()) {
        hand_over(report.way);
      }
      stream.is_stopped = false;
      network_.reopen(report.way, progress_.now_ps);  // nothing waits at its gates
      return touch(report.way);
    case What::kStill:
      if (network_.is_still(report.way)) {
        switches_.gates.withdraw(stream.gates);
        follow_gates();
        if (stream.is_stopped && stream.is_inside) {
          leave(report.way);
        }
        touch(report.way);
      }
      return;
    case What::kHopeless:
      progress_.is_hopeless = true;
      return;
    case What::kDrained:
      if (stream.begun.empty()) {
        network_.quit(report.way);
        for (const int32_t other : std::exchange(asking_.hungry, {})) {
          touch(other);
        }
      }
      return;
  }
}

void PacketEngine::arrived(int32_t number) {
  Stream& stream = streams_[at(number)];
  const Send send = stream.begun.pop();
  ++progress_.delivered;
  if (progress_.tell && progress_.delivered % kTellEvery == 0) {
    progress_.tell(progress_.delivered, progress_.all);
  }
  jobs_[at(stream.job)].execution->arrived(send, progress_.now_ps);
  follow(stream.job);
}

// Does what follows from what the job's interfaces were told.
void PacketEngine::follow(int32_t number) {
  RunningJob& job = jobs_[at(number)];
  auto& [connections, alarms] = job.execution->answers();
  for (const int32_t connection : connections) {
    touch(job.first_stream + connection);
  }
  connections.clear();
  for (const auto& [kind, rank, time_ps] : alarms) {
    alarms_.push({time_ps, alarm_of(kind), number, rank});
  }
  alarms.clear();
  if (!job.has_finished && job.execution->is_finished()) {
    job.has_finished = true;
    finished_.push_back({number, progress_.now_ps});
    --progress_.unfinished;
  }
}

void PacketEngine::touch(int32_t number) {
  Stream& stream = streams_[at(number)];
  if (!stream.is_touched && (!stream.sends.has_value() || stream.is_stopped)) {
    stream.is_touched = true;
    asking_.touched.push_back(number);
  }
}

const Send* PacketEngine::next(int32_t number) const {
  const RunningJob& job = jobs_[at(streams_[at(number)].job)];
  return job.has_finished ? nullptr : job.execution->next(number - job.first_stream);
}

Admission::Turn PacketEngine::turn_of(int32_t number, const Send& send) const {
  const Stream& stream = streams_[at(number)];
  return {class_of(number), stream.since_ps.value_or(progress_.now_ps),
          jobs_[at(stream.job)].start_ps, stream.job, send};
}

// Those that may begin or go on, in their turn; those that have waited for places are among them.
void PacketEngine::begin_touched() {
  while (!asking_.touched.empty()) {
    for (const int32_t number : std::exchange(asking_.hungry, {})) {
      touch(number);
    }
    std::vector<std::pair<Admission::Turn, int32_t>> turns;
    for (const int32_t number : std::exchange(asking_.touched, {})) {
      Stream& stream = streams_[at(number)];
      stream.is_touched = false;
      if (stream.is_stopped && stream.begun.empty()) {  // it had passed all gates as it was stopped
        stream.is_stopped = false;
        network_.reopen(number, progress_.now_ps);
      }
      if (stream.is_stopped) {
        turns.emplace_back(turn_of(number, stream.begun.front()), number);
      } else if (const Send* send = next(number)) {
        turns.emplace_back(turn_of(number, *send), number);
      } else if (stream.is_refused) {
        turns.emplace_back(turn_of(number, Send()), number);
      } else if (may_hand_over(number)) {
        hand_over(number);
      }
    }
    std::ranges::sort(turns);
    std::vector<std::size_t> taken;
    for (const auto& [turn, number] : turns) {
      attempt(number, turn, taken);
    }
  }
}

void PacketEngine::attempt(int32_t number, const Admission::Turn& turn,
                           std::vector<std::size_t>& taken) {
  Stream& stream = streams_[at(number)];
  if (stream.is_stopped) {
    if (!stream.is_inside && network_.is_still(number) && enter(number, turn)) {
      stream.is_stopped = false;
      resume(number);
    }
    return;
  }
  if (next(number) == nullptr) {  // what it was stopped with has arrived while it waited
    if (enter(number, turn)) {
      leave(number);
    }
    return;
  }
  const bool has_joined = network_.has_joined(number);
  if (has_joined ? !asking_.hungry.empty() : !network_.may_join(number, taken)) {
    return starve(number, turn);
  }
  if (!stream.gates.empty() && !may_begin(number, turn)) {
    return;  // it is touched when it has left, or somebody who was in the way
  }
  if (!has_joined) {
    network_.join(number);
  }
  begin(number);
}

// Waits for places, and not for switches meanwhile: who has the places may be waiting for these. It
// is touched when somebody quits, which it does itself when it has drained.
void PacketEngine::starve(int32_t number, const Admission::Turn& turn) {
  Stream& stream = streams_[at(number)];
  if (may_hand_over(number)) {
    hand_over(number);
  } else if (stream.is_refused && enter(number, turn)) {
    leave(number);
  }
  stream.since_ps = turn.asked_ps;
  asking_.hungry.push_back(number);
}

void PacketEngine::begin(int32_t number) {
  Stream& stream = streams_[at(number)];
  RunningJob& job = jobs_[at(stream.job)];
  stream.since_ps.reset();
  stream.sends = job.execution->begin(number - job.first_stream, progress_.now_ps);
  stream.begun.push(*stream.sends);
  if (stream.overhead_ps > 0) {
    alarms_.push({add_times_ps(progress_.now_ps, stream.overhead_ps), Alarm::Kind::kSupply,
                  stream.job, number});
  } else {
    network_.send(number, job.execution->job().payload_bytes(*stream.sends), progress_.now_ps);
  }
}

// Who leaves and asks again at once would enter, where nobody waits that comes before it or is its
// equal.
bool PacketEngine::may_stay(int32_t number) const {
  const auto end = entries_.waiting.begin() + class_of(number) + 1;
  return std::all_of(entries_.waiting.begin(), end, [](int32_t count) { return count == 0; });
}

bool PacketEngine::may_begin(int32_t number, const Admission::Turn& turn) {
  Stream& stream = streams_[at(number)];
  if (stream.is_inside && may_hand_over(number) && !may_stay(number)) {
    hand_over(number);
  }
  if (stream.is_inside) {
    return may_stay(number);
  }
  if (!enter(number, turn)) {
    return false;
  }
  enter_gates(number);
  return true;
}

bool PacketEngine::enter(int32_t number, const Admission::Turn& turn) {
  Stream& stream = streams_[at(number)];
  if (!switches_.admission.enter(number, turn)) {
    refuse(number, turn);
    return false;
  }
  stream.is_inside = true;
  stream.entry = ++entries_.count;
  if (stream.is_refused) {
    entries_.waited_ps += progress_.now_ps - turn.asked_ps;
    --entries_.waiting[at(class_of(number))];
    stream.is_refused = false;
  }
  stream.since_ps.reset();
  return true;
}

// Waits. Those of higher classes that are in the way stop, and leave when nothing of them passes;
// but not those that have come in since it began to wait, so that nobody is stopped again and
// again.
void PacketEngine::refuse(int32_t number, const Admission::Turn& turn) {
  Stream& stream = streams_[at(number)];
  const Admission::Refusal refusal = switches_.admission.last_refusal();
  stream.since_ps = turn.asked_ps;
  if (!stream.is_refused) {
    stream.is_refused = true;
    stream.entry = entries_.count;
    ++entries_.waiting[at(class_of(number))];
    entries_.conflicts.note(switches_.admission, number, refusal,
                            [&](int32_t one) { return streams_[at(one)].job; });
  }
  for (const int32_t other : refusal.in_the_way) {
    if (streams_[at(other)].is_inside && class_of(other) > class_of(number) &&
        streams_[at(other)].entry <= stream.entry) {
      stop(other);
    }
  }
}

// It asks again when nothing of it passes any more.
void PacketEngine::stop(int32_t number) {
  Stream& stream = streams_[at(number)];
  if (!stream.is_stopped) {
    stream.is_stopped = true;
    ++entries_.preemptions;
    network_.close(number);
  }
}

// What has been stopped or suspended, and is inside, goes on.
void PacketEngine::resume(int32_t number) {
  const Stream& stream = streams_[at(number)];
  if (!switches_.gates.has_entered(stream.gates.front())) {
    enter_gates(number);
  }
  network_.reopen(number, progress_.now_ps);
  touch(number);  // it may have sent all meanwhile
}

void PacketEngine::enter_gates(int32_t number) {
  const Stream& stream = streams_[at(number)];
  std::vector<PortFlow> flows;
  for (const SwitchPass& pass : stream.passes) {
    flows.push_back(switches_.cores.flow_of(
        pass, [&](LinkId link) { return switches_.admission.lane_of(number, link); }));
  }
  switches_.gates.enter(stream.gates, flows, class_of(number));
  follow_gates();
}

void PacketEngine::follow_gates() {
  for (const int32_t gate : switches_.gates.take_changed()) {
    network_.set_limit(gate, switches_.gates.limit(gate), progress_.now_ps);
  }
  for (const int32_t number : switches_.gates.take_in_the_way()) {
    stop(number);
  }
}

// Where a switch has one phase inside at a time: when all has entered and left.
void PacketEngine::pace() {
  for (const int32_t number : switches_.admission.take_paced()) {
    if (!streams_[at(number)].is_inside || streams_[at(number)].is_stopped) {
      continue;
    }
    if (switches_.admission.is_suspended(number)) {
      ++entries_.preemptions;
      network_.close(number);
    } else {
      resume(number);
    }
  }
}

// Whether it is inside with nothing more to send. Where packets get lost, its sources may have to
// send them again.
bool PacketEngine::may_hand_over(int32_t number) const {
  const Stream& stream = streams_[at(number)];
  return progress_.is_lossless && stream.is_inside && !stream.sends.has_value() &&
         !stream.is_stopped && !switches_.admission.is_suspended(number);
}

// Leaves; what it has sent passes the gates before those who enter then.
void PacketEngine::hand_over(int32_t number) {
  for (const int32_t gate : streams_[at(number)].gates) {
    if (switches_.gates.has_entered(gate)) {
      switches_.gates.end(gate, network_.supplied(number));
    }
  }
  follow_gates();
  leave(number);
}

void PacketEngine::leave(int32_t number) {
  streams_[at(number)].is_inside = false;
  std::vector<int32_t> woken;
  switches_.admission.leave(number, woken);
  for (const int32_t other : woken) {
    touch(other);
  }
}

NetworkUse PacketEngine::use() {
  NetworkUse use{.links = network_.use(), .event_count = progress_.delivered};
  const PacketNetwork::Counts& counts = network_.counts();
  use.counters.push_back({"packets", counts.packets});
  use.counters.push_back({"place_waits_ps", counts.place_waits_ps});
  use.counters.push_back({"control_packets", counts.control_packets});
  use.counters.push_back({"control_waits_ps", counts.control_waits_ps});
  use.counters.push_back({"lost_packets", counts.lost});
  use.counters.push_back({"go_backs", counts.go_backs});
  use.counters.push_back({"timeouts", counts.timeouts});
  use.counters.push_back({"deepest_buffer", counts.deepest_buffer, true});
  use.counters.push_back({"deepest_control_buffer", counts.deepest_control_buffer, true});
  if (!switches_.admission.admits_all()) {
    AdmissionUse& admission = use.admission.emplace();
    admission.configurations = switches_.admission.configurations();
    admission.waited_ps = entries_.waited_ps;
    admission.preemptions = entries_.preemptions;
    admission.undecided = switches_.admission.undecided();
    admission.conflicts = entries_.conflicts.list();
  }
  return use;
}

}  // namespace pleach
