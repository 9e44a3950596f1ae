// Folding: how algorithms for powers of two take any number of ranks.
#pragma once

#include <bit>
#include <cstdint>

namespace pleach {

// The largest power of two of the ranks are members 0, 1, ...; each of the others is an extra rank
// that hands its data to a member first and gets the result last. With e extra ranks, member m < e
// is rank 2m and its extra rank is 2m + 1, later members follow: so consecutive members stand for
// consecutive ranks.
//   source  Rabenseifner 2004, Optimization of Collective Reduction Operations (binary folding)
class Folding {
 public:
  explicit Folding(int32_t rank_count)  // > 0
      : member_count_(static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(rank_count)))),
        extra_count_(rank_count - member_count_) {}

  int32_t member_count() const { return member_count_; }
  int32_t extra_count() const { return extra_count_; }
  // The rank of a member; of member_count(): one past the last rank.
  int32_t rank(int32_t member) const {
    return member < extra_count_ ? 2 * member : member + extra_count_;
  }
  // The extra rank of a member < extra_count().
  int32_t extra(int32_t member) const { return 2 * member + 1; }

 private:
  int32_t member_count_;
  int32_t extra_count_;
};

}  // namespace pleach
