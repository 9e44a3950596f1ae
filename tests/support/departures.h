// Every order in which streams may leave switches that they enter by some rule, and whether one of
// them could wait for ever.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "pleach/base/index.h"

namespace pleach::support {

// A Model has kStreams streams, which ask again as soon as they have left, and
//   State start() const              when all have asked for the first time
//   State leave(State, stream) const
// or vectors of states, where any of them may come next, and
//   bool moves(State, stream) const  it is inside, and comes to its end sometime
//   bool waits(State, stream) const
template <typename State>
struct Departures {
  std::vector<State> states;
  std::vector<std::vector<std::pair<int32_t, int32_t>>> next;  // who leaves, the state then
};

template <typename State>
std::vector<State> outcomes(State state) {
  return {std::move(state)};
}
template <typename State>
std::vector<State> outcomes(std::vector<State> states) {
  return states;
}

template <typename Model>
auto all_departures(const Model& model) {
  using State = typename decltype(outcomes(model.start()))::value_type;
  Departures<State> found;
  std::map<State, int32_t> numbers;
  const auto number_of = [&](const State& state) {
    const auto [known, is_new] = numbers.try_emplace(state, count_of(found.states));
    if (is_new) {
      found.states.push_back(state);
    }
    return known->second;
  };
  for (const State& state : outcomes(model.start())) {
    number_of(state);
  }
  for (std::size_t i = 0; i < found.states.size(); ++i) {
    std::vector<std::pair<int32_t, int32_t>> next;
    for (int32_t stream = 0; stream < Model::kStreams; ++stream) {
      if (model.moves(found.states[i], stream)) {
        for (const State& then : outcomes(model.leave(found.states[i], stream))) {
          next.emplace_back(stream, number_of(then));
        }
      }
    }
    found.next.push_back(std::move(next));
  }
  return found;
}

// Whether the stream can wait for ever though whoever moves leaves sometime: whether states in
// which it waits form a strongly connected part in which each other stream leaves, or does not
// move.
template <typename Model, typename State>
bool may_starve(const Model& model, const Departures<State>& departures, int32_t stream) {
  const std::size_t count = departures.states.size();
  const auto counts = [&](std::size_t state) {
    return model.waits(departures.states[state], stream);
  };
  std::vector<std::vector<bool>> reaches(count, std::vector<bool>(count, false));
  for (std::size_t from = 0; from < count; ++from) {
    std::vector<std::size_t> open;
    if (counts(from)) {
      open.push_back(from);
    }
    while (!open.empty()) {
      const std::size_t state = open.back();
      open.pop_back();
      for (const auto& [left, to] : departures.next[state]) {
        if (counts(at(to)) && !reaches[from][at(to)]) {
          reaches[from][at(to)] = true;
          open.push_back(at(to));
        }
      }
    }
  }
  for (std::size_t from = 0; from < count; ++from) {
    std::set<int32_t> fair;
    for (std::size_t state = 0; reaches[from][from] && state < count; ++state) {
      if (!reaches[from][state] || !reaches[state][from]) {
        continue;
      }
      for (int32_t other = 0; other < Model::kStreams; ++other) {
        if (!model.moves(departures.states[state], other)) {
          fair.insert(other);
        }
      }
      for (const auto& [left, to] : departures.next[state]) {
        if (counts(at(to)) && reaches[from][at(to)] && reaches[at(to)][from]) {
          fair.insert(left);
        }
      }
    }
    if (count_of(fair) == Model::kStreams) {
      return true;
    }
  }
  return false;
}

// Whether some stream can; someone moves in every state.
template <typename Model>
bool anyone_may_starve(const Model& model) {
  const auto departures = all_departures(model);
  for (const auto& next : departures.next) {
    EXPECT_FALSE(next.empty()) << "an idle switch refuses";
  }
  bool starves = false;
  for (int32_t stream = 0; stream < Model::kStreams && !starves; ++stream) {
    starves = may_starve(model, departures, stream);
  }
  return starves;
}

}  // namespace pleach::support
