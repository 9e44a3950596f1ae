// Planner: which schedule does a collective of some size, and in how many segments.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/collective_kind.h"
#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/collective/schedule.h"
#include "pleach/network/model.h"
#include "pleach/planning/best_segments.h"
#include "pleach/planning/network_timer.h"
#include "pleach/topology/topology.h"

namespace pleach {

// What is not given is the planner's: a file says itself what it does, an algorithm does an
// all_reduce of all rank nodes with root 0.
struct ScheduleRequest {
  std::optional<CollectiveKind> collective = {};
  std::vector<NodeId> participants = {};  // rank r is this node; empty: not given
  std::optional<Rank> root = {};
  int64_t size_bytes = 0;  // whole buffer of one rank
};

struct Choice {
  std::shared_ptr<const Schedule> schedule;  // correct, with all its routes
  int32_t segment_count = 1;
};

// For groups that do a collective at the same time, sharing the network.
struct CommonChoice {
  std::vector<std::shared_ptr<const Schedule>> schedules;  // by group
  // What each of them moves of the size, where they have parts of it; empty: the whole.
  std::vector<int64_t> part_bytes = {};
  int32_t segment_count = 1;            // of all
  std::optional<int64_t> time_ps = {};  // where simulations chose

  int64_t bytes_of(std::size_t schedule, int64_t size_bytes) const {
    return part_bytes.empty() ? size_bytes : part_bytes[schedule];
  }
};

struct PlannerOptions {
  std::optional<int32_t> segment_count = 1;  // none: the best of 1, 2, 4, ... 64 at each size
  std::string model = kDefaultNetworkModel;  // network model that finds it
  SimulationOptions simulation = {};         // in it; its segment_count is ignored
  bool wants_certificate = true;             // of every schedule
  // So many times the least time is as good, ≥ 1: of what takes no longer, `auto` takes the
  // schedule of the fewest connections, as each is a stream that has to find its rate, and segments
  // are the most, as operations that are under way together wait for each other's.
  double as_good = 1;
  int64_t least_segment_bytes = 1;  // of the largest message, where the number is not given
  // `auto`: what one takes alone and what two take, of which the second begins when the first would
  // be half over, count together; else what one takes alone.
  bool counts_on_another = false;
  bool only_what_ranks_run = false;  // `auto`: nothing that needs switches that reduce
};

// For ranks on a network: models are no nearer than 1 %, no topology need say what a segment costs
// ranks whatever its size, tens of microseconds, as much as 32 KiB on a fast link, and training has
// two collectives under way, which may meet on their ways though neither does alone.
inline PlannerOptions on_network(PlannerOptions options) {
  options.as_good = 1.01;
  options.least_segment_bytes = 32768;
  options.counts_on_another = true;
  return options;
}

// Equal requests get the same pointer, by which network sessions know schedules, as long as
// somebody keeps it. Not thread safe.
class Planner {
 public:
  virtual ~Planner() = default;

  // Whether it plans the collective for some group; false also where nothing can be planned.
  virtual bool does(CollectiveKind collective) const = 0;
  // Whether it plans what is asked for, as far as can be told without planning.
  virtual bool takes(const ScheduleRequest& request) const {
    return does(request.collective.value_or(CollectiveKind::kAllReduce));
  }
  // Of every choice; none: it depends on the size.
  std::optional<int32_t> segment_count() const { return options_.segment_count; }
  //   errors  those of schedule(), and of the network model that finds the number of segments
  Result<Choice> choose(const ScheduleRequest& request);
  // Of the participants of each group.
  //   segment_count  of the choice, where the caller knows it; else the planner's
  Result<CommonChoice> choose_together(CollectiveKind collective,
                                       std::span<const std::vector<NodeId>> groups,
                                       int64_t size_bytes,
                                       std::optional<int32_t> segment_count = {});
  // Of each request, whose own size is ignored.
  Result<CommonChoice> choose_together(std::span<const ScheduleRequest> requests,
                                       int64_t size_bytes);
  // Broadcasts from all of the topology's I/O nodes to each group, or reductions of each to all of
  // them: schedules of the group and one I/O node, its root, each of that node's share (IoShares).
  // Groups may be of one rank.
  //   errors  those of choose() and IoShares::of()
  Result<CommonChoice> choose_io(CollectiveKind collective,
                                 std::span<const std::vector<NodeId>> groups, int64_t size_bytes,
                                 std::optional<int32_t> segment_count = {});
  // The schedules of choose_together() alone.
  Result<std::vector<std::shared_ptr<const Schedule>>> schedules(
      CollectiveKind collective, std::span<const std::vector<NodeId>> groups, int64_t size_bytes);

 protected:
  // Borrows `topology`.
  Planner(const Topology& topology, PlannerOptions options)
      : topology_(topology),
        options_(std::move(options)),
        timer_(topology_, options_.model, options_.simulation) {}
  const Topology& topology() const { return topology_; }
  const PlannerOptions& options() const { return options_; }
  // As the options have it, whose number of segments is not given; as_good of its own.
  SegmentSearch segment_search(double as_good) const;

 private:
  virtual Result<std::shared_ptr<const Schedule>> schedule(const ScheduleRequest& request) = 0;
  // None: the best number.
  Result<CommonChoice> with_segments(CommonChoice choice, int64_t size_bytes,
                                     std::optional<int32_t> segment_count);

  const Topology& topology_;
  const PlannerOptions options_;
  NetworkTimer timer_;
};

// Whether the text names a file: it has a directory or a schedule format's extension.
bool names_schedule_file(std::string_view source);

// The source that tries all algorithms (planning/auto_planner.h).
inline constexpr const char* kAutoAlgorithm = "auto";

// The planner of a source: an algorithm's spec ("multitree,step_rule=published"), which synthesises
// when it is asked, a schedule's file, or "auto". `topology` outlives the planner.
//   errors         those of read_schedule; kInvalidArgument: segments < 1
//   choose errors  those of synthesize; of a file: kInvalidArgument with the first violation, or
//                  where its collective, participants or root are not those asked for
Result<std::unique_ptr<Planner>> make_planner(const Topology& topology, std::string_view source,
                                              PlannerOptions options = {});

}  // namespace pleach
