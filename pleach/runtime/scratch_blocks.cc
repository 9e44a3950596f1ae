#include "pleach/runtime/scratch_blocks.h"

#include <algorithm>
#include <utility>

namespace pleach {

ScratchBlocks::Block ScratchBlocks::take(int64_t size_bytes) {
  if (size_bytes == 0) {
    return {};
  }
  const auto found = std::ranges::lower_bound(free_, size_bytes, {}, &Block::size_bytes);
  if (found != free_.end()) {
    Block block = std::move(*found);
    free_.erase(found);
    return block;
  }
  if (!free_.empty()) {
    free_.pop_back();
  }
  return {std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(size_bytes)),
          size_bytes};
}

void ScratchBlocks::give_back(Block block) {
  if (block.size_bytes > 0) {
    const auto place = std::ranges::lower_bound(free_, block.size_bytes, {}, &Block::size_bytes);
    free_.insert(place, std::move(block));
  }
}

}  // namespace pleach
