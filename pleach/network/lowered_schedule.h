// LoweredSchedule and LoweredJob: one schedule, and one job of it, lowered for a network model:
// which connection carries which stream, and how many bytes each segment has.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/result.h"
#include "pleach/collective/order.h"
#include "pleach/collective/placement.h"
#include "pleach/collective/symmetry.h"
#include "pleach/network/model.h"
#include "pleach/topology/topology.h"

namespace pleach {

// How the translates of a symmetric schedule are simulated.
enum class Instances : uint8_t {
  kNone,    // the schedule has no symmetry, or was written out
  kAll,     // every translate has its own state
  kFolded,  // all ranks do the same at the same time: one stands for all
};

// What carries streams one segment at a time: the set of links that a stream occupies.
struct LoweredConnection {
  std::vector<LinkId> links;
  int64_t latency_ps = 0;
  int64_t overhead_ps = 0;
};

// What does not depend on the size of a job. Immutable; jobs share it.
class LoweredSchedule {
 public:
  // `schedule` has all its routes and outlives the plan.
  //   errors  kInvalidArgument: the participants do not fit
  static Result<std::shared_ptr<const LoweredSchedule>> create(const Topology& topology,
                                                               const Schedule& schedule,
                                                               const SimulationOptions& options,
                                                               Instances instances);

  const Schedule& schedule() const { return *schedule_; }
  const Order& order() const { return order_; }
  Instances instances() const { return instances_; }
  int32_t instance_count() const { return instance_count_; }
  int32_t segment_count() const { return segment_count_; }
  // All connections; with Instances::kAll class-major: class · n + source rank.
  const std::vector<LoweredConnection>& connections() const { return connections_; }
  // The connections that carry translates of one stream are a class, numbered from 0.
  int32_t connection_class(int32_t stream) const { return class_of_[at(stream)]; }
  // The stream's connection in an instance.
  int32_t connection_of(int32_t stream, int32_t instance) const {
    const int32_t link_set = connection_class(stream);
    if (instances_ != Instances::kAll) {
      return link_set;
    }
    return link_set * instance_count_ + rank_in(order_.sources(stream).front(), instance);
  }
  // The rank that stands for template rank `rank` in an instance (0 for all when folded).
  int32_t rank_in(int32_t rank, int32_t instance) const {
    if (instances_ == Instances::kNone) {
      return rank;
    }
    if (instances_ == Instances::kFolded) {
      return 0;
    }
    if (one_dimension_) {
      const int32_t moved = rank + instance;
      return moved < instance_count_ ? moved : moved - instance_count_;
    }
    return translation_->add(rank, instance);
  }
  // Ranks that have state of their own.
  int32_t rank_count() const {
    return instances_ == Instances::kFolded ? 1 : schedule_->rank_count();
  }
  // The chunk that stands for template chunk `chunk` in an instance.
  int32_t chunk_in(int32_t chunk, int32_t instance) const {
    return instances_ == Instances::kAll
               ? translate_chunk(*schedule_, *translation_, chunk, instance)
               : chunk;
  }
  int64_t wire_bytes(int64_t payload) const;
  // Whether no connection has two streams of one step: then priorities need no chunk numbers, and
  // every translate behaves like its template.
  bool has_plain_priorities() const;

 private:
  explicit LoweredSchedule(const Schedule& schedule) : schedule_(&schedule) {}
  void find_connections(const Topology& topology, const LinkTranslation* links);
  void instantiate(const LinkTranslation& links, const Topology& topology);

  const Schedule* schedule_;
  Order order_;
  Instances instances_ = Instances::kNone;
  int32_t instance_count_ = 1;
  int32_t segment_count_ = 1;
  bool one_dimension_ = false;
  Framing framing_;
  FlowControl flow_control_ = FlowControl::kPacket;
  std::optional<Translation> translation_;
  std::vector<int32_t> class_of_;  // by stream
  std::vector<LoweredConnection> connections_;
};

class LoweredJob {
 public:
  // Errors: kInvalidArgument: the size does not fit.
  static Result<LoweredJob> create(std::shared_ptr<const LoweredSchedule> plan, int64_t size_bytes);
  // Both at once. Errors: kInvalidArgument: participants or size do not fit.
  static Result<LoweredJob> create(const Topology& topology, const Schedule& schedule,
                                   int64_t size_bytes, const SimulationOptions& options,
                                   Instances instances);

  const LoweredSchedule& shared() const { return *shared_; }
  const Schedule& schedule() const { return shared_->schedule(); }
  const Order& order() const { return shared_->order(); }
  Instances instances() const { return shared_->instances(); }
  int32_t instance_count() const { return shared_->instance_count(); }
  const std::vector<LoweredConnection>& connections() const { return shared_->connections(); }
  int32_t connection_class(int32_t stream) const { return shared_->connection_class(stream); }
  int32_t connection_of(int32_t stream, int32_t instance) const {
    return shared_->connection_of(stream, instance);
  }
  int32_t rank_in(int32_t rank, int32_t instance) const { return shared_->rank_in(rank, instance); }
  int32_t rank_count() const { return shared_->rank_count(); }
  int64_t wire_bytes(int64_t payload) const { return shared_->wire_bytes(payload); }

  // Bytes of one segment of a stream, without framing, and of one of its chunks.
  int64_t payload_bytes(int32_t stream, int32_t segment, int32_t instance) const;
  int64_t segment_bytes(int32_t chunk, int32_t segment, int32_t instance) const;
  // Payload of the largest segment of any stream.
  int64_t largest_payload_bytes() const;

  // Folded: copies each link's use to its translates and counts the events of all ranks.
  void unfold(const Topology& topology, Simulation& result) const;
  // Whether one rank can stand for all: equal chunks, and topology attributes alike under the
  // group.
  static bool can_fold(const Topology& topology, const Schedule& schedule, int64_t size_bytes);
  // The part of it that depends on the size; the schedule has a uniform grid.
  static bool has_equal_chunks(const Schedule& schedule, int64_t size_bytes);

 private:
  LoweredJob(std::shared_ptr<const LoweredSchedule> shared, Placement placement)
      : shared_(std::move(shared)), placement_(placement) {}
  void measure_segments();

  std::shared_ptr<const LoweredSchedule> shared_;
  Placement placement_;
  std::vector<int64_t> equal_segment_bytes_;  // by segment, when all chunks have the same length
};

}  // namespace pleach
