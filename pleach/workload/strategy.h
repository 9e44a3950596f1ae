// Strategy: how a model is spread over ranks; and the trace of one iteration of it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/workload/trace.h"
#include "pleach/workload/workload.h"

namespace pleach {

enum class ParallelDimension : uint8_t { kTensor, kSequence, kPipeline, kData };
// Where the rank of each place comes from: what the strategy has; or a rule that looks at the
// network (training/placements.h).
enum class PlacementRule : uint8_t { kGiven, kMesh, kSearch };
enum class PipelineSchedule : uint8_t { kGpipe, kOneForwardOneBackward };

struct Strategy {
  int32_t data = 1;
  int32_t tensor = 1;
  int32_t pipeline = 1;
  int32_t sequence = 1;       // DeepSpeed-Ulysses
  int32_t expert = 1;         // divides data: the expert group lies inside the data group
  int32_t micro_batches = 1;  // per iteration
  PipelineSchedule schedule = PipelineSchedule::kOneForwardOneBackward;
  int32_t zero = 0;              // ZeRO stage 0-3: what memory holds, and which policies fit
  bool tensor_sequence = false;  // Megatron-LM's sequence parallelism inside the tensor group:
                                 // reduce_scatter and all_gather in place of all_reduce
  // Activations of a block are dropped and computed again for its backward, with the collectives of
  // tensor parallelism; exchanges of sequences and experts are kept.
  bool recompute = false;
  // Adam's step takes the time that its bytes need in the accelerator's memory: before the first
  // forward of each layer, of the shard from ZeRO stage 1 on. Measured times have their own.
  bool optimizer = true;
  // A stage's output goes from one rank of its tensor group to all of the next stage's, as one
  // broadcast, in place of a message from each rank to its counterpart.
  bool multicast_outputs = false;
  // Weight streaming: each rank's share of the I/O; or weights enter, and gradients leave, by the
  // network's I/O nodes, sharing its links with all else. Neither: weights are stationary.
  int64_t stream_bytes_per_s = 0;
  bool streams_by_io = false;
  // Ranks are numbered with the first of these fastest.
  std::array<ParallelDimension, 4> placement = {
      ParallelDimension::kTensor, ParallelDimension::kSequence, ParallelDimension::kPipeline,
      ParallelDimension::kData};
  // In place of that: the rank of each place, tensor + T·(sequence + S·(pipeline + P·data)). Ranks
  // that are not among them do nothing. Empty: as `placement` has it.
  std::vector<int32_t> rank_of_place = {};
  int32_t idle = 0;  // ranks that do nothing
  PlacementRule placement_rule = PlacementRule::kGiven;
  int32_t placement_seed = 1;  // of kSearch

  // That do something.
  int32_t rank_count() const { return data * tensor * pipeline * sequence; }
  // All of them are below.
  int32_t rank_end() const;
  bool streams() const { return stream_bytes_per_s > 0 || streams_by_io; }
};

// Errors: kInvalidArgument: a rank that is negative or there twice, or another number of them than
// of places (names the first one that is missing).
Status check_placement(const Strategy& strategy);

// "dp=4,tp=2,pp=2,sp=1,ep=1,micro_batches=8,schedule=1f1b|gpipe,zero=1,tensor_sequence=on,
//  recompute=on,optimizer=adam|none,outputs=pairs|multicast,stream=100GB/s|io,
//  placement=tp-sp-pp-dp,idle=2". dp may be left out: what remains of `rank_count`.
//   placement  or the rank of each place (Strategy): "0-4-1-5", or a file with [0, 4, 1, 5], whose
//              name has a / or ends in .json; fred: another word for tp-sp-pp-dp; mesh, search:
//              rules, which placed() follows
//   idle       ranks that do nothing: at the end, or not in the list
//   errors     kInvalidArgument: unknown keys, values < 1, products that are not rank_count − idle,
//              ranks of a placement that are not below rank_count, and those of check_placement;
//              kIo: a file that cannot be read
Result<Strategy> parse_strategy(std::string_view text, int32_t rank_count);
std::string to_text(const Strategy& strategy);

struct TraceRequest {
  const Workload& workload;
  const Strategy& strategy;
  std::vector<double> slowness =
      {};                   // by rank: computation takes this many times as long; empty: 1
  bool merge_alike = true;  // false: one worker per tensor × sequence group
  // What policies ask for (PolicyNeeds), by model layer and for all: parts of expert exchanges
  // (empty or 1: whole), weight gradients behind earlier layers' exchanges, gates before backward.
  std::vector<int32_t> exchange_parts = {};
  bool defer_weight_gradients = false;
  bool backward_gates = false;
};

// One iteration: stages, micro-batches, the collectives of tensor, sequence and expert parallelism,
// sends between stages, and gradients and gates for the policy of each gradient group (one per
// stage, one more for the stage's expert tensors where expert > 1, and one for a stage's copy of
// tied tensors, whose gradients come last).
//   errors  kInvalidArgument: a model without what the strategy splits (names both), more stages
//           than blocks, a batch that micro_batches does not divide, experts that `expert` does not
//           divide, slowness or parts of another number than ranks or layers, times of over
//           kLongestPs
//   cost    O(workers · layers · micro_batches)
//   source  GPipe: Huang et al., NeurIPS 2019; 1F1B: Narayanan et al., SC 2021, sec. 2.2;
//           ZeRO: Rajbhandari et al., SC 2020
Result<Trace> build_trace(const TraceRequest& request);

}  // namespace pleach
