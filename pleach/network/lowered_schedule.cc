#include "pleach/network/lowered_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "pleach/base/index.h"
#include "pleach/base/interruption.h"
#include "pleach/base/units.h"
#include "pleach/collective/switch_streams.h"

namespace pleach {
namespace {

// Streams through switches: the longest latency from a source to a target, and what they ask of
// switches. Nothing is looked at before it is asked for.
class SwitchTrees {
 public:
  SwitchTrees(const Schedule& schedule, const Topology& topology)
      : schedule_(schedule), topology_(topology) {}

  int64_t route_latency_ps(int32_t transfer) const {
    int64_t sum_ps = 0;
    for (const LinkId link : schedule_.routes[schedule_.transfers[at(transfer)].route]) {
      sum_ps = add_times_ps(sum_ps, topology_.hop_latency_ps(link));
    }
    return sum_ps;
  }
  // Of the stream that the transfer is part of.
  int64_t latency_ps(int32_t transfer) { return latencies_ps_[tree_of(transfer)]; }
  const std::vector<SwitchPass>& passes(int32_t transfer) { return passes_[tree_of(transfer)]; }

 private:
  std::size_t tree_of(int32_t transfer) {
    if (!streams_.has_value()) {
      streams_.emplace(schedule_, RankOfNode(schedule_.participants));
      std::vector<int64_t> hop_ps;
      for (const Hop& hop : streams_->hops()) {
        hop_ps.push_back(route_latency_ps(hop.transfer));
      }
      latencies_ps_ = longest_ways_ps(*streams_, hop_ps);
      passes_ = switch_passes(topology_, schedule_, *streams_);
    }
    const auto hop = std::ranges::lower_bound(streams_->hops(), transfer, {}, &Hop::transfer);
    return at(streams_->stream_of(*hop));
  }

  const Schedule& schedule_;
  const Topology& topology_;
  std::optional<SwitchStreams> streams_;
  std::vector<int64_t> latencies_ps_;  // by stream of those
  std::vector<std::vector<SwitchPass>> passes_;
};

// Numbers distinct ways: a set of links, and where a switch is passed more than once, which of them
// each pass joins. (Else the links say it.) It does not depend on where a way is cut into hops, nor
// on the numbers of passes.
class Ways {
 public:
  int32_t number(const LoweredConnection& connection) {
    std::vector<int32_t> key;
    append(connection.links, key);
    std::ranges::sort(key);
    std::vector<SwitchPass> passes = connection.passes;
    std::ranges::sort(passes, {}, [](const SwitchPass& pass) {
      return std::tie(pass.node, pass.inputs, pass.outputs);
    });
    const auto again = std::ranges::adjacent_find(passes, {}, &SwitchPass::node);
    for (const SwitchPass& pass : again == passes.end() ? std::vector<SwitchPass>() : passes) {
      for (const auto& links : {std::span(pass.inputs), std::span(pass.outputs)}) {
        key.push_back(kSeparator);
        append(links, key);
      }
    }
    const auto next = count_of(numbers_);
    return numbers_.try_emplace(std::move(key), next).first->second;
  }

 private:
  static constexpr int32_t kSeparator = -1;

  static void append(std::span<const LinkId> links, std::vector<int32_t>& key) {
    for (const LinkId link : links) {
      key.push_back(link.value);
    }
  }

  std::map<std::vector<int32_t>, int32_t> numbers_;
};

// Fine segments are for large chunks, not for many; beyond this it is a matter of minutes.
constexpr int32_t kFineSegments = 1'024;
constexpr int64_t kMostFineMoves = int64_t{1} << 23;

Status check_fineness(int32_t segment_count, int64_t moves) {
  if (segment_count <= kFineSegments || moves * segment_count <= kMostFineMoves) {
    return ok();
  }
  return invalid(fmt::format("segments {}: too many for {} chunks that are moved; {} will do",
                             segment_count, moves,
                             std::max<int64_t>(kFineSegments, kMostFineMoves / moves)));
}

}  // namespace

Result<std::shared_ptr<const LoweredSchedule>> LoweredSchedule::create(
    const Topology& topology, std::shared_ptr<const Schedule> schedule,
    const SimulationOptions& options, bool is_folded) {
  // Not make_shared: the constructor is private.
  const std::shared_ptr<LoweredSchedule> lowered(new LoweredSchedule(std::move(schedule)));
  lowered->segment_count_ = options.segment_count;
  lowered->headers_ = {topology.framing(), options.flow_control};
  lowered->order_ = Order::build(*lowered->schedule_);
  const bool is_symmetric = lowered->schedule_->symmetry.has_value();
  const int32_t translates = is_symmetric && !is_folded ? lowered->schedule_->rank_count() : 1;
  PLEACH_TRY(
      check_fineness(options.segment_count, int64_t{lowered->order_.commit_count()} * translates));
  if (!is_symmetric) {
    lowered->find_connections(topology, nullptr);
    return std::shared_ptr<const LoweredSchedule>(lowered);
  }
  const std::vector<int32_t>& dimensions = lowered->schedule_->symmetry->dimensions;
  lowered->translation_.emplace(dimensions);
  lowered->is_one_dimensional_ = dimensions.size() == 1;
  lowered->is_folded_ = is_folded;
  PLEACH_ASSIGN(links, LinkTranslation::create(*lowered->schedule_, topology, false));
  lowered->find_connections(topology, &links);
  lowered->translate_count_ = translates;
  if (!is_folded) {
    lowered->instantiate(links, topology);
  }
  return std::shared_ptr<const LoweredSchedule>(lowered);
}

// A connection is a set of links: the route of a plain transfer, all links of a switch tree. In the
// symmetric form routes are moved to rank 0 first, so that a set stands for a class of connections.
void LoweredSchedule::find_connections(const Topology& topology, const LinkTranslation* links) {
  const Schedule& schedule = *schedule_;
  SwitchTrees trees(schedule, topology);
  Ways ways;
  std::unordered_map<int64_t, int32_t> by_route;
  class_of_.resize(at(order_.stream_count()));
  for (int32_t stream = 0; stream < order_.stream_count(); ++stream) {
    check_interruption();
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
    LoweredConnection connection;
    std::vector<LinkId>& all = connection.links;
    for (const int32_t transfer : transfers) {
      for (const LinkId link : schedule.routes[schedule.transfers[at(transfer)].route]) {
        all.push_back(links == nullptr ? link
                                       : links->translate(link, translation_->subtract(0, origin)));
      }
    }
    if (transfers.size() > 1) {
      std::sort(all.begin(), all.end());
      all.erase(std::unique(all.begin(), all.end()), all.end());
      connection.passes = trees.passes(transfers.front());
    }
    const int32_t number = ways.number(connection);
    class_of_[at(stream)] = number;
    if (transfers.size() == 1) {
      by_route.emplace(route_key, number);
    }
    if (number == count_of(connections_)) {
      for (const int32_t rank : order_.sources(stream)) {
        const NodeId node = schedule.participants[at(rank)];
        connection.overhead_ps = std::max(connection.overhead_ps, topology.node(node).overhead_ps);
      }
      connection.latency_ps = transfers.size() == 1 ? trees.route_latency_ps(transfers.front())
                                                    : trees.latency_ps(transfers.front());
      connections_.push_back(std::move(connection));
    }
  }
}

// Writes out every translate of every class of connections.
void LoweredSchedule::instantiate(const LinkTranslation& links, const Topology& topology) {
  const std::vector<LoweredConnection> classes = std::move(connections_);
  connections_.clear();
  connections_.reserve(classes.size() * at(translate_count_));
  for (const LoweredConnection& one : classes) {
    for (int32_t rank = 0; rank < translate_count_; ++rank) {
      LoweredConnection moved;
      check_interruption();
      moved.overhead_ps = topology.node(schedule_->participants[at(rank)]).overhead_ps;
      for (const LinkId link : one.links) {
        moved.links.push_back(links.translate(link, rank));
        moved.latency_ps =
            add_times_ps(moved.latency_ps, topology.hop_latency_ps(moved.links.back()));
      }
      connections_.push_back(std::move(moved));
    }
  }
}

int64_t LoweredSchedule::wire_bytes(int64_t payload) const {
  const auto& [header_bytes, packet_bytes] = headers_.framing;
  if (header_bytes == 0) {
    return payload;
  }
  const int64_t packets = headers_.flow_control == FlowControl::kMessage
                              ? 1
                              : std::max<int64_t>(1, (payload + packet_bytes - 1) / packet_bytes);
  return payload + packets * header_bytes;
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

Result<SegmentSizes> SegmentSizes::create(const Schedule& schedule, int64_t size_bytes,
                                          int32_t segment_count) {
  PLEACH_ASSIGN(placement, Placement::create(schedule, size_bytes));
  SegmentSizes sizes(placement, segment_count);
  const int64_t length = placement.length(0);
  for (int32_t chunk = 1; chunk < schedule.chunks.count(); ++chunk) {
    if (placement.length(chunk) != length) {
      return sizes;
    }
  }
  for (int32_t segment = 0; segment < segment_count; ++segment) {
    sizes.equal_bytes_.push_back(sizes.measure(length, segment));
  }
  return sizes;
}

int64_t SegmentSizes::measure(int64_t chunk_bytes, int32_t segment) const {
  return segment_boundary(0, chunk_bytes, segment + 1, segment_count_) -
         segment_boundary(0, chunk_bytes, segment, segment_count_);
}

int64_t LoweredJob::payload_bytes(const Send& send) const {
  const Stream& what = order().stream(send.stream);
  if (sizes_->chunks_are_alike()) {
    return sizes_->bytes(what.first_chunk, send.segment) * what.chunk_count;
  }
  int64_t sum = 0;
  for (int32_t chunk = what.first_chunk; chunk < what.first_chunk + what.chunk_count; ++chunk) {
    sum += sizes_->bytes(schedule_->chunk_of(chunk, send.translate), send.segment);
  }
  return sum;
}

int64_t LoweredJob::bytes(const Arrival& arrival) const {
  const int32_t chunk = order().slot(order().commit(arrival.commit).slot).chunk;
  return sizes_->bytes(schedule_->chunk_of(chunk, arrival.translate), arrival.segment);
}

int64_t LoweredJob::largest_payload_bytes() const {
  int64_t largest = 0;
  const int32_t segment = schedule_->segment_count() - 1;
  const int32_t translates = sizes_->chunks_are_alike() ? 1 : schedule_->translate_count();
  for (int32_t stream = 0; stream < order().stream_count(); ++stream) {
    check_interruption();
    for (int32_t translate = 0; translate < translates; ++translate) {
      largest = std::max(largest, payload_bytes(schedule_->send(stream, segment, translate)));
    }
  }
  return largest;
}

}  // namespace pleach
