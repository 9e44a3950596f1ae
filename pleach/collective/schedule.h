// Schedule: all transfers of one collective, for all ranks, as data. docs/architecture.md has the
// exact semantics.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pleach/base/collective_kind.h"
#include "pleach/base/id.h"
#include "pleach/base/index.h"
#include "pleach/base/result.h"
#include "pleach/collective/chunk_grid.h"
#include "pleach/topology/topology.h"

namespace pleach {

enum class TransferOp : uint8_t { kCopy, kReduce };

// Where a slot's own value stands among the arrivals of a step, which fold in ascending source
// rank: before them all, or at its own rank's place. Ranks that fold the same values by rank in one
// step get the same bits.
enum class FoldOrder : uint8_t { kOwnFirst, kByRank };

inline constexpr int32_t kNoRoute = -1;

// Limits that every well-formed schedule keeps: tables indexed by these numbers, and sums of them,
// stay sane whatever a file says.
inline constexpr int32_t kMaxScheduleNodes = 1 << 20;           // as a topology's
inline constexpr int32_t kMaxScheduleLinks = 1 << 24;           // as a topology's
inline constexpr int32_t kMaxScheduleChunks = 1 << 24;          // chunks of the grid
inline constexpr int64_t kMaxScheduleMoves = int64_t{1} << 25;  // chunks of all transfers together
inline constexpr int32_t kMaxScheduleSteps = 1 << 24;           // steps, and the period
inline constexpr int32_t kMaxSlotEvents = (1 << 16) - 1;        // sends of a slot, and arrivals
inline constexpr int32_t kMaxSwitchPasses = 1 << 16;            // of a switch, for the same chunks

// One message: chunks [first_chunk, first_chunk + chunk_count) from one node to another.
struct Transfer {
  int32_t first_chunk = 0;
  int32_t chunk_count = 1;
  NodeId source;
  NodeId target;
  int32_t step = 0;
  int32_t route = kNoRoute;  // index into Schedule::routes, or kNoRoute: the executor's choice
  TransferOp op = TransferOp::kCopy;
  // Which pass of a switch it leaves, and which it enters; 0 at participants. What a step moves of
  // the same chunks through one switch meets there if it is of one pass, and only then.
  uint16_t source_pass = 0;
  uint16_t target_pass = 0;
  bool operator==(const Transfer&) const = default;
};

// The links that transfers occupy, each distinct route once.
class RouteTable {
 public:
  int32_t size() const { return count_of(first_) - 1; }
  std::span<const LinkId> operator[](int32_t route) const {
    const auto begin = first_[at(route)];
    return std::span(links_).subspan(begin, first_[at(route) + 1] - begin);
  }
  // Appends without looking for an equal one; returns its index.
  int32_t add(std::span<const LinkId> links);
  bool operator==(const RouteTable&) const = default;

 private:
  std::vector<std::size_t> first_ = {0};
  std::vector<LinkId> links_;
};

// A translation group that acts freely and transitively on the ranks: mixed-radix coordinates,
// first dimension slowest, product = rank count. With it, Schedule::transfers holds *all* transfers
// of the representative chunks only; the translate by g moves rank r to r + g and chunk block b to
// b + g (collective/symmetry.h). Several arrivals of a chunk at a node in one step are not allowed
// in this form, nor folds by rank: their order would depend on g.
struct Symmetry {
  std::vector<int32_t> dimensions;
  bool operator==(const Symmetry&) const = default;
};

// What is known about how good a schedule is. Bandwidths are algbw [bytes/s]; 0 = unknown.
struct Certificate {
  double bound_algbw_bytes_per_s = 0;  // no schedule is faster for large sizes
  double algbw_bytes_per_s = 0;        // this one's, for large sizes, latency aside
  double fraction = 0;                 // algbw / bound
  bool exact = false;                  // the bound is attainable
  std::string witness;                 // the cut or argument that proves the bound
  double alpha_s = 0;                  // time = alpha + beta × size, uncontended, one segment
  double beta_s_per_byte = 0;
  bool operator==(const Certificate&) const = default;
};

struct Provenance {
  std::string algorithm;
  std::string options;                // canonical text, may be empty
  uint64_t topology_fingerprint = 0;  // 0: made for no particular topology
  Certificate certificate;
  bool operator==(const Provenance&) const = default;
};

struct Schedule {
  CollectiveKind collective = CollectiveKind::kAllReduce;
  Rank root = {0};                   // broadcast, reduce; else 0
  std::vector<NodeId> participants;  // rank r is this node; distinct
  ChunkGrid chunks;
  int32_t period = 1;                // initiation interval [steps], ≥ 1
  std::vector<int32_t> phase_steps;  // steps of each phase; their sum is the step count
  FoldOrder fold_order = FoldOrder::kOwnFirst;
  std::vector<Transfer> transfers;  // sorted by (step, first_chunk, source, target)
  RouteTable routes;
  std::optional<Symmetry> symmetry;
  Provenance provenance;

  int32_t rank_count() const { return count_of(participants); }
  int32_t step_count() const;
  // Number of transfers, translates included.
  int64_t transfer_count() const;
  bool operator==(const Schedule&) const = default;
};

// A schedule that the caller keeps alive, as those take it who may have to keep it themselves.
inline std::shared_ptr<const Schedule> borrowed(const Schedule& schedule) {
  return {std::shared_ptr<const Schedule>(), &schedule};
}

// Sorts transfers into the canonical order (ties: chunk_count, op, route, passes).
void sort_transfers(Schedule& schedule);

// The form rules that need no symbolic pass: limits and ranges, distinct participants, transfers in
// canonical order, step < step count, shard boundaries on the chunk grid, arrivals of one chunk at
// one rank in one step (one, or several that all reduce and come from distinct sources; a stream
// counts once, as its smallest source), sends and arrivals of one slot in all, streams of one
// interval and step through switches that are trees from all sources to all targets and end in one
// op, symmetric-form rules; with a topology also: nodes exist and are of the right kind, switches
// can do what is asked, routes are connected paths from source to target through nodes that pass
// traffic, the parts of a stream occupy links of their own, the topology has the automorphisms.
//   returns  one line per violation, at most `limit` (> 0); empty: well-formed
//   cost     O(transfers log transfers)
std::vector<std::string> check_form(const Schedule& schedule, const Topology* topology,
                                    std::size_t limit = 20);

// Whether a transfer names a pass other than 0.
bool names_passes(const Schedule& schedule);

// Hash of everything but the provenance; equal on all ranks of a job.
uint64_t schedule_hash(const Schedule& schedule);

// `first` and then `second` on the common refinement of their grids: steps of the second come after
// those of the first. The result has `collective`, the phases of both, and period = step count; its
// provenance keeps what both agree on, without certificate. Precondition: check_form(both) is
// empty. Errors: kInvalidArgument when participants, symmetries or, where both reduce, fold orders
// differ, when one is an all_to_all and the other or the result is not (the grid covers another
// space), or when a limit is passed.
Result<Schedule> sequence(const Schedule& first, const Schedule& second, CollectiveKind collective);

// The schedule without symmetry: every translate written out (one that has none is copied).
// Precondition: check_form(schedule, topology) is empty.
//   topology  may be null: then the translates have no routes
//   errors    kInvalidArgument when it would move more than `limit` chunks, or hold more links of
//             routes
Result<Schedule> expand(const Schedule& schedule, const Topology* topology,
                        int64_t limit = 100'000'000);

// Fills every missing route (kNoRoute) of a transfer with one of the topology's, by its routing:
// where that is `spread`, the bytes of each step are balanced over all shortest routes.
// Errors: kInvalidArgument: a node that the topology lacks; kInfeasible: no route.
Status fill_routes(Schedule& schedule, const Topology& topology);

}  // namespace pleach
