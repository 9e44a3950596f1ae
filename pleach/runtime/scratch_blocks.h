// ScratchBlocks: the scratch of a channel's runs, which take it in turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace pleach {

// Memory that one run after another uses, whatever is in it: as many blocks as are in use at once,
// each as large as the largest need that it has met. So the scratch of many kinds of operations is
// that of those in flight together. Used by one thread at a time.
class ScratchBlocks {
 public:
  struct Block {
    std::unique_ptr<std::byte[]> bytes;
    int64_t size_bytes = 0;
  };

  // A block of at least so many bytes; of none: nothing. Of those that nobody uses the smallest
  // that is large enough; where all are too small, the largest makes room for a new one.
  Block take(int64_t size_bytes);
  void give_back(Block block);

 private:
  std::vector<Block> free_;  // by size
};

}  // namespace pleach
