#include "pleach/network/lowered_schedule.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "pleach/base/index.h"
#include "pleach/network/job_checks.h"

namespace pleach {
namespace {

// Latency of a route, and of a switch tree the longest from a source to a target.
class LatencyOf {
 public:
  LatencyOf(const Schedule& schedule, const Topology& topology)
      : schedule_(schedule), topology_(topology) {}

  int64_t route(int32_t transfer) const {
    int64_t sum_ps = 0;
    for (const LinkId link : schedule_.routes[schedule_.transfers[at(transfer)].route]) {
      sum_ps = add_times_ps(sum_ps, topology_.link(link).latency_ps);
    }
    return sum_ps;
  }

  int64_t stream(std::span<const int32_t> transfers) const {
    if (transfers.size() == 1) {
      return route(transfers.front());
    }
    std::unordered_map<int32_t, int64_t> reached_ps;  // by node; a tree settles within its depth
    int64_t longest_ps = 0;
    for (std::size_t round = 0; round < transfers.size(); ++round) {
      bool settled = true;
      for (const int32_t index : transfers) {
        const Transfer& hop = schedule_.transfers[at(index)];
        const bool starts_here = topology_.node(hop.source).kind != NodeKind::kSwitch;
        const int64_t there_ps =
            add_times_ps(starts_here ? 0 : reached_ps[hop.source.value], route(index));
        int64_t& known_ps = reached_ps[hop.target.value];
        settled = settled && there_ps <= known_ps;
        known_ps = std::max(known_ps, there_ps);
        longest_ps = std::max(longest_ps, known_ps);
      }
      if (settled) {
        break;
      }
    }
    return longest_ps;
  }

 private:
  const Schedule& schedule_;
  const Topology& topology_;
};

// Numbers distinct link sets; a plain route is looked up by its number first.
class LinkSets {
 public:
  int32_t number(std::vector<LinkId> links) {
    const auto next = count_of(numbers_);
    return numbers_.try_emplace(std::move(links), next).first->second;
  }

 private:
  std::map<std::vector<LinkId>, int32_t> numbers_;
};

}  // namespace

Result<std::shared_ptr<const LoweredSchedule>> LoweredSchedule::create(
    const Topology& topology, const Schedule& schedule, const SimulationOptions& options,
    Instances instances) {
  // Not make_shared: the constructor is private.
  const std::shared_ptr<LoweredSchedule> plan(new LoweredSchedule(schedule));
  plan->instances_ = instances;
  plan->segment_count_ = options.segment_count;
  plan->framing_ = topology.framing();
  plan->flow_control_ = options.flow_control;
  plan->order_ = Order::build(schedule);
  if (instances == Instances::kNone) {
    plan->find_connections(topology, nullptr);
    return std::shared_ptr<const LoweredSchedule>(plan);
  }
  plan->translation_.emplace(schedule.symmetry->dimensions);
  plan->one_dimension_ = schedule.symmetry->dimensions.size() == 1;
  PLEACH_ASSIGN(links, LinkTranslation::create(schedule, topology, false));
  plan->find_connections(topology, &links);
  if (instances == Instances::kAll) {
    plan->instance_count_ = schedule.rank_count();
    plan->instantiate(links, topology);
  }
  return std::shared_ptr<const LoweredSchedule>(plan);
}

// A connection is a set of links: the route of a plain transfer, all links of a switch tree. In the
// symmetric form routes are moved to rank 0 first, so that a set stands for a class of connections.
void LoweredSchedule::find_connections(const Topology& topology, const LinkTranslation* links) {
  const Schedule& schedule = *schedule_;
  const LatencyOf latency(schedule, topology);
  LinkSets sets;
  std::unordered_map<int64_t, int32_t> by_route;
  class_of_.resize(at(order_.stream_count()));
  for (int32_t stream = 0; stream < order_.stream_count(); ++stream) {
    const auto transfers = order_.transfers(stream);
    const int32_t source = order_.sources(stream).front();
    const int32_t origin = links == nullptr ? 0 : source;
    const int64_t route_key =
        int64_t{schedule.transfers[at(transfers.front())].route} << 32 | int64_t{origin};
    if (transfers.size() == 1) {
      if (const auto known = by_route.find(route_key); known != by_route.end()) {
        class_of_[at(stream)] = known->second;
        continue;
      }
    }
    std::vector<LinkId> all;
    for (const int32_t transfer : transfers) {
      for (const LinkId link : schedule.routes[schedule.transfers[at(transfer)].route]) {
        all.push_back(links == nullptr ? link
                                       : links->translate(link, translation_->subtract(0, origin)));
      }
    }
    if (transfers.size() > 1) {
      std::sort(all.begin(), all.end());
      all.erase(std::unique(all.begin(), all.end()), all.end());
    }
    const int32_t number = sets.number(all);
    class_of_[at(stream)] = number;
    if (transfers.size() == 1) {
      by_route.emplace(route_key, number);
    }
    if (number == count_of(connections_)) {
      int64_t overhead_ps = 0;
      for (const int32_t rank : order_.sources(stream)) {
        overhead_ps =
            std::max(overhead_ps, topology.node(schedule.participants[at(rank)]).overhead_ps);
      }
      connections_.push_back({std::move(all), latency.stream(transfers), overhead_ps});
    }
  }
}

// Writes out every translate of every class of connections.
void LoweredSchedule::instantiate(const LinkTranslation& links, const Topology& topology) {
  const std::vector<LoweredConnection> classes = std::move(connections_);
  connections_.clear();
  connections_.reserve(classes.size() * at(instance_count_));
  for (const LoweredConnection& one : classes) {
    for (int32_t rank = 0; rank < instance_count_; ++rank) {
      LoweredConnection moved;
      moved.overhead_ps = topology.node(schedule_->participants[at(rank)]).overhead_ps;
      for (const LinkId link : one.links) {
        moved.links.push_back(links.translate(link, rank));
        moved.latency_ps =
            add_times_ps(moved.latency_ps, topology.link(moved.links.back()).latency_ps);
      }
      connections_.push_back(std::move(moved));
    }
  }
}

int64_t LoweredSchedule::wire_bytes(int64_t payload) const {
  if (framing_.header_bytes == 0) {
    return payload;
  }
  const int64_t packets =
      flow_control_ == FlowControl::kMessage
          ? 1
          : std::max<int64_t>(1, (payload + framing_.packet_bytes - 1) / framing_.packet_bytes);
  return payload + packets * framing_.header_bytes;
}

bool LoweredSchedule::has_plain_priorities() const {
  std::vector<int32_t> last_step(connections_.size(), -1);  // streams come in step order
  for (int32_t stream = 0; stream < order_.stream_count(); ++stream) {
    int32_t& last = last_step[at(class_of_[at(stream)])];
    if (last == order_.stream(stream).step) {
      return false;
    }
    last = order_.stream(stream).step;
  }
  return true;
}

Result<LoweredJob> LoweredJob::create(std::shared_ptr<const LoweredSchedule> plan,
                                      int64_t size_bytes) {
  PLEACH_ASSIGN(placement, Placement::create(plan->schedule(), size_bytes));
  LoweredJob job(std::move(plan), placement);
  job.measure_segments();
  return job;
}

Result<LoweredJob> LoweredJob::create(const Topology& topology, const Schedule& schedule,
                                      int64_t size_bytes, const SimulationOptions& options,
                                      Instances instances) {
  PLEACH_ASSIGN(plan, LoweredSchedule::create(topology, schedule, options, instances));
  return create(std::move(plan), size_bytes);
}

void LoweredJob::measure_segments() {
  const ChunkGrid& grid = schedule().chunks;
  const int64_t length = placement_.length(0);
  for (int32_t chunk = 1; chunk < grid.count(); ++chunk) {
    if (placement_.length(chunk) != length) {
      return;
    }
  }
  for (int32_t segment = 0; segment < shared_->segment_count(); ++segment) {
    equal_segment_bytes_.push_back(
        segment_boundary(0, length, segment + 1, shared_->segment_count()) -
        segment_boundary(0, length, segment, shared_->segment_count()));
  }
}

int64_t LoweredJob::segment_bytes(int32_t chunk, int32_t segment, int32_t instance) const {
  if (!equal_segment_bytes_.empty()) {
    return equal_segment_bytes_[at(segment)];
  }
  const int64_t length = placement_.length(shared_->chunk_in(chunk, instance));
  const int32_t segment_count = shared_->segment_count();
  return segment_boundary(0, length, segment + 1, segment_count) -
         segment_boundary(0, length, segment, segment_count);
}

int64_t LoweredJob::payload_bytes(int32_t stream, int32_t segment, int32_t instance) const {
  const Stream& what = order().stream(stream);
  if (!equal_segment_bytes_.empty()) {
    return equal_segment_bytes_[at(segment)] * what.chunk_count;
  }
  int64_t sum = 0;
  for (int32_t chunk = what.first_chunk; chunk < what.first_chunk + what.chunk_count; ++chunk) {
    sum += segment_bytes(chunk, segment, instance);
  }
  return sum;
}

int64_t LoweredJob::largest_payload_bytes() const {
  int64_t largest = 0;
  for (int32_t stream = 0; stream < order().stream_count(); ++stream) {
    largest = std::max(largest, payload_bytes(stream, shared_->segment_count() - 1, 0));
  }
  return largest;
}

void LoweredJob::unfold(const Topology& topology, Simulation& result) const {
  const auto links = LinkTranslation::create(schedule(), topology, true);
  PLEACH_CHECK(links.has_value(), "a folded schedule has its symmetry");
  std::vector<LinkUse> by_class(at(links->class_count()));
  for (std::size_t link = 0; link < result.links.size(); ++link) {
    LinkUse& sum = by_class[at(links->class_of(LinkId{static_cast<int32_t>(link)}))];
    sum.busy_ps += result.links[link].busy_ps;
    sum.wire_bytes += result.links[link].wire_bytes;
  }
  for (std::size_t link = 0; link < result.links.size(); ++link) {
    result.links[link] = by_class[at(links->class_of(LinkId{static_cast<int32_t>(link)}))];
  }
  result.event_count *= schedule().rank_count();
  result.folded = true;
}

bool LoweredJob::can_fold(const Topology& topology, const Schedule& schedule, int64_t size_bytes) {
  return schedule.symmetry.has_value() && schedule.chunks.is_uniform() &&
         has_equal_chunks(schedule, size_bytes) &&
         LinkTranslation::create(schedule, topology, true).has_value();
}

bool LoweredJob::has_equal_chunks(const Schedule& schedule, int64_t size_bytes) {
  const auto placement = Placement::create(schedule, size_bytes);
  if (!placement) {
    return false;
  }
  const int32_t last = schedule.chunks.count() - 1;
  const int64_t end = placement->begin(last) + placement->length(last);
  return end % schedule.chunks.count() == 0;
}

}  // namespace pleach
