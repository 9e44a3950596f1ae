#include "pleach/synthesis/ring_schedule.h"

#include <algorithm>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/collective/symmetry.h"
#include "pleach/synthesis/builder.h"
#include "pleach/synthesis/ring_order.h"

namespace pleach {
namespace {

// One way round the ring.
class Direction {
 public:
  Direction(std::vector<int32_t> ranks, bool is_reversed, int32_t stripe = 0)
      : ranks_(std::move(ranks)), stripe_(stripe) {
    if (is_reversed) {
      std::reverse(ranks_.begin(), ranks_.end());
    }
    position_.resize(ranks_.size());
    for (std::size_t position = 0; position < ranks_.size(); ++position) {
      position_[at(ranks_[position])] = position;
    }
  }
  // The rank `distance` ≥ 0 places after a rank.
  int32_t after(int32_t rank, int32_t distance) const {
    const std::size_t position = position_[at(rank)] + at(distance);
    return ranks_[position % ranks_.size()];
  }
  int32_t stripe() const { return stripe_; }

 private:
  std::vector<int32_t> ranks_;         // by position
  int32_t stripe_;                     // of those between the same ranks
  std::vector<std::size_t> position_;  // by rank
};

struct Rings {
  const SynthesisRequest& request;
  std::vector<Direction> directions;
  bool is_symmetric = false;

  int32_t rank_count() const { return count_of(request.participants); }
  int32_t direction_count() const { return count_of(directions); }
};

// Adds messages to the next rank in a direction; finds each route once.
class RingBuilder {
 public:
  RingBuilder(const Rings& rings, CollectiveKind collective, int32_t chunk_count)
      : builder_(rings.request, collective, chunk_count),
        rings_(rings),
        routes_(rings.directions.size(),
                std::vector<int32_t>(rings.request.participants.size(), kNoRoute)) {}

  void pass_on(const Message& message, int32_t way, int32_t source) {
    const Direction& direction = rings_.directions[at(way)];
    const NodeId from = builder_.node(source), to = builder_.node(direction.after(source, 1));
    int32_t& route = routes_[at(way)][at(source)];
    route = route == kNoRoute ? builder_.route(from, to, direction.stripe()) : route;
    builder_.add(message, from, to, route);
  }
  // The rank `distance` ≥ 0 places after a rank.
  int32_t place(int32_t way, int32_t rank, int32_t distance) const {
    return rings_.directions[at(way)].after(rank, distance);
  }
  ScheduleBuilder& builder() { return builder_; }

 private:
  ScheduleBuilder builder_;
  const Rings& rings_;
  std::vector<std::vector<int32_t>> routes_;  // by direction and source
};

// Chunk owner·directions + d goes direction d all the way round: from the rank after its owner to
// its owner when it is reduced, from its owner on when it is gathered.
Result<Schedule> rotation(const Rings& rings, CollectiveKind collective) {
  const int32_t rank_count = rings.rank_count(), directions = rings.direction_count();
  const bool is_gather = collective == CollectiveKind::kAllGather;
  const TransferOp op = is_gather ? TransferOp::kCopy : TransferOp::kReduce;
  const int32_t owner_count = rings.is_symmetric ? 1 : rank_count;
  RingBuilder ring(rings, collective, rank_count * directions);
  ring.builder().reserve(int64_t{owner_count} * directions * (rank_count - 1));
  for (int32_t step = 0; step + 1 < rank_count; ++step) {
    for (int32_t owner = 0; owner < owner_count; ++owner) {
      for (int32_t way = 0; way < directions; ++way) {
        const int32_t source = ring.place(way, owner, is_gather ? step : step + 1);
        ring.pass_on({owner * directions + way, 1, step, op}, way, source);
      }
    }
  }
  Result<Schedule> schedule = std::move(ring.builder()).finish({rank_count - 1});
  if (schedule && rings.is_symmetric) {
    schedule->symmetry = Symmetry{{rank_count}};
  }
  return schedule;
}

// broadcast and reduce: chunks follow each other along the ring, out of the root or into it.
Result<Schedule> chain(const Rings& rings) {
  const CollectiveKind collective = rings.request.collective;
  const int32_t rank_count = rings.rank_count(), directions = rings.direction_count();
  const bool is_broadcast = collective == CollectiveKind::kBroadcast;
  const TransferOp op = is_broadcast ? TransferOp::kCopy : TransferOp::kReduce;
  const int32_t share = (rank_count + directions - 1) / directions;  // chunks of one direction
  const int32_t hop_count = rank_count - 1;
  const int32_t step_count = hop_count + share - 1;
  RingBuilder ring(rings, collective, share * directions);
  ring.builder().reserve(int64_t{share} * directions * hop_count);
  for (int32_t step = 0; step < step_count; ++step) {
    for (int32_t way = 0; way < directions; ++way) {
      const int32_t last = std::min(step, share - 1);
      for (int32_t chunk = std::max(0, step - hop_count + 1); chunk <= last; ++chunk) {
        const int32_t hop = step - chunk;
        const int32_t source =
            ring.place(way, rings.request.root.value, is_broadcast ? hop : hop + 1);
        ring.pass_on({way * share + chunk, 1, step, op}, way, source);
      }
    }
  }
  return std::move(ring.builder()).finish({step_count}, share);
}

// Whether one chunk's transfers, translated, are all of them.
bool allows_symmetric_form(const SynthesisRequest& request) {
  if (has_root(request.collective) || !is_natural_ring(request.topology, request.participants)) {
    return false;
  }
  Schedule probe;
  probe.participants = request.participants;
  probe.symmetry = Symmetry{{probe.rank_count()}};
  return LinkTranslation::create(probe, request.topology, false).has_value();
}

// Room for that many chunks that go all the way round.
Status check_ring_size(const SynthesisRequest& request, int64_t chunk_count) {
  const int64_t phase_count = request.collective == CollectiveKind::kAllReduce ? 2 : 1;
  return check_size(phase_count * chunk_count * count_of(request.participants), 0);
}

Result<Schedule> around(const Rings& rings) {
  if (has_root(rings.request.collective)) {
    return chain(rings);
  }
  if (rings.request.collective != CollectiveKind::kAllReduce) {
    return rotation(rings, rings.request.collective);
  }
  PLEACH_ASSIGN(first, rotation(rings, CollectiveKind::kReduceScatter));
  PLEACH_ASSIGN(second, rotation(rings, CollectiveKind::kAllGather));
  return sequence(first, second, CollectiveKind::kAllReduce);
}

}  // namespace

OptionDescriptor ring_form_option() {
  return {.name = "form",
          .kind = OptionDescriptor::Kind::kChoice,
          .default_value = "auto",
          .summary = "auto: one rank's chunks stand for all where the topology is a ring",
          .allowed = {"auto", "explicit"}};
}

Result<Schedule> ring_schedule(const SynthesisRequest& request, const Options& options,
                               int32_t direction_count) {
  Rings rings{request, {}, false};
  rings.is_symmetric = options.text("form") == "auto" && allows_symmetric_form(request);
  // On two ranks both directions are the same.
  const int32_t directions = rings.rank_count() == 2 ? 1 : direction_count;
  const int64_t owner_count = rings.is_symmetric ? 1 : rings.rank_count();
  PLEACH_TRY(check_ring_size(request, owner_count * directions));
  const std::vector<int32_t> order = ring_order(request.topology, request.participants);
  for (int32_t way = 0; way < directions; ++way) {
    rings.directions.emplace_back(order, way == 1);
  }
  return around(rings);
}

Result<Schedule> ring_schedule(const SynthesisRequest& request,
                               std::span<const std::vector<int32_t>> cycles, int32_t stripes) {
  Rings rings{request, {}, false};
  PLEACH_TRY(
      check_ring_size(request, static_cast<int64_t>(cycles.size()) * stripes * rings.rank_count()));
  for (const std::vector<int32_t>& cycle : cycles) {
    for (int32_t stripe = 0; stripe < stripes; ++stripe) {
      rings.directions.emplace_back(cycle, false, stripe);
    }
  }
  return around(rings);
}

}  // namespace pleach
