// The rule by which switches admit streams, where streams have lanes to choose from, as a small
// model: every order of departures is walked, and it is asked whether a stream could wait for ever.
// The class is held to the model on random walks, and runs through switches with lanes to figures.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/network/admission.h"
#include "tests/support/asking_streams.h"
#include "tests/support/departures.h"

namespace pleach {
namespace {

constexpr int32_t kStreams = 3;
constexpr int32_t kLanes = 2;
using Set = uint32_t;  // of streams on lanes: bit kLanes · stream + lane

Set on(int32_t stream, int32_t lane) {
  return Set{1} << (kLanes * stream + lane);
}

// A switch carries what has none of these in it.
using Forbidden = std::vector<Set>;

struct Switches {
  std::vector<Forbidden> forbidden;
  std::array<uint32_t, kStreams> visits = {};  // by stream: its switches

  bool carries(std::size_t here, Set set) const {
    return std::ranges::none_of(forbidden[here], [&](Set bad) { return (set & bad) == bad; });
  }
  bool visit(int32_t stream, std::size_t here) const {
    return (visits[at(stream)] >> here & 1) != 0;
  }
};

enum class Rule : uint8_t {
  kBySwitch,  // who waits first at a switch would have some lane there, and some at the next
  kPromise,   // it would have the same at all of them
};

// For one that finds no lanes, those inside may change theirs: never, perhaps where that helps, as
// a search that may give up does, or wherever it helps.
enum class Moves : uint8_t { kNever, kPerhaps, kAlways };

// Streams ask again as soon as they have left.
struct State {
  std::vector<Set> inside;                          // by switch
  std::vector<std::array<int8_t, kStreams>> guest;  // by switch and stream: of whom, or -1
  std::array<int8_t, kStreams> promise = {};        // lanes: where it is inside, those it is on
  std::vector<int8_t> waiting;                      // streams, who has asked first first
  auto operator<=>(const State&) const = default;
};

class Model {
 public:
  static constexpr int32_t kStreams = pleach::kStreams;

  Model(const Switches& switches, Rule rule, Moves moves)
      : switches_(switches), rule_(rule), moves_(moves) {}

  std::vector<State> start() const {
    State state;
    state.inside.resize(switches_.forbidden.size());
    state.guest.resize(switches_.forbidden.size());
    for (auto& guest : state.guest) {
      guest.fill(-1);
    }
    for (int8_t stream = 0; stream < kStreams; ++stream) {
      state.waiting.push_back(stream);
    }
    return admit(state, ~uint32_t{0});
  }
  static bool waits(const State& state, int32_t stream) {
    return std::ranges::find(state.waiting, stream) != state.waiting.end();
  }
  static bool moves(const State& state, int32_t stream) { return !waits(state, stream); }
  std::vector<State> leave(State state, int32_t stream) const {
    for (std::size_t here = 0; here < state.inside.size(); ++here) {
      state.inside[here] &= ~(on(stream, 0) | on(stream, 1));
      state.guest[here][at(stream)] = -1;
    }
    std::vector<State> states = admit(state, switches_.visits[at(stream)]);
    std::set<State> then;
    for (State& one : states) {
      one.waiting.push_back(static_cast<int8_t>(stream));
      admit(one, one.waiting.size() - 1, ~uint32_t{0}, then);
    }
    return {then.begin(), then.end()};
  }

 private:
  // Who waits at any of these switches asks, in turn.
  std::vector<State> admit(const State& state, uint32_t at_switches) const {
    std::set<State> admitted;
    admit(state, 0, at_switches, admitted);
    return {admitted.begin(), admitted.end()};
  }
  void admit(State state, std::size_t turn, uint32_t at_switches, std::set<State>& admitted) const {
    while (turn < state.waiting.size()) {
      if ((switches_.visits[at(state.waiting[turn])] & at_switches) == 0) {
        ++turn;
        continue;
      }
      if (try_enter(state, turn)) {
        continue;
      }
      const std::vector<State> together =
          moves_ == Moves::kNever ? std::vector<State>() : enter_together(state, turn);
      for (const State& then : together) {
        admit(then, turn, at_switches, admitted);
      }
      if (moves_ == Moves::kAlways && !together.empty()) {
        return;
      }
      ++turn;
    }
    admitted.insert(std::move(state));
  }
  bool is_inside(const State& state, int32_t stream) const {
    return std::ranges::any_of(
        state.inside, [&](Set set) { return (set & (on(stream, 0) | on(stream, 1))) != 0; });
  }
  // Those that are inside switches of the stream, of those, and so on; and itself.
  std::set<int32_t> company_of(const State& state, int32_t stream) const {
    std::set<int32_t> company = {stream};
    for (std::size_t before = 0; before != company.size();) {
      before = company.size();
      for (int32_t other = 0; other < kStreams; ++other) {
        const bool meets = std::ranges::any_of(company, [&](int32_t one) {
          return (switches_.visits[at(one)] & switches_.visits[at(other)]) != 0;
        });
        if (meets && is_inside(state, other)) {
          company.insert(other);
        }
      }
    }
    return company;
  }
  // Whether one that nobody keeps outside may have the others change lanes: no guest of who is
  // outside, but for itself.
  bool may_move(const State& state, std::size_t turn, const std::set<int32_t>& company) const {
    const int32_t stream = state.waiting[turn];
    for (std::size_t here = 0; here < state.inside.size(); ++here) {
      if (switches_.visit(stream, here) && first_at(state, here, turn) >= 0) {
        return false;
      }
      for (const int32_t other : company) {
        const int32_t first = state.guest[here][at(other)];
        if (first >= 0 && first != stream && !is_inside(state, first)) {
          return false;
        }
      }
    }
    return true;
  }
  // All ways in which it enters.
  std::vector<State> enter_together(const State& state, std::size_t turn) const {
    const int32_t stream = state.waiting[turn];
    const std::set<int32_t> company = company_of(state, stream);
    std::vector<State> found;
    for (uint32_t lanes = 0; may_move(state, turn, company) && lanes < 1U << kStreams; ++lanes) {
      State then = state;
      for (const int32_t one : company) {
        then.promise[at(one)] = static_cast<int8_t>(lanes >> one & 1);
      }
      bool carries = true;
      for (std::size_t here = 0; here < then.inside.size() && carries; ++here) {
        for (const int32_t one : company) {
          then.inside[here] &= ~(on(one, 0) | on(one, 1));
          then.inside[here] |= switches_.visit(one, here) ? on(one, then.promise[at(one)]) : 0;
        }
        carries = switches_.carries(here, then.inside[here]);
      }
      if (carries) {
        then.waiting.erase(then.waiting.begin() + static_cast<std::ptrdiff_t>(turn));
        found.push_back(std::move(then));
      }
    }
    return found;
  }
  int32_t first_at(const State& state, std::size_t here, std::size_t turn) const {
    for (std::size_t before = 0; before < turn; ++before) {
      if (switches_.visit(state.waiting[before], here)) {
        return state.waiting[before];
      }
    }
    return -1;
  }
  // Whether the switch carries `first` on this lane, with its guests and who enters.
  bool has_place(const State& state, std::size_t here, int32_t first, int32_t lane,
                 Set entering) const {
    Set expected = on(first, lane) | entering;
    for (int32_t other = 0; other < kStreams; ++other) {
      expected |= state.guest[here][at(other)] == first ? on(other, state.promise[at(other)]) : 0;
    }
    return switches_.carries(here, expected);
  }
  // Whether who waits first at some switches of a stream, `turn`, still has a lane: at each of
  // them by itself, or one at all that it visits.
  bool keeps(State& state, int32_t first, std::size_t turn, int32_t lane) const {
    const int32_t stream = state.waiting[turn];
    const auto meets = [&](std::size_t here) {
      return switches_.visit(stream, here) && first_at(state, here, turn) == first;
    };
    const auto has = [&](std::size_t here, int32_t its) {
      return has_place(state, here, first, its, meets(here) ? on(stream, lane) : 0);
    };
    for (int8_t tried = 0; tried < kLanes; ++tried) {
      const auto its = static_cast<int8_t>((state.promise[at(first)] + tried) % kLanes);
      bool has_all = true, has_any = true;
      for (std::size_t here = 0; here < state.inside.size(); ++here) {
        has_all = has_all && (!switches_.visit(first, here) || has(here, its));
        has_any = has_any && (!meets(here) || has(here, 0) || has(here, 1));
      }
      if (rule_ == Rule::kBySwitch ? has_any : has_all) {
        state.promise[at(first)] = rule_ == Rule::kBySwitch ? state.promise[at(first)] : its;
        return true;
      }
    }
    return false;
  }
  bool try_enter(State& state, std::size_t turn) const {
    const int32_t stream = state.waiting[turn];
    for (int8_t tried = 0; tried < kLanes; ++tried) {
      State then = state;
      const auto lane = static_cast<int8_t>((state.promise[at(stream)] + tried) % kLanes);
      bool enters = true;
      for (std::size_t here = 0; here < state.inside.size() && enters; ++here) {
        enters = !switches_.visit(stream, here) ||
                 switches_.carries(here, state.inside[here] | on(stream, lane));
      }
      for (std::size_t here = 0; here < state.inside.size() && enters; ++here) {
        const int32_t first = switches_.visit(stream, here) ? first_at(state, here, turn) : -1;
        enters = first < 0 || keeps(then, first, turn, lane);
      }
      if (!enters) {
        continue;
      }
      for (std::size_t here = 0; here < state.inside.size(); ++here) {
        if (switches_.visit(stream, here)) {
          then.inside[here] |= on(stream, lane);
          then.guest[here][at(stream)] = static_cast<int8_t>(first_at(state, here, turn));
        }
      }
      then.promise[at(stream)] = lane;
      then.waiting.erase(then.waiting.begin() + static_cast<std::ptrdiff_t>(turn));
      state = std::move(then);
      return true;
    }
    return false;
  }

  const Switches& switches_;
  Rule rule_;
  Moves moves_;
};

bool anyone_starves(const Switches& switches, Rule rule, Moves moves) {
  return support::anyone_may_starve(Model(switches, rule, moves));
}

// Streams on lanes, of two or three streams.
std::vector<Set> sets_of(int32_t size) {
  std::vector<Set> sets;
  for (int32_t code = 0; code < 27; ++code) {  // each stream: away, or on a lane
    Set set = 0;
    int32_t members = 0, rest = code;
    for (int32_t stream = 0; stream < kStreams; ++stream, rest /= 3) {
      if (rest % 3 > 0) {
        set |= on(stream, rest % 3 - 1);
        ++members;
      }
    }
    if (members == size) {
      sets.push_back(set);
    }
  }
  return sets;
}

// Every switch for three streams of two lanes, up to what its pairs say already.
TEST(AdmissionLanes, NobodyWaitsForEverAtOneSwitch) {
  const std::vector<Set> pairs = sets_of(2), triples = sets_of(3);
  ASSERT_EQ(pairs.size(), 12U);
  for (uint32_t chosen = 0; chosen < 1U << pairs.size(); ++chosen) {
    Switches switches{{{}}, {1, 1, 1}};
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if ((chosen >> i & 1) != 0) {
        switches.forbidden[0].push_back(pairs[i]);
      }
    }
    ASSERT_FALSE(anyone_starves(switches, Rule::kPromise, Moves::kPerhaps)) << "pairs " << chosen;
    // Some triples more, those that every pair allows.
    Rng rng(chosen);
    for (const Set triple : triples) {
      if (rng.below(2) == 0) {
        switches.forbidden[0].push_back(triple);
      }
    }
    ASSERT_FALSE(anyone_starves(switches, Rule::kPromise, Moves::kPerhaps))
        << "pairs and triples " << chosen;
  }
}

Switches draw(Rng& rng) {
  const std::vector<Set> pairs = sets_of(2), triples = sets_of(3);
  Switches switches{{{}, {}}, {}};
  for (Forbidden& forbidden : switches.forbidden) {
    const uint64_t share = 2 + rng.below(4);
    for (const std::vector<Set>* sets : {&pairs, &triples}) {
      std::ranges::copy_if(*sets, std::back_inserter(forbidden),
                           [&](Set) { return rng.below(share) == 0; });
    }
  }
  for (uint32_t& visits : switches.visits) {
    visits = 1 + static_cast<uint32_t>(rng.below(3));
  }
  return switches;
}

TEST(AdmissionLanes, NobodyWaitsForEverAtTwoSwitches) {
  int32_t by_switch = 0;
  for (uint64_t seed = 0; seed < 2'000; ++seed) {
    Rng rng(seed);
    const Switches switches = draw(rng);
    ASSERT_FALSE(anyone_starves(switches, Rule::kPromise, Moves::kPerhaps)) << "seed " << seed;
    by_switch += anyone_starves(switches, Rule::kBySwitch, Moves::kNever) ? 1 : 0;
  }
  EXPECT_GT(by_switch, 0);
}

// The first switch leaves the second stream its first lane beside either of the others, the second
// switch leaves it its second one; they take turns so that one of them is always inside.
TEST(AdmissionLanes, ALaneAtEverySwitchIsNotEnough) {
  const Switches switches{
      {{on(0, 0) | on(1, 1), on(0, 1) | on(1, 1), on(1, 1) | on(2, 0),
        on(0, 0) | on(1, 0) | on(2, 1)},
       {on(0, 0) | on(1, 0), on(1, 0) | on(2, 0), on(1, 0) | on(2, 1), on(1, 1) | on(2, 1)}},
      {3, 3, 3}};
  EXPECT_TRUE(anyone_starves(switches, Rule::kBySwitch, Moves::kNever));
  EXPECT_FALSE(anyone_starves(switches, Rule::kPromise, Moves::kNever));
  EXPECT_FALSE(anyone_starves(switches, Rule::kPromise, Moves::kPerhaps));
}

// The switches of a walk, as the class sees them. First come two ranks a stream, then two hubs;
// link i joins the hubs by two lanes, and stream i passes it.
const Switches* drawn = nullptr;
constexpr int32_t kHubs = 2 * kStreams;

class DrawnSwitch final : public SwitchCore {
 public:
  explicit DrawnSwitch(std::size_t hub) : hub_(hub) {}
  std::vector<int32_t> conflict(std::span<const PortFlow> flows) const override {
    Set set = 0;
    std::vector<int32_t> all;
    for (const PortFlow& flow : flows) {
      all.push_back(count_of(all));
      set |= Set{1} << (hub_ == 0 ? flow.outputs : flow.inputs).front();
    }
    return drawn->carries(hub_, set) ? std::vector<int32_t>() : all;
  }

 private:
  const std::size_t hub_;
};

std::unique_ptr<SwitchCore> make_drawn(const Topology& /*topology*/, NodeId node) {
  return std::make_unique<DrawnSwitch>(at(node.value - kHubs));
}

Topology two_hubs() {
  TopologyBuilder builder("hubs");
  for (int32_t node = 0; node < kHubs + 2; ++node) {
    EXPECT_TRUE(
        builder.add_node({.name = {}, .kind = node < kHubs ? NodeKind::kRank : NodeKind::kSwitch}));
  }
  const NodeId first{kHubs}, second{kHubs + 1};
  for (int32_t stream = 0; stream < kStreams; ++stream) {
    Link wide{first, second, 1, 0};
    wide.lanes = kLanes;
    EXPECT_TRUE(builder.add_link(wide));
  }
  for (int32_t rank = 0; rank < kHubs; ++rank) {
    EXPECT_TRUE(builder.add_cable({NodeId{rank}, first, 1, 0}));
    EXPECT_TRUE(builder.add_cable({NodeId{rank}, second, 1, 0}));
  }
  auto topology = std::move(builder).build();
  EXPECT_TRUE(topology);
  return std::move(*topology);
}

TEST(AdmissionLanes, AreWhatTheClassChooses) {
  const Topology topology = two_hubs();
  const NodeId first{kHubs}, second{kHubs + 1};
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    const Switches switches = draw(rng);
    drawn = &switches;
    Admission admission(topology, AdmissionRule::kTogether, make_drawn, seed % 2 == 0 ? 3 : 1'000);
    admission.let_move();
    for (int32_t stream = 0; stream < kStreams; ++stream) {
      LoweredConnection connection;
      const LinkId wide{stream};
      if (switches.visit(stream, 0)) {
        const auto in = topology.links_in(first);
        connection.passes.push_back({first, {in[at(stream)], in[at(kStreams + stream)]}, {wide}});
      }
      if (switches.visit(stream, 1)) {
        const auto out = topology.links_out(second);
        connection.passes.push_back(
            {second, {wide}, {out[at(stream)], out[at(kStreams + stream)]}});
      }
      admission.add(connection);
    }
    const Model model(switches, Rule::kPromise, Moves::kAlways);
    // Of those that are possible, the states in which the same streams are outside.
    std::vector<State> states = model.start();
    support::AskingStreams streams(admission, std::vector<int32_t>(kStreams, 0));
    for (int32_t step = 0; step < 60; ++step) {
      std::erase_if(states, [&](const State& state) {
        return streams.outside() != std::set<int32_t>(state.waiting.begin(), state.waiting.end());
      });
      ASSERT_FALSE(states.empty()) << "step " << step;
      int32_t leaves = 0;
      do {
        leaves = static_cast<int32_t>(rng.below(kStreams));
      } while (streams.outside().contains(leaves));
      std::set<State> next;
      for (const State& state : states) {
        const std::vector<State> then = model.leave(state, leaves);
        next.insert(then.begin(), then.end());
      }
      states.assign(next.begin(), next.end());
      streams.leave(leaves);
    }
  }
}

}  // namespace
}  // namespace pleach
