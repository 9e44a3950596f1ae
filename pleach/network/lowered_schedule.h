// LoweredSchedule and LoweredJob: one schedule, and one job of it, lowered for a network model:
// which connection carries which stream, and how many bytes each segment has.
//
// They alone know how the translates of a symmetric schedule are represented: each with state of
// its own, or, folded, one for all. Models pass on Send and Arrival values and see no difference.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/result.h"
#include "pleach/collective/order.h"
#include "pleach/collective/placement.h"
#include "pleach/collective/switch_passes.h"
#include "pleach/collective/symmetry.h"
#include "pleach/network/session.h"
#include "pleach/topology/topology.h"

namespace pleach {

// One segment of one stream, or of a translate of it; ordered by priority within a connection.
struct Send {
  int64_t key = 0;  // segment · period + step
  int32_t segment = 0;
  int32_t stream = 0;  // streams of one step are numbered by first chunk
  int32_t translate = 0;
  auto operator<=>(const Send&) const = default;
};

// One chunk of a send at one of its targets.
struct Arrival {
  int32_t commit = 0;  // of the Order
  int32_t segment = 0;
  int32_t translate = 0;
};

// What carries sends one at a time: the set of links that a stream occupies.
struct LoweredConnection {
  std::vector<LinkId> links;  // of a plain transfer in the order of its route, else ascending
  std::vector<SwitchPass> passes = {};  // of a switch tree; else those of the route
  int64_t latency_ps = 0;   // of the route; of a switch tree the longest from a source to a target
  int64_t overhead_ps = 0;  // of the source, before the first byte
};

// What does not depend on the size of a job. Immutable; jobs share it.
class LoweredSchedule {
 public:
  // `schedule` has all its routes; its priorities do not depend on chunk numbers where it is
  // symmetric (has_plain_priorities()).
  //   is_folded  rank 0 stands for all: right for a symmetric schedule whose ranks all do the same
  //              at the same time
  //   errors     kInvalidArgument: the participants do not fit; segments beyond 1,024 that make
  //              more than 2^23 moves of chunks
  static Result<std::shared_ptr<const LoweredSchedule>> create(
      const Topology& topology, std::shared_ptr<const Schedule> schedule,
      const SimulationOptions& options, bool is_folded);

  const Schedule& schedule() const { return *schedule_; }
  const Order& order() const { return order_; }
  int32_t segment_count() const { return segment_count_; }
  // Ranks that have state of their own; they are alike in what they do, or not.
  int32_t rank_count() const { return is_folded_ ? 1 : schedule_->rank_count(); }
  bool ranks_are_alike() const { return translation_.has_value(); }
  // Translates of each stream that have state of their own: 1 without symmetry.
  int32_t translate_count() const { return translate_count_; }
  Send send(int32_t stream, int32_t segment, int32_t translate) const {
    return {int64_t{segment} * schedule_->period + order_.stream(stream).step, segment, stream,
            translate};
  }

  // The connections of all translates of a class are consecutive, by source rank; the streams that
  // they carry are translates of each other.
  const std::vector<LoweredConnection>& connections() const { return connections_; }
  int32_t connection_class(int32_t stream) const { return class_of_[at(stream)]; }
  int32_t connection_of(const Send& send) const {
    return connection_of(send.stream, send.translate);
  }
  int32_t connection_of(const Arrival& arrival) const {
    return connection_of(order_.commit(arrival.commit).stream, arrival.translate);
  }
  // The rank that a rank of the schedule's transfers stands for in a translate.
  int32_t rank_of(int32_t rank, int32_t translate) const {
    if (translate_count_ == 1) {
      return is_folded_ ? 0 : rank;
    }
    if (is_one_dimensional_) {
      const int32_t moved = rank + translate;
      return moved < translate_count_ ? moved : moved - translate_count_;
    }
    return translation_->add(rank, translate);
  }
  // The chunk likewise.
  int32_t chunk_of(int32_t chunk, int32_t translate) const {
    return translate_count_ == 1 ? chunk
                                 : translate_chunk(*schedule_, *translation_, chunk, translate);
  }
  int64_t wire_bytes(int64_t payload) const;
  // Whether no connection has two streams of one step: then priorities need no chunk numbers, and
  // every translate behaves like the one that is written down.
  bool has_plain_priorities() const;

 private:
  explicit LoweredSchedule(std::shared_ptr<const Schedule> schedule)
      : schedule_(std::move(schedule)) {}
  int32_t connection_of(int32_t stream, int32_t translate) const {
    const int32_t link_set = connection_class(stream);
    return translate_count_ == 1
               ? link_set
               : link_set * translate_count_ + rank_of(order_.sources(stream).front(), translate);
  }
  void find_connections(const Topology& topology, const LinkTranslation* links);
  void instantiate(const LinkTranslation& links, const Topology& topology);

  const std::shared_ptr<const Schedule> schedule_;
  Order order_;
  std::optional<Translation> translation_;  // of a symmetric schedule
  int32_t translate_count_ = 1;
  int32_t segment_count_ = 1;
  bool is_folded_ = false;
  bool is_one_dimensional_ = false;
  struct {
    Framing framing;
    FlowControl flow_control = FlowControl::kPacket;
  } headers_;
  std::vector<int32_t> class_of_;  // by stream
  std::vector<LoweredConnection> connections_;
};

// How long every segment of every chunk is, for one size.
class SegmentSizes {
 public:
  // Borrows the schedule. Errors: kInvalidArgument: the size does not fit.
  static Result<SegmentSizes> create(const Schedule& schedule, int64_t size_bytes,
                                     int32_t segment_count);
  int64_t bytes(int32_t chunk, int32_t segment) const {
    return equal_bytes_.empty() ? measure(placement_.length(chunk), segment)
                                : equal_bytes_[at(segment)];
  }
  bool chunks_are_alike() const { return !equal_bytes_.empty(); }

 private:
  SegmentSizes(Placement placement, int32_t segment_count)
      : placement_(placement), segment_count_(segment_count) {}
  int64_t measure(int64_t chunk_bytes, int32_t segment) const;

  Placement placement_;
  int32_t segment_count_;
  std::vector<int64_t> equal_bytes_;  // by segment, when all chunks have the same length
};

// A schedule at a size. Cheap to copy.
class LoweredJob {
 public:
  LoweredJob(std::shared_ptr<const LoweredSchedule> schedule,
             std::shared_ptr<const SegmentSizes> sizes)
      : schedule_(std::move(schedule)), sizes_(std::move(sizes)) {}

  const LoweredSchedule& schedule() const { return *schedule_; }
  const std::shared_ptr<const LoweredSchedule>& shared_schedule() const { return schedule_; }
  const Order& order() const { return schedule_->order(); }
  // Bytes of a send without framing, and on the wire; of one arrival.
  int64_t payload_bytes(const Send& send) const;
  int64_t wire_bytes(const Send& send) const { return schedule_->wire_bytes(payload_bytes(send)); }
  int64_t bytes(const Arrival& arrival) const;
  // Of the largest segment of any stream, without framing, and on the wire.
  int64_t largest_payload_bytes() const;
  int64_t largest_wire_bytes() const { return schedule_->wire_bytes(largest_payload_bytes()); }

 private:
  std::shared_ptr<const LoweredSchedule> schedule_;
  std::shared_ptr<const SegmentSizes> sizes_;
};

}  // namespace pleach
