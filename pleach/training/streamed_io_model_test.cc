// Weights that stream by I/O nodes: every order in which what is under way may end, on tiny
// trainings, by rules of its own. A load waits for room, which computation makes, and computation
// for loads, and for stores to make room for gradients; replicas wait for each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/training/trace_index.h"
#include "pleach/workload/strategy.h"

namespace pleach {
namespace {

using Kind = TraceNodeKind;

// Blocks of one layer each.
Workload workload_of(int32_t layers, int32_t micro_batches, bool with_input) {
  Workload workload;
  workload.model.name = "tiny";
  workload.model.element_bytes = 1;
  workload.model.input_bytes = with_input ? 3 : 0;
  workload.batch = micro_batches;
  MeasuredTimes times;
  times.batch = micro_batches;
  for (int32_t layer = 0; layer < layers; ++layer) {
    ModelLayer& one = workload.model.layers.emplace_back();
    one.name = "l" + std::to_string(layer);
    one.block = layer;
    one.output_elements = 5;
    one.tensors = {{"weight", 10}};
    times.layers.push_back({1, 2, 0});
  }
  workload.times = std::move(times);
  return workload;
}

// One walk over all orders of a trace.
class Walk {
 public:
  explicit Walk(const Trace& trace) : trace_(trace), index_(trace) {
    for (int32_t worker = 0; worker < count_of(trace.workers); ++worker) {
      for (int32_t node = 0; node < count_of(trace.workers[at(worker)].nodes); ++node) {
        all_.push_back({worker, node});
      }
    }
    find_visits();
  }

  struct Outcome {
    bool gets_stuck = false;
    int32_t most_weights = 0;    // visits whose weights a worker has, or is getting
    int32_t most_gradients = 0;  // whose gradients it has
    std::size_t states = 0;
  };
  Outcome run() {
    State start(all_.size(), kWaits);
    settle(start);
    std::vector<State> open = {start};
    std::unordered_set<State> known = {start};
    while (!open.empty()) {
      const State state = open.back();
      open.pop_back();
      look_at(state);
      const std::vector<std::vector<std::size_t>> moves = under_way(state);
      outcome_.gets_stuck |= moves.empty() && std::ranges::count(state, kDone) < count_of(all_);
      for (const std::vector<std::size_t>& nodes : moves) {
        State next = state;
        for (const std::size_t node : nodes) {
          next[node] = kDone;
        }
        settle(next);
        if (known.insert(next).second) {
          open.push_back(next);
        }
      }
    }
    outcome_.states = known.size();
    return outcome_;
  }

 private:
  // A letter for each node: it waits, has come to what it shares with others, runs, is done.
  using State = std::string;
  static constexpr char kWaits = 'w', kCame = 'c', kRuns = 'r', kDone = 'd';

  const TraceNode& node(std::size_t one) const { return index_.node(all_[one]); }
  std::size_t place(WorkerNode one) const {
    return at(std::ranges::lower_bound(all_, one) - all_.begin());
  }
  bool is_ready(const State& state, std::size_t one) const {
    const WorkerNode own = all_[one];
    return state[one] == kWaits &&
           std::ranges::all_of(index_.dependencies(own), [&](int32_t before) {
             return state[place({own.worker, before})] == kDone;
           });
  }
  static int32_t stream_of(Kind kind) {
    return kind == Kind::kCompute ? 0 : kind == Kind::kLoad ? 1 : kind == Kind::kStore ? 2 : 3;
  }

  // All that follows at once.
  void settle(State& state) const {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t one = 0; one < all_.size(); ++one) {
        if (is_ready(state, one) && start(state, one)) {
          moved = true;
        }
      }
      for (int32_t channel = 0; channel < count_of(index_.channels()); ++channel) {
        moved = meet(state, channel) || moved;
      }
    }
  }

  // A ready node: nodes are looked at in the order of the trace, so that streams take the first.
  bool start(State& state, std::size_t one) const {
    const int32_t stream = stream_of(node(one).kind);
    if (node(one).kind == Kind::kReceive) {
      return receive(state, one);
    }
    for (std::size_t other = 0; stream < 3 && other < all_.size(); ++other) {
      if (all_[other].worker == all_[one].worker && stream_of(node(other).kind) == stream &&
          (state[other] == kRuns || state[other] == kCame)) {
        return false;
      }
    }
    state[one] = node(one).family >= 0 ? kCame : kRuns;
    return true;
  }
  bool receive(State& state, std::size_t one) const {
    for (std::size_t other = 0; other < all_.size(); ++other) {
      if (node(other).kind == Kind::kSend && state[other] == kDone &&
          all_[other].worker == node(one).peer && node(other).peer == all_[one].worker &&
          node(other).tag == node(one).tag) {
        state[one] = kDone;
        return true;
      }
    }
    return false;
  }
  // What all workers of a channel have come to begins.
  bool meet(State& state, int32_t channel) const {
    const std::vector<std::size_t> came = of_channel(state, channel, kCame);
    if (came.size() < index_.channels()[at(channel)].workers.size() ||
        !of_channel(state, channel, kRuns).empty()) {
      return false;
    }
    for (const std::size_t one : came) {
      state[one] = kRuns;
    }
    return true;
  }
  std::vector<std::size_t> of_channel(const State& state, int32_t channel, char phase) const {
    std::vector<std::size_t> found;
    for (std::size_t one = 0; one < all_.size(); ++one) {
      if (state[one] == phase && node(one).family >= 0 &&
          index_.channel_of(all_[one].worker, node(one).family) == channel) {
        found.push_back(one);
      }
    }
    return found;
  }

  // What may end next, nodes of one operation together.
  std::vector<std::vector<std::size_t>> under_way(const State& state) const {
    std::vector<std::vector<std::size_t>> moves;
    for (std::size_t one = 0; one < all_.size(); ++one) {
      if (state[one] == kRuns && node(one).family < 0) {
        moves.push_back({one});
      }
    }
    for (int32_t channel = 0; channel < count_of(index_.channels()); ++channel) {
      if (auto nodes = of_channel(state, channel, kRuns); !nodes.empty()) {
        moves.push_back(std::move(nodes));
      }
    }
    return moves;
  }

  // Nodes of a visit: in forward (0) or backward (1) of a layer.
  struct Visit {
    std::optional<std::size_t> load, store;
    std::vector<std::size_t> computes;
  };
  void find_visits() {
    std::map<std::string, int32_t> layers;
    for (std::size_t one = 0; one < all_.size(); ++one) {
      const std::string name = trace_.names[at(node(one).name)];
      const std::string layer = name.substr(0, name.find(' '));
      auto& own = visits_[all_[one].worker];
      switch (node(one).kind) {
        case Kind::kLoad:
          if (layer != "input") {
            own[{layer, own[{layer, 0}].load.has_value() ? 1 : 0}].load = one;
          }
          break;
        case Kind::kStore:
          own[{layer, 1}].store = one;
          break;
        case Kind::kCompute:
          own[{layer, name.ends_with("backward") ? 1 : 0}].computes.push_back(one);
          break;
        default:
          break;
      }
    }
  }
  void look_at(const State& state) {
    for (const auto& [worker, visits] : visits_) {
      int32_t weights = 0, gradients = 0;
      for (const auto& [which, visit] : visits) {
        const auto is = [&](char phase) {
          return [&state, phase](std::size_t one) { return state[one] == phase; };
        };
        const bool computed = std::ranges::all_of(visit.computes, is(kDone));
        const bool began = !std::ranges::all_of(visit.computes, is(kWaits));
        weights += state[*visit.load] != kWaits && !computed ? 1 : 0;
        gradients += began && visit.store && state[*visit.store] != kDone ? 1 : 0;
      }
      outcome_.most_weights = std::max(outcome_.most_weights, weights);
      outcome_.most_gradients = std::max(outcome_.most_gradients, gradients);
    }
  }

  const Trace& trace_;
  const TraceIndex index_;
  std::vector<WorkerNode> all_;
  std::map<int32_t, std::map<std::pair<std::string, int32_t>, Visit>> visits_;  // by worker
  Outcome outcome_;
};

struct Tiny {
  int32_t layers, stages, micro_batches, replicas;
  bool with_input = false;
};

Trace trace_of(const Tiny& tiny) {
  const Workload workload = workload_of(tiny.layers, tiny.micro_batches, tiny.with_input);
  const Strategy strategy = {.data = tiny.replicas,
                             .pipeline = tiny.stages,
                             .micro_batches = tiny.micro_batches,
                             .streams_by_io = true};
  const auto trace =
      build_trace({.workload = workload, .strategy = strategy, .merge_alike = false});
  EXPECT_TRUE(trace) << trace.error().message;
  EXPECT_TRUE(check_trace(*trace));
  return *trace;
}

constexpr Tiny kTiny[] = {{1, 1, 1, 1}, {5, 1, 1, 1},       {4, 1, 3, 1, true}, {4, 1, 1, 2, true},
                          {6, 2, 2, 1}, {5, 2, 2, 1, true}, {3, 2, 1, 2},       {4, 3, 2, 1}};

TEST(StreamedIoModel, NothingStopsAndTwoWindowsAreHeld) {
  for (const Tiny& tiny : kTiny) {
    SCOPED_TRACE(testing::Message()
                 << tiny.layers << " layers, " << tiny.stages << " stages, " << tiny.micro_batches
                 << " micro-batches, " << tiny.replicas << " replicas");
    const Trace trace = trace_of(tiny);
    const Walk::Outcome outcome = Walk(trace).run();
    EXPECT_FALSE(outcome.gets_stuck);
    EXPECT_LE(outcome.most_weights, 2);
    EXPECT_LE(outcome.most_gradients, 2);
    EXPECT_EQ(outcome.most_weights == 2, tiny.layers > tiny.stages || tiny.layers == 1);
    RecordProperty("states", static_cast<int>(outcome.states));
  }
}

// The trace without what nodes of a kind wait for, of those of another.
Trace without(const Trace& trace, Kind waits, Kind before) {
  Trace changed = trace;
  for (WorkerTrace& worker : changed.workers) {
    const WorkerTrace old = worker;
    worker = {};
    worker.ranks = old.ranks;
    for (std::size_t node = 0; node < old.nodes.size(); ++node) {
      std::vector<int32_t> after;
      for (int32_t i = old.first_dependency[node]; i < old.first_dependency[node + 1]; ++i) {
        const int32_t one = old.dependencies[at(i)];
        if (old.nodes[node].kind != waits || old.nodes[at(one)].kind != before) {
          after.push_back(one);
        }
      }
      worker.add(old.nodes[node], after);
    }
  }
  return changed;
}

// Each part of the rule is needed: loads that do not wait for computation hold more than two
// windows, and so does computation that does not wait for stores.
TEST(StreamedIoModel, NeedsItsRules) {
  const Trace trace = trace_of({4, 1, 1, 1});
  EXPECT_GT(Walk(without(trace, Kind::kLoad, Kind::kCompute)).run().most_weights, 2);
  EXPECT_GT(Walk(without(trace, Kind::kCompute, Kind::kStore)).run().most_gradients, 2);
}

// Two families, of which each of two replicas has the loads in an order of its own.
TEST(StreamedIoModel, NeedsTheSameOrderOnAllReplicas) {
  Trace trace{.name = "orders", .rank_count = 2, .names = {"l0"}};
  trace.families = {{.name = "io", .groups = {{0, 1}}, .role = FamilyRole::kIo},
                    {.name = "io", .groups = {{0, 1}}, .role = FamilyRole::kIo}};
  for (const bool turned : {false, true}) {
    trace.workers.clear();
    for (int32_t rank = 0; rank < 2; ++rank) {
      WorkerTrace& worker = trace.workers.emplace_back();
      worker.ranks = {rank};
      for (int32_t i = 0; i < 2; ++i) {
        worker.add({.kind = Kind::kLoad, .family = turned ? i ^ rank : i, .size_bytes = 1}, {});
      }
    }
    ASSERT_TRUE(check_trace(trace));
    EXPECT_EQ(Walk(trace).run().gets_stuck, turned);
  }
}

}  // namespace
}  // namespace pleach
