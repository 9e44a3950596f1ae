// Every state that a small model can come to, and whether it gets stuck in one.
#pragma once

#include <set>
#include <utility>
#include <vector>

namespace pleach::support {

// Whether some order of what may happen ends where nothing can happen, and the model is not over.
// Calls `look` for each state that it comes to, once. A Model has
//   State start() const
//   std::vector<State> next(State) const    what each thing that may happen next leads to
//   bool is_over(State) const
template <typename Model, typename Look>
bool gets_stuck(const Model& model, Look look) {
  using State = decltype(model.start());
  std::set<State> seen = {model.start()};
  std::vector<State> open = {model.start()};
  while (!open.empty()) {
    const State state = std::move(open.back());
    open.pop_back();
    look(state);
    std::vector<State> next = model.next(state);
    if (next.empty() && !model.is_over(state)) {
      return true;
    }
    for (State& then : next) {
      if (seen.insert(then).second) {
        open.push_back(std::move(then));
      }
    }
  }
  return false;
}

}  // namespace pleach::support
