#include "memory.h"

#include <ATen/ops/from_blob.h>

#include <bit>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "errors.h"
#include "pleach/api/pleach.h"

namespace pleach_torch {
namespace {

constexpr size_t kSmallestBlockBytes = 4096;
// What is kept for later; more goes back at once.
constexpr size_t kMostIdleBytes = size_t{512} << 20;

// Eight classes between two powers of two: at most an eighth of a block is not used.
size_t block_bytes(size_t bytes) {
  if (bytes <= kSmallestBlockBytes) {
    return kSmallestBlockBytes;
  }
  const size_t step = std::bit_floor(bytes - 1) / 8;
  const size_t granule = step < kSmallestBlockBytes ? kSmallestBlockBytes : step;
  return (bytes + granule - 1) / granule * granule;
}

// Never destroyed: tensors may outlive what is static.
class Blocks {
 public:
  void* take(size_t bytes) {
    const std::scoped_lock lock(mutex_);
    const auto found = idle_.find(bytes);
    if (found == idle_.end() || found->second.empty()) {
      return nullptr;
    }
    void* const block = found->second.back();
    found->second.pop_back();
    idle_bytes_ -= bytes;
    return block;
  }

  void put_back(void* block, size_t bytes) {
    {
      const std::scoped_lock lock(mutex_);
      if (idle_bytes_ + bytes <= kMostIdleBytes) {
        idle_[bytes].push_back(block);
        idle_bytes_ += bytes;
        return;
      }
    }
    pleach_free(block);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<size_t, std::vector<void*>> idle_;  // by size
  size_t idle_bytes_ = 0;
};

Blocks& blocks() {
  static auto* const all = new Blocks;
  return *all;
}

}  // namespace

at::Tensor allocate(int64_t size, at::ScalarType type) {
  constexpr int64_t kMostBytes = int64_t{1} << 48;  // what addresses reach
  TORCH_CHECK_VALUE(size >= 0 && size <= kMostBytes / static_cast<int64_t>(c10::elementSize(type)),
                    "pleach: a tensor of ", size, " elements of ", c10::toString(type));
  const size_t bytes = block_bytes(static_cast<size_t>(size) * c10::elementSize(type));
  void* block = blocks().take(bytes);
  if (block == nullptr) {
    block = pleach_alloc(bytes);
    TORCH_CHECK_WITH(OutOfMemoryError, block != nullptr, "pleach: ", pleach_last_error());
  }
  return at::from_blob(
      block, {size}, [bytes](void* memory) { blocks().put_back(memory, bytes); },
      at::TensorOptions().dtype(type));
}

}  // namespace pleach_torch
