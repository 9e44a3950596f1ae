// The rule by which packets of streams take places in buffers, as a small model: every order in
// which packets may move and streams may begin is walked, for streams that are added and copied on
// their way through the same few buffers, and it is asked whether all of them arrive.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/network/flit/packet_places.h"
#include "tests/support/gets_stuck.h"

namespace pleach {
namespace {

enum class Rule : uint8_t {
  kOwnPlaces,  // all at once, as a stream begins: what PacketPlaces does
  kOneByOne,   // each as there is one
  kNoneOwn,    // whoever comes takes a place
};

// A leg carries a packet into a buffer when all legs before it have; they hold it until all legs
// behind them have carried it on. One with none behind it is taken at once.
struct Leg {
  int32_t buffer = 0;
  std::vector<int32_t> before = {};
};
using Stream = std::vector<Leg>;

struct Case {
  std::vector<Stream> streams;
  int32_t places = 1;   // of each buffer
  int32_t packets = 2;  // of each stream
};

constexpr int32_t kBuffers = 4;

// Of each stream: how many buffers it has joined, and what each leg has carried.
using State = std::vector<std::vector<int8_t>>;

class Model {
 public:
  Model(const Case& what, Rule rule) : what_(what), rule_(rule) {}

  State start() const {
    State state;
    for (const Stream& stream : what_.streams) {
      state.emplace_back(stream.size() + 1, int8_t{0});
    }
    return state;
  }
  bool is_over(const State& state) const {
    for (std::size_t stream = 0; stream < state.size(); ++stream) {
      if (!has_drained(state, stream)) {
        return false;
      }
    }
    return true;
  }
  std::vector<State> next(const State& state) const {
    std::vector<State> all;
    for (std::size_t stream = 0; stream < state.size(); ++stream) {
      const auto legs = static_cast<int8_t>(what_.streams[stream].size());
      if (rule_ != Rule::kNoneOwn && state[stream][0] < legs) {
        join(state, stream, all);
        continue;
      }
      for (std::size_t leg = 0; leg < what_.streams[stream].size(); ++leg) {
        if (may_carry(state, stream, leg)) {
          all.push_back(state);
          ++all.back()[stream][leg + 1];
        }
      }
    }
    return all;
  }

 private:
  int32_t carried(const State& state, std::size_t stream, std::size_t leg) const {
    return state[stream][leg + 1];
  }
  bool has_drained(const State& state, std::size_t stream) const {
    return std::all_of(state[stream].begin() + 1, state[stream].end(),
                       [&](int8_t carried) { return carried == what_.packets; });
  }
  int32_t held(const State& state, std::size_t stream, std::size_t leg) const {
    int32_t passed_on = what_.packets + 1;
    for (std::size_t other = 0; other < what_.streams[stream].size(); ++other) {
      const std::vector<int32_t>& before = what_.streams[stream][other].before;
      if (std::ranges::find(before, static_cast<int32_t>(leg)) != before.end()) {
        passed_on = std::min(passed_on, carried(state, stream, other));
      }
    }
    return passed_on > what_.packets ? 0 : carried(state, stream, leg) - passed_on;
  }
  // As the class has it, from what all streams hold and have joined.
  PacketPlaces places_of(const State& state, int32_t buffer) const {
    PacketPlaces places(what_.places);
    for (std::size_t stream = 0; stream < state.size(); ++stream) {
      if (rule_ != Rule::kNoneOwn && has_drained(state, stream)) {
        continue;
      }
      for (std::size_t leg = 0; leg < what_.streams[stream].size(); ++leg) {
        if (what_.streams[stream][leg].buffer == buffer &&
            (rule_ == Rule::kNoneOwn || static_cast<int32_t>(leg) < state[stream][0])) {
          places.join(0);
          places.start_sending();
          for (int32_t taken = 0; taken < held(state, stream, leg); ++taken) {
            places.take(taken);
          }
        }
      }
    }
    return places;
  }
  void join(const State& state, std::size_t stream, std::vector<State>& all) const {
    const auto may = [&](std::size_t leg) {
      return places_of(state, what_.streams[stream][leg].buffer).may_join();
    };
    const std::size_t count = what_.streams[stream].size();
    if (rule_ == Rule::kOneByOne) {
      if (may(at(state[stream][0]))) {
        all.push_back(state);
        ++all.back()[stream][0];
      }
      return;
    }
    for (std::size_t leg = 0; leg < count; ++leg) {
      if (!may(leg)) {
        return;
      }
    }
    all.push_back(state);
    all.back()[stream][0] = static_cast<int8_t>(count);
  }
  bool may_carry(const State& state, std::size_t stream, std::size_t leg) const {
    const Leg& one = what_.streams[stream][leg];
    const int32_t packet = carried(state, stream, leg);
    if (packet == what_.packets || !std::ranges::all_of(one.before, [&](int32_t before) {
          return carried(state, stream, at(before)) > packet;
        })) {
      return false;
    }
    const PacketPlaces places = places_of(state, one.buffer);
    return rule_ == Rule::kNoneOwn ? places.used() < places.places()
                                   : places.may_take(held(state, stream, leg));
  }

  const Case& what_;
  const Rule rule_;
};

bool gets_stuck(const Case& what, Rule rule) {
  return support::gets_stuck(Model(what, rule), [](const State&) {});
}

// From some buffers to one sum, perhaps over one more, and to some buffers again, no one twice.
Stream random_stream(Rng& rng) {
  std::array<int32_t, kBuffers> order = {};
  for (int32_t i = 0; i < kBuffers; ++i) {
    order[at(i)] = i;
  }
  for (std::size_t i = order.size() - 1; i > 0; --i) {
    std::swap(order[i], order[rng.below(i + 1)]);
  }
  Stream stream;
  std::vector<int32_t> last;
  std::size_t used = 1 + rng.below(2);
  for (std::size_t i = 0; i < used; ++i) {
    last.push_back(count_of(stream));
    stream.push_back({order[i]});
  }
  if (used < 3 && rng.below(2) == 0) {
    stream.push_back({order[used++], last});
    last = {count_of(stream) - 1};
  }
  const std::size_t copies = 1 + rng.below(order.size() - used);
  for (std::size_t i = 0; i < copies; ++i) {
    stream.push_back({order[used + i], last});
  }
  return stream;
}

// Two sums of the same two inputs. In a queue without order the packets of one fill the first
// input's buffer, and those of the other the second's.
TEST(PacketModel, WeakerRulesGetStuck) {
  const Stream sum = {{0}, {1}, {2, {0, 1}}};
  const Case one_place{{sum, sum}, 1, 2}, two_places{{sum, sum}, 2, 2};
  for (const Case& what : {one_place, two_places}) {
    EXPECT_TRUE(gets_stuck(what, Rule::kNoneOwn));
    EXPECT_FALSE(gets_stuck(what, Rule::kOwnPlaces));
  }
  // Places that are taken one by one, in another order each.
  const Case crossed{{{{0}, {1, {0}}}, {{1}, {0, {0}}}}, 1, 1};
  EXPECT_TRUE(gets_stuck(crossed, Rule::kOneByOne));
  EXPECT_FALSE(gets_stuck(crossed, Rule::kOwnPlaces));
}

TEST(PacketModel, StreamsWithPlacesOfTheirOwnArrive) {
  int32_t without = 0, one_by_one = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    Case what;
    const bool has_three = rng.below(3) == 0;
    what.places = 1 + static_cast<int32_t>(rng.below(3));
    what.packets = has_three ? 2 : 3;
    for (int32_t stream = 0; stream < (has_three ? 3 : 2); ++stream) {
      what.streams.push_back(random_stream(rng));
    }
    ASSERT_FALSE(gets_stuck(what, Rule::kOwnPlaces));
    without += gets_stuck(what, Rule::kNoneOwn) ? 1 : 0;
    one_by_one += gets_stuck(what, Rule::kOneByOne) ? 1 : 0;
  }
  EXPECT_GT(without, 20);
  EXPECT_GT(one_by_one, 20);
}

}  // namespace
}  // namespace pleach
