#include "pleach/fabric/plane.h"

#include <algorithm>
#include <array>

#include "pleach/base/index.h"

namespace pleach {
namespace {

constexpr int32_t kLeafPorts = 12;
constexpr int32_t kFirstUp = 8;  // of a leaf
constexpr int32_t kHalves = 2;
constexpr int32_t kUpEach = 2;  // ports of a leaf to a half
constexpr int64_t kMostSplits = 100'000;

int32_t leaf_of(int32_t npu) {
  return npu / kLeafNpus;
}

bool crosses(const PortFlow& flow) {
  const int32_t leaf = leaf_of(flow.inputs.front());
  const auto is_elsewhere = [leaf](int32_t npu) { return leaf_of(npu) != leaf; };
  return std::ranges::any_of(flow.inputs, is_elsewhere) ||
         std::ranges::any_of(flow.outputs, is_elsewhere);
}

std::vector<int32_t> leaves_of(std::span<const int32_t> npus) {
  std::vector<int32_t> leaves;
  for (const int32_t npu : npus) {
    if (leaves.empty() || leaves.back() != leaf_of(npu)) {
      leaves.push_back(leaf_of(npu));
    }
  }
  return leaves;
}

std::vector<int32_t> ports_at(std::span<const int32_t> npus, int32_t leaf) {
  std::vector<int32_t> ports;
  for (const int32_t npu : npus) {
    if (leaf_of(npu) == leaf) {
      ports.push_back(npu % kLeafNpus);
    }
  }
  return ports;
}

class Splitter {
 public:
  Splitter(int32_t npus, int32_t middle, std::span<const PortFlow> flows,
           const RouteOptions& options)
      : leaf_count_((npus + kLeafNpus - 1) / kLeafNpus),
        middle_(middle),
        flows_(flows),
        options_(options),
        half_of_(flows.size(), -1) {
    for (auto& used : used_) {
      used.assign(at(kHalves * leaf_count_), 0);
    }
  }

  PlaneRouting run() {
    const bool routed = split(0);
    return {routed, routed || is_certain_};
  }

 private:
  // Gives flow `flow` and those after it halves.
  bool split(int32_t flow) {
    if (flow == count_of(flows_)) {
      is_certain_ = is_certain_ && ++splits_ < kMostSplits;
      return splits_ < kMostSplits && all_route();
    }
    if (!crosses(flows_[at(flow)])) {
      return split(flow + 1);
    }
    // Halves are alike: the first flow that crosses is in the first.
    const bool is_first = std::ranges::all_of(half_of_, [](int32_t half) { return half < 0; });
    for (int32_t half = 0; half < (is_first ? 1 : kHalves) && splits_ < kMostSplits; ++half) {
      half_of_[at(flow)] = half;
      use(flow, 1);
      const bool fits = std::ranges::all_of(used_, [](const std::vector<int32_t>& side) {
        return std::ranges::all_of(side, [](int32_t ports) { return ports <= kUpEach; });
      });
      if (fits && split(flow + 1)) {
        return true;
      }
      use(flow, -1);
      half_of_[at(flow)] = -1;
    }
    return false;
  }

  void use(int32_t flow, int32_t by) {
    const auto& [inputs, outputs] = flows_[at(flow)];
    for (const int32_t leaf : leaves_of(inputs)) {
      used_[0][at(half_of_[at(flow)] * leaf_count_ + leaf)] += by;
    }
    for (const int32_t leaf : leaves_of(outputs)) {
      used_[1][at(half_of_[at(flow)] * leaf_count_ + leaf)] += by;
    }
  }

  bool routes(const FredSize& size, const std::vector<PortFlow>& flows) {
    const FlowRouting routing = route_flows(size, flows, options_);
    is_certain_ = is_certain_ && routing.proved;
    return routing.routed;
  }

  // The two ports of a leaf share a cell of the half, and of the leaf: which flow has which does
  // not matter.
  bool all_route() {
    std::vector<std::vector<PortFlow>> in_half(kHalves);
    std::vector<std::vector<PortFlow>> in_leaf(at(leaf_count_));
    std::array<std::vector<int32_t>, 2> taken;
    for (auto& side : taken) {
      side.assign(at(kHalves * leaf_count_), 0);
    }
    for (int32_t flow = 0; flow < count_of(flows_); ++flow) {
      const auto& [inputs, outputs] = flows_[at(flow)];
      const int32_t half = half_of_[at(flow)];
      if (half < 0) {
        const int32_t leaf = leaf_of(inputs.front());
        in_leaf[at(leaf)].push_back({ports_at(inputs, leaf), ports_at(outputs, leaf)});
        continue;
      }
      PortFlow& above = in_half[at(half)].emplace_back();
      for (const int32_t leaf : leaves_of(inputs)) {
        const int32_t port = taken[0][at(half * leaf_count_ + leaf)]++;
        above.inputs.push_back(kUpEach * leaf + port);
        in_leaf[at(leaf)].push_back({ports_at(inputs, leaf), {kFirstUp + kUpEach * half + port}});
      }
      for (const int32_t leaf : leaves_of(outputs)) {
        const int32_t port = taken[1][at(half * leaf_count_ + leaf)]++;
        above.outputs.push_back(kUpEach * leaf + port);
        in_leaf[at(leaf)].push_back({{kFirstUp + kUpEach * half + port}, ports_at(outputs, leaf)});
      }
    }
    return std::ranges::all_of(in_half,
                               [&](const std::vector<PortFlow>& flows) {
                                 return routes({kUpEach * leaf_count_, middle_}, flows);
                               }) &&
           std::ranges::all_of(in_leaf, [&](const std::vector<PortFlow>& flows) {
             return routes({kLeafPorts, middle_}, flows);
           });
  }

  const int32_t leaf_count_;
  const int32_t middle_;
  const std::span<const PortFlow> flows_;
  const RouteOptions options_;
  std::vector<int32_t> half_of_;              // −1: within a leaf
  std::array<std::vector<int32_t>, 2> used_;  // up, down: by half and leaf
  int64_t splits_ = 0;
  bool is_certain_ = true;
};

}  // namespace

PlaneRouting route_plane(int32_t npus, int32_t middle, std::span<const PortFlow> flows,
                         const RouteOptions& options) {
  return Splitter(npus, middle, flows, options).run();
}

}  // namespace pleach
