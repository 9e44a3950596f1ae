#include "pleach/fabric/level_colouring.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "pleach/base/check.h"
#include "pleach/base/index.h"
#include "pleach/base/interruption.h"

namespace pleach {
namespace {

constexpr std::size_t kWordBits = 64;

// Union of two ascending lists.
void merge_into(std::vector<int32_t>& list, std::span<const int32_t> more) {
  std::vector<int32_t> both;
  both.reserve(list.size() + more.size());
  std::ranges::set_union(list, more, std::back_inserter(both));
  list = std::move(both);
}

}  // namespace

LevelColouring::LevelColouring(const ColouringProblem& problem, SearchBudget& budget)
    : problem_(problem), budget_(budget) {
  const std::size_t nodes = problem.neighbours.begin.size() - 1;
  const std::size_t colours = at(problem.colours);
  colour_.assign(nodes, -1);
  uses_.assign(colours, 0);
  blocks_.by.assign(nodes * colours, 0);
  blocks_.colours.assign(nodes, 0);
  presence_.assign(colours * problem.weights.size(), 0);
  past_.depth_of.assign(nodes, -1);
  past_.is_involved.assign(nodes, false);
  groups_.of.resize(nodes);
  waiting_.node_of.resize(nodes);
  waiting_.rank_of.resize(nodes);
  waiting_.ranks.assign(colours + 1, std::vector<uint64_t>((nodes + kWordBits - 1) / kWordBits));
  waiting_.count.assign(colours + 1, 0);
  waiting_.first.assign(colours + 1, 0);
  std::iota(waiting_.node_of.begin(), waiting_.node_of.end(), 0);
  std::ranges::stable_sort(waiting_.node_of, std::ranges::greater(),
                           [&](int32_t node) { return problem.neighbours[node].size(); });
  for (int32_t node = 0; node + 1 < count_of(problem.barred.begin); ++node) {
    for (const int32_t colour : problem.barred[node]) {
      blocks_.by[at(node) * colours + at(colour)] = 1;
      ++blocks_.colours[at(node)];
    }
  }
  for (int32_t rank = 0; rank < count_of(waiting_.node_of); ++rank) {
    const int32_t node = waiting_.node_of[at(rank)];
    waiting_.rank_of[at(node)] = rank;
    change_waiting(node, true);
  }
  budget_.spend(8 + static_cast<int64_t>(nodes));
}

void LevelColouring::change_waiting(int32_t node, bool waits) {
  const std::size_t blocked = at(blocks_.colours[at(node)]);
  const std::size_t rank = at(waiting_.rank_of[at(node)]);
  waiting_.ranks[blocked][rank / kWordBits] ^= uint64_t{1} << (rank % kWordBits);
  if (waits) {
    std::size_t& first = waiting_.first[blocked];
    first = waiting_.count[blocked] == 0 ? rank / kWordBits : std::min(first, rank / kWordBits);
  }
  waiting_.count[blocked] += waits ? 1 : -1;
}

void LevelColouring::block(int32_t node, int32_t colour, int32_t by) {
  int32_t& blocks = blocks_.by[at(node) * at(problem_.colours) + at(colour)];
  const bool was_blocked = blocks > 0;
  blocks += by;
  if (was_blocked == (blocks > 0)) {
    return;
  }
  const bool waits = colour_[at(node)] < 0;
  if (waits) {
    change_waiting(node, false);
  }
  blocks_.colours[at(node)] += was_blocked ? -1 : 1;
  if (waits) {
    change_waiting(node, true);
  }
}

void LevelColouring::add_presence(int32_t node, int32_t colour, int32_t by) {
  const std::size_t first = at(colour) * problem_.weights.size();
  for (const int32_t place : problem_.places[node]) {
    presence_[first + at(place)] += by;
  }
}

int64_t LevelColouring::pressure(int32_t node, int32_t colour) const {
  const std::size_t first = at(colour) * problem_.weights.size();
  int64_t sum = 0;
  for (const int32_t place : problem_.places[node]) {
    sum += presence_[first + at(place)] * problem_.weights[at(place)];
  }
  return sum;
}

std::pair<int32_t, int32_t> LevelColouring::last_of(const Group& group) const {
  int32_t last = -1;
  int32_t colour = -1;
  for (const int32_t node : group.nodes) {
    const int32_t own = colour_[at(node)];
    if (own < 0) {
      last = node;
    } else if (colour >= 0 && own != colour) {
      return {-1, -1};
    } else {
      colour = own;
    }
  }
  if (group.kind != kAnyKind && group.kind != problem_.kind_of(colour)) {
    return {-1, -1};
  }
  return {last, colour};
}

void LevelColouring::assign(int32_t node, int32_t colour) {
  change_waiting(node, false);
  colour_[at(node)] = colour;
  ++uses_[at(colour)];
  for (const int32_t neighbour : problem_.neighbours[node]) {
    block(neighbour, colour, 1);
  }
  for (const int32_t index : groups_.of[at(node)]) {
    Group& group = groups_.all[at(index)];
    if (++group.coloured + 1 == count_of(group.nodes)) {
      if (const auto [last, same] = last_of(group); last >= 0) {
        block(last, same, 1);
      }
    }
  }
  add_presence(node, colour, 1);
}

void LevelColouring::unassign(int32_t node) {
  const int32_t colour = colour_[at(node)];
  add_presence(node, colour, -1);
  for (const int32_t index : groups_.of[at(node)]) {
    Group& group = groups_.all[at(index)];
    if (group.coloured-- + 1 == count_of(group.nodes)) {
      if (const auto [last, same] = last_of(group); last >= 0) {
        block(last, same, -1);
      }
    }
  }
  for (const int32_t neighbour : problem_.neighbours[node]) {
    block(neighbour, colour, -1);
  }
  colour_[at(node)] = -1;
  --uses_[at(colour)];
  past_.depth_of[at(node)] = -1;
  change_waiting(node, true);
}

// Those that are used, and one of each kind that is not.
std::vector<int32_t> LevelColouring::open_colours() const {
  std::vector<int32_t> colours;
  std::vector<int32_t> fresh;  // kinds
  for (int32_t colour = 0; colour < problem_.colours; ++colour) {
    if (uses_[at(colour)] == 0) {
      const int32_t kind = problem_.kind_of(colour);
      if (std::ranges::find(fresh, kind) != fresh.end()) {
        continue;
      }
      fresh.push_back(kind);
    }
    colours.push_back(colour);
    if (!fresh.empty() && problem_.kinds.empty()) {
      break;  // colours are used in their order
    }
  }
  return colours;
}

// The next node: most blocked colours, then rank.
LevelColouring::Choice LevelColouring::choose() {
  Choice choice;
  std::size_t blocked = waiting_.ranks.size() - 1;
  while (waiting_.count[blocked] == 0) {
    --blocked;
  }
  std::size_t& word = waiting_.first[blocked];
  while (waiting_.ranks[blocked][word] == 0) {
    ++word;
  }
  const std::size_t rank =
      word * kWordBits + static_cast<std::size_t>(std::countr_zero(waiting_.ranks[blocked][word]));
  choice.node = waiting_.node_of[rank];
  std::vector<std::pair<int64_t, int32_t>> order;
  for (const int32_t colour : open_colours()) {
    if (blocks_.by[at(choice.node) * at(problem_.colours) + at(colour)] == 0) {
      order.emplace_back(pressure(choice.node, colour), colour);
    }
  }
  std::ranges::sort(order);
  for (const auto& [weight, colour] : order) {
    choice.candidates.push_back(colour);
  }
  return choice;
}

int32_t LevelColouring::latest_of(std::span<const int32_t> nodes) const {
  return *std::ranges::max_element(nodes, {},
                                   [&](int32_t node) { return past_.depth_of[at(node)]; });
}

// Why none of the node's colours will do: for each that is blocked, the earliest neighbour of it,
// or else a group's others, and nobody where it is barred; and what was to blame for those that
// were tried.
std::vector<int32_t> LevelColouring::blame_of(const Choice& choice) const {
  std::vector<int32_t> earliest(at(problem_.colours), -1);
  std::vector<bool> is_barred(at(problem_.colours), false);
  if (choice.node + 1 < count_of(problem_.barred.begin)) {
    for (const int32_t colour : problem_.barred[choice.node]) {
      is_barred[at(colour)] = true;
    }
  }
  for (const int32_t neighbour : problem_.neighbours[choice.node]) {
    if (const int32_t colour = colour_[at(neighbour)]; colour >= 0 && !is_barred[at(colour)]) {
      int32_t& known = earliest[at(colour)];
      if (known < 0 || past_.depth_of[at(neighbour)] < past_.depth_of[at(known)]) {
        known = neighbour;
      }
    }
  }
  std::vector<int32_t> blame = choice.blame;
  for (const int32_t index : groups_.of[at(choice.node)]) {
    const Group& group = groups_.all[at(index)];
    const auto [last, colour] = group.coloured + 1 == count_of(group.nodes)
                                    ? last_of(group)
                                    : std::pair<int32_t, int32_t>{-1, -1};
    if (last == choice.node && !is_barred[at(colour)] && earliest[at(colour)] < 0) {
      std::vector<int32_t> others = group.nodes;
      std::erase(others, choice.node);
      merge_into(blame, others);
      earliest[at(colour)] = others.front();
    }
  }
  std::ranges::sort(earliest);
  merge_into(blame, std::span(earliest).subspan(static_cast<std::size_t>(
                        std::ranges::upper_bound(earliest, -1) - earliest.begin())));
  return blame;
}

void LevelColouring::back_to(int32_t node, std::span<const int32_t> blame) {
  while (true) {
    check_interruption();
    const int32_t top = choices_.back().node;
    if (colour_[at(top)] >= 0) {
      unassign(top);
    }
    if (top == node) {
      break;
    }
    choices_.pop_back();
  }
  std::vector<int32_t> others(blame.begin(), blame.end());
  std::erase(others, node);
  merge_into(choices_.back().blame, others);
}

// Gives the node of the last choice its next colour, or goes back until one has one; false where
// none has.
bool LevelColouring::advance() {
  while (true) {
    check_interruption();
    Choice& choice = choices_.back();
    if (choice.tried < choice.candidates.size()) {
      const int32_t colour = choice.candidates[choice.tried++];
      budget_.spend(1);
      // What was learned since the choice was made may block it.
      if (blocks_.by[at(choice.node) * at(problem_.colours) + at(colour)] == 0) {
        assign(choice.node, colour);
        past_.depth_of[at(choice.node)] = count_of(choices_) - 1;
        return true;
      }
      continue;
    }
    const std::vector<int32_t> blame = blame_of(choice);
    budget_.spend(1 + count_of(blame) / 8);
    past_.is_involved[at(choice.node)] = true;
    for (const int32_t node : blame) {
      past_.is_involved[at(node)] = true;
    }
    if (blame.empty()) {
      return false;
    }
    back_to(latest_of(blame), blame);
  }
}

LevelColouring::Found LevelColouring::next() {
  const auto nodes = colour_.size();
  if (nodes == 0) {
    return Found::kColouring;
  }
  // After forbid() the last choice has no colour.
  bool is_open = !choices_.empty() && colour_[at(choices_.back().node)] < 0;
  while (is_open || choices_.size() < nodes) {
    check_interruption();
    if (!is_open) {
      choices_.push_back(choose());
    }
    is_open = false;
    if (budget_.left <= 0) {
      return Found::kGaveUp;
    }
    if (!advance()) {
      return Found::kNone;
    }
  }
  return Found::kColouring;
}

void LevelColouring::forbid(std::span<const int32_t> group, Of of) {
  PLEACH_CHECK(group.size() > 1, "one flow by itself always has a way");
  const std::vector<int32_t> nodes(group.begin(), group.end());
  const int32_t latest = latest_of(nodes);
  const int32_t colour = colour_[at(latest)];
  back_to(latest, nodes);
  for (const int32_t node : nodes) {
    groups_.of[at(node)].push_back(count_of(groups_.all));
  }
  groups_.all.push_back(
      {nodes, count_of(nodes) - 1, of == Of::kAny ? kAnyKind : problem_.kind_of(colour)});
  block(latest, colour, 1);
}

std::vector<int32_t> LevelColouring::core() const {
  std::vector<int32_t> nodes;
  for (int32_t node = 0; node < count_of(colour_); ++node) {
    if (past_.is_involved[at(node)]) {
      nodes.push_back(node);
    }
  }
  return nodes;
}

}  // namespace pleach
