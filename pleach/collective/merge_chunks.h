// Merging of chunks that a schedule treats alike, so that a proof costs what its transfers say and
// not how finely the grid is cut.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "pleach/collective/schedule.h"

namespace pleach {

struct MergedChunks {
  // The same transfers in the same order, on a grid whose chunks are runs of the old ones. It is
  // well formed, and has the verdict of the old one.
  Schedule schedule;
  std::vector<int32_t> first_chunk;  // by new chunk, and the end: where it begins among the old
};

// Two neighbours are alike when every transfer has both or neither, and they belong to the same
// part of the buffer; in the symmetric form their translates are then alike too.
//   returns  nothing where that would not at least halve the number of chunks
//   cost     O(transfers + chunks); no more than a pass over the transfers where all move one chunk
//   source   docs/architecture.md, "The schedule"
// Precondition: check_form found nothing.
std::optional<MergedChunks> merge_alike_chunks(const Schedule& schedule);

}  // namespace pleach
