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
  Direction(std::vector<int32_t> ranks, bool is_reversed) : ranks_(std::move(ranks)) {
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

 private:
  std::vector<int32_t> ranks_;         // by position
  std::vector<std::size_t> position_;  // by rank
};

struct Rings {
  const SynthesisRequest& request;
  std::vector<Direction> directions;
  bool is_symmetric = false;
  int32_t stripes = 1;  // of a message where links are side by side; chunks of a message elsewhere

  int32_t rank_count() const { return count_of(request.participants); }
  int32_t direction_count() const { return count_of(directions); }
};

// Adds messages to the next rank in a direction; finds the routes of each hop once. A unit is what
// one message carries: a chunk for each stripe.
class RingBuilder {
 public:
  RingBuilder(const Rings& rings, CollectiveKind collective, int32_t unit_count)
      : builder_(rings.request, collective, unit_count * rings.stripes),
        rings_(rings),
        router_(rings.request.topology),
        routes_(rings.directions.size(),
                std::vector<std::vector<int32_t>>(rings.request.participants.size())) {}

  void reserve(int64_t message_count) { builder_.reserve(message_count * rings_.stripes); }
  void pass_on(int32_t unit, int32_t step, TransferOp op, int32_t way, int32_t source) {
    const NodeId from = builder_.node(source), to = builder_.node(place(way, source, 1));
    std::vector<int32_t>& routes = routes_[at(way)][at(source)];
    if (routes.empty()) {
      const bool is_wide = rings_.stripes > 1 && router_.ways_out(from, to) > 1;
      for (int32_t stripe = 0; stripe < (is_wide ? rings_.stripes : 1); ++stripe) {
        routes.push_back(builder_.route(from, to, stripe));
      }
    }
    const int32_t chunk_count = rings_.stripes / count_of(routes);
    int32_t chunk = unit * rings_.stripes;
    for (const int32_t route : routes) {
      builder_.add({chunk, chunk_count, step, op}, from, to, route);
      chunk += chunk_count;
    }
  }
  // The rank `distance` ≥ 0 places after a rank.
  int32_t place(int32_t way, int32_t rank, int32_t distance) const {
    return rings_.directions[at(way)].after(rank, distance);
  }
  ScheduleBuilder& builder() { return builder_; }

 private:
  ScheduleBuilder builder_;
  const Rings& rings_;
  Router router_;
  std::vector<std::vector<std::vector<int32_t>>> routes_;  // by direction and source; empty: open
};

// Unit owner·directions + d goes direction d all the way round: from the rank after its owner to
// its owner when it is reduced, from its owner on when it is gathered.
Result<Schedule> rotation(const Rings& rings, CollectiveKind collective) {
  const int32_t rank_count = rings.rank_count(), directions = rings.direction_count();
  const bool is_gather = collective == CollectiveKind::kAllGather;
  const TransferOp op = is_gather ? TransferOp::kCopy : TransferOp::kReduce;
  const int32_t owner_count = rings.is_symmetric ? 1 : rank_count;
  RingBuilder ring(rings, collective, rank_count * directions);
  ring.reserve(int64_t{owner_count} * directions * (rank_count - 1));
  for (int32_t step = 0; step + 1 < rank_count; ++step) {
    for (int32_t owner = 0; owner < owner_count; ++owner) {
      for (int32_t way = 0; way < directions; ++way) {
        const int32_t source = ring.place(way, owner, is_gather ? step : step + 1);
        ring.pass_on(owner * directions + way, step, op, way, source);
      }
    }
  }
  Result<Schedule> schedule = std::move(ring.builder()).finish({rank_count - 1});
  if (schedule && rings.is_symmetric) {
    schedule->symmetry = Symmetry{{rank_count}};
  }
  return schedule;
}

// broadcast and reduce: units follow each other along the ring, out of the root or into it.
Result<Schedule> chain(const Rings& rings) {
  const CollectiveKind collective = rings.request.collective;
  const int32_t rank_count = rings.rank_count(), directions = rings.direction_count();
  const bool is_broadcast = collective == CollectiveKind::kBroadcast;
  const TransferOp op = is_broadcast ? TransferOp::kCopy : TransferOp::kReduce;
  const int32_t share = (rank_count + directions - 1) / directions;  // units of one direction
  const int32_t hop_count = rank_count - 1;
  const int32_t step_count = hop_count + share - 1;
  RingBuilder ring(rings, collective, share * directions);
  ring.reserve(int64_t{share} * directions * hop_count);
  for (int32_t step = 0; step < step_count; ++step) {
    for (int32_t way = 0; way < directions; ++way) {
      const int32_t last = std::min(step, share - 1);
      for (int32_t unit = std::max(0, step - hop_count + 1); unit <= last; ++unit) {
        const int32_t hop = step - unit;
        const int32_t source =
            ring.place(way, rings.request.root.value, is_broadcast ? hop : hop + 1);
        ring.pass_on(way * share + unit, step, op, way, source);
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

std::vector<OptionDescriptor> ring_options() {
  return {{.name = "form",
           .kind = OptionDescriptor::Kind::kChoice,
           .default_value = "auto",
           .summary = "auto: one rank's chunks stand for all where the topology is a ring",
           .allowed = {"auto", "explicit"}},
          {.name = "order",
           .kind = OptionDescriptor::Kind::kChoice,
           .default_value = "auto",
           .summary = "auto: along links, boxes and rails; published: on switches as MultiTree's "
                      "baselines go around",
           .allowed = {"auto", "published"}}};
}

Result<Schedule> ring_schedule(const SynthesisRequest& request, const Options& options,
                               int32_t direction_count) {
  Rings rings{request, {}};
  rings.is_symmetric = options.text("form") == "auto" && allows_symmetric_form(request);
  // On two ranks both directions are the same.
  const int32_t directions = rings.rank_count() == 2 ? 1 : direction_count;
  const int64_t owner_count = rings.is_symmetric ? 1 : rings.rank_count();
  PLEACH_TRY(check_ring_size(request, owner_count * directions));
  const std::vector<int32_t> order =
      options.text("order") == "published"
          ? published_ring_order(request.topology, request.participants)
          : ring_order(request.topology, request.participants);
  for (int32_t way = 0; way < directions; ++way) {
    rings.directions.emplace_back(order, way == 1);
  }
  return around(rings);
}

Result<Schedule> ring_schedule(const SynthesisRequest& request,
                               std::span<const std::vector<int32_t>> cycles, int32_t stripes) {
  Rings rings{.request = request, .directions = {}, .stripes = stripes};
  PLEACH_TRY(
      check_ring_size(request, static_cast<int64_t>(cycles.size()) * stripes * rings.rank_count()));
  for (const std::vector<int32_t>& cycle : cycles) {
    rings.directions.emplace_back(cycle, false);
  }
  return around(rings);
}

}  // namespace pleach
