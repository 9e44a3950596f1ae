// LevelColouring: which subnetwork each flow takes at one level, by DSATUR with backjumping.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace pleach {

// Steps of searches, shared by all that belong to one question; a step is about one choice tried.
struct SearchBudget {
  int64_t left = 0;
  int64_t used = 0;
  void spend(int64_t steps) {
    left -= steps;
    used += steps;
  }
};

// Lists of different lengths, one behind the other.
struct IndexLists {
  std::vector<int32_t> begin = {0};
  std::vector<int32_t> values;

  void close() { begin.push_back(static_cast<int32_t>(values.size())); }
  std::span<const int32_t> operator[](int32_t list) const {
    const auto first = static_cast<std::size_t>(begin[static_cast<std::size_t>(list)]);
    const auto end = static_cast<std::size_t>(begin[static_cast<std::size_t>(list) + 1]);
    return std::span(values).subspan(first, end - first);
  }
};

// What is coloured: nodes 0 to n − 1.
struct ColouringProblem {
  int32_t colours = 2;
  IndexLists neighbours;  // of each node, none twice
  // Where each node is deeper inside; of two colours that would do, the one with fewer nodes at the
  // same places is tried first. Place p weighs weights[p].
  IndexLists places;
  std::vector<int64_t> weights;
  // Of each colour what it is like: those of one kind are alike. Empty: all are.
  std::vector<int32_t> kinds = {};
  IndexLists barred = {};  // of each node the colours that it may not have; no list: none has any

  int32_t kind_of(int32_t colour) const {
    return kinds.empty() ? 0 : kinds[static_cast<std::size_t>(colour)];
  }
};

// Enumerates colourings: neighbours differ, and no forbidden group is of one colour. Of colourings
// that differ in the names of colours alone that are alike, one is shown. A node of the most
// blocked colours comes next, of these one of the most neighbours; where none of its colours is
// left, the search goes back to the latest node that is to blame.
//   source  Brélaz 1979 (DSATUR); Prosser 1993 (conflict-directed backjumping)
class LevelColouring {
 public:
  // Borrows the problem, which outlives it.
  LevelColouring(const ColouringProblem& problem, SearchBudget& budget);

  enum class Found : uint8_t { kColouring, kNone, kGaveUp };
  // The next colouring: the first one, or after forbid().
  Found next();
  // Of kColouring: of each node.
  std::span<const int32_t> colours() const { return colour_; }
  // Never again all of one colour: these nodes, two or more, which now are; of any colour, or of
  // those that are like it.
  enum class Of : uint8_t { kAny, kLikeIt };
  void forbid(std::span<const int32_t> group, Of of);
  // Of kNone: nodes that have no colouring by themselves, ascending.
  std::vector<int32_t> core() const;

 private:
  struct Choice {
    int32_t node = -1;
    std::vector<int32_t> candidates;
    std::size_t tried = 0;
    std::vector<int32_t> blame;  // earlier nodes, ascending
  };
  struct Group {
    std::vector<int32_t> nodes;
    int32_t coloured = 0;
    int32_t kind = kAnyKind;  // of the colours that it may not have
  };
  static constexpr int32_t kAnyKind = -1;
  struct Groups {
    std::vector<Group> all;
    std::vector<std::vector<int32_t>> of;  // a node: groups
  };
  // What is known of uncoloured nodes: by how many colours are blocked, and in the order in which
  // equals are chosen.
  struct Waiting {
    std::vector<int32_t> rank_of;
    std::vector<int32_t> node_of;
    std::vector<std::vector<uint64_t>> ranks;  // by blocked colours: a bit per rank
    std::vector<int32_t> count;                // of those bits
    std::vector<std::size_t> first;            // no word before it has one
  };
  struct Blocks {
    std::vector<int32_t> by;       // node × colour: by how many
    std::vector<int32_t> colours;  // of a node: how many are blocked
  };

  // Of each node.
  struct Past {
    std::vector<int32_t> depth_of;  // a coloured one's place in choices_
    std::vector<bool> is_involved;  // was ever without a colour, or to blame for that
  };

  void change_waiting(int32_t node, bool waits);
  void block(int32_t node, int32_t colour, int32_t by);
  void add_presence(int32_t node, int32_t colour, int32_t by);
  int64_t pressure(int32_t node, int32_t colour) const;
  void assign(int32_t node, int32_t colour);
  void unassign(int32_t node);
  // The last uncoloured node of a group whose others are all of one colour, and that colour.
  // Where the group may not have it; else −1, −1.
  std::pair<int32_t, int32_t> last_of(const Group& group) const;
  std::vector<int32_t> open_colours() const;
  Choice choose();
  std::vector<int32_t> blame_of(const Choice& choice) const;
  int32_t latest_of(std::span<const int32_t> nodes) const;
  // Takes back all after the choice of `node`, and that too; it is to try its next colour.
  void back_to(int32_t node, std::span<const int32_t> blame);
  bool advance();

  const ColouringProblem& problem_;
  SearchBudget& budget_;
  std::vector<int32_t> colour_;
  std::vector<int32_t> uses_;  // of each colour: nodes
  Blocks blocks_;
  Waiting waiting_;
  Groups groups_;
  std::vector<int32_t> presence_;  // colour × place: nodes
  std::vector<Choice> choices_;
  Past past_;
};

}  // namespace pleach
