#include "pleach/collective/verify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/interruption.h"
#include "pleach/collective/merge_chunks.h"
#include "pleach/collective/order.h"
#include "pleach/collective/rank_of_node.h"
#include "pleach/collective/switch_passes.h"
#include "pleach/collective/switch_streams.h"
#include "pleach/collective/symmetry.h"
#include "pleach/collective/verify_chunk.h"

namespace pleach {
namespace {

constexpr std::size_t kViolationLimit = 20;

// The streams that carry each chunk, in step order.
class StreamsOfChunk {
 public:
  StreamsOfChunk(const Order& order, int32_t chunk_count) : first_(at(chunk_count) + 1) {
    for (int32_t stream = 0; stream < order.stream_count(); ++stream) {
      const Stream& what = order.stream(stream);
      for (int32_t chunk = what.first_chunk; chunk < what.first_chunk + what.chunk_count; ++chunk) {
        ++first_[at(chunk) + 1];
      }
    }
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    streams_.resize(first_.back());
    std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
    for (int32_t stream = 0; stream < order.stream_count(); ++stream) {
      const Stream& what = order.stream(stream);
      for (int32_t chunk = what.first_chunk; chunk < what.first_chunk + what.chunk_count; ++chunk) {
        streams_[next[at(chunk)]++] = stream;
      }
    }
  }
  std::span<const int32_t> operator[](int32_t chunk) const {
    return std::span(streams_).subspan(first_[at(chunk)],
                                       first_[at(chunk) + 1] - first_[at(chunk)]);
  }

 private:
  std::vector<std::size_t> first_;
  std::vector<int32_t> streams_;
};

// How messages name a chunk of the schedule, or of what its chunks were merged into.
std::string name_of(int32_t chunk, const std::optional<MergedChunks>& merged) {
  const int32_t begin = merged ? merged->first_chunk[at(chunk)] : chunk;
  const int32_t end = merged ? merged->first_chunk[at(chunk) + 1] : chunk + 1;
  return end - begin == 1 ? fmt::format("chunk {}", begin)
                          : fmt::format("chunks [{}, {})", begin, end);
}

// `merged`: where the schedule comes from, if it is not what somebody wrote.
void verify_values(const Schedule& schedule, const Order& order,
                   const std::optional<MergedChunks>& merged, Verification& verification) {
  const int32_t chunk_count = representative_chunk_count(schedule);
  const StreamsOfChunk streams(order, chunk_count);
  ChunkPass pass(schedule, order);
  std::vector<std::string>& violations = verification.violations;
  verification.bitwise_replicated = true;
  for (int32_t chunk = 0; chunk < chunk_count; ++chunk) {
    check_interruption();
    const std::size_t named = violations.size();
    const bool equal = pass.run(chunk, streams[chunk], kViolationLimit, violations);
    verification.bitwise_replicated = verification.bitwise_replicated && equal;
    for (std::size_t i = named; i < violations.size(); ++i) {
      violations[i] = fmt::format("{}: {}", name_of(chunk, merged), violations[i]);
    }
    if (violations.size() >= kViolationLimit) {  // a hopeless schedule is left early
      verification.bitwise_replicated = false;
      return;
    }
  }
  verification.correct = violations.empty();
}

// Streams in the order of their slots (step mod period).
std::vector<int32_t> by_slot(const Schedule& schedule, const Order& order) {
  std::vector<int32_t> streams(at(order.stream_count()));
  std::iota(streams.begin(), streams.end(), 0);
  if (schedule.period < schedule.step_count()) {  // else they are: streams are in step order
    std::stable_sort(streams.begin(), streams.end(), [&](int32_t left, int32_t right) {
      return order.stream(left).step % schedule.period < order.stream(right).step % schedule.period;
    });
  }
  return streams;
}

// Whether no two streams occupy one lane in one slot; `lane(link)` is its index below `lane_count`,
// the link itself or what stands for it.
template <typename Lane>
bool slots_distinct(const Schedule& schedule, const Order& order, std::size_t lane_count,
                    const Lane& lane) {
  struct Use {
    int32_t slot = -1;
    int32_t stream = -1;
    int32_t transfer = -1;
  };
  std::vector<Use> last(lane_count);
  for (const int32_t stream : by_slot(schedule, order)) {
    check_interruption();
    const int32_t slot = order.stream(stream).step % schedule.period;
    for (const int32_t transfer : order.transfers(stream)) {
      const int32_t route = schedule.transfers[at(transfer)].route;
      if (route == kNoRoute) {
        return false;
      }
      for (const LinkId link : schedule.routes[route]) {
        Use& use = last[lane(link)];
        // One stream through a multicast switch may reach several targets over one link.
        const bool same_stream = use.stream == stream && use.transfer != transfer;
        if (use.slot == slot && !same_stream) {
          return false;
        }
        use = {slot, stream, transfer};
      }
    }
  }
  return true;
}

bool contention_free(const Schedule& schedule, const Topology* topology, const Order& order) {
  if (schedule.symmetry) {
    if (topology == nullptr) {
      return false;
    }
    const auto links = LinkTranslation::create(schedule, *topology, false);
    return links && slots_distinct(schedule, order, at(links->class_count()),
                                   [&](LinkId link) { return at(links->class_of(link)); });
  }
  std::size_t link_count = topology == nullptr ? 0 : topology->links().size();
  if (topology == nullptr) {  // as many as the routes name
    for (int32_t route = 0; route < schedule.routes.size(); ++route) {
      for (const LinkId link : schedule.routes[route]) {
        if (link.value < 0) {
          return false;
        }
        link_count = std::max(link_count, link.index() + 1);
      }
    }
  }
  return link_count <= at(kMaxScheduleLinks) &&
         slots_distinct(schedule, order, link_count, [](LinkId link) { return link.index(); });
}

// What a transfer, and the stream that it is part of, asks of a switch in a slot.
struct SwitchUse {
  int32_t slot = 0;
  int32_t transfer = 0;
  SwitchPass pass;
  auto place() const { return std::tie(slot, pass.node); }
};

std::vector<SwitchUse> switch_uses(const Schedule& schedule, const Topology& topology) {
  std::vector<SwitchUse> uses;
  const RankOfNode rank_of(schedule.participants);
  for (int32_t index = 0; index < count_of(schedule.transfers); ++index) {
    check_interruption();
    const Transfer& transfer = schedule.transfers[at(index)];
    if (rank_of(transfer.source) == kNoRank || rank_of(transfer.target) == kNoRank) {
      continue;
    }
    for (SwitchPass& pass : switch_passes(topology, schedule.routes[transfer.route])) {
      uses.push_back({transfer.step % schedule.period, index, std::move(pass)});
    }
  }
  const SwitchStreams streams(schedule, rank_of);
  auto passes = switch_passes(topology, schedule, streams);
  for (const Hop& hop : streams.hops()) {
    for (SwitchPass& pass : std::exchange(passes[at(streams.stream_of(hop))], {})) {
      const int32_t step = schedule.transfers[at(hop.transfer)].step;
      uses.push_back({step % schedule.period, hop.transfer, std::move(pass)});
    }
  }
  std::ranges::stable_sort(uses, {}, [](const SwitchUse& use) { return use.place(); });
  return uses;
}

std::vector<std::string> switch_conflicts(const Schedule& schedule, const Topology& topology,
                                          const SwitchJudge& judge) {
  if (schedule.symmetry) {  // all translates
    const auto whole = expand(schedule, &topology);
    return whole ? switch_conflicts(*whole, topology, judge)
                 : std::vector<std::string>{whole.error().message};
  }
  std::vector<std::string> lines;
  const std::vector<SwitchUse> uses = switch_uses(schedule, topology);
  for (std::size_t begin = 0, end = 0; begin < uses.size() && lines.size() < kViolationLimit;
       begin = end) {
    check_interruption();
    std::vector<const SwitchPass*> passes;
    for (; end < uses.size() && uses[end].place() == uses[begin].place(); ++end) {
      passes.push_back(&uses[end].pass);
    }
    std::set<int32_t> transfers;
    for (const int32_t pass : judge(uses[begin].pass.node, passes)) {
      transfers.insert(uses[begin + at(pass)].transfer);
    }
    if (!transfers.empty()) {
      lines.push_back(fmt::format(
          "slot {}: switch {} cannot carry the streams of transfers[{}] at once", uses[begin].slot,
          topology.node(uses[begin].pass.node).name, fmt::join(transfers, "], transfers[")));
    }
  }
  return lines;
}

}  // namespace

Verification verify(const Schedule& schedule, const Topology* topology, const SwitchJudge& judge) {
  Verification verification;
  verification.violations = check_form(schedule, topology, kViolationLimit);
  if (!verification.violations.empty()) {
    return verification;
  }
  const auto routeless = [](const Transfer& transfer) { return transfer.route == kNoRoute; };
  if (topology != nullptr &&
      std::any_of(schedule.transfers.begin(), schedule.transfers.end(), routeless)) {
    Schedule routed = schedule;
    if (const Status status = fill_routes(routed, *topology); !status) {
      verification.violations.push_back(status.error().message);
      return verification;
    }
    return verify(routed, topology, judge);
  }
  const std::optional<MergedChunks> merged = merge_alike_chunks(schedule);
  const Schedule& judged = merged ? merged->schedule : schedule;
  const Order order = Order::build(judged);
  verify_values(judged, order, merged, verification);
  verification.contention_free = contention_free(judged, topology, order);
  if (judge != nullptr && topology != nullptr) {
    verification.switch_conflicts = switch_conflicts(schedule, *topology, judge);
    verification.contention_free &= verification.switch_conflicts.empty();
  }
  return verification;
}

std::optional<bool> is_planned_for(const Schedule& schedule, const Topology& topology) {
  const uint64_t planned = schedule.provenance.topology_fingerprint;
  return planned == 0 ? std::nullopt : std::optional(planned == topology.fingerprint());
}

std::string first_violation(const Verification& verification, const Schedule& schedule,
                            const Topology* topology) {
  const bool is_foreign = topology != nullptr && is_planned_for(schedule, *topology) == false;
  return verification.violations.front() +
         (is_foreign ? " (it was planned for another topology)" : "");
}

}  // namespace pleach
