// Pairwise exchange: an all_to_all in which every rank has one partner at a time.
#include <bit>

#include "pleach/base/index.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/synthesis/builder.h"

namespace pleach {
namespace {

Result<Schedule> pairwise(const SynthesisRequest& request, const Options& /*options*/) {
  const auto rank_count = count_of(request.participants);
  PLEACH_TRY(check_size(int64_t{rank_count} * rank_count, 0));
  ScheduleBuilder builder(request, CollectiveKind::kAllToAll, rank_count * rank_count);
  const bool exchanges = std::has_single_bit(static_cast<uint32_t>(rank_count));
  for (int32_t source = 0; source < rank_count; ++source) {
    for (int32_t distance = 1; distance < rank_count; ++distance) {
      const int32_t target = exchanges ? source ^ distance : (source + distance) % rank_count;
      builder.send({.first_chunk = source * rank_count + target, .step = distance - 1}, source,
                   target);
    }
  }
  return std::move(builder).finish({rank_count - 1});
}

}  // namespace

extern const Algorithm kPairwise = {
    .name = "pairwise",
    .summary = "n-1 steps; in each, every rank sends to one and receives from one",
    .source = "Thakur, Rabenseifner & Gropp 2005, sec. 4.3 (all_to_all, long messages)",
    .collectives = {CollectiveKind::kAllToAll},
    .options = {},
    .create = &pairwise,
};

}  // namespace pleach
