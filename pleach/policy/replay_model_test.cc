// Ranks that replay one plan: every interleaving of tiny cases, for the rules that PlanReplay
// follows and for rules that it must not; and PlanReplay beside the rules, on random walks.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/policy/replay.h"

namespace pleach {
namespace {

using Kind = CollectiveKind;
using AtomPlan = std::vector<AtomCollective>;

// A layer is an atom. A rank's thread runs forward from layer 0 on, then yields gradients in an
// order of its own, iteration after iteration. A collective ends on a rank some time after all
// ranks have started it: no collective is more patient. Between any two of these, and the updates
// of shares, anything may happen on any rank.
struct Rules {
  int32_t width = 1;
  bool keeps_order = true;       // of the plan; else whichever can goes, the most urgent first
  bool awaits_update = true;     // before a rank gives its share to others
  bool updates_in_step = false;  // nothing is updated before step(), which awaits all reductions
};

struct Training {
  AtomPlan plan;
  std::vector<std::vector<int32_t>> backward;  // by rank: layers as they yield gradients
  int32_t iterations = 2;
};

struct Rank {
  int32_t rank = 0;
  int32_t steps = 0;            // of its thread
  std::vector<int8_t> started;  // plan indices, in order, over all iterations
  uint32_t landed = 0;          // by place in `started`
  uint32_t updated = 0;
  auto operator<=>(const Rank&) const = default;
};

using State = std::vector<Rank>;

struct Action {
  enum class What : uint8_t { kCompute, kStart, kLand, kUpdate };
  What what = What::kCompute;
  int32_t rank = 0;
  int32_t place = 0;  // of kStart: the plan's index; else in `started`
};

class Model {
 public:
  Model(const Training& training, const Rules& rules) : training_(training), rules_(rules) {
    for (const AtomCollective& one : training.plan) {
      layers_ = std::max(layers_, one.end);
    }
  }

  State begin() const {
    State state(training_.backward.size());
    for (std::size_t rank = 0; rank < state.size(); ++rank) {
      state[rank].rank = static_cast<int32_t>(rank);
    }
    return state;
  }
  int32_t layers() const { return layers_; }
  int32_t length() const { return count_of(training_.plan); }
  int32_t all() const { return training_.iterations * length(); }

  std::vector<Action> actions(const State& state) const {
    std::vector<Action> actions;
    for (int32_t rank = 0; rank < count_of(state); ++rank) {
      const Rank& one = state[at(rank)];
      if (may_compute(one)) {
        actions.push_back({Action::What::kCompute, rank});
      }
      if (const int32_t next = next_start(one); next >= 0) {
        actions.push_back({Action::What::kStart, rank, next});
      }
      for (int32_t place = 0; place < count_of(one.started); ++place) {
        if (!has(one.landed, place) && all_have_started(state, place)) {
          actions.push_back({Action::What::kLand, rank, place});
        } else if (may_update(one, place)) {
          actions.push_back({Action::What::kUpdate, rank, place});
        }
      }
    }
    return actions;
  }

  State after(State state, const Action& action) const {
    Rank& one = state[at(action.rank)];
    switch (action.what) {
      case Action::What::kCompute:
        ++one.steps;
        break;
      case Action::What::kStart:
        one.started.push_back(static_cast<int8_t>(action.place));
        break;
      case Action::What::kLand:
        one.landed |= uint32_t{1} << action.place;
        break;
      case Action::What::kUpdate:
        one.updated |= uint32_t{1} << action.place;
        break;
    }
    return state;
  }

  // What is wrong with a state: "" nothing.
  std::string fault(const State& state) const {
    for (std::size_t place = 0; place < at(all()); ++place) {
      std::set<int8_t> together;
      for (const Rank& one : state) {
        if (place < one.started.size()) {
          together.insert(one.started[place]);
        }
      }
      if (together.size() > 1) {
        return "ranks meet in different collectives";
      }
    }
    for (const Rank& one : state) {
      for (int32_t place = 0; place < count_of(one.started); ++place) {
        const AtomCollective& what = training_.plan[at(one.started[at(place)])];
        if (!reduces(what.kind) && !is_brought(one, what, place / length(), one.updated)) {
          return "a share travels before its update";
        }
      }
    }
    return actions(state).empty() && !is_over(state) ? "nothing can happen" : "";
  }

  bool is_over(const State& state) const {
    return std::ranges::all_of(state, [&](const Rank& one) {
      return one.steps == training_.iterations * steps_an_iteration() &&
             one.landed == (uint32_t{1} << all()) - 1;
    });
  }

  bool may_run_forward(const Rank& one, int32_t layer) const {
    const int32_t iteration = gradients_of(one, layer) - 1;
    return iteration < 0 || is_in_place(one, layer, iteration);
  }
  // Whether the rank's next step is forward, and of which layer it is.
  bool is_forward(const Rank& one) const { return one.steps % steps_an_iteration() < layers_; }
  int32_t layer_of_step(const Rank& one) const {
    const int32_t step = one.steps % steps_an_iteration();
    return step < layers_ ? step : training_.backward[at(one.rank)][at(step - layers_)];
  }

 private:
  static bool has(uint32_t set, int32_t place) { return (set >> place & 1) != 0; }
  int32_t steps_an_iteration() const { return 2 * layers_; }

  bool may_compute(const Rank& one) const {
    if (one.steps == training_.iterations * steps_an_iteration()) {
      return false;
    }
    return !is_forward(one) || may_run_forward(one, one.steps % steps_an_iteration());
  }

  // How many iterations' gradients of the layer the rank has.
  int32_t gradients_of(const Rank& one, int32_t layer) const {
    const std::vector<int32_t>& order = training_.backward[at(one.rank)];
    const int32_t whole = one.steps / steps_an_iteration();
    const int32_t come = one.steps % steps_an_iteration() - layers_;
    const auto place = std::ranges::find(order, layer) - order.begin();
    return whole + (place < come ? 1 : 0);
  }

  bool holds(const AtomCollective& what, int32_t layer) const {
    return what.first <= layer && layer < what.end;
  }

  // The place in `started` of an iteration's collective; −1: it has not started.
  int32_t place_of(const Rank& one, int32_t index, int32_t iteration) const {
    for (int32_t place = iteration * length();
         place < std::min(count_of(one.started), (iteration + 1) * length()); ++place) {
      if (one.started[at(place)] == index) {
        return place;
      }
    }
    return -1;
  }

  bool is_in_place(const Rank& one, int32_t layer, int32_t iteration) const {
    for (int32_t index = 0; index < length(); ++index) {
      const AtomCollective& what = training_.plan[at(index)];
      if (distributes(what.kind) && holds(what, layer)) {
        const int32_t place = place_of(one, index, iteration);
        return place >= 0 && has(reduces(what.kind) ? one.updated : one.landed, place);
      }
    }
    return false;
  }

  // Whether all reductions of what a distribution gives away are among the places.
  bool is_brought(const Rank& one, const AtomCollective& gather, int32_t iteration,
                  uint32_t places) const {
    for (int32_t index = 0; index < length(); ++index) {
      const AtomCollective& what = training_.plan[at(index)];
      if (reduces(what.kind) && what.first < gather.end && gather.first < what.end) {
        const int32_t place = place_of(one, index, iteration);
        if (place < 0 || !has(places, place)) {
          return false;
        }
      }
    }
    return true;
  }

  bool can_start(const Rank& one, int32_t index) const {
    const int32_t iteration = count_of(one.started) / length();
    const AtomCollective& what = training_.plan[at(index)];
    if (!reduces(what.kind)) {
      return is_brought(one, what, iteration, rules_.awaits_update ? one.updated : one.landed);
    }
    for (int32_t layer = what.first; layer < what.end; ++layer) {
      if (gradients_of(one, layer) <= iteration) {
        return false;
      }
    }
    return true;
  }

  // The plan's index; −1: none.
  int32_t next_start(const Rank& one) const {
    const int32_t started = count_of(one.started);
    if (started == all() || std::popcount(one.landed) + rules_.width == started) {
      return -1;
    }
    const int32_t next = started % length();
    if (rules_.keeps_order) {
      return can_start(one, next) ? next : -1;
    }
    int32_t best = -1;
    for (int32_t index = 0; index < length(); ++index) {
      const bool is_new = place_of(one, index, started / length()) < 0;
      if (is_new && can_start(one, index) &&
          (best < 0 || training_.plan[at(index)].first < training_.plan[at(best)].first)) {
        best = index;
      }
    }
    return best;
  }

  bool all_have_started(const State& state, int32_t place) const {
    return std::ranges::all_of(state,
                               [&](const Rank& one) { return count_of(one.started) > place; });
  }

  bool may_update(const Rank& one, int32_t place) const {
    if (!has(one.landed, place) || has(one.updated, place)) {
      return false;
    }
    if (!reduces(training_.plan[at(one.started[at(place)])].kind)) {
      return false;
    }
    return !rules_.updates_in_step || has_stepped(one, place / length());
  }
  bool has_stepped(const Rank& one, int32_t iteration) const {
    for (int32_t index = 0; index < length(); ++index) {
      const int32_t place = place_of(one, index, iteration);
      if (reduces(training_.plan[at(index)].kind) && (place < 0 || !has(one.landed, place))) {
        return false;
      }
    }
    return true;
  }

  const Training& training_;
  const Rules rules_;
  int32_t layers_ = 1;
};

// Meets every state that can be; returns the first fault, "" if there is none.
std::string explore(const Training& training, const Rules& rules, std::size_t* states = nullptr) {
  const Model model(training, rules);
  std::set<State> seen = {model.begin()};
  std::vector<State> open = {model.begin()};
  while (!open.empty()) {
    const State state = open.back();
    open.pop_back();
    if (std::string fault = model.fault(state); !fault.empty()) {
      return fault;
    }
    for (const Action& action : model.actions(state)) {
      State next = model.after(state, action);
      if (seen.insert(next).second) {
        open.push_back(std::move(next));
      }
    }
  }
  if (states != nullptr) {
    *states += seen.size();
  }
  return "";
}

// All plans of so many layers, which are atoms: every partition of reductions and of
// distributions, all_reduces among them, in every legal order.
class Plans {
 public:
  explicit Plans(int32_t layers)
      : profile_{.layers = std::vector<PolicyLayer>(at(layers), {.tensor_bytes = {1}}),
                 .atom_bytes = std::vector<int64_t>(at(layers), 1)},
        space_(profile_) {
    extend({});
  }
  const TrainingProfile& profile() const { return profile_; }
  const std::vector<AtomPlan>& all() const { return plans_; }

 private:
  // Adds whatever may come next, where that begins something legal.
  void extend(const AtomPlan& begun) {
    if (check_plan(space_, begun)) {
      plans_.push_back(begun);
      return;
    }
    for (const Kind kind : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather}) {
      for (int32_t first = 0; first < space_.atom_count(); ++first) {
        for (int32_t end = first + 1; end <= space_.atom_count(); ++end) {
          AtomPlan more = begun;
          more.push_back({kind, first, end});
          const Status status = check_plan(space_, more);
          if (status || status.error().message.starts_with("the plan leaves")) {
            extend(more);
          }
        }
      }
    }
  }

  const TrainingProfile profile_;
  const ParameterSpace space_;
  std::vector<AtomPlan> plans_;
};

std::string text_of(const AtomPlan& plan) {
  std::string text;
  for (const AtomCollective& one : plan) {
    text += std::string(to_text(one.kind)) + ' ' + std::to_string(one.first) + '-' +
            std::to_string(one.end) + ' ';
  }
  return text;
}

const std::vector<std::vector<int32_t>> kOrders = {{1, 0}, {0, 1}};

TEST(ReplayModel, NoPlanOfTwoLayersEndsInADeadlock) {
  const Plans plans(2);
  EXPECT_EQ(plans.all().size(), 20U);
  std::size_t states = 0;
  for (const AtomPlan& plan : plans.all()) {
    for (const auto& first : kOrders) {
      for (const auto& second : kOrders) {
        for (const int32_t width : {1, 2}) {
          SCOPED_TRACE(testing::Message() << text_of(plan) << "width " << width);
          EXPECT_EQ(explore({plan, {first, second}}, {.width = width}, &states), "");
        }
      }
    }
  }
  EXPECT_GT(states, 60'000U);
}

TEST(ReplayModel, ThreeRanksDoNotEither) {
  const Plans plans(2);
  for (const AtomPlan& plan : plans.all()) {
    for (const int32_t width : {1, 2}) {
      SCOPED_TRACE(testing::Message() << text_of(plan) << "width " << width);
      EXPECT_EQ(explore({plan, {{1, 0}, {0, 1}, {1, 0}}, 1}, {.width = width}), "");
    }
  }
}

// What each rule is for.
TEST(ReplayModel, RanksThatDecideThemselvesMeetInDifferentCollectives) {
  const AtomPlan plan = {{Kind::kAllReduce, 1, 2}, {Kind::kAllReduce, 0, 1}};
  EXPECT_EQ(explore({plan, {{1, 0}, {0, 1}}}, {.keeps_order = false}),
            "ranks meet in different collectives");
  // Nor does it help that gradients come in one order: one rank may be late.
  EXPECT_EQ(explore({plan, {{1, 0}, {1, 0}}}, {.keeps_order = false}),
            "ranks meet in different collectives");
}

TEST(ReplayModel, AShareThatIsOnlyReducedMustNotTravel) {
  const AtomPlan plan = {{Kind::kReduceScatter, 0, 2}, {Kind::kAllGather, 0, 2}};
  EXPECT_EQ(explore({plan, {{1, 0}, {1, 0}}}, {.awaits_update = false}),
            "a share travels before its update");
}

// A loop that updates in step(), once all is reduced, cannot follow a plan that gathers before.
TEST(ReplayModel, GathersBeforeTheLastReductionNeedUpdatesBeforeTheStep) {
  const AtomPlan early = {{Kind::kReduceScatter, 1, 2},
                          {Kind::kAllGather, 1, 2},
                          {Kind::kReduceScatter, 0, 1},
                          {Kind::kAllGather, 0, 1}};
  AtomPlan after_step = early;
  std::swap(after_step[1], after_step[2]);
  for (const int32_t width : {1, 2}) {
    const Rules rules{.width = width, .updates_in_step = true};
    EXPECT_EQ(explore({early, {{1, 0}, {1, 0}}}, rules), "nothing can happen");
    EXPECT_EQ(explore({after_step, {{1, 0}, {1, 0}}}, rules), "");
  }
}

// A gather that stands before a reduction of its bytes: what check_plan refuses.
TEST(ReplayModel, APlanThatGathersBeforeItReducesStops) {
  const AtomPlan plan = {{Kind::kAllGather, 0, 1}, {Kind::kReduceScatter, 0, 1}};
  EXPECT_EQ(explore({plan, {{0}, {0}}}, {}), "nothing can happen");
}

// PlanReplay on every rank, beside the model, by random walks to the end: it starts what the model
// may start, no later, and opens the same gates.
class Beside {
 public:
  Beside(const TrainingProfile& profile, const Training& training, int32_t width)
      : model_(training, {.width = width}), state_(model_.begin()) {
    for (std::size_t rank = 0; rank < training.backward.size(); ++rank) {
      auto replay = PlanReplay::create(profile, training.plan, {.channel_width = width});
      replays_.push_back(std::move(*replay));
    }
  }

  void walk(Rng& rng) {
    for (auto actions = model_.actions(state_); !actions.empty();
         actions = model_.actions(state_)) {
      const Action action = actions[rng.below(actions.size())];
      report(action);
      state_ = model_.after(state_, action);
      start(action.rank);
      compare();
    }
    EXPECT_TRUE(model_.is_over(state_));
  }

 private:
  void report(const Action& action) {
    PlanReplay& replay = *replays_[at(action.rank)];
    const Rank& rank = state_[at(action.rank)];
    const int64_t now_ps = ++now_ps_;
    if (action.what == Action::What::kLand) {
      EXPECT_TRUE(replay.land(action.place, now_ps));
    } else if (action.what == Action::What::kUpdate) {
      EXPECT_TRUE(replay.update(action.place, now_ps));
    } else if (!model_.is_forward(rank)) {
      EXPECT_TRUE(replay.gradient_ready(model_.layer_of_step(rank), now_ps));
    }
  }
  // It starts at once all that the model may start.
  void start(int32_t rank) {
    for (const int32_t number : replays_[at(rank)]->next(now_ps_)) {
      const auto next = next_start(rank);
      ASSERT_EQ(next.size(), 1U);
      EXPECT_EQ(number, count_of(state_[at(rank)].started));
      EXPECT_EQ(*replays_[at(rank)]->index_of(number), next.front().place);
      state_ = model_.after(state_, next.front());
    }
    EXPECT_TRUE(next_start(rank).empty());
  }
  std::vector<Action> next_start(int32_t rank) const {
    std::vector<Action> found = model_.actions(state_);
    std::erase_if(found, [&](const Action& one) {
      return one.rank != rank || one.what != Action::What::kStart;
    });
    return found;
  }
  void compare() const {
    for (const Rank& one : state_) {
      for (int32_t layer = 0; layer < model_.layers(); ++layer) {
        ASSERT_EQ(replays_[at(one.rank)]->may_run_forward(layer),
                  model_.may_run_forward(one, layer));
      }
    }
  }

  const Model model_;
  State state_;
  std::vector<std::unique_ptr<PlanReplay>> replays_;
  int64_t now_ps_ = 0;
};

TEST(PlanReplay, IsTheModelsRank) {
  const Plans plans(2);
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    Training training{
        .plan = plans.all()[rng.below(plans.all().size())], .backward = {}, .iterations = 3};
    for (uint64_t ranks = 1 + rng.below(3); ranks > 0; --ranks) {
      training.backward.push_back(kOrders[rng.below(2)]);
    }
    Beside(plans.profile(), training, static_cast<int32_t>(1 + rng.below(3))).walk(rng);
  }
}

}  // namespace
}  // namespace pleach
