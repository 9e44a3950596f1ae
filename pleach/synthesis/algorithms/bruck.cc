// Bruck: an all_to_all in which blocks travel the binary digits of their distance.
#include <algorithm>
#include <bit>

#include "pleach/base/index.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/synthesis/builder.h"

namespace pleach {
namespace {

// Block (i, j) starts at rank i with the distance (j - i) mod n before it. A step takes one digit
// off, the highest first: then the blocks that are at one rank from one origin have consecutive
// distances, and so travel as one message (two where their targets pass rank n - 1).
Result<Schedule> bruck(const SynthesisRequest& request, const Options& /*options*/) {
  const auto rank_count = count_of(request.participants);
  const auto step_count =
      static_cast<int32_t>(std::bit_width(static_cast<uint32_t>(rank_count - 1)));
  const int64_t blocks = int64_t{rank_count} * rank_count;
  PLEACH_TRY(check_size(2 * blocks, blocks * step_count / 2));
  ScheduleBuilder builder(request, CollectiveKind::kAllToAll, rank_count * rank_count);
  for (int32_t step = 0; step < step_count; ++step) {
    const int32_t digit = 1 << (step_count - 1 - step);
    for (int32_t origin = 0; origin < rank_count; ++origin) {
      for (int32_t gone = 0; gone + digit < rank_count; gone += 2 * digit) {
        const int32_t source = (origin + gone) % rank_count;
        const int32_t target = (source + digit) % rank_count;
        int32_t first = origin + gone + digit;  // the block's target, not yet taken mod n
        const int32_t end = std::min(first + digit, origin + rank_count);
        while (first < end) {
          const int32_t turn = first / rank_count * rank_count;
          const int32_t last = std::min(end, turn + rank_count);
          builder.send({.first_chunk = origin * rank_count + first - turn,
                        .chunk_count = last - first,
                        .step = step},
                       source, target);
          first = last;
        }
      }
    }
  }
  return std::move(builder).finish({step_count});
}

}  // namespace

extern const Algorithm kBruck = {
    .name = "bruck",
    .summary = "log2 n steps; blocks travel the binary digits of their distance",
    .source =
        "Bruck et al., Efficient algorithms for all-to-all communications in multiport "
        "message-passing systems, 1997, sec. 3",
    .collectives = {CollectiveKind::kAllToAll},
    .options = {},
    .create = &bruck,
};

}  // namespace pleach
