#include "pleach/fabric/route_search.h"

#include <algorithm>
#include <numeric>

#include "pleach/base/index.h"

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
      choices_(flows.size() * at(size.levels()), 0),
      levels_(at(size.levels()) + 1) {
  for (Level& level : levels_) {
    level.refused_of.resize(flows.size());
  }
}

bool RouteSearch::knows(int32_t level, const Set& flows, Answer& answer) {
  Level& known = levels_[at(level)];
  if (flows.size() <= kMostRemembered) {
    const auto routed = known.routed.find(flows);
    if (routed != known.routed.end()) {
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
  for (const int32_t first : flows) {
    for (const int32_t number : known.refused_of[at(first)]) {
      const Core& core = known.refused[at(number)];
      if (is_subset(core.flows, flows)) {
        answer = {Outcome::kRefused, core.flows, core.is_least};
        return true;
      }
    }
  }
  return false;
}

void RouteSearch::remember_refused(int32_t level, const Answer& answer) {
  Level& known = levels_[at(level)];
  known.refused_of[at(answer.core.front())].push_back(count_of(known.refused));
  known.refused.push_back({answer.core, answer.is_least});
}

void RouteSearch::remember_routed(int32_t level, const Set& flows) {
  if (flows.size() > kMostRemembered) {
    return;
  }
  std::vector<int32_t> chosen;
  for (const int32_t flow : flows) {
    const auto from = choices_of(flow);
    chosen.insert(chosen.end(), from + level, from + level_count_);
  }
  levels_[at(level)].routed.emplace(flows, std::move(chosen));
}

RouteSearch::Answer RouteSearch::find_at(int32_t level, const Set& flows) {
  if (level >= limits_.levels || count_of(flows) <= size_.middle) {
    // Alone in a subnetwork, a flow has its way.
    for (int32_t position = 0; position < count_of(flows); ++position) {
      const auto from = choices_of(flows[at(position)]);
      std::fill(from + level, from + level_count_, 0);
      if (level < limits_.levels) {
        from[level] = position;
      }
    }
    return {Outcome::kRouted};
  }
  Answer answer;
  if (knows(level, flows, answer)) {
    return answer;
  }
  answer = search_at(level, flows);
  if (answer.outcome == Outcome::kRouted) {
    remember_routed(level, flows);
  } else if (answer.outcome == Outcome::kRefused) {
    answer = least_at(level, std::move(answer.core));
    remember_refused(level, answer);
  }
  return answer;
}

RouteSearch::Answer RouteSearch::least_at(int32_t level, Set core) {
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
    if (count_of(others) > size_.middle && !knows(level, others, answer)) {
      answer = search_at(level, others);
      if (answer.outcome == Outcome::kRouted) {
        remember_routed(level, others);
      }
    }
    if (answer.outcome == Outcome::kGaveUp) {
      return {Outcome::kRefused, std::move(core), false};
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
  return {Outcome::kRefused, std::move(core), true};
}

RouteSearch::Answer RouteSearch::search_at(int32_t level, const Set& flows) {
  const ColouringProblem problem = problem_at(level, flows);
  LevelColouring colouring(problem, budget_);
  while (true) {
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
    Answer answer = route_colours(level, flows, colouring.colours());
    if (answer.outcome == Outcome::kRouted) {
      for (int32_t position = 0; position < count_of(flows); ++position) {
        choices_of(flows[at(position)])[level] = colouring.colours()[at(position)];
      }
      return answer;
    }
    if (answer.outcome == Outcome::kGaveUp || !limits_.goes_back) {
      return {Outcome::kGaveUp};
    }
    colouring.forbid(answer.core);
  }
}

RouteSearch::Answer RouteSearch::route_colours(int32_t level, const Set& flows,
                                               std::span<const int32_t> colours) {
  std::vector<Set> parts(at(size_.middle));
  for (int32_t position = 0; position < count_of(flows); ++position) {
    parts[at(colours[at(position)])].push_back(flows[at(position)]);
  }
  // The fullest first: it is the likeliest to be refused.
  std::ranges::stable_sort(parts, std::ranges::greater(), &Set::size);
  for (const Set& part : parts) {
    Answer answer = find_at(level + 1, part);
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

ColouringProblem RouteSearch::problem_at(int32_t level, const Set& flows) const {
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
  return problem;
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
