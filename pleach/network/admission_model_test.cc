// The rule by which switches admit streams, as a small model: every order in which streams may
// leave is walked, for every set of conflicts among four streams, and it is asked whether one of
// them could wait for ever. The class is held to the model on random walks.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
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

constexpr int32_t kStreams = 4;
using Set = uint32_t;  // of streams

// What one switch carries: sets by number; a part of what it carries it carries.
using Carried = std::array<bool, 1U << kStreams>;

struct Switches {
  std::vector<Carried> carried;
  std::array<Set, kStreams> visits = {};  // by stream: its switches
};

enum class Rule : uint8_t {
  kGreedy,    // who is in nobody's way enters
  kPairwise,  // and is not, by itself, in the way of the first who waits there
  kGuests,    // nor together with those that entered after that one came to be the first
};

// Streams ask again as soon as they have left.
struct State {
  std::vector<Set> inside;                          // by switch
  std::vector<std::array<int8_t, kStreams>> guest;  // by switch and stream: of whom, or -1
  std::vector<int8_t> waiting;                      // streams, who has asked first first
  auto operator<=>(const State&) const = default;
};

class Model {
 public:
  static constexpr int32_t kStreams = pleach::kStreams;

  Model(const Switches& switches, Rule rule) : switches_(switches), rule_(rule) {}

  State start() const {
    State state;
    state.inside.resize(switches_.carried.size());
    state.guest.resize(switches_.carried.size());
    for (auto& guest : state.guest) {
      guest.fill(-1);
    }
    for (int8_t stream = 0; stream < kStreams; ++stream) {
      state.waiting.push_back(stream);
    }
    admit(state);
    return state;
  }
  static bool waits(const State& state, int32_t stream) {
    return std::ranges::find(state.waiting, stream) != state.waiting.end();
  }
  static bool moves(const State& state, int32_t stream) { return !waits(state, stream); }
  State leave(State state, int32_t stream) const {
    for (std::size_t at_switch = 0; at_switch < state.inside.size(); ++at_switch) {
      state.inside[at_switch] &= ~(Set{1} << stream);
      state.guest[at_switch][at(stream)] = -1;
    }
    admit(state);
    state.waiting.push_back(static_cast<int8_t>(stream));
    admit(state);
    return state;
  }
  // In turn; who enters changes nothing for those before it.
  void admit(State& state) const {
    for (std::size_t turn = 0; turn < state.waiting.size();) {
      turn = try_enter(state, turn) ? 0 : turn + 1;
    }
  }

 private:
  bool visits(int32_t stream, std::size_t at_switch) const {
    return (switches_.visits[at(stream)] >> at_switch & 1) != 0;
  }
  // The first who waits at the switch, if that is before `turn`.
  int32_t first_at(const State& state, std::size_t at_switch, std::size_t turn) const {
    for (std::size_t before = 0; before < turn; ++before) {
      if (visits(state.waiting[before], at_switch)) {
        return state.waiting[before];
      }
    }
    return -1;
  }
  bool try_enter(State& state, std::size_t turn) const {
    const int32_t stream = state.waiting[turn];
    const Set self = Set{1} << stream;
    for (std::size_t here = 0; here < state.inside.size(); ++here) {
      if (!visits(stream, here)) {
        continue;
      }
      Set expected = self;
      if (const int32_t first = first_at(state, here, turn); first >= 0 && rule_ != Rule::kGreedy) {
        expected |= Set{1} << first;
        for (int32_t other = 0; other < kStreams && rule_ == Rule::kGuests; ++other) {
          expected |= state.guest[here][at(other)] == first ? Set{1} << other : 0;
        }
      }
      if (!switches_.carried[here][state.inside[here] | self] ||
          !switches_.carried[here][expected]) {
        return false;
      }
    }
    for (std::size_t here = 0; here < state.inside.size(); ++here) {
      if (visits(stream, here)) {
        state.inside[here] |= self;
        state.guest[here][at(stream)] = static_cast<int8_t>(first_at(state, here, turn));
      }
    }
    state.waiting.erase(state.waiting.begin() + static_cast<std::ptrdiff_t>(turn));
    return true;
  }

  const Switches& switches_;
  Rule rule_;
};

// Every family of sets of four streams that is closed downwards and has each stream by itself.
std::vector<Carried> all_switches() {
  std::vector<Set> larger;  // sets of two and more
  for (Set set = 1; set < 1U << kStreams; ++set) {
    if (std::popcount(set) > 1) {
      larger.push_back(set);
    }
  }
  std::vector<Carried> all;
  for (uint32_t chosen = 0; chosen < 1U << larger.size(); ++chosen) {
    Carried carried = {};
    for (Set set = 0; set < 1U << kStreams; ++set) {
      carried[set] = std::popcount(set) < 2;
    }
    for (std::size_t i = 0; i < larger.size(); ++i) {
      carried[larger[i]] = (chosen >> i & 1) != 0;
    }
    bool is_closed = true;
    for (const Set set : larger) {
      for (Set rest = set; rest != 0 && carried[set]; rest &= rest - 1) {
        is_closed = is_closed && carried[set & ~(rest & -rest)];
      }
    }
    if (is_closed) {
      all.push_back(carried);
    }
  }
  return all;
}

Switches one_switch(const Carried& carried) {
  Switches switches{{carried}, {}};
  switches.visits.fill(1);
  return switches;
}

bool anyone_starves(const Switches& switches, Rule rule) {
  return support::anyone_may_starve(Model(switches, rule));
}

TEST(AdmissionModel, NobodyWaitsForEverAtOneSwitch) {
  const std::vector<Carried> all = all_switches();
  EXPECT_EQ(all.size(), 114U);
  int32_t greedy = 0, pairwise = 0;
  for (const Carried& carried : all) {
    const Switches switches = one_switch(carried);
    greedy += anyone_starves(switches, Rule::kGreedy) ? 1 : 0;
    pairwise += anyone_starves(switches, Rule::kPairwise) ? 1 : 0;
    ASSERT_FALSE(anyone_starves(switches, Rule::kGuests));
  }
  EXPECT_GT(greedy, 10);
  EXPECT_GT(pairwise, 0);
}

// Three streams that go together, and a fourth that goes with one of them: they take turns so that
// two are always inside, and the fourth never enters.
TEST(AdmissionModel, WeakerRulesStarve) {
  constexpr Set kFourth = 8;
  Carried carried = {};
  for (Set set = 0; set < 1U << kStreams; ++set) {
    carried[set] = (set & kFourth) == 0 || std::popcount(set) < 3;
  }
  EXPECT_TRUE(anyone_starves(one_switch(carried), Rule::kGreedy));
  EXPECT_TRUE(anyone_starves(one_switch(carried), Rule::kPairwise));
  EXPECT_FALSE(anyone_starves(one_switch(carried), Rule::kGuests));
}

TEST(AdmissionModel, NobodyWaitsForEverAtTwoSwitches) {
  const std::vector<Carried> all = all_switches();
  Rng rng(7);
  for (int32_t round = 0; round < 150; ++round) {
    Switches switches{{all[rng.below(all.size())], all[rng.below(all.size())]}, {}};
    for (Set& visits : switches.visits) {
      visits = 1 + static_cast<Set>(rng.below(3));
    }
    ASSERT_FALSE(anyone_starves(switches, Rule::kGuests)) << "round " << round;
  }
}

// The switches of a walk, as the class sees them: stream i comes by port i and leaves by it, and by
// the last one.
const Switches* drawn = nullptr;
constexpr int32_t kHubs = kStreams + 1;  // ranks come before them

class DrawnSwitch final : public SwitchCore {
 public:
  explicit DrawnSwitch(const Carried& carried) : carried_(carried) {}
  std::vector<int32_t> conflict(std::span<const PortFlow> flows) const override {
    Set set = 0;
    std::vector<int32_t> all;
    for (const PortFlow& flow : flows) {
      all.push_back(count_of(all));
      set |= Set{1} << flow.inputs.front();
    }
    return carried_[set] ? std::vector<int32_t>() : all;
  }

 private:
  const Carried& carried_;
};

std::unique_ptr<SwitchCore> make_drawn(const Topology& /*topology*/, NodeId node) {
  return std::make_unique<DrawnSwitch>(drawn->carried[at(node.value - kHubs)]);
}

TEST(AdmissionModel, IsWhatTheClassDoes) {
  TopologyBuilder builder("hubs");
  for (int32_t node = 0; node < kHubs + 2; ++node) {
    ASSERT_TRUE(
        builder.add_node({.name = {}, .kind = node < kHubs ? NodeKind::kRank : NodeKind::kSwitch}));
  }
  for (int32_t hub = kHubs; hub < kHubs + 2; ++hub) {
    for (int32_t rank = 0; rank < kHubs; ++rank) {
      ASSERT_TRUE(builder.add_cable({NodeId{rank}, NodeId{hub}, 1, 0}));
    }
  }
  const auto topology = std::move(builder).build();
  ASSERT_TRUE(topology);
  const std::vector<Carried> all = all_switches();
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    Switches switches{{all[rng.below(all.size())], all[rng.below(all.size())]}, {}};
    for (Set& visits : switches.visits) {
      visits = 1 + static_cast<Set>(rng.below(3));
    }
    drawn = &switches;
    Admission admission(*topology, AdmissionRule::kTogether, make_drawn, seed % 2 == 0 ? 3 : 1'000);
    for (int32_t stream = 0; stream < kStreams; ++stream) {
      LoweredConnection connection;
      for (int32_t hub = 0; hub < 2; ++hub) {
        if ((switches.visits[at(stream)] >> hub & 1) != 0) {
          const NodeId node{kHubs + hub};
          const auto out = topology->links_out(node);
          connection.passes.push_back(
              {node, {topology->links_in(node)[at(stream)]}, {out[at(stream)], out.back()}});
        }
      }
      admission.add(connection);
    }
    const Model model(switches, Rule::kGuests);
    State state = model.start();
    support::AskingStreams streams(admission, std::vector<int32_t>(kStreams, 0));
    for (int32_t step = 0; step < 100; ++step) {
      const std::set<int32_t> expected(state.waiting.begin(), state.waiting.end());
      ASSERT_EQ(streams.outside(), expected) << "step " << step;
      int32_t leaves = 0;
      do {
        leaves = static_cast<int32_t>(rng.below(kStreams));
      } while (streams.outside().contains(leaves));
      state = model.leave(state, leaves);
      streams.leave(leaves);
    }
  }
}

}  // namespace
}  // namespace pleach
