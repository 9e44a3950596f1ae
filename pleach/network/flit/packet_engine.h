// PacketEngine: jobs on FRED's switches, packet by packet.
//
// Execution (one a job) says what a connection may send, PacketNetwork takes its packets to the
// targets, Admission says which streams are inside which switch. A stream enters all switches on
// its way as its message begins, and leaves them when the last packet has left its sources, so that
// the next one's packets follow; in which order their packets pass each switch is what PacketGates
// say. A message that follows at once stays inside, where nobody of its class or a lower one waits.
// Where packets may get lost a stream is inside until its message has arrived. One of a lower class
// makes those of higher ones that are in its way stop between two packets and leave: what they have
// in buffers stays there, and they ask again.
//   source   FRED (ISCA 2025), sections 5.3 and 5.4; docs/network.md
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/result.h"
#include "pleach/fabric/switch_cores.h"
#include "pleach/network/admission.h"
#include "pleach/network/conflict_notes.h"
#include "pleach/network/execution.h"
#include "pleach/network/flit/flit_run.h"
#include "pleach/network/flit/packet_gates.h"
#include "pleach/network/flit/packet_network.h"
#include "pleach/network/flit/packet_shape.h"
#include "pleach/network/session.h"
#include "pleach/topology/topology.h"

namespace pleach {

class PacketEngine final : public FlitRun {
 public:
  // Borrows the topology.
  // Errors: kInvalidArgument: a switch that cannot carry a stream by itself, more than 2^32 packets
  // times links; kUnsupported: more classes of traffic than virtual channels.
  static Result<std::unique_ptr<PacketEngine>> create(const Topology& topology,
                                                      const SimulationOptions& simulation,
                                                      const PacketShape& shape,
                                                      std::vector<FlitJob> jobs);

  int32_t job_count() const override { return count_of(jobs_); }
  bool is_idle() const override { return progress_.unfinished == 0; }
  int64_t next_ps() const override { return next_event_ps().value_or(progress_.now_ps); }
  Status advance(int64_t until_ps) override;
  std::vector<NetworkSession::Finish> take_finished() override {
    return std::exchange(finished_, {});
  }
  Record take_record(int32_t job) override { return jobs_[at(job)].execution->take_record(); }
  NetworkUse use() override;
  // What of places does not add up, in words; empty: all of it does.
  std::string inconsistency() const { return network_.inconsistency(); }

 private:
  struct RunningJob {
    std::unique_ptr<Execution> execution;
    int64_t start_ps = 0;
    int32_t traffic_class = 0;
    int32_t first_stream = 0;
    bool has_finished = false;
  };
  // A connection of a job; its number is that of its way.
  struct Stream {
    int32_t job = 0;
    int64_t overhead_ps = 0;
    std::vector<int32_t> gates = {};
    std::vector<SwitchPass> passes = {};  // by gate
    bool is_touched = false;
    std::optional<Send> sends = {};        // that has not left its sources
    PacketFifo<Send> begun = {};           // that have not arrived
    std::optional<int64_t> since_ps = {};  // it waits to begin, or to go on
    bool is_inside = false;
    bool is_refused = false;  // it waits for switches
    int64_t entry = 0;        // when it entered last, or began to wait: how many had entered
    bool is_stopped = false;  // by one of a lower class
  };
  struct Alarm {
    enum class Kind : uint8_t { kStart, kSupply, kReduced, kNopOver, kReduce };
    int64_t time_ps = 0;
    Kind kind = Kind::kStart;
    int32_t job = 0;
    int32_t number = 0;  // rank, or stream
    auto operator<=>(const Alarm&) const = default;
  };
  struct Entries {
    std::array<int32_t, kTrafficClasses> waiting = {};  // by class
    int64_t count = 0;
    int64_t waited_ps = 0, preemptions = 0;
    ConflictNotes conflicts;
  };
  struct Switches {
    Admission admission;
    SwitchCores cores;  // that admit all: none
    PacketGates gates;
  };

  static Alarm::Kind alarm_of(Execution::Alarm::Kind kind);
  PacketEngine(const Topology& topology, const PacketShape& shape, AdmissionRule rule);
  void add(const Topology& topology, FlitJob job, int32_t vc, const SimulationOptions& simulation);
  void add_gates(int32_t stream, const PacketWay& way, std::vector<int32_t> gates);
  std::optional<int64_t> next_event_ps() const;
  void run_instant();
  void ring(const Alarm& alarm);
  void handle(const PacketNetwork::Report& report);
  void arrived(int32_t stream);
  void follow(int32_t job);
  void touch(int32_t stream);
  const Send* next(int32_t stream) const;
  Admission::Turn turn_of(int32_t stream, const Send& send) const;
  void begin_touched();
  void attempt(int32_t stream, const Admission::Turn& turn, std::vector<std::size_t>& taken);
  void starve(int32_t stream, const Admission::Turn& turn);
  void begin(int32_t stream);
  bool may_stay(int32_t stream) const;
  bool may_begin(int32_t stream, const Admission::Turn& turn);
  bool enter(int32_t stream, const Admission::Turn& turn);
  void refuse(int32_t stream, const Admission::Turn& turn);
  void leave(int32_t stream);
  bool may_hand_over(int32_t stream) const;
  void hand_over(int32_t stream);
  void stop(int32_t stream);
  void resume(int32_t stream);
  void enter_gates(int32_t stream);
  void follow_gates();
  void pace();
  int32_t class_of(int32_t stream) const {
    return jobs_[at(streams_[at(stream)].job)].traffic_class;
  }

  mutable PacketNetwork network_;  // looking at the next event sorts a bucket
  Switches switches_;
  Entries entries_;
  std::vector<RunningJob> jobs_;
  std::vector<Stream> streams_;
  struct {
    std::vector<int32_t> touched;  // streams that may begin
    std::vector<int32_t> hungry;   // of those, which wait for places
  } asking_;
  std::priority_queue<Alarm, std::vector<Alarm>, std::greater<>> alarms_;
  std::vector<NetworkSession::Finish> finished_;
  struct {
    int64_t now_ps = 0;
    int32_t unfinished = 0;          // jobs
    int64_t delivered = 0, all = 0;  // messages
    RunProgress tell = {};
    bool is_hopeless = false;
    bool is_lossless = true;
  } progress_;
};

}  // namespace pleach
