// The rule by which packets of streams pass switches one stream after the other, as a small model:
// every order in which streams may enter, send and be stopped and packets move is walked, for
// streams that meet at two switches, and it is asked whether all of them arrive. The class is held
// to the model on random walks.
#include "pleach/network/flit/packet_gates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "tests/support/gets_stuck.h"

namespace pleach {
namespace {

enum class Rule : uint8_t {
  kInTurn,      // what PacketGates do
  kAsTheyCome,  // whose packet comes first to a switch that carries it passes
  kUnstopped,   // in turn, but whoever is in the way of a lower class goes on
  kFirstAlone,  // in turn, but who waits finds room only when it is the first
};

constexpr std::size_t kSwitches = 2;

struct Case {
  struct Stream {
    std::vector<std::size_t> visits;  // switches, in order; one may come twice
    int32_t traffic_class = 0;
  };
  std::vector<Stream> streams;
  // By switch and set of streams; a part of what it carries it carries.
  std::array<std::vector<bool>, kSwitches> carried;
  int32_t packets = 1, entries = 1;  // of a stream; of an entry
};

// A gate for each visit, and a place before it. Entries of a stream are numbered from 0.
struct Gate {
  int8_t passed = 0;               // packets
  int8_t moves = -1;               // an entry
  std::vector<int8_t> waits = {};  // entries, in turn
  auto operator<=>(const Gate&) const = default;
};
struct Stream {
  enum class Phase : uint8_t { kOutside, kInside, kStopped };
  Phase phase = Phase::kOutside;
  int8_t begun = 0, sent = 0;  // entries, packets
  std::vector<Gate> gates = {};
  auto operator<=>(const Stream&) const = default;
};
struct State {
  std::vector<Stream> streams;
  std::vector<std::pair<int8_t, int8_t>> order;  // stream and entry, as they have entered
  auto operator<=>(const State&) const = default;
};

class Model {
 public:
  // What happens next, for the class.
  struct Event {
    enum class Kind : uint8_t { kEnter, kEnd, kPassed, kWithdraw };
    Kind kind;
    std::size_t stream = 0, gate = 0;
  };

  Model(const Case& what, Rule rule) : what_(what), rule_(rule) {}

  State start() const {
    State state;
    for (const Case::Stream& stream : what_.streams) {
      state.streams.emplace_back().gates.resize(stream.visits.size());
    }
    return state;
  }
  bool is_over(const State& state) const {
    return std::ranges::all_of(state.streams, [&](const Stream& stream) {
      return stream.gates.back().passed == what_.packets * what_.entries;
    });
  }
  // Those after one step; `events`, of each what the class is told.
  std::vector<State> next(const State& state,
                          std::vector<std::vector<Event>>* events = nullptr) const {
    std::vector<State> all;
    for (std::size_t stream = 0; stream < state.streams.size(); ++stream) {
      const auto add = [&](auto step) {
        State then = state;
        std::vector<Event> told;
        if (step(then, told)) {
          all.push_back(std::move(then));
          if (events != nullptr) {
            events->push_back(std::move(told));
          }
        }
      };
      add([&](State& then, auto& told) { return enter(then, stream, told); });
      add([&](State& then, auto& told) { return send(then, stream, told); });
      for (std::size_t gate = 0; gate < state.streams[stream].gates.size(); ++gate) {
        add([&](State& then, auto& told) { return pass(then, stream, gate, told); });
      }
    }
    return all;
  }
  int32_t limit(const Gate& gate) const { return (gate.moves + 1) * what_.packets; }
  // Whether what passes each switch is carried there.
  bool is_carried(const State& state) const {
    for (std::size_t at_switch = 0; at_switch < kSwitches; ++at_switch) {
      if (!what_.carried[at_switch][passing(state, at_switch)]) {
        return false;
      }
    }
    return true;
  }

 private:
  using Phase = Stream::Phase;

  bool visits(std::size_t stream, std::size_t at_switch) const {
    const auto& all = what_.streams[stream].visits;
    return std::ranges::find(all, at_switch) != all.end();
  }
  std::size_t passing(const State& state, std::size_t at_switch) const {
    std::size_t set = 0;
    for (std::size_t stream = 0; stream < state.streams.size(); ++stream) {
      for (std::size_t gate = 0; gate < state.streams[stream].gates.size(); ++gate) {
        if (what_.streams[stream].visits[gate] == at_switch &&
            state.streams[stream].gates[gate].moves >= 0) {
          set |= std::size_t{1} << stream;
        }
      }
    }
    return set;
  }
  bool may_enter(const State& state, std::size_t stream) const {
    for (std::size_t at_switch = 0; at_switch < kSwitches; ++at_switch) {
      std::size_t set = std::size_t{1} << stream;
      for (std::size_t other = 0; other < state.streams.size(); ++other) {
        if (state.streams[other].phase == Phase::kInside && visits(other, at_switch)) {
          set |= std::size_t{1} << other;
        }
      }
      if (visits(stream, at_switch) && !what_.carried[at_switch][set]) {
        return false;
      }
    }
    return true;
  }
  // The next entry, or the last one once more. One that it keeps out and is of a higher class
  // stops.
  bool enter(State& state, std::size_t number, std::vector<Event>& told) const {
    Stream& stream = state.streams[number];
    if (stream.phase == Phase::kInside ||
        (stream.phase == Phase::kOutside && stream.begun == what_.entries)) {
      return false;
    }
    for (std::size_t other = 0; other < state.streams.size(); ++other) {
      if (!may_enter(state, number) && state.streams[other].phase == Phase::kInside &&
          what_.streams[other].traffic_class > what_.streams[number].traffic_class) {
        stop(state, other, told);
        settle(state, told);
      }
    }
    if (!may_enter(state, number)) {
      return false;
    }
    stream.begun = static_cast<int8_t>(stream.begun + (stream.phase == Phase::kOutside ? 1 : 0));
    stream.phase = Phase::kInside;
    const auto entry = static_cast<int8_t>(stream.begun - 1);
    state.order.emplace_back(static_cast<int8_t>(number), entry);
    for (Gate& gate : stream.gates) {
      gate.waits.push_back(entry);
    }
    told.push_back({Event::Kind::kEnter, number});
    end_if_sent(state, number, told);
    settle(state, told);
    return true;
  }
  void end_if_sent(State& state, std::size_t number, std::vector<Event>& told) const {
    Stream& stream = state.streams[number];
    if (stream.phase == Phase::kInside && stream.sent == stream.begun * what_.packets) {
      stream.phase = Phase::kOutside;
      told.push_back({Event::Kind::kEnd, number});
    }
  }
  bool send(State& state, std::size_t number, std::vector<Event>& told) const {
    Stream& stream = state.streams[number];
    if (stream.sent == stream.begun * what_.packets || stream.sent > stream.gates.front().passed) {
      return false;
    }
    ++stream.sent;
    end_if_sent(state, number, told);
    settle(state, told);
    return true;
  }
  bool pass(State& state, std::size_t number, std::size_t place, std::vector<Event>& told) const {
    Stream& stream = state.streams[number];
    Gate& gate = stream.gates[place];
    const int8_t come = place == 0 ? stream.sent : stream.gates[place - 1].passed;
    const bool is_room =
        place + 1 == stream.gates.size() || gate.passed == stream.gates[place + 1].passed;
    if (gate.passed == come || !is_room) {
      return false;
    }
    if (gate.passed == limit(gate) || gate.moves < 0) {
      if (rule_ != Rule::kAsTheyCome || gate.waits.empty() || !is_free(state, number, place)) {
        return false;
      }
      open(gate);
    }
    ++gate.passed;
    settle(state, told);
    return true;
  }
  static void open(Gate& gate) {
    gate.moves = gate.waits.front();
    gate.waits.erase(gate.waits.begin());
  }
  bool is_free(const State& state, std::size_t stream, std::size_t gate) const {
    const std::size_t at_switch = what_.streams[stream].visits[gate];
    return what_.carried[at_switch][passing(state, at_switch) | std::size_t{1} << stream];
  }
  void stop(State& state, std::size_t number, std::vector<Event>& told) const {
    Stream& stream = state.streams[number];
    stream.phase = Phase::kStopped;
    for (Gate& gate : stream.gates) {
      gate.moves = -1;
      gate.waits.clear();
    }
    std::erase_if(state.order, [&](const auto& entry) { return at(entry.first) == number; });
    told.push_back({Event::Kind::kWithdraw, number});
  }
  // Gates close and open until nothing changes.
  void settle(State& state, std::vector<Event>& told) const {
    bool changes = true;
    while (changes) {
      changes = false;
      for (std::size_t stream = 0; stream < state.streams.size(); ++stream) {
        changes = close(state, stream, told) || changes;
      }
      for (std::size_t at_switch = 0; at_switch < kSwitches && !changes; ++at_switch) {
        changes = rule_ != Rule::kAsTheyCome && open_first(state, at_switch, told);
      }
    }
    forget(state);
  }
  bool close(State& state, std::size_t number, std::vector<Event>& told) const {
    bool any = false;
    Stream& stream = state.streams[number];
    for (std::size_t place = 0; place < stream.gates.size(); ++place) {
      Gate& gate = stream.gates[place];
      const bool has_ended = gate.moves + 1 < stream.begun || stream.phase == Phase::kOutside;
      if (gate.moves >= 0 && gate.passed == limit(gate) && has_ended) {
        gate.moves = -1;
        any = true;
        told.push_back({Event::Kind::kPassed, number, place});
      }
    }
    return any;
  }
  // In turn; those of one entry do not wait for each other. Who is in the way stops.
  bool open_first(State& state, std::size_t at_switch, std::vector<Event>& told) const {
    const std::vector<std::pair<int8_t, int8_t>> order = in_turn(state);
    for (std::size_t turn = 0; turn < order.size(); ++turn) {
      const auto stream = at(order[turn].first);
      for (std::size_t place = 0; place < state.streams[stream].gates.size(); ++place) {
        Gate& gate = state.streams[stream].gates[place];
        if (what_.streams[stream].visits[place] != at_switch || gate.waits.empty() ||
            gate.waits.front() != order[turn].second) {
          continue;
        }
        const bool is_carried = gate.moves >= 0 || is_free(state, stream, place);
        if (is_carried && leaves_room(state, order, turn, at_switch)) {
          open(gate);
          return true;
        }
        if (!is_carried && rule_ == Rule::kInTurn &&
            stop_in_the_way(state, order[turn], at_switch, told)) {
          return true;
        }
      }
    }
    return false;
  }
  std::vector<std::pair<int8_t, int8_t>> in_turn(const State& state) const {
    std::vector<std::pair<int8_t, int8_t>> order = state.order;
    std::ranges::stable_sort(
        order, {}, [&](const auto& entry) { return what_.streams[at(entry.first)].traffic_class; });
    return order;
  }
  // To each that waits before it in turn, beside those after that one that are passing.
  bool leaves_room(const State& state, const std::vector<std::pair<int8_t, int8_t>>& order,
                   std::size_t turn, std::size_t at_switch) const {
    std::size_t after = std::size_t{1} << at(order[turn].first);
    if (rule_ == Rule::kFirstAlone && first_waits(state, order, at_switch) < turn) {
      return leaves_room_to(state, order, first_waits(state, order, at_switch), at_switch, after);
    }
    for (std::size_t before = 0; before < turn; ++before) {
      if (!leaves_room_to(state, order, before, at_switch, after)) {
        return false;
      }
    }
    return true;
  }
  bool waits_at(const State& state, const std::pair<int8_t, int8_t>& entry,
                std::size_t at_switch) const {
    const auto stream = at(entry.first);
    for (std::size_t place = 0; place < state.streams[stream].gates.size(); ++place) {
      const std::vector<int8_t>& waits = state.streams[stream].gates[place].waits;
      if (what_.streams[stream].visits[place] == at_switch &&
          std::ranges::find(waits, entry.second) != waits.end()) {
        return true;
      }
    }
    return false;
  }
  std::size_t first_waits(const State& state, const std::vector<std::pair<int8_t, int8_t>>& order,
                          std::size_t at_switch) const {
    std::size_t first = 0;
    while (!waits_at(state, order[first], at_switch)) {
      ++first;
    }
    return first;
  }
  bool leaves_room_to(const State& state, const std::vector<std::pair<int8_t, int8_t>>& order,
                      std::size_t before, std::size_t at_switch, std::size_t after) const {
    if (!waits_at(state, order[before], at_switch)) {
      return true;
    }
    for (std::size_t later = before + 1; later < order.size(); ++later) {
      const auto stream = at(order[later].first);
      for (std::size_t place = 0; place < state.streams[stream].gates.size(); ++place) {
        if (what_.streams[stream].visits[place] == at_switch &&
            state.streams[stream].gates[place].moves == order[later].second) {
          after |= std::size_t{1} << stream;
        }
      }
    }
    return what_.carried[at_switch][after | std::size_t{1} << at(order[before].first)];
  }
  bool stop_in_the_way(State& state, const std::pair<int8_t, int8_t>& entry, std::size_t at_switch,
                       std::vector<Event>& told) const {
    const auto place_of = [&](std::size_t stream, int8_t moves) {
      return std::ranges::find(state.order, std::pair(static_cast<int8_t>(stream), moves));
    };
    const std::size_t stream = at(entry.first);
    for (std::size_t other = 0; other < state.streams.size(); ++other) {
      for (std::size_t place = 0; place < state.streams[other].gates.size(); ++place) {
        const Gate& gate = state.streams[other].gates[place];
        const bool has_ended = gate.moves + 1 < state.streams[other].begun ||
                               state.streams[other].phase == Phase::kOutside;
        if (what_.streams[other].visits[place] == at_switch && gate.moves >= 0 && has_ended &&
            what_.streams[other].traffic_class > what_.streams[stream].traffic_class &&
            place_of(other, gate.moves) < place_of(stream, entry.second)) {
          stop(state, other, told);
          return true;
        }
      }
    }
    return false;
  }
  // The order of entries that are through.
  static void forget(State& state) {
    std::erase_if(state.order, [&](const auto& entry) {
      return std::ranges::none_of(state.streams[at(entry.first)].gates, [&](const Gate& gate) {
        return gate.moves == entry.second ||
               std::ranges::find(gate.waits, entry.second) != gate.waits.end();
      });
    });
  }

  const Case& what_;
  const Rule rule_;
};

bool gets_stuck(const Case& what, Rule rule) {
  const Model model(what, rule);
  return support::gets_stuck(model,
                             [&](const State& state) { EXPECT_TRUE(model.is_carried(state)); });
}

Case random_case(Rng& rng) {
  const std::array<std::vector<std::size_t>, 6> ways = {
      {{0}, {0, 1}, {1, 0}, {0, 1}, {1, 0}, {0, 1, 0}}};
  Case what;
  const std::size_t count = 2 + rng.below(2);
  for (std::size_t stream = 0; stream < count; ++stream) {
    what.streams.push_back({ways[rng.below(ways.size())], static_cast<int32_t>(rng.below(2))});
  }
  what.packets = 1 + static_cast<int32_t>(rng.below(count == 2 ? 3 : 2));
  what.entries = count == 2 ? 2 : 1;
  for (std::vector<bool>& carried : what.carried) {
    carried.assign(std::size_t{1} << count, true);
    for (std::size_t set = 0; set < carried.size(); ++set) {
      bool parts = true;
      for (std::size_t stream = 0; stream < count; ++stream) {
        parts = parts && carried[set & ~(std::size_t{1} << stream)];
      }
      const bool is_single = (set & (set - 1)) == 0;
      carried[set] = is_single || (parts && rng.below(3) == 0);
    }
  }
  return what;
}

// Streams that meet at two switches, which carry one at a time, and pass them in opposite orders.
TEST(PacketGates, WeakerRulesGetStuck) {
  Case crossed;
  crossed.packets = 2;
  crossed.streams = {{{0, 1}, 0}, {{1, 0}, 0}};
  crossed.carried = {{{true, true, true, false}, {true, true, true, false}}};
  EXPECT_TRUE(gets_stuck(crossed, Rule::kAsTheyCome));
  EXPECT_FALSE(gets_stuck(crossed, Rule::kInTurn));
  // The second passes one of them and waits for the third at the other; then the first comes to
  // be before it there.
  const std::vector<bool> singles = {true, true, true, false, true, false, false, false};
  crossed.streams = {{{0, 1}, 0}, {{1, 0}, 1}, {{0}, 1}};
  crossed.carried = {{singles, singles}};
  EXPECT_TRUE(gets_stuck(crossed, Rule::kUnstopped));
  EXPECT_FALSE(gets_stuck(crossed, Rule::kInTurn));
}

TEST(PacketGates, StreamsInTurnArrive) {
  int32_t as_they_come = 0, unstopped = 0, first_alone = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    const Case what = random_case(rng);
    ASSERT_FALSE(gets_stuck(what, Rule::kInTurn));
    as_they_come += gets_stuck(what, Rule::kAsTheyCome) ? 1 : 0;
    unstopped += gets_stuck(what, Rule::kUnstopped) ? 1 : 0;
    first_alone += gets_stuck(what, Rule::kFirstAlone) ? 1 : 0;
  }
  EXPECT_GT(as_they_come, 20);
  EXPECT_GT(unstopped, 5);
  EXPECT_GT(first_alone, 0);
}

// Streams by the port of their flow.
class ToySwitch final : public SwitchCore {
 public:
  explicit ToySwitch(std::vector<bool> carried) : carried_(std::move(carried)) {}
  std::vector<int32_t> conflict(std::span<const PortFlow> flows) const override {
    std::size_t set = 0;
    std::vector<int32_t> all;
    for (int32_t flow = 0; flow < count_of(flows); ++flow) {
      set |= std::size_t{1} << at(flows[at(flow)].inputs.front());
      all.push_back(flow);
    }
    return carried_[set] ? std::vector<int32_t>() : all;
  }

 private:
  const std::vector<bool> carried_;
};

// The class beside the model: gates of stream s are numbered from 8 s on.
class Beside {
 public:
  explicit Beside(const Case& what)
      : what_(what), cores_{ToySwitch(what.carried[0]), ToySwitch(what.carried[1])} {
    for (int32_t stream = 0; stream < count_of(what.streams); ++stream) {
      auto& gates = numbers_.emplace_back();
      for (const std::size_t at_switch : what.streams[at(stream)].visits) {
        gates.push_back(8 * stream + count_of(gates));
        gates_.add(gates.back(), stream, cores_[at_switch], false);
      }
    }
  }
  void tell(const Model::Event& event, const State& state) {
    using Kind = Model::Event::Kind;
    const std::vector<int32_t>& gates = numbers_[event.stream];
    const auto stream = static_cast<int32_t>(event.stream);
    switch (event.kind) {
      case Kind::kEnter:
        gates_.enter(gates, std::vector(gates.size(), PortFlow{{stream}, {stream}}),
                     what_.streams[event.stream].traffic_class);
        break;
      case Kind::kEnd:
        for (const int32_t gate : gates) {
          gates_.end(gate, state.streams[event.stream].begun * what_.packets);
        }
        break;
      case Kind::kPassed:
        // Else it has gone on with the next entry at once.
        if (state.streams[event.stream].gates[event.gate].passed ==
            gates_.limit(gates[event.gate])) {
          gates_.passed(gates[event.gate]);
        }
        break;
      case Kind::kWithdraw:
        gates_.withdraw(gates);
        break;
    }
  }
  // Whether it opens what the model does.
  void expect_like(const Model& model, const State& state) const {
    for (std::size_t stream = 0; stream < state.streams.size(); ++stream) {
      for (std::size_t place = 0; place < state.streams[stream].gates.size(); ++place) {
        const Gate& gate = state.streams[stream].gates[place];
        const int64_t limit = gates_.limit(numbers_[stream][place]);
        if (gate.moves < 0) {
          EXPECT_EQ(limit, 0);
        } else {
          EXPECT_TRUE(limit == model.limit(gate) || limit == PacketGates::kNoEnd);
        }
      }
    }
  }
  std::set<int32_t> take_in_the_way() {
    const std::vector<int32_t> all = gates_.take_in_the_way();
    return {all.begin(), all.end()};
  }

 private:
  const Case& what_;
  const std::array<ToySwitch, kSwitches> cores_;
  std::vector<std::vector<int32_t>> numbers_;
  PacketGates gates_{false, 4};
};

TEST(PacketGates, DoWhatTheModelDoes) {
  int32_t stopped = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    Case what = random_case(rng);
    what.entries = 4;
    const Model model(what, Rule::kInTurn);
    Beside beside(what);
    State state = model.start();
    while (!model.is_over(state) && !testing::Test::HasFailure()) {
      std::vector<std::vector<Model::Event>> events;
      const std::vector<State> next = model.next(state, &events);
      ASSERT_FALSE(next.empty());
      const std::size_t chosen = rng.below(next.size());
      state = next[chosen];
      std::set<int32_t> in_the_way;
      for (const Model::Event& event : events[chosen]) {
        if (event.kind == Model::Event::Kind::kWithdraw) {
          stopped += in_the_way.contains(static_cast<int32_t>(event.stream)) ? 1 : 0;
        }
        beside.tell(event, state);
        in_the_way.merge(beside.take_in_the_way());
      }
      beside.expect_like(model, state);
    }
  }
  EXPECT_GT(stopped, 20);
}

}  // namespace
}  // namespace pleach
