#include "pleach/policy/search/plan_annealing.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"

namespace pleach {
namespace {

using Kind = CollectiveKind;

// Temperatures, as parts of the iteration time.
constexpr double kHot = 0.003;
constexpr double kColdOfHot = 0.01;
// What a step costs beside the collectives it places, in collectives.
constexpr int64_t kStepEffort = 10;
// How far a move goes that does not go anywhere.
constexpr int32_t kNear = 3;

class Walk {
 public:
  Walk(const PlanGrid& grid, PlanPieces pieces, const AnnealingOptions& options)
      : grid_(grid), options_(options), rng_(options.seed), kept_(std::move(pieces)) {}

  PlanPieces run() {
    PlanScore score = score_pieces(grid_, kept_);
    PlanPieces best = kept_;
    int64_t best_ps = score.time_ps;
    const double hot_ps = kHot * static_cast<double>(best_ps);
    for (int64_t spent = 0; spent < options_.effort && best_ps > options_.enough_ps;) {
      pieces_ = kept_;
      spent += kStepEffort + size();
      if (!change(score)) {
        continue;
      }
      const double progress = static_cast<double>(spent) / static_cast<double>(options_.effort);
      const PlanScore changed = score_pieces(grid_, pieces_);
      const auto worse_ps = static_cast<double>(changed.time_ps - score.time_ps);
      if (worse_ps > 0 &&
          rng_.unit() >= std::exp(-worse_ps / (hot_ps * std::pow(kColdOfHot, progress)))) {
        continue;
      }
      std::swap(kept_, pieces_);
      score = changed;
      if (score.time_ps < best_ps) {
        best_ps = score.time_ps;
        best = kept_;
      }
    }
    return best;
  }

 private:
  int32_t size() const { return count_of(pieces_); }
  PlanPiece& piece(int32_t index) { return pieces_[at(index)]; }
  // Uniform in [low, high].
  int32_t between(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(rng_.below(1 + static_cast<uint64_t>(high - low)));
  }
  bool coin() { return rng_.below(2) == 0; }
  // Near `place`, or anywhere, in [low, high].
  int32_t place_from(int32_t place, int32_t low, int32_t high) {
    return coin() ? between(low, high)
                  : between(std::max(low, place - kNear), std::min(high, place + kNear));
  }
  bool may_cut(int32_t first, int32_t cut, int32_t end) const {
    return grid_.bytes(first, cut) >= options_.least_bytes &&
           grid_.bytes(cut, end) >= options_.least_bytes;
  }

  // Makes a random change. False: it is none, or illegal, and pieces_ may be anything.
  bool change(const PlanScore& score) {
    // What comes after the piece that the iteration waits for does not matter now.
    const int32_t last = rng_.below(8) == 0 ? size() - 1 : score.critical;
    const int32_t index = between(0, last);
    switch (rng_.below(options_.may_convert ? 10 : 8)) {
      case 0:
      case 1:
      case 2:
        return reorder(index, place_from(index, 0, size() - 1));
      case 3:
      case 4:
      case 5:
        return shift(index);
      case 6:
        return split(index);
      case 7:
        return merge(index);
      default:
        return piece(index).kind == Kind::kAllReduce ? halve(index) : fuse_halves(index);
    }
  }

  bool reorder(int32_t from, int32_t to) {
    const auto begin = pieces_.begin();
    if (from < to) {
      std::rotate(begin + from, begin + from + 1, begin + to + 1);
    } else {
      std::rotate(begin + to, begin + from, begin + from + 1);
    }
    return from != to && stands_well(to);
  }

  // Moves the boundary to the neighbour.
  bool shift(int32_t index) {
    const int32_t next = neighbour(index);
    if (next < 0 || piece(next).end - piece(index).first < 3) {
      return false;
    }
    const int32_t first = piece(index).first;
    const int32_t end = piece(next).end;
    const int32_t cut = place_from(piece(index).end, first + 1, end - 1);
    if (cut == piece(index).end || !may_cut(first, cut, end)) {
      return false;
    }
    piece(index) = grid_.piece(piece(index).kind, first, cut);
    piece(next) = grid_.piece(piece(next).kind, cut, end);
    return stands_well(index) && stands_well(next);
  }

  bool split(int32_t index) {
    const PlanPiece whole = piece(index);
    if (whole.end - whole.first < 2) {
      return false;
    }
    const int32_t cut = between(whole.first + 1, whole.end - 1);
    if (!may_cut(whole.first, cut, whole.end)) {
      return false;
    }
    PlanPiece lower = grid_.piece(whole.kind, whole.first, cut);
    PlanPiece upper = grid_.piece(whole.kind, cut, whole.end);
    if (coin()) {
      std::swap(lower, upper);
    }
    piece(index) = lower;
    pieces_.insert(pieces_.begin() + index + 1, upper);
    if (coin()) {
      const int32_t moved = between(index, index + 1);
      return reorder(moved, place_from(moved, 0, size() - 1));
    }
    return true;
  }

  bool merge(int32_t index) {
    const int32_t next = neighbour(index);
    if (next < 0) {
      return false;
    }
    const PlanPiece both = grid_.piece(piece(index).kind, piece(index).first, piece(next).end);
    const auto [keep, drop] = coin() ? std::pair(index, next) : std::pair(next, index);
    piece(keep) = both;
    pieces_.erase(pieces_.begin() + drop);
    return stands_well(drop < keep ? keep - 1 : keep);
  }

  // An all_reduce becomes its reduce_scatter and its all_gather.
  bool halve(int32_t index) {
    const PlanPiece whole = piece(index);
    piece(index) = grid_.piece(Kind::kReduceScatter, whole.first, whole.end);
    const auto place = options_.gathers_last
                           ? std::ranges::find(pieces_, Kind::kAllGather, &PlanPiece::kind)
                           : pieces_.begin() + index + 1;
    pieces_.insert(place, grid_.piece(Kind::kAllGather, whole.first, whole.end));
    return true;
  }

  // And the reverse.
  bool fuse_halves(int32_t index) {
    const PlanPiece half = piece(index);
    for (int32_t other = 0; other < size(); ++other) {
      if (other != index && piece(other).first == half.first && piece(other).end == half.end) {
        const bool takes_first = options_.gathers_last ? half.kind == Kind::kReduceScatter : coin();
        piece(takes_first ? index : other) = grid_.piece(Kind::kAllReduce, half.first, half.end);
        const bool keeps_other = piece(other).kind == Kind::kAllReduce;
        pieces_.erase(pieces_.begin() + (keeps_other ? index : other));
        return true;
      }
    }
    return false;
  }

  // The piece of the same kind that starts where this one ends; −1: none.
  int32_t neighbour(int32_t index) {
    const PlanPiece& one = piece(index);
    const auto found = std::ranges::find_if(pieces_, [&](const PlanPiece& other) {
      return other.kind == one.kind && other.first == one.end;
    });
    return found == pieces_.end() ? -1 : static_cast<int32_t>(found - pieces_.begin());
  }

  // No reduction of its cells (or of any) comes after an all_gather, no all_gather before a
  // reduction.
  bool stands_well(int32_t index) {
    const PlanPiece one = piece(index);
    const bool gathers = one.kind == Kind::kAllGather;
    const auto conflicts = [&](const PlanPiece& two) {
      if (options_.gathers_last) {
        return (two.kind == Kind::kAllGather) != gathers;
      }
      return two.kind == (gathers ? Kind::kReduceScatter : Kind::kAllGather) &&
             two.first < one.end && one.first < two.end;
    };
    const auto here = pieces_.begin() + index;
    return one.kind == Kind::kAllGather ? std::none_of(here, pieces_.end(), conflicts)
                                        : std::none_of(pieces_.begin(), here, conflicts);
  }

  const PlanGrid& grid_;
  const AnnealingOptions options_;
  Rng rng_;
  PlanPieces kept_;    // where the walk stands
  PlanPieces pieces_;  // and its next step
};

}  // namespace

PlanPieces anneal(const PlanGrid& grid, PlanPieces pieces, const AnnealingOptions& options) {
  return pieces.empty() ? pieces : Walk(grid, std::move(pieces), options).run();
}

}  // namespace pleach
