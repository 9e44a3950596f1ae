// NetworkSession: a network on which jobs run; what all network models have in common.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pleach/base/names.h"
#include "pleach/base/result.h"
#include "pleach/collective/record.h"
#include "pleach/collective/schedule.h"

namespace pleach {

// When a send may start: as soon as it is ready; when all that its rank sends in earlier steps has
// started (kInOrder); in its rank's step, of which no other rank knows (kLockstep); in a step that
// all ranks take together, at no cost (kOracle).
enum class Gate : uint8_t { kDataflow, kInOrder, kLockstep, kOracle };
inline constexpr std::array<Name<Gate>, 4> kGates = {{{Gate::kDataflow, "dataflow"},
                                                      {Gate::kInOrder, "in_order"},
                                                      {Gate::kLockstep, "lockstep"},
                                                      {Gate::kOracle, "oracle"}}};
// kPacket: a header per packet of at most Framing::packet_bytes; kMessage: one per segment.
enum class FlowControl : uint8_t { kPacket, kMessage };
inline constexpr std::array<Name<FlowControl>, 2> kFlowControls = {
    {{FlowControl::kPacket, "packet"}, {FlowControl::kMessage, "message"}}};

// What a switch that does not carry whatever enters has inside at a time: whatever it carries
// together; of that streams of one class of traffic alone, of which the lower one suspends the
// others (kPhase; source: FRED, ISCA 2025, sec. 5.4); everything, as if it were a crossbar (kFree).
enum class AdmissionRule : uint8_t { kTogether, kPhase, kFree };
inline constexpr std::array<Name<AdmissionRule>, 3> kAdmissionRules = {
    {{AdmissionRule::kTogether, "together"},
     {AdmissionRule::kPhase, "phase"},
     {AdmissionRule::kFree, "free"}}};

// How far a run is that takes long.
using RunProgress = std::function<void(int64_t done, int64_t all)>;

// What every model is asked; what only one model knows is in that model's own options.
struct SimulationOptions {
  int32_t segment_count = 1;
  Gate gate = Gate::kDataflow;
  FlowControl flow_control = FlowControl::kPacket;
  int32_t landing_places = 0;  // per connection; 0: as many as needed
  // Of a rank, where commits of reduces queue; 0: they take no time; none: as the model has it.
  std::optional<int64_t> reduce_bandwidth_bytes_per_s = {};
  AdmissionRule admission = AdmissionRule::kTogether;
  // Time in which a switch that does not carry whatever enters changes its configuration for a
  // stream, ≥ 0; models that do not know it refuse it.
  int64_t reconfiguration_ps = 0;
  bool fold = true;           // simulate one rank where symmetry allows
  bool keep_records = false;  // of every job (prevents folding)
  RunProgress progress = {};  // in messages delivered, now and then; may be empty
};

// Classes of traffic. Where a model tells them apart (NetworkModel::has_classes), a link serves
// the lowest number first, and a higher one gets what the lower ones leave: nothing, if need be.
inline constexpr int32_t kTrafficClasses = 16;

struct Job {
  std::shared_ptr<const Schedule> schedule;  // correct; its participants are nodes of the topology
  int64_t size_bytes = 0;                    // whole buffer of one rank, ≥ 0; cut at bytes
  int64_t start_ps = 0;
  int32_t traffic_class = 0;  // 0 to kTrafficClasses - 1
  int32_t label = -1;         // from 0 on: SwitchConflict::jobs has it in place of its number
};

struct LinkUse {
  int64_t busy_ps = 0;  // time during which something was in transmission
  int64_t wire_bytes = 0;

  // Adds what was seen `times` times.
  void add(const LinkUse& other, int64_t times = 1) {
    busy_ps += times * other.busy_ps;
    wire_bytes += times * other.wire_bytes;
  }
};

// What a model counts besides: the name is a literal.
struct Counter {
  const char* name = "";
  int64_t count = 0;
  bool is_most = false;  // of several runs the greatest counts, else their sum

  void add(const Counter& other) {
    count = is_most ? std::max(count, other.count) : count + other.count;
  }
};
// What it counts of each link: sums.
struct LinkCounter {
  const char* name = "";
  std::vector<int64_t> counts;  // by LinkId
};

// What switches did that do not carry whatever enters.
struct SwitchConflict {
  NodeId node;  // the switch
  // Labels or numbers, of the stream that had to wait and of those in its way; ascending.
  std::vector<int32_t> jobs;
  int64_t count = 0;                  // how often
  std::optional<int32_t> level = {};  // of the switch, where that is what refused the first time
  bool operator==(const SwitchConflict&) const = default;
};
struct AdmissionUse {
  int64_t configurations = 0;  // different sets of flows that were inside, of all switches
  int64_t waited_ps = 0;       // of all streams, from when they could have entered
  int64_t preemptions = 0;     // how often a stream was suspended for a lower class
  // How often a stream waited though not all lanes of all that it would have been with were tried.
  int64_t undecided = 0;
  int64_t reconfigurations = 0;           // streams that had to wait for a switch to change
  std::vector<SwitchConflict> conflicts;  // by switch and jobs, the first kMostConflicts
  static constexpr std::size_t kMostConflicts = 1000;
};

// What has happened on a network.
struct NetworkUse {
  std::vector<LinkUse> links;          // by LinkId
  int64_t event_count = 0;             // segments delivered (stream × segment)
  bool folded = false;                 // one rank stood for all in some job
  std::optional<int64_t> cycles = {};  // simulated, where the model has a clock
  std::vector<Record> records = {};    // by job, where they are kept
  std::vector<Counter> counters = {};  // those of the model
  std::vector<LinkCounter> link_counters = {};
  std::optional<AdmissionUse> admission = {};  // where some switch may refuse a stream
  std::optional<double> energy_j = {};         // where it was told what events cost
  std::string note = {};  // what its options cost, for people; empty: nothing to say
};

class NetworkSession {
 public:
  struct Finish {
    int32_t job = 0;
    int64_t time_ps = 0;
  };

  virtual ~NetworkSession() = default;

  // Starts a job, no earlier than the last advance(). Jobs are numbered from 0 in the order of
  // these calls. What is derived from a schedule is kept for every job that brings the same
  // pointer.
  //   errors  kInvalidArgument: the job does not fit the topology or the options; kInfeasible: a
  //           transfer has no route. The session goes on without the job.
  virtual Result<int32_t> start(const Job& job) = 0;
  // When something happens next inside; none: all jobs have finished. It may lie before the last
  // start, where a job has to be looked at again from its own.
  virtual std::optional<int64_t> next_ps() const = 0;
  // Advances to the first time at which jobs finish, at most to `until_ps`, and returns those jobs
  // (several where they finish together). Times of later calls never go back. Memory of finished
  // jobs is used again.
  //   errors  kInvalidArgument: a schedule that cannot finish, with what is stuck; time passes
  //           kLongestPs
  virtual Result<std::vector<Finish>> advance(int64_t until_ps) = 0;
  // The sum over all jobs, once none is under way; before, what switches did so far (`admission`),
  // where jobs share links as they come.   cost  O(links + connections)
  virtual Result<NetworkUse> use() = 0;
};

}  // namespace pleach
