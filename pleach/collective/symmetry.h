// Translation: the action of a Schedule's symmetry on ranks, chunks and links.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/collective/schedule.h"
#include "pleach/topology/topology.h"

namespace pleach {

// Arithmetic of mixed-radix coordinates. Element g of the group is the rank that 0 moves to.
class Translation {
 public:
  // Precondition: dimensions ≥ 1 whose product is at most 2^30.
  explicit Translation(std::span<const int32_t> dimensions);

  int32_t order() const { return order_; }
  int32_t add(int32_t rank, int32_t g) const;       // rank + g
  int32_t subtract(int32_t rank, int32_t g) const;  // rank - g

 private:
  std::vector<int32_t> dimensions_;
  int32_t order_ = 1;
};

// Chunks of a symmetric schedule come in blocks. For all_to_all chunk ((i·n + j)·m + p) moves to
// (((i+g)·n + (j+g))·m + p), and the representatives are i = 0; otherwise chunk b·m + p moves to
// (b+g)·m + p and the representatives are b = 0. Representatives are always [0, count).
int32_t representative_chunk_count(const Schedule& schedule);
// m, the chunks of a block (for all_to_all of an (i, j)); without a symmetry those of the grid.
int32_t block_chunk_count(const Schedule& schedule);
int32_t translate_chunk(const Schedule& schedule, const Translation& translation, int32_t chunk,
                        int32_t g);

// What keeps the grid of a symmetric schedule from being moved so, or nothing: every block, and for
// all_to_all every (i, j), has equally many chunks, as heavy as those of its representative.
// Precondition: check_ranges found nothing.
std::string symmetric_grid_fault(const Schedule& schedule);

// How the group moves links: link `l` out of rank u in class k goes to the class-k link of u + g.
class LinkTranslation {
 public:
  // Requires a symmetric schedule whose dimensions multiply to its participants, and these to be
  // all nodes of the topology. Errors: kInvalidArgument, naming a link that has no counterpart of
  // equal bandwidth (parallel links are matched in link order), or a node that differs in whether
  // it forwards.
  //   compare_latency  whether latency and overhead must agree too (folding needs it, proof not)
  static Result<LinkTranslation> create(const Schedule& schedule, const Topology& topology,
                                        bool compare_latency);
  LinkId translate(LinkId link, int32_t g) const;
  int32_t class_of(LinkId link) const { return class_[link.index()]; }
  int32_t class_count() const { return class_count_; }
  // The class's link out of a rank.
  LinkId link_of(int32_t link_class, int32_t rank) const;

 private:
  explicit LinkTranslation(Translation translation) : translation_(std::move(translation)) {}
  Translation translation_;
  int32_t class_count_ = 0;
  std::vector<int32_t> class_;    // by link
  std::vector<int32_t> origin_;   // by link: rank it leaves
  std::vector<LinkId> by_class_;  // class · rank_count + rank
};

}  // namespace pleach
