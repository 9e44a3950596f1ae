#include "pleach/network/flit/published_turns.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "pleach/base/index.h"

namespace pleach {
namespace {

// The root of each stream's tree.
class Roots {
 public:
  explicit Roots(const Order& order) : order_(order), roots_(at(order.stream_count()), -1) {}

  // A reduction goes on from its target as that sends the chunk next, and otherwise ends there; a
  // copy came to its source as that received the chunk last, or begins there. Streams are
  // numbered by step, and those of one step do not follow each other.
  std::vector<int32_t> find() && {
    for (int32_t end = order_.stream_count(); end > 0;) {
      const int32_t first = first_of_step(end);
      find(first, end, TransferOp::kReduce);
      for (int32_t stream = first; stream < end; ++stream) {
        known_[at(read_slot(stream))] = reduces(stream) ? roots_[at(stream)] : source(stream);
      }
      end = first;
    }
    std::ranges::fill(known_, -1);
    for (int32_t first = 0; first < order_.stream_count();) {
      const int32_t end = end_of_step(first);
      find(first, end, TransferOp::kCopy);
      for (int32_t stream = first; stream < end; ++stream) {
        known_[at(commit_slot(stream))] = reduces(stream) ? target(stream) : roots_[at(stream)];
      }
      first = end;
    }
    return std::move(roots_);
  }

 private:
  bool reduces(int32_t stream) const { return order_.stream(stream).op == TransferOp::kReduce; }
  int32_t source(int32_t stream) const { return order_.sources(stream).front(); }
  int32_t target(int32_t stream) const { return order_.targets(stream).front(); }
  int32_t read_slot(int32_t stream) const { return order_.reads(stream).front().slot; }
  int32_t commit_slot(int32_t stream) const { return order_.commits(stream).front().slot; }
  int32_t first_of_step(int32_t end) const {
    int32_t first = end - 1;
    while (first > 0 && order_.stream(first - 1).step == order_.stream(end - 1).step) {
      --first;
    }
    return first;
  }
  int32_t end_of_step(int32_t first) const {
    int32_t end = first + 1;
    while (end < order_.stream_count() && order_.stream(end).step == order_.stream(first).step) {
      ++end;
    }
    return end;
  }
  void find(int32_t first, int32_t end, TransferOp op) {
    for (int32_t stream = first; stream < end; ++stream) {
      if (order_.stream(stream).op == op) {
        const bool ends_there = op == TransferOp::kReduce;
        const int32_t known = known_[at(ends_there ? commit_slot(stream) : read_slot(stream))];
        roots_[at(stream)] = known >= 0 ? known : ends_there ? target(stream) : source(stream);
      }
    }
  }

  const Order& order_;
  std::vector<int32_t> roots_;  // by stream
  // By slot: of what its rank sends next, or received last; -1: nothing.
  std::vector<int32_t> known_ = std::vector<int32_t>(at(order_.slot_count()), -1);
};

// The place of the link from a node to another among those that leave it.
int64_t place_of(const Topology& topology, NodeId from, NodeId to) {
  const auto links = topology.links_out(from);
  return std::ranges::find(links, to, [&](LinkId link) { return topology.link(link).target; }) -
         links.begin();
}

// The messages of a tree in a step that go over one parent's edges.
struct Edges {
  int32_t step, root, parent, chunk;
  auto operator<=>(const Edges&) const = default;
};

}  // namespace

std::vector<int32_t> published_turns(const Topology& topology, const LoweredSchedule& schedule) {
  const Order& order = schedule.order();
  const std::vector<int32_t> roots = Roots(order).find();
  std::vector<Edges> edges;     // by stream
  std::vector<int64_t> places;  // by stream
  std::map<Edges, int64_t> first_place;
  for (int32_t stream = 0; stream < order.stream_count(); ++stream) {
    const std::vector<LinkId>& links =
        schedule.connections()[at(schedule.connection_class(stream))].links;
    const Link& first = topology.link(links.front());
    const Link& last = topology.link(links.back());
    const Stream& what = order.stream(stream);
    const bool reduces = what.op == TransferOp::kReduce;
    places.push_back(reduces ? place_of(topology, last.target, last.source)
                             : place_of(topology, first.source, first.target));
    const int32_t parent = (reduces ? order.targets(stream) : order.sources(stream)).front();
    edges.push_back({what.step, roots[at(stream)], parent, what.first_chunk});
    const auto [known, is_new] = first_place.try_emplace(edges.back(), places.back());
    known->second = std::min(known->second, places.back());
  }
  std::vector<int32_t> streams(at(order.stream_count()));
  std::iota(streams.begin(), streams.end(), 0);
  std::ranges::sort(streams, {}, [&](int32_t stream) {
    const Edges& its = edges[at(stream)];
    return std::tuple(its.step, its.root, -first_place.at(its), its.chunk, places[at(stream)],
                      stream);
  });
  return streams;
}

}  // namespace pleach
