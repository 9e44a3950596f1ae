// ScheduleBuilder: collects the transfers of one schedule and finds their routes.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/result.h"
#include "pleach/collective/schedule.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/synthesis/route_finder.h"

namespace pleach {

// What a transfer is, apart from its endpoints and route.
struct Message {
  int32_t first_chunk = 0;
  int32_t chunk_count = 1;
  int32_t step = 0;
  TransferOp op = TransferOp::kCopy;
  uint16_t source_pass = 0;  // of switches, as in Transfer
  uint16_t target_pass = 0;
};

// Errors: kInfeasible when a schedule of so many transfers, or of so many chunks moved by all of
// them together, would take gigabytes.
Status check_size(int64_t transfer_count, int64_t move_count);

// Borrows the topology of the request. An error of route() is kept and returned by finish(), so
// that algorithms read as their loops.
class ScheduleBuilder {
 public:
  // `collective` may be a phase of the request's.
  ScheduleBuilder(const SynthesisRequest& request, CollectiveKind collective, int32_t chunk_count);

  int32_t rank_count() const { return schedule_.rank_count(); }
  NodeId node(int32_t rank) const { return schedule_.participants[at(rank)]; }

  // The route from one node to another by the topology's routing. Each is in the table once;
  // kNoRoute after an error, and where finish() chooses it. `stripe`: see RouteFinder. Fast when
  // consecutive calls share the source.
  int32_t route(NodeId source, NodeId target, int32_t stripe = 0) {
    return routes_.route(source, target, schedule_.routes, stripe);
  }
  // Over these links.
  int32_t route(std::span<const LinkId> links) { return routes_.route(links, schedule_.routes); }

  void add(const Message& message, NodeId source, NodeId target, int32_t route);
  // Between two ranks, by route().
  void send(const Message& message, int32_t source, int32_t target) {
    add(message, node(source), node(target), route(node(source), node(target)));
  }
  // One weight per chunk: ChunkGrid::valid().
  void weigh(std::vector<int64_t> weights) {
    schedule_.chunks = ChunkGrid::weighted(std::move(weights));
  }
  void fold_by_rank() { schedule_.fold_order = FoldOrder::kByRank; }
  void reserve(int64_t transfer_count) { schedule_.transfers.reserve(at(transfer_count)); }

  // The schedule in canonical order; `period` 0 means the step count.
  Result<Schedule> finish(std::vector<int32_t> phase_steps, int32_t period = 0) &&;

 private:
  const Topology& topology_;
  RouteFinder routes_;
  Schedule schedule_;
  int64_t move_count_ = 0;  // chunks of all transfers
};

}  // namespace pleach
