// The protocol of messages as a small model: every interleaving of tiny programs ends, with what
// the rule of matching says; without one of its parts some interleaving gets stuck or goes wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"

namespace pleach {
namespace {

struct Rules {
  int places = 1;
  bool keeps_a_place = true;    // that no whole message takes
  bool announces = true;        // what would fit a place, but finds none for it
  bool waits_for_grant = true;  // before segments are sent
  bool keeps_order = true;      // looks at first frames by number
};

// A program of a rank: calls and waits, one after the other. Messages of two segments are too large
// to be sent whole.
struct Action {
  enum class Kind : uint8_t { kSend, kReceive, kWaitForSends } kind = Kind::kSend;
  int peer = 0;  // kReceive: -1: any
  int tag = 0;
  int segments = 1;
};
using Program = std::vector<Action>;
constexpr auto kSend = Action::Kind::kSend;
constexpr auto kReceive = Action::Kind::kReceive;
constexpr auto kWaitForSends = Action::Kind::kWaitForSends;

enum Stage : int8_t { kUncalled, kUnheard, kFirstOnItsWay, kHeard };
enum Grant : int8_t { kNone, kDue, kGrantOnItsWay, kGiven };

struct Message {
  int8_t source = 0, target = 0, tag = 0, segments = 1, number = 0;
  Stage stage = kUncalled;
  bool is_whole = false;
  Grant grant = kNone;
  int8_t receive = -1;                                      // that has taken it
  int8_t sent = 0, on_their_way = 0, held = 0, landed = 0;  // segments
};

bool is_sent(const Message& message) {
  return message.is_whole ? message.stage >= kFirstOnItsWay : message.sent == message.segments;
}
bool is_received(const Message& message) {
  return message.is_whole ? message.receive >= 0 : message.landed == message.segments;
}

// From one rank to another.
struct Connection {
  int8_t free = 0, whole = 0, heard = 0;
  int8_t released = 0, released_whole = 0;  // as the sender does not know yet
};

struct Receive {
  int8_t source = -1, tag = 0;
  bool is_posted = false;
};

struct Rank {
  int8_t next = 0;              // action
  bool has_called = false;      // in its last action: it sends what it can
  std::vector<int8_t> letters;  // in the order in which they were heard of
};

struct State {
  std::vector<Rank> ranks;
  std::vector<Message> messages;
  std::vector<Connection> connections;  // by source and target
  std::vector<Receive> receives;        // of all ranks, in their order

  std::string key() const {
    std::string key;
    const auto add = [&](const auto& record) {
      key.append(reinterpret_cast<const char*>(&record), sizeof(record));
    };
    for (const Rank& rank : ranks) {
      key += {static_cast<char>(rank.next), static_cast<char>(rank.has_called), '|'};
      key.append(rank.letters.begin(), rank.letters.end());
      key += '|';
    }
    std::ranges::for_each(messages, add);
    std::ranges::for_each(connections, add);
    std::ranges::for_each(receives, add);
    return key;
  }
};

class Model {
 public:
  Model(std::vector<Program> programs, const Rules& rules)
      : programs_(std::move(programs)), rules_(rules), size_(programs_.size()) {
    start_.ranks.resize(size_);
    start_.connections.resize(size_ * size_);
    for (Connection& connection : start_.connections) {
      connection.free = static_cast<int8_t>(rules.places);
    }
    std::map<std::pair<std::size_t, int>, int8_t> numbers;
    item_.resize(size_);
    for (std::size_t rank = 0; rank < size_; ++rank) {
      for (const Action& action : programs_[rank]) {
        item_[rank].push_back(action.kind == kReceive ? start_.receives.size()
                                                      : start_.messages.size());
        if (action.kind == kSend) {
          Message message;
          message.source = static_cast<int8_t>(rank);
          message.target = static_cast<int8_t>(action.peer);
          message.tag = static_cast<int8_t>(action.tag);
          message.segments = static_cast<int8_t>(action.segments);
          message.number = ++numbers[{rank, action.peer}];
          start_.messages.push_back(message);
        } else if (action.kind == kReceive) {
          start_.receives.push_back(
              {static_cast<int8_t>(action.peer), static_cast<int8_t>(action.tag), false});
        }
      }
    }
  }

  // "": every interleaving ends, and right.
  std::string walk() {
    std::vector<State> open = {start_};
    std::unordered_set<std::string> seen = {start_.key()};
    while (!open.empty()) {
      const State state = std::move(open.back());
      open.pop_back();
      next_.clear();
      for (std::size_t rank = 0; rank < size_; ++rank) {
        act(state, rank);
      }
      if (next_.empty()) {
        if (std::string wrong = judge(state); !wrong.empty()) {
          return wrong;
        }
      }
      for (State& next : next_) {
        if (seen.insert(next.key()).second) {
          open.push_back(std::move(next));
        }
      }
    }
    states_ = seen.size();
    return "";
  }
  std::size_t states() const { return states_; }

 private:
  Connection& at_connection(State& state, int source, int target) const {
    return state.connections[at(source) * size_ + at(target)];
  }
  bool is_over(const State& state, std::size_t rank) const {
    return at(state.ranks[rank].next) == programs_[rank].size();
  }

  bool is_done(const State& state, std::size_t rank, std::size_t action) const {
    if (programs_[rank][action].kind == kReceive) {
      return std::ranges::any_of(state.messages, [&](const Message& message) {
        return message.receive == static_cast<int8_t>(item_[rank][action]) && is_received(message);
      });
    }
    return std::ranges::all_of(state.messages, [&](const Message& message) {
      return message.source != static_cast<int8_t>(rank) || message.stage == kUncalled ||
             is_sent(message);
    });
  }

  // All that a rank may do next. It looks at what has come only while it waits.
  void act(const State& state, std::size_t rank) {
    if (is_over(state, rank)) {
      return;
    }
    const auto action = at(state.ranks[rank].next);
    const Action& what = programs_[rank][action];
    const auto item = item_[rank][action];
    const bool is_posted = what.kind == kReceive && state.receives[item].is_posted;
    if (what.kind == kSend) {
      State& next = next_.emplace_back(state);
      next.messages[item].stage = kUnheard;
      next.ranks[rank].has_called = true;
      ++next.ranks[rank].next;
    } else if (what.kind == kReceive && !is_posted) {
      post(next_.emplace_back(state), rank, item);
    } else if (is_done(state, rank, action)) {
      State& next = next_.emplace_back(state);
      next.ranks[rank].has_called = false;
      ++next.ranks[rank].next;
    } else {
      look(state, rank);
      send(state, rank);
      return;
    }
    if (state.ranks[rank].has_called) {
      send(state, rank);
    }
  }

  static bool takes(const Receive& receive, const Message& message) {
    return receive.tag == message.tag && (receive.source < 0 || receive.source == message.source);
  }

  void post(State& state, std::size_t rank, std::size_t item) const {
    state.ranks[rank].has_called = true;
    state.receives[item].is_posted = true;
    std::vector<int8_t>& letters = state.ranks[rank].letters;
    const auto letter = std::ranges::find_if(letters, [&](int8_t message) {
      return takes(state.receives[item], state.messages[at(message)]);
    });
    if (letter != letters.end()) {
      const auto message = at(*letter);
      letters.erase(letter);
      match(state, message, item);
    }
  }

  void match(State& state, std::size_t number, std::size_t receive) const {
    Message& message = state.messages[number];
    Connection& connection = at_connection(state, message.source, message.target);
    message.receive = static_cast<int8_t>(receive);
    if (message.is_whole) {
      ++connection.released_whole;
    } else if (rules_.waits_for_grant) {
      message.grant = kDue;
    } else {
      connection.released = static_cast<int8_t>(connection.released + message.held);
      message.landed = static_cast<int8_t>(message.landed + message.held);
      message.held = 0;
    }
  }

  // The receive of a rank that takes the message; receives.size(): none yet.
  std::size_t find_receive(const State& state, std::size_t rank, const Message& message) const {
    for (std::size_t action = 0; action < programs_[rank].size(); ++action) {
      const std::size_t item = item_[rank][action];
      if (programs_[rank][action].kind == kReceive && state.receives[item].is_posted &&
          takes(state.receives[item], message) &&
          std::ranges::none_of(state.messages, [&](const Message& other) {
            return other.receive == static_cast<int8_t>(item);
          })) {
        return item;
      }
    }
    return state.receives.size();
  }

  void hear(State& state, std::size_t rank, std::size_t number) const {
    Message& message = state.messages[number];
    Connection& connection = at_connection(state, message.source, message.target);
    message.stage = kHeard;
    ++connection.heard;
    connection.released = static_cast<int8_t>(
        connection.released + (message.is_whole || !rules_.waits_for_grant ? 0 : 1));
    const std::size_t receive = find_receive(state, rank, message);
    if (receive < state.receives.size()) {
      match(state, number, receive);
    } else {
      state.ranks[rank].letters.push_back(static_cast<int8_t>(number));
    }
  }

  // Any frame that has come, in any order, and any word of free places.
  void look(const State& state, std::size_t rank) {
    for (std::size_t i = 0; i < state.messages.size(); ++i) {
      const Message& message = state.messages[i];
      if (at(message.target) == rank && message.stage == kFirstOnItsWay) {
        State next = state;
        const int8_t heard = at_connection(next, message.source, message.target).heard;
        if (!rules_.keeps_order || message.number == heard + 1) {
          hear(next, rank, i);
          next_.push_back(std::move(next));
        }
      }
      if (at(message.target) == rank && message.on_their_way > 0) {
        State& next = next_.emplace_back(state);
        Message& own = next.messages[i];
        --own.on_their_way;
        if (own.receive >= 0) {
          ++own.landed;
          ++at_connection(next, own.source, own.target).released;
        } else {
          ++own.held;
        }
      }
      if (at(message.source) == rank && message.grant == kGrantOnItsWay) {
        State& next = next_.emplace_back(state);
        next.messages[i].grant = kGiven;
        ++at_connection(next, message.target, message.source).released;
      }
    }
    for (std::size_t target = 0; target < size_; ++target) {
      State next = state;
      Connection& connection =
          at_connection(next, static_cast<int>(rank), static_cast<int>(target));
      if (connection.released + connection.released_whole > 0) {
        connection.free =
            static_cast<int8_t>(connection.free + connection.released + connection.released_whole);
        connection.whole = static_cast<int8_t>(connection.whole - connection.released_whole);
        connection.released = connection.released_whole = 0;
        next_.push_back(std::move(next));
      }
    }
  }

  // Any frame that has a place: grants and segments, and the first message of each connection that
  // its target is to hear of.
  void send(const State& state, std::size_t rank) {
    std::vector<bool> has_unheard(size_);
    for (std::size_t i = 0; i < state.messages.size(); ++i) {
      const Message& message = state.messages[i];
      State next = state;
      Message& own = next.messages[i];
      if (at(message.target) == rank && message.grant == kDue) {
        Connection& back = at_connection(next, message.target, message.source);
        if (back.free > 0) {
          --back.free;
          own.grant = kGrantOnItsWay;
          next_.push_back(std::move(next));
        }
        continue;
      }
      Connection& connection = at_connection(next, message.source, message.target);
      if (at(message.source) != rank || connection.free == 0) {
        continue;
      }
      if (message.stage == kUnheard && !has_unheard[at(message.target)]) {
        has_unheard[at(message.target)] = true;
        if (send_first(connection, own)) {
          next_.push_back(std::move(next));
        }
      } else if (message.stage >= kFirstOnItsWay && !message.is_whole &&
                 message.sent < message.segments &&
                 (message.grant == kGiven ||
                  (!rules_.waits_for_grant && message.stage == kHeard))) {
        --connection.free;
        ++own.sent;
        ++own.on_their_way;
        next_.push_back(std::move(next));
      }
    }
  }

  bool send_first(Connection& connection, Message& message) const {
    const int most_whole = rules_.places - (rules_.keeps_a_place ? 1 : 0);
    const bool fits = message.segments == 1;
    message.is_whole = fits && connection.whole < most_whole;
    if (!message.is_whole && fits && !rules_.announces) {
      return false;
    }
    connection.whole = static_cast<int8_t>(connection.whole + (message.is_whole ? 1 : 0));
    --connection.free;
    message.stage = kFirstOnItsWay;
    return true;
  }

  // Nothing can happen any more.
  std::string judge(const State& state) const {
    for (std::size_t rank = 0; rank < size_; ++rank) {
      if (!is_over(state, rank)) {
        return "rank " + std::to_string(rank) + " is stuck in action " +
               std::to_string(state.ranks[rank].next);
      }
    }
    for (const Message& first : state.messages) {
      for (const Message& second : state.messages) {
        if (first.source == second.source && first.target == second.target &&
            first.tag == second.tag && first.number < second.number &&
            first.receive > second.receive) {
          return "message " + std::to_string(second.number) + " overtook " +
                 std::to_string(first.number);
        }
      }
    }
    return "";
  }

  std::vector<Program> programs_;
  Rules rules_;
  std::size_t size_;
  std::vector<std::vector<std::size_t>> item_;  // by rank and action: its message or its receive
  State start_;
  std::vector<State> next_;
  std::size_t states_ = 0;
};

TEST(MessageModelTest, EachPartOfTheRuleIsNeeded) {
  struct Case {
    std::string name;
    std::vector<Program> programs;
    Rules weak;
    std::string expected;
  };
  const Program small_ones = {{kSend, 1, 0}, {kSend, 1, 0}, {kSend, 1, 1}, {kWaitForSends}};
  const Program wants_the_last = {{kReceive, 0, 1}, {kReceive, 0, 0}, {kReceive, 0, 0}};
  const std::vector<Case> cases = {
      {"whole messages in all places",
       {small_ones, wants_the_last},
       {.places = 2, .keeps_a_place = false},
       "stuck"},
      {"small messages that wait for room",
       {small_ones, wants_the_last},
       {.places = 2, .announces = false},
       "stuck"},
      {"segments without a grant",
       {{{kSend, 1, 0, 2}, {kSend, 1, 1}, {kWaitForSends}}, {{kReceive, 0, 1}, {kReceive, 0, 0}}},
       {.places = 2, .waits_for_grant = false},
       "stuck"},
      {"first frames as they come",
       {{{kSend, 1, 0}, {kSend, 1, 0, 2}, {kWaitForSends}}, {{kReceive, 0, 0}, {kReceive, 0, 0}}},
       {.places = 2, .keeps_order = false},
       "overtook"},
  };
  for (const Case& row : cases) {
    SCOPED_TRACE(row.name);
    const std::string wrong = Model(row.programs, row.weak).walk();
    EXPECT_NE(wrong.find(row.expected), std::string::npos) << wrong;
    for (const int places : {1, 2, 3}) {
      EXPECT_EQ(Model(row.programs, {.places = places}).walk(), "");
    }
  }
}

// Each rank sends before it receives, so that all programs end where nothing holds up anything.
std::vector<Program> random_programs(Rng& rng, std::size_t rank_count, std::size_t message_count) {
  std::vector<Program> programs(rank_count);
  std::vector<Program> receives(rank_count);
  for (std::size_t i = 0; i < message_count; ++i) {
    const auto source = static_cast<int>(rng.below(rank_count));
    const auto target = static_cast<int>((at(source) + 1 + rng.below(rank_count - 1)) % rank_count);
    const auto tag = static_cast<int>(rng.below(3));
    programs[at(source)].push_back({kSend, target, tag, 1 + static_cast<int>(rng.below(2))});
    receives[at(target)].push_back({kReceive, tag == 2 ? -1 : source, tag});  // 2: from any
  }
  for (std::size_t rank = 0; rank < rank_count; ++rank) {
    for (std::size_t left = receives[rank].size(); left > 0; --left) {
      std::swap(receives[rank][rng.below(left)], receives[rank][left - 1]);
    }
    programs[rank].insert(programs[rank].end(), receives[rank].begin(), receives[rank].end());
    programs[rank].push_back({kWaitForSends});
  }
  return programs;
}

TEST(MessageModelTest, EveryInterleavingOfRandomProgramsEndsRight) {
  constexpr uint64_t kSeed = 20261125;
  Rng rng(kSeed);
  std::size_t most_states = 0;
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", round " + std::to_string(round));
    const std::size_t rank_count = 2 + rng.below(2);
    Model model(random_programs(rng, rank_count, 2 + rng.below(3)),
                {.places = 1 + static_cast<int>(rng.below(2))});
    ASSERT_EQ(model.walk(), "");
    most_states = std::max(most_states, model.states());
  }
  EXPECT_GT(most_states, 1000U);
}

}  // namespace
}  // namespace pleach
