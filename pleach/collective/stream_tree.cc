#include "pleach/collective/stream_tree.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "pleach/base/index.h"

namespace pleach {
namespace {

// Of sets of nodes that links join.
class Joined {
 public:
  explicit Joined(std::size_t nodes) : above_(nodes) { std::iota(above_.begin(), above_.end(), 0); }
  // False: the two were joined before.
  bool join(int32_t first, int32_t second) {
    const int32_t one = find(first), other = find(second);
    above_[at(one)] = other;
    return one != other;
  }

 private:
  int32_t find(int32_t node) {
    while (above_[at(node)] != node) {
      node = above_[at(node)] = above_[at(above_[at(node)])];
    }
    return node;
  }

  std::vector<int32_t> above_;
};

}  // namespace

bool is_stream_tree(const Topology& topology, std::span<const LinkId> links,
                    std::span<const NodeId> ends, SwitchAbilities asked) {
  std::vector<std::pair<int32_t, int32_t>> pairs;
  for (const LinkId id : links) {
    pairs.emplace_back(topology.link(id).source.value, topology.link(id).target.value);
  }
  std::ranges::sort(pairs);
  std::vector<int32_t> degree(topology.nodes().size(), 0);
  Joined joined(degree.size());
  for (std::size_t index = 0; index < pairs.size(); ++index) {
    const auto [source, target] = pairs[index];
    const bool is_double = index > 0 && pairs[index - 1] == pairs[index];
    if (is_double || !std::ranges::binary_search(pairs, std::pair(target, source)) ||
        (source < target && !joined.join(source, target))) {
      return false;
    }
    ++degree[at(source)];
  }
  for (const NodeId end : ends) {
    if (std::exchange(degree[end.index()], 0) != 1) {
      return false;
    }
  }
  for (std::size_t node = 0; node < degree.size(); ++node) {
    const Node& relay = topology.nodes()[node];
    if (degree[node] > 0 &&
        ((asked.reduces && !relay.reduces) || (asked.multicasts && !relay.multicasts))) {
      return false;
    }
  }
  return true;
}

}  // namespace pleach
