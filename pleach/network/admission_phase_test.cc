// Switches that have one phase inside at a time, as a small model of which every order of
// departures is walked: nobody of the lowest class waits for ever, there is always one who moves,
// and the class does what the model does. And what it comes to in a network.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/collective/order.h"
#include "pleach/collective/record.h"
#include "pleach/network/admission.h"
#include "pleach/network/model.h"
#include "tests/support/asking_streams.h"
#include "tests/support/departures.h"
#include "tests/support/level_jobs.h"
#include "tests/support/random_schedules.h"
#include "tests/support/two_levels.h"

namespace pleach {
namespace {

constexpr int32_t kStreams = 4;
constexpr int32_t kSwitches = 2;
using Set = uint32_t;  // of streams

struct Switches {
  std::array<std::vector<Set>, kSwitches> forbidden;  // pairs and triples that are not carried
  std::array<uint32_t, kStreams> visits = {};         // by stream: its switches
  std::array<int32_t, kStreams> phase = {};

  bool carries(int32_t here, Set set) const {
    return std::ranges::none_of(forbidden[at(here)], [&](Set bad) { return (set & bad) == bad; });
  }
  bool visit(int32_t stream, int32_t here) const { return (visits[at(stream)] >> here & 1) != 0; }
};

struct State {
  Set inside = 0;
  std::array<std::array<int8_t, kStreams>, kSwitches> guest = {};  // of whom, or -1
  std::vector<int8_t> waiting;  // lower classes first; of those who has asked first
  auto operator<=>(const State&) const = default;
};

class Model {
 public:
  static constexpr int32_t kStreams = pleach::kStreams;

  explicit Model(const Switches& switches) : switches_(switches) {}

  State start() const {
    State state;
    for (auto& guest : state.guest) {
      guest.fill(-1);
    }
    for (int8_t stream = 0; stream < kStreams; ++stream) {
      ask(state, stream);
    }
    return state;
  }
  static bool waits(const State& state, int32_t stream) { return !is_inside(state, stream); }
  static bool is_inside(const State& state, int32_t stream) {
    return (state.inside >> stream & 1) != 0;
  }
  // Whether it is inside, and nobody of a lower class is at any of its switches.
  bool moves(const State& state, int32_t stream) const {
    return is_inside(state, stream) && !is_below(state, stream);
  }
  State leave(State state, int32_t stream) const {
    state.inside &= ~(Set{1} << stream);
    for (auto& guest : state.guest) {
      guest[at(stream)] = -1;
    }
    admit(state);
    ask(state, static_cast<int8_t>(stream));
    return state;
  }

 private:
  void ask(State& state, int8_t stream) const {
    const auto place =
        std::ranges::upper_bound(state.waiting, switches_.phase[at(stream)], {},
                                 [&](int8_t one) { return switches_.phase[at(one)]; });
    state.waiting.insert(place, stream);
    admit(state);
  }
  bool is_below(const State& state, int32_t stream) const {
    for (int32_t other = 0; other < kStreams; ++other) {
      if (is_inside(state, other) && switches_.phase[at(other)] < switches_.phase[at(stream)] &&
          (switches_.visits[at(other)] & switches_.visits[at(stream)]) != 0) {
        return true;
      }
    }
    return false;
  }
  void admit(State& state) const {
    for (std::size_t turn = 0; turn < state.waiting.size();) {
      turn = try_enter(state, turn) ? 0 : turn + 1;
    }
  }
  int32_t first_at(const State& state, int32_t here, std::size_t turn) const {
    const int32_t phase = switches_.phase[at(state.waiting[turn])];
    for (std::size_t before = 0; before < turn; ++before) {
      const int8_t other = state.waiting[before];
      if (switches_.visit(other, here) && switches_.phase[at(other)] == phase) {
        return other;
      }
    }
    return -1;
  }
  bool try_enter(State& state, std::size_t turn) const {
    const int8_t stream = state.waiting[turn];
    if (is_below(state, stream)) {
      return false;
    }
    const Set self = Set{1} << stream;
    State then = state;
    for (int32_t here = 0; here < kSwitches; ++here) {
      if (!switches_.visit(stream, here)) {
        continue;
      }
      Set now = self, expected = self;
      const int32_t first = first_at(state, here, turn);
      expected |= first < 0 ? 0 : Set{1} << first;
      for (int32_t other = 0; other < kStreams; ++other) {
        const bool is_of_it = is_inside(state, other) && switches_.visit(other, here) &&
                              switches_.phase[at(other)] == switches_.phase[at(stream)];
        now |= is_of_it ? Set{1} << other : 0;
        expected |= first >= 0 && state.guest[at(here)][at(other)] == first ? Set{1} << other : 0;
      }
      if (!switches_.carries(here, now) || !switches_.carries(here, expected)) {
        return false;
      }
      then.guest[at(here)][at(stream)] = static_cast<int8_t>(first);
    }
    then.inside |= self;
    then.waiting.erase(then.waiting.begin() + static_cast<std::ptrdiff_t>(turn));
    state = std::move(then);
    return true;
  }

  const Switches& switches_;
};

Switches draw(Rng& rng) {
  Switches switches;
  for (std::vector<Set>& forbidden : switches.forbidden) {
    const uint64_t share = 2 + rng.below(4);
    for (Set set = 0; set < 1U << kStreams; ++set) {
      if (std::popcount(set) > 1 && rng.below(share) == 0) {
        forbidden.push_back(set);
      }
    }
  }
  for (int32_t stream = 0; stream < kStreams; ++stream) {
    switches.visits[at(stream)] = 1 + static_cast<uint32_t>(rng.below(3));
    switches.phase[at(stream)] = static_cast<int32_t>(rng.below(3));
  }
  return switches;
}

TEST(AdmissionPhase, TheLowestClassNeverWaitsForEver) {
  int32_t higher = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    const Switches switches = draw(rng);
    const Model model(switches);
    const auto departures = support::all_departures(model);
    for (std::size_t state = 0; state < departures.states.size(); ++state) {
      ASSERT_FALSE(departures.next[state].empty()) << "nobody moves in state " << state;
    }
    const int32_t lowest = *std::ranges::min_element(switches.phase);
    for (int32_t stream = 0; stream < kStreams; ++stream) {
      const bool starves = support::may_starve(model, departures, stream);
      ASSERT_FALSE(starves && switches.phase[at(stream)] == lowest) << "stream " << stream;
      higher += starves ? 1 : 0;
    }
  }
  EXPECT_GT(higher, 0) << "a lower class that never ends";
}

// The switches of a walk, as the class sees them: stream i comes by port i and leaves by it, and by
// the last one.
const Switches* drawn = nullptr;
constexpr int32_t kHubs = kStreams + 1;  // ranks come before them

class DrawnSwitch final : public SwitchCore {
 public:
  explicit DrawnSwitch(int32_t hub) : hub_(hub) {}
  std::vector<int32_t> conflict(std::span<const PortFlow> flows) const override {
    Set set = 0;
    std::vector<int32_t> all;
    for (const PortFlow& flow : flows) {
      all.push_back(count_of(all));
      set |= Set{1} << flow.inputs.front();
    }
    return drawn->carries(hub_, set) ? std::vector<int32_t>() : all;
  }

 private:
  const int32_t hub_;
};

std::unique_ptr<SwitchCore> make_drawn(const Topology& /*topology*/, NodeId node) {
  return std::make_unique<DrawnSwitch>(node.value - kHubs);
}

Topology hubs() {
  TopologyBuilder builder("hubs");
  for (int32_t node = 0; node < kHubs + kSwitches; ++node) {
    EXPECT_TRUE(
        builder.add_node({.name = {}, .kind = node < kHubs ? NodeKind::kRank : NodeKind::kSwitch}));
  }
  for (int32_t hub = kHubs; hub < kHubs + kSwitches; ++hub) {
    for (int32_t rank = 0; rank < kHubs; ++rank) {
      EXPECT_TRUE(builder.add_cable({NodeId{rank}, NodeId{hub}, 1, 0}));
    }
  }
  auto topology = std::move(builder).build();
  EXPECT_TRUE(topology);
  return std::move(*topology);
}

TEST(AdmissionPhase, IsWhatTheClassDoes) {
  const Topology topology = hubs();
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    const Switches switches = draw(rng);
    drawn = &switches;
    Admission admission(topology, AdmissionRule::kPhase, make_drawn, seed % 2 == 0 ? 3 : 1'000);
    for (int32_t stream = 0; stream < kStreams; ++stream) {
      LoweredConnection connection;
      for (int32_t hub = 0; hub < kSwitches; ++hub) {
        if (switches.visit(stream, hub)) {
          const NodeId node{kHubs + hub};
          const auto out = topology.links_out(node);
          connection.passes.push_back(
              {node, {topology.links_in(node)[at(stream)]}, {out[at(stream)], out.back()}});
        }
      }
      admission.add(connection);
    }
    const Model model(switches);
    State state = model.start();
    support::AskingStreams streams(admission, {switches.phase.begin(), switches.phase.end()});
    std::set<int32_t> suspended;
    for (int32_t step = 0; step < 100; ++step) {
      for (const int32_t paced : admission.take_paced()) {
        if (admission.is_suspended(paced)) {
          suspended.insert(paced);
        } else {
          suspended.erase(paced);
        }
      }
      std::vector<int32_t> moving;
      for (int32_t stream = 0; stream < kStreams; ++stream) {
        ASSERT_EQ(streams.outside().contains(stream), Model::waits(state, stream))
            << "step " << step;
        if (!streams.outside().contains(stream)) {
          ASSERT_EQ(!suspended.contains(stream), model.moves(state, stream)) << "step " << step;
        }
        if (model.moves(state, stream)) {
          moving.push_back(stream);
        }
      }
      const int32_t leaves = moving[rng.below(moving.size())];
      state = model.leave(state, leaves);
      streams.leave(leaves);
    }
  }
}

// Streams of 100 kB over two levels, 1 GB/s; in one class they fit side by side.
constexpr int64_t kBytes = 100'000;
constexpr int64_t kBytesPs = kBytes * 1'000;
constexpr int64_t kTwoLevelsPs = 5'000 + 4 * 100'000;

Simulation run(AdmissionRule rule, const std::vector<int32_t>& classes, int64_t second_ps,
               const char* model = "fred") {
  const support::TwoLevels levels{.ranks = 6, .leaves = 3, .switch_model = model, .trunk_lanes = 2};
  SimulationOptions options;
  options.admission = rule;
  std::vector<Job> jobs = {
      {support::shared(levels.all_reduce({0, 2, 4})), kBytes, 0, classes[0]},
      {support::shared(levels.all_reduce({1, 3, 5})), kBytes, second_ps, classes[1]}};
  auto simulation = simulate("flow", levels.topology(), jobs, options);
  EXPECT_TRUE(simulation) << (simulation ? "" : simulation.error().message);
  return std::move(*simulation);
}

// The lower class takes the switches over at once; the other goes on afterwards with what is left.
TEST(AdmissionPhase, PreemptsWithoutLoss) {
  constexpr int64_t kLater = kBytesPs / 4;
  const Simulation together = run(AdmissionRule::kTogether, {2, 0}, kLater);
  EXPECT_EQ(together.job_finish_ps[0], kBytesPs + kTwoLevelsPs);
  EXPECT_EQ(together.job_finish_ps[1], kLater + kBytesPs + kTwoLevelsPs);
  const Simulation phases = run(AdmissionRule::kPhase, {2, 0}, kLater);
  EXPECT_EQ(phases.job_finish_ps[1], kLater + kBytesPs + kTwoLevelsPs);
  EXPECT_NEAR(static_cast<double>(phases.job_finish_ps[0]),
              static_cast<double>(2 * kBytesPs + kTwoLevelsPs + 5'000), 5'000);
  EXPECT_EQ(phases.use.admission->preemptions, 1);
  for (std::size_t link = 0; link < phases.use.links.size(); ++link) {
    EXPECT_EQ(phases.use.links[link].wire_bytes, together.use.links[link].wire_bytes);
  }
  // A higher class waits for its turn.
  const Simulation waits = run(AdmissionRule::kPhase, {0, 2}, kLater);
  EXPECT_EQ(waits.job_finish_ps[0], kBytesPs + kTwoLevelsPs);
  EXPECT_NEAR(static_cast<double>(waits.job_finish_ps[1]),
              static_cast<double>(2 * kBytesPs + kTwoLevelsPs + 5'000), 5'000);
  EXPECT_EQ(waits.use.admission->preemptions, 0);
  EXPECT_FALSE(waits.use.admission->conflicts.empty());
}

// In one class a phase is all that routes together, and what routes together is as a crossbar has
// it, to the picosecond.
TEST(AdmissionPhase, IsTogetherOfOneClassAndFreeWhereAllRoutes) {
  for (const int64_t later : {int64_t{0}, int64_t{1}, kBytesPs / 3}) {
    const Simulation free = run(AdmissionRule::kFree, {0, 0}, later);
    EXPECT_FALSE(free.use.admission.has_value());
    for (const AdmissionRule rule : {AdmissionRule::kTogether, AdmissionRule::kPhase}) {
      EXPECT_EQ(run(rule, {0, 0}, later).job_finish_ps, free.job_finish_ps);
      EXPECT_EQ(run(rule, {1, 1}, later, "unlimited").job_finish_ps, free.job_finish_ps);
    }
  }
}

// Random groups, classes and starts: all finish, every byte is carried, and what happened replays.
TEST(AdmissionPhase, LetsRandomStreamsFinish) {
  const int32_t rounds = support::repeated(100);
  for (int32_t seed = 0; seed < rounds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(static_cast<uint64_t>(seed));
    auto [levels, options, jobs] = support::random_level_jobs(rng, 3);
    const Topology topology = levels.topology();
    std::vector<Simulation> simulations;
    for (const AdmissionRule rule : {AdmissionRule::kPhase, AdmissionRule::kFree}) {
      options.admission = rule;
      auto simulation = simulate("flow", topology, jobs, options);
      ASSERT_TRUE(simulation) << simulation.error().message;
      simulations.push_back(std::move(*simulation));
    }
    for (std::size_t link = 0; link < topology.links().size(); ++link) {
      EXPECT_EQ(simulations[0].use.links[link].wire_bytes,
                simulations[1].use.links[link].wire_bytes);
    }
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      const Status replayed =
          replay(Order::build(*jobs[job].schedule), std::span(&simulations[0].use.records[job], 1),
                 options.segment_count);
      EXPECT_TRUE(replayed) << replayed.error().message;
    }
  }
}

}  // namespace
}  // namespace pleach
