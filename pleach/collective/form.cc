// check_form: the rules that need no symbolic pass.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/interruptible_sort.h"
#include "pleach/base/interruption.h"
#include "pleach/collective/io_roots.h"
#include "pleach/collective/placement.h"
#include "pleach/collective/rank_of_node.h"
#include "pleach/collective/schedule.h"
#include "pleach/collective/switch_streams.h"
#include "pleach/collective/symmetry.h"
#include "pleach/collective/violations.h"

namespace pleach {
namespace {

// A stream's arrival at a rank: an interval of chunks in one step.
struct Arrival {
  int32_t target = 0;  // rank
  int32_t step = 0;
  int32_t first_chunk = 0;
  int32_t end_chunk = 0;
  int32_t source = 0;  // smallest rank of the stream
  int32_t transfer = 0;
  auto group() const { return std::tie(target, step); }
};

class FormCheck {
 public:
  FormCheck(const Schedule& schedule, const Topology* topology, std::size_t limit)
      : schedule_(schedule), topology_(topology), violations_(limit) {}

  std::vector<std::string> run() &&;

 private:
  const Transfer& transfer(int32_t index) const { return schedule_.transfers[at(index)]; }
  void fault(int32_t index, const std::string& why) { violations_.add(schedule_, at(index), why); }
  void check_sorted();
  void check_grid();
  void check_symmetric_transfers();
  void check_passes();
  void check_nodes();
  void check_routes();
  std::string route_fault(std::span<const LinkId> route, std::vector<int32_t>& seen,
                          int32_t stamp) const;
  void sort_out_transfers();
  void check_crossings(const SwitchStreams& streams);
  void check_crossing(const SwitchStreams& streams, int32_t number);
  void check_trees(const SwitchStreams& streams);
  void check_leaves(const SwitchStreams& streams);
  void check_shared_links(const SwitchStreams& streams);
  void check_slots();
  void check_arrivals();
  void check_group(std::span<Arrival> group);

  const Schedule& schedule_;
  const Topology* topology_;
  Violations violations_;
  RankOfNode rank_of_;
  std::vector<Arrival> arrivals_;
};

void FormCheck::check_sorted() {
  const auto key = [](const Transfer& t) {
    return std::tie(t.step, t.first_chunk, t.source, t.target);
  };
  for (std::size_t i = 1; i < schedule_.transfers.size(); ++i) {
    check_interruption();
    if (key(schedule_.transfers[i]) < key(schedule_.transfers[i - 1])) {
      violations_.add(schedule_, i, "out of order: sorted by step, first chunk, source, target");
      return;
    }
  }
}

// Where each rank's part of the buffer begins must be a boundary of the grid for every size.
void FormCheck::check_grid() {
  const int64_t parts = part_count(schedule_.collective, schedule_.rank_count());
  const ChunkGrid& grid = schedule_.chunks;
  if (grid.count() < parts) {
    violations_.add(fmt::format("chunks: {} of them cannot hold the {} parts of {} on {} ranks",
                                grid.count(), parts, to_text(schedule_.collective),
                                schedule_.rank_count()));
    return;
  }
  if (grid.is_uniform() && grid.count() % parts == 0) {
    return;
  }
  for (int64_t part = 1; part < parts; ++part) {
    const __int128 position = static_cast<__int128>(grid.total()) * part;
    if (position % parts != 0 || grid.chunk_at(static_cast<int64_t>(position / parts)) < 0) {
      violations_.add(fmt::format("chunks: part {} of {} of {} does not begin at a chunk", part,
                                  parts, to_text(schedule_.collective)));
      return;
    }
  }
}

void FormCheck::check_symmetric_transfers() {
  const int32_t representatives = representative_chunk_count(schedule_);
  const int32_t block = block_chunk_count(schedule_);
  for (int32_t i = 0; at(i) < schedule_.transfers.size() && !violations_.full(); ++i) {
    check_interruption();
    const Transfer& t = transfer(i);
    const int32_t last = t.first_chunk + t.chunk_count - 1;
    if (last >= representatives) {
      fault(i, fmt::format("the representative chunks are [0, {})", representatives));
    } else if (t.first_chunk / block != last / block) {
      fault(i, fmt::format("the chunks leave their block of {}", block));
    } else if (rank_of_(t.source) == kNoRank || rank_of_(t.target) == kNoRank) {
      fault(i, "the symmetric form has no nodes but participants");
    }
  }
}

void FormCheck::check_passes() {
  for (int32_t i = 0; at(i) < schedule_.transfers.size() && !violations_.full(); ++i) {
    check_interruption();
    const Transfer& t = transfer(i);
    for (const auto& [node, pass] :
         {std::pair(t.source, t.source_pass), std::pair(t.target, t.target_pass)}) {
      if (pass != 0 && rank_of_(node) != kNoRank) {
        fault(i, fmt::format("node {} is a participant, which has no passes", node.value));
      }
    }
  }
}

void FormCheck::check_nodes() {
  const auto nodes = topology_->nodes();
  for (int32_t rank = 0; rank < schedule_.rank_count() && !violations_.full(); ++rank) {
    const NodeId node = schedule_.participants[at(rank)];
    if (node.index() >= nodes.size()) {
      violations_.add(fmt::format("participants[{}]: the topology has {} nodes, not node {}", rank,
                                  nodes.size(), node.value));
    } else if (!may_take_part(topology_->node(node), Rank{rank}, schedule_.collective,
                              schedule_.root)) {
      violations_.add(fmt::format("participants[{}]: node {} ({}) is no rank", rank, node.value,
                                  topology_->node(node).name));
    }
  }
  for (int32_t i = 0; at(i) < schedule_.transfers.size() && !violations_.full(); ++i) {
    check_interruption();
    for (const NodeId node : {transfer(i).source, transfer(i).target}) {
      if (rank_of_(node) != kNoRank) {
        continue;
      }
      if (node.index() >= nodes.size()) {
        fault(i, fmt::format("the topology has {} nodes, not node {}", nodes.size(), node.value));
      } else if (topology_->node(node).kind != NodeKind::kSwitch) {
        fault(i, fmt::format("node {} ({}) is neither a participant nor a switch", node.value,
                             topology_->node(node).name));
      }
    }
  }
}

// What keeps the links from being a path, or nothing. `seen` holds the stamp of visited nodes.
std::string FormCheck::route_fault(std::span<const LinkId> route, std::vector<int32_t>& seen,
                                   int32_t stamp) const {
  for (std::size_t i = 0; i < route.size(); ++i) {
    if (route[i].index() >= topology_->links().size()) {
      return fmt::format("the topology has {} links, not link {}", topology_->links().size(),
                         route[i].value);
    }
    const Link& link = topology_->link(route[i]);
    seen[link.source.index()] = stamp;
    if (seen[link.target.index()] == stamp) {
      return fmt::format("it visits node {} twice", link.target.value);
    }
    if (i == 0) {
      continue;
    }
    if (topology_->link(route[i - 1]).target != link.source) {
      return fmt::format("link {} does not begin where link {} ends", route[i].value,
                         route[i - 1].value);
    }
    if (!passes_through(topology_->node(link.source))) {
      return fmt::format("node {} ({}) does not forward", link.source.value,
                         topology_->node(link.source).name);
    }
  }
  return "";
}

void FormCheck::check_routes() {
  std::vector<int32_t> seen(topology_->nodes().size(), -1);
  for (int32_t route = 0; route < schedule_.routes.size() && !violations_.full(); ++route) {
    check_interruption();
    if (const std::string why = route_fault(schedule_.routes[route], seen, route); !why.empty()) {
      violations_.add(fmt::format("routes[{}]: {}", route, why));
    }
  }
  if (!violations_.empty()) {
    return;
  }
  for (int32_t i = 0; at(i) < schedule_.transfers.size() && !violations_.full(); ++i) {
    check_interruption();
    if (transfer(i).route == kNoRoute) {
      continue;
    }
    const auto route = schedule_.routes[transfer(i).route];
    const NodeId begin = topology_->link(route.front()).source;
    const NodeId end = topology_->link(route.back()).target;
    if (begin != transfer(i).source || end != transfer(i).target) {
      fault(i, fmt::format("route {} leads from node {} to node {}", transfer(i).route, begin.value,
                           end.value));
    }
  }
}

// Plain transfers are arrivals at once; those at switches are judged first.
void FormCheck::sort_out_transfers() {
  arrivals_.reserve(schedule_.transfers.size());
  for (int32_t i = 0; at(i) < schedule_.transfers.size(); ++i) {
    check_interruption();
    const Transfer& t = transfer(i);
    const int32_t source = rank_of_(t.source), target = rank_of_(t.target);
    if (source != kNoRank && target != kNoRank) {
      arrivals_.push_back(
          {target, t.step, t.first_chunk, t.first_chunk + t.chunk_count, source, i});
    }
  }
  if (arrivals_.size() == schedule_.transfers.size()) {
    return;
  }
  const SwitchStreams streams(schedule_, rank_of_);
  check_crossings(streams);
  if (violations_.empty()) {
    check_trees(streams);
  }
  if (violations_.empty()) {
    check_leaves(streams);
  }
  if (topology_ != nullptr && violations_.empty()) {
    check_shared_links(streams);
  }
}

void FormCheck::check_crossings(const SwitchStreams& streams) {
  const Transfer* last = nullptr;  // of those at the crossing before
  for (int32_t number = 0; number < count_of(streams.crossings()) && !violations_.full();
       ++number) {
    const int32_t index = streams.hops()[at(streams.hops_at(number).front())].transfer;
    const auto place = [&](int32_t crossing) {
      return std::pair(streams.crossings()[at(crossing)].node,
                       streams.crossings()[at(crossing)].pass);
    };
    const Transfer& t = transfer(index);
    if (number > 0 && place(number) == place(number - 1) && t.step == last->step &&
        t.first_chunk < last->first_chunk + last->chunk_count) {
      fault(index,
            fmt::format("at switch {} its chunks overlap others of the step, but are not the same",
                        place(number).first));
      return;
    }
    last = &t;
    check_crossing(streams, number);
  }
}

void FormCheck::check_crossing(const SwitchStreams& streams, int32_t number) {
  const Crossing& crossing = streams.crossings()[at(number)];
  const int32_t first = streams.hops()[at(streams.hops_at(number).front())].transfer;
  if (crossing.arrival_count == 0 || crossing.departure_count == 0) {
    fault(first, fmt::format("switch {} holds nothing: the step has {} arrivals and {} departures "
                             "of these chunks there",
                             crossing.node, crossing.arrival_count, crossing.departure_count));
    return;
  }
  for (const int32_t index : streams.hops_at(number)) {
    const Hop& hop = streams.hops()[at(index)];
    if (crossing.arrival_count > 1 && hop.to == number &&
        transfer(hop.transfer).op != TransferOp::kReduce) {
      fault(hop.transfer, fmt::format("of {} arrivals at switch {} each must reduce",
                                      crossing.arrival_count, crossing.node));
    }
  }
  if (topology_ == nullptr) {
    return;
  }
  const Node& node = topology_->node(NodeId{crossing.node});
  if (crossing.arrival_count > 1 && !node.reduces) {
    fault(first, fmt::format("switch {} ({}) does not reduce", crossing.node, node.name));
  }
  if (crossing.departure_count > 1 && !node.multicasts) {
    fault(first, fmt::format("switch {} ({}) does not multicast", crossing.node, node.name));
  }
}

// A stream is an in-tree of crossings and then an out-tree: no loop, and no switch that joins what
// one before it has multiplied, so that every source reaches every target exactly once.
void FormCheck::check_trees(const SwitchStreams& streams) {
  const std::span<const Hop> hops = streams.hops();
  const std::span<const Crossing> crossings = streams.crossings();
  const std::vector<int32_t> onward = streams.onward();
  std::vector<bool> multiplied(crossings.size(), false);
  for (std::size_t i = 0; i < onward.size() && !violations_.full(); ++i) {
    const int32_t from = onward[i];
    const bool multiplies = multiplied[at(from)] || crossings[at(from)].departure_count > 1;
    for (const int32_t index : streams.hops_at(from)) {
      const Hop& hop = hops[at(index)];
      if (hop.from != from || hop.to == kNoCrossing) {
        continue;
      }
      if (multiplies && crossings[at(hop.to)].arrival_count > 1) {
        fault(hop.transfer, fmt::format("switch {} joins what a switch before it has multiplied",
                                        crossings[at(hop.to)].node));
      }
      multiplied[at(hop.to)] = multiplied[at(hop.to)] || multiplies;
    }
  }
  if (onward.size() == crossings.size() || violations_.full()) {
    return;
  }
  std::vector<bool> is_onward(crossings.size(), false);
  for (const int32_t crossing : onward) {
    is_onward[at(crossing)] = true;
  }
  const auto loops = std::ranges::find_if(
      hops, [&](const Hop& hop) { return hop.to != kNoCrossing && !is_onward[at(hop.to)]; });
  fault(loops->transfer, "the switches of its stream form a loop");
}

// The ends of the streams: distinct ranks, one op at all targets.
void FormCheck::check_leaves(const SwitchStreams& streams) {
  struct Leaf {
    int32_t stream = 0;
    bool is_target = false;
    int32_t rank = 0;
    int32_t transfer = 0;
    auto end() const { return std::tie(stream, is_target); }
  };
  std::vector<Leaf> leaves;
  for (const Hop& hop : streams.hops()) {
    check_interruption();
    if (hop.source_rank != kNoRank) {
      leaves.push_back({streams.stream_of(hop), false, hop.source_rank, hop.transfer});
    }
    if (hop.target_rank != kNoRank) {
      leaves.push_back({streams.stream_of(hop), true, hop.target_rank, hop.transfer});
    }
  }
  std::sort(leaves.begin(), leaves.end(), [](const Leaf& a, const Leaf& b) {
    return std::tie(a.stream, a.is_target, a.rank, a.transfer) <
           std::tie(b.stream, b.is_target, b.rank, b.transfer);
  });
  int32_t smallest_source = kNoRank;  // of the stream; its sources come before its targets
  for (std::size_t i = 0; i < leaves.size() && !violations_.full(); ++i) {
    const Leaf& leaf = leaves[i];
    const bool continues = i > 0 && leaf.end() == leaves[i - 1].end();
    if (continues && leaf.rank == leaves[i - 1].rank) {
      fault(leaf.transfer, fmt::format("rank {} is twice a {} of one stream", leaf.rank,
                                       leaf.is_target ? "target" : "source"));
    }
    const Transfer& t = transfer(leaf.transfer);
    if (!leaf.is_target) {
      smallest_source = continues ? smallest_source : leaf.rank;
      continue;
    }
    if (continues && t.op != transfer(leaves[i - 1].transfer).op) {
      fault(leaf.transfer, "the last hops of one stream differ in their op");
    }
    arrivals_.push_back({leaf.rank, t.step, t.first_chunk, t.first_chunk + t.chunk_count,
                         smallest_source, leaf.transfer});
  }
}

// A stream occupies a link once: what leaves a crossing by several hops may share links on its way,
// as it is the same; what leaves different ranks or crossings is not.
void FormCheck::check_shared_links(const SwitchStreams& streams) {
  struct Use {
    int32_t stream = 0;
    LinkId link;
    int32_t rank = kNoRank;  // that it comes from, or
    int32_t crossing = kNoCrossing;
    int32_t transfer = 0;
    auto place() const { return std::tie(stream, link); }
    auto origin() const { return std::tie(rank, crossing); }
  };
  std::vector<Use> uses;
  for (const Hop& hop : streams.hops()) {
    check_interruption();
    if (const int32_t route = transfer(hop.transfer).route; route != kNoRoute) {
      for (const LinkId link : schedule_.routes[route]) {
        uses.push_back({streams.stream_of(hop), link, hop.source_rank, hop.from, hop.transfer});
      }
    }
  }
  std::sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) {
    return std::tie(a.stream, a.link, a.transfer) < std::tie(b.stream, b.link, b.transfer);
  });
  for (std::size_t i = 1; i < uses.size() && !violations_.full(); ++i) {
    if (uses[i].place() == uses[i - 1].place() && uses[i].origin() != uses[i - 1].origin()) {
      fault(uses[i].transfer, fmt::format("its stream occupies link {} twice, by transfers[{}] too",
                                          uses[i].link.value, uses[i - 1].transfer));
    }
  }
}

// How often one chunk leaves one rank, and how often it arrives there: by the ends of intervals,
// and only of ranks that have so many transfers at all.
void FormCheck::check_slots() {
  if (schedule_.transfers.size() <= at(kMaxSlotEvents)) {
    return;
  }
  struct End {
    int32_t rank, chunk, change, transfer;
    auto operator<=>(const End&) const = default;
  };
  for (const bool arrives : {false, true}) {
    std::vector<int32_t> counts(at(schedule_.rank_count()));
    const auto rank_at = [&](const Transfer& t) { return rank_of_(arrives ? t.target : t.source); };
    for (const Transfer& t : schedule_.transfers) {
      counts[at(std::max(rank_at(t), 0))] += rank_at(t) == kNoRank ? 0 : 1;
    }
    std::vector<End> ends;
    for (int32_t i = 0; at(i) < schedule_.transfers.size(); ++i) {
      const Transfer& t = transfer(i);
      const int32_t rank = rank_at(t);
      if (rank != kNoRank && counts[at(rank)] > kMaxSlotEvents) {
        ends.push_back({rank, t.first_chunk, 1, i});
        ends.push_back({rank, t.first_chunk + t.chunk_count, -1, i});
      }
    }
    sort_interruptibly(ends);
    int32_t events = 0;
    for (const End& end : ends) {
      events += end.change;
      if (events > kMaxSlotEvents) {
        fault(end.transfer,
              fmt::format("chunk {} {} rank {} more than {} times", end.chunk,
                          arrives ? "arrives at" : "leaves", end.rank, kMaxSlotEvents));
        return;
      }
    }
  }
}

void FormCheck::check_arrivals() {
  sort_interruptibly(arrivals_, [](const Arrival& a, const Arrival& b) {
    return std::tie(a.target, a.step, a.first_chunk, a.transfer) <
           std::tie(b.target, b.step, b.first_chunk, b.transfer);
  });
  for (std::size_t begin = 0, end = 0; begin < arrivals_.size() && !violations_.full();
       begin = end) {
    int32_t covered = 0;
    bool overlaps = false;
    for (; end < arrivals_.size() && arrivals_[end].group() == arrivals_[begin].group(); ++end) {
      overlaps = overlaps || arrivals_[end].first_chunk < covered;
      covered = std::max(covered, arrivals_[end].end_chunk);
    }
    if (overlaps) {
      check_group(std::span(arrivals_).subspan(begin, end - begin));
    }
  }
}

// Arrivals at one rank in one step, sorted by first chunk, of which some share a chunk.
void FormCheck::check_group(std::span<Arrival> group) {
  const auto is_copy = [this](const Arrival& arrival) {
    return transfer(arrival.transfer).op == TransferOp::kCopy;
  };
  const Arrival* widest = nullptr;       // of those so far the one that ends last
  const Arrival* widest_copy = nullptr;  // likewise, of the copies
  const auto shares = [](const Arrival* before, const Arrival& arrival) {
    return before != nullptr && arrival.first_chunk < before->end_chunk;
  };
  for (const Arrival& arrival : group) {
    const Arrival* other = is_copy(arrival) || schedule_.symmetry ? widest : widest_copy;
    if (shares(other, arrival)) {
      fault(
          arrival.transfer,
          fmt::format("shares chunk {} with transfers[{}], which arrives in the same step, and {}",
                      arrival.first_chunk, other->transfer,
                      schedule_.symmetry ? "the symmetric form allows one" : "not both reduce"));
    }
    if (widest == nullptr || arrival.end_chunk > widest->end_chunk) {
      widest = &arrival;
    }
    if (is_copy(arrival) &&
        (widest_copy == nullptr || arrival.end_chunk > widest_copy->end_chunk)) {
      widest_copy = &arrival;
    }
  }
  std::stable_sort(group.begin(), group.end(),
                   [](const Arrival& a, const Arrival& b) { return a.source < b.source; });
  for (std::size_t i = 1, last = 0; i < group.size(); ++i) {
    const bool same_source = group[i].source == group[last].source;
    if (same_source && group[i].first_chunk < group[last].end_chunk) {
      fault(group[i].transfer,
            fmt::format("shares chunk {} and source rank {} with transfers[{}], which arrives in "
                        "the same step",
                        group[i].first_chunk, group[i].source, group[last].transfer));
    }
    if (!same_source || group[i].end_chunk > group[last].end_chunk) {
      last = i;
    }
  }
}

std::vector<std::string> FormCheck::run() && {
  check_ranges(schedule_, violations_);
  if (!violations_.empty()) {
    return std::move(violations_).take();
  }
  rank_of_ = RankOfNode(schedule_.participants);
  check_sorted();
  check_grid();
  check_passes();
  if (schedule_.symmetry) {
    if (std::string fault = symmetric_grid_fault(schedule_); !fault.empty()) {
      violations_.add(std::move(fault));
    } else if (schedule_.fold_order != FoldOrder::kOwnFirst) {
      violations_.add("the symmetric form folds own values first, not by rank");
    } else {
      check_symmetric_transfers();
    }
  }
  if (topology_ != nullptr && violations_.empty()) {
    check_nodes();
    if (violations_.empty()) {
      check_routes();
    }
    if (schedule_.symmetry && violations_.empty()) {
      if (const auto links = LinkTranslation::create(schedule_, *topology_, false); !links) {
        violations_.add("symmetry: " + links.error().message);
      }
    }
  }
  if (violations_.empty()) {
    check_slots();
    sort_out_transfers();
  }
  if (violations_.empty()) {
    check_arrivals();
  }
  return std::move(violations_).take();
}

}  // namespace

std::vector<std::string> check_form(const Schedule& schedule, const Topology* topology,
                                    std::size_t limit) {
  return FormCheck(schedule, topology, std::max<std::size_t>(limit, 1)).run();
}

}  // namespace pleach
