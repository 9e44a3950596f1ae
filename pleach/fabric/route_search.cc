#include "pleach/fabric/route_search.h"

#include <algorithm>
#include <numeric>

#include "pleach/base/index.h"
#include "pleach/base/interruption.h"

namespace pleach {
namespace {

// Sets of more flows are asked for once.
constexpr std::size_t kMostRemembered = 64;
// Levels of which the places of flows are weighed; deeper ones matter too little.
constexpr int32_t kMostWeighed = 8;

bool is_subset(std::span<const int32_t> part, std::span<const int32_t> whole) {
  return std::ranges::includes(whole, part);
}

}  // namespace

RouteSearch::RouteSearch(const FredSize& size, std::span<const PortFlow> flows,
                         const Limits& limits, SearchBudget& budget)
    : size_(size),
      flows_(flows),
      limits_(limits),
      budget_(budget),
      level_count_(size.levels()),
      kinds_(size_, flows, limits.levels),
      choices_(flows.size() * at(size.levels()), 0),
      known_(at(kinds_.count())) {
  for (Known& known : known_) {
    known.refused_of.resize(flows.size());
  }
}

RouteSearch::Answer RouteSearch::find(std::span<const int32_t> flows) {
  for (const int32_t flow : flows) {
    if (!kinds_.carries(kinds_.outermost(), flow)) {
      return {Outcome::kRefused, {flow}, true};
    }
  }
  return find_at(kinds_.outermost(), {flows.begin(), flows.end()});
}

const RouteSearch::Core* RouteSearch::known_refusal(int32_t kind, const Set& flows) const {
  const Known& known = known_[at(kind)];
  for (const int32_t first : flows) {
    for (const int32_t number : known.refused_of[at(first)]) {
      const Core& core = known.refused[at(number)];
      if (is_subset(core.flows, flows)) {
        return &core;
      }
    }
  }
  return nullptr;
}

bool RouteSearch::knows(int32_t kind, const Set& flows, Answer& answer) {
  const int32_t level = kinds_.level_of(kind);
  if (flows.size() <= kMostRemembered) {
    const auto& all_routed = known_[at(kind)].routed;
    const auto routed = all_routed.find(flows);
    if (routed != all_routed.end()) {
      auto from = routed->second.begin();
      for (const int32_t flow : flows) {
        const auto count = level_count_ - level;
        std::copy_n(from, count, choices_of(flow) + level);
        from += count;
      }
      answer = {Outcome::kRouted};
      return true;
    }
  }
  const int32_t sound = kinds_.sound_of(level);
  const Core* core = known_refusal(sound, flows);
  const bool holds_at_all = core != nullptr;
  if (core == nullptr && kind != sound) {
    core = known_refusal(kind, flows);
  }
  if (core == nullptr) {
    return false;
  }
  answer = {Outcome::kRefused, core->flows, core->is_least, holds_at_all};
  return true;
}

void RouteSearch::remember_refused(int32_t kind, const Answer& answer) {
  Known& known = known_[at(kind)];
  known.refused_of[at(answer.core.front())].push_back(count_of(known.refused));
  known.refused.push_back({answer.core, answer.is_least});
}

void RouteSearch::remember_routed(int32_t kind, const Set& flows) {
  if (flows.size() > kMostRemembered) {
    return;
  }
  std::vector<int32_t> chosen;
  for (const int32_t flow : flows) {
    const auto from = choices_of(flow);
    chosen.insert(chosen.end(), from + kinds_.level_of(kind), from + level_count_);
  }
  known_[at(kind)].routed.emplace(flows, std::move(chosen));
}

std::optional<std::vector<int32_t>> RouteSearch::apart(int32_t kind, std::size_t flows) const {
  std::vector<int32_t> choices;
  if (flows > at(size_.middle)) {
    return std::nullopt;
  }
  for (int32_t choice = 0; choice < size_.middle && choices.size() < flows; ++choice) {
    if (kinds_.is_sound(kinds_.child(kind, choice))) {
      choices.push_back(choice);
    }
  }
  return choices.size() == flows ? std::optional(std::move(choices)) : std::nullopt;
}

RouteSearch::Answer RouteSearch::find_at(int32_t kind, const Set& flows) {
  const int32_t level = kinds_.level_of(kind);
  const bool is_last = level >= limits_.levels;
  if (const auto alone = is_last ? std::nullopt : apart(kind, flows.size()); is_last || alone) {
    // Alone in a sound subnetwork, a flow has its way.
    for (std::size_t position = 0; position < flows.size(); ++position) {
      const auto from = choices_of(flows[position]);
      std::fill(from + level, from + level_count_, 0);
      if (alone) {
        from[level] = (*alone)[position];
      }
    }
    return {Outcome::kRouted};
  }
  Answer answer;
  if (knows(kind, flows, answer)) {
    return answer;
  }
  answer = search_at(kind, flows);
  if (answer.outcome == Outcome::kRouted) {
    remember_routed(kind, flows);
  } else if (answer.outcome == Outcome::kRefused) {
    answer = least_at(kind, std::move(answer.core));
    remember_refused(kind, answer);
  }
  return answer;
}

RouteSearch::Answer RouteSearch::least_at(int32_t kind, Set core) {
  const bool holds_at_all = kinds_.is_sound(kind);
  Set needed;
  for (std::size_t position = 0; position < core.size();) {
    const int32_t flow = core[position];
    Set others = core;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(position));
    if (std::ranges::binary_search(needed, flow)) {
      ++position;
      continue;
    }
    Answer answer = {Outcome::kRouted};
    if (!apart(kind, others.size()) && !knows(kind, others, answer)) {
      answer = search_at(kind, others);
      if (answer.outcome == Outcome::kRouted) {
        remember_routed(kind, others);
      }
    }
    if (answer.outcome == Outcome::kGaveUp) {
      return {Outcome::kRefused, std::move(core), false, holds_at_all};
    }
    if (answer.outcome == Outcome::kRefused) {
      // What was needed still is: it is in every core of this one.
      core = std::move(answer.core);
      position = 0;
    } else {
      needed.insert(std::ranges::lower_bound(needed, flow), flow);
      ++position;
    }
  }
  return {Outcome::kRefused, std::move(core), true, holds_at_all};
}

RouteSearch::Answer RouteSearch::search_at(int32_t kind, const Set& flows) {
  const ColouringProblem problem = problem_at(kind, flows);
  LevelColouring colouring(problem, budget_);
  while (true) {
    check_interruption();
    switch (colouring.next()) {
      case LevelColouring::Found::kGaveUp:
        return {Outcome::kGaveUp};
      case LevelColouring::Found::kNone: {
        Set core;
        for (const int32_t position : colouring.core()) {
          core.push_back(flows[at(position)]);
        }
        return {Outcome::kRefused, std::move(core)};
      }
      case LevelColouring::Found::kColouring:
        break;
    }
    Answer answer = route_colours(kind, flows, colouring.colours());
    if (answer.outcome == Outcome::kRouted) {
      for (int32_t position = 0; position < count_of(flows); ++position) {
        choices_of(flows[at(position)])[kinds_.level_of(kind)] = colouring.colours()[at(position)];
      }
      return answer;
    }
    if (answer.outcome == Outcome::kGaveUp || !limits_.goes_back) {
      return {Outcome::kGaveUp};
    }
    colouring.forbid(answer.core,
                     answer.holds_at_all ? LevelColouring::Of::kAny : LevelColouring::Of::kLikeIt);
  }
}

RouteSearch::Answer RouteSearch::route_colours(int32_t kind, const Set& flows,
                                               std::span<const int32_t> colours) {
  struct Part {
    int32_t colour = 0;
    Set flows = {};
  };
  std::vector<Part> parts(at(size_.middle));
  for (int32_t colour = 0; colour < size_.middle; ++colour) {
    parts[at(colour)].colour = colour;
  }
  for (int32_t position = 0; position < count_of(flows); ++position) {
    parts[at(colours[at(position)])].flows.push_back(flows[at(position)]);
  }
  // The fullest first: it is the likeliest to be refused.
  std::ranges::stable_sort(parts, std::ranges::greater(),
                           [](const Part& part) { return part.flows.size(); });
  for (const Part& part : parts) {
    Answer answer = find_at(kinds_.child(kind, part.colour), part.flows);
    if (answer.outcome == Outcome::kRefused) {
      for (int32_t& flow : answer.core) {
        flow = static_cast<int32_t>(std::ranges::lower_bound(flows, flow) - flows.begin());
      }
    }
    if (answer.outcome != Outcome::kRouted) {
      return answer;
    }
  }
  return {Outcome::kRouted};
}

ColouringProblem RouteSearch::problem_at(int32_t kind, const Set& flows) const {
  const int32_t level = kinds_.level_of(kind);
  ColouringProblem problem;
  problem.colours = size_.middle;
  std::vector<std::pair<int32_t, int32_t>> edges;
  // Flows that share a cell share the port that it is in the next level.
  const auto add_edges = [&](const std::vector<int32_t> PortFlow::*side) {
    std::vector<std::pair<int32_t, int32_t>> users;  // port, position
    for (int32_t position = 0; position < count_of(flows); ++position) {
      for (const int32_t port : flows_[at(flows[at(position)])].*side) {
        users.emplace_back(port >> (level + 1), position);
      }
    }
    std::ranges::sort(users);
    for (std::size_t next = 1; next < users.size(); ++next) {
      const auto& [port, position] = users[next - 1];
      const auto& [other_port, other] = users[next];
      if (port == other_port && position != other) {
        edges.emplace_back(position, other);
        edges.emplace_back(other, position);
      }
    }
  };
  add_edges(&PortFlow::inputs);
  add_edges(&PortFlow::outputs);
  std::ranges::sort(edges);
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  auto edge = edges.begin();
  for (int32_t position = 0; position < count_of(flows); ++position) {
    for (; edge != edges.end() && edge->first == position; ++edge) {
      problem.neighbours.values.push_back(edge->second);
    }
    problem.neighbours.close();
  }
  add_places(level, flows, problem);
  add_bars(kind, flows, problem);
  return problem;
}

// Subnetworks in which a flow has no way, where they are not all alike.
void RouteSearch::add_bars(int32_t kind, const Set& flows, ColouringProblem& problem) const {
  if (kinds_.is_sound(kind)) {
    return;
  }
  for (int32_t colour = 0; colour < size_.middle; ++colour) {
    problem.kinds.push_back(kinds_.child(kind, colour));
  }
  for (const int32_t flow : flows) {
    for (int32_t colour = 0; colour < size_.middle; ++colour) {
      if (!kinds_.carries(problem.kinds[at(colour)], flow)) {
        problem.barred.values.push_back(colour);
      }
    }
    problem.barred.close();
  }
}

// Flows of one colour that share a cell of a deeper level must part before it: the deeper, the more
// chances they have.
void RouteSearch::add_places(int32_t level, const Set& flows, ColouringProblem& problem) const {
  const int32_t first = level + 2;
  const int32_t last = std::min(limits_.levels, first + kMostWeighed - 1);
  std::vector<int32_t> begins;
  for (int32_t depth = first; depth <= last; ++depth) {
    begins.push_back(count_of(problem.weights));
    problem.weights.resize(problem.weights.size() + 2 * at(size_.ports_of(depth)),
                           int64_t{1} << (2 * (last - depth)));
  }
  for (const int32_t index : flows) {
    const PortFlow& flow = flows_[at(index)];
    for (int32_t depth = first; depth <= last; ++depth) {
      int32_t begin = begins[at(depth - first)];
      for (const std::vector<int32_t>* side : {&flow.inputs, &flow.outputs}) {
        int32_t before = -1;
        for (const int32_t port : *side) {
          const int32_t place = port >> depth;
          if (place != before) {
            problem.places.values.push_back(begin + place);
          }
          before = place;
        }
        begin += size_.ports_of(depth);
      }
    }
    problem.places.close();
  }
}

}  // namespace pleach
