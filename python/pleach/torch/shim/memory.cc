#include "memory.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <bit>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "errors.h"
#include "pleach/api/pleach.h"

namespace pleach_torch {
namespace {

constexpr size_t kSmallestBlockBytes = 4096;
// What is kept for later.
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
    if (found == idle_.end()) {
      return nullptr;
    }
    found->second.last_use = ++uses_;
    return pop(found);
  }

  void put_back(void* block, size_t bytes) {
    const std::scoped_lock lock(mutex_);
    if (bytes > kMostIdleBytes) {
      pleach_free(block);
      return;
    }
    Class& its_class = idle_[bytes];
    its_class.blocks.push_back(block);
    its_class.last_use = ++uses_;
    idle_bytes_ += bytes;
    let_go(kMostIdleBytes);
  }

  void let_go_of_all() {
    const std::scoped_lock lock(mutex_);
    let_go(0);
  }

 private:
  struct Class {
    std::vector<void*> blocks;  // one at least
    uint64_t last_use = 0;
  };
  using Classes = std::unordered_map<size_t, Class>;  // by size

  // Lets go of those of the classes that were used longest ago until no more than `most` are left.
  void let_go(size_t most) {
    while (idle_bytes_ > most) {
      pleach_free(
          pop(std::min_element(idle_.begin(), idle_.end(), [](const auto& one, const auto& other) {
            return one.second.last_use < other.second.last_use;
          })));
    }
  }

  void* pop(Classes::iterator where) {
    auto& [bytes, its_class] = *where;
    void* const block = its_class.blocks.back();
    its_class.blocks.pop_back();
    idle_bytes_ -= bytes;
    if (its_class.blocks.empty()) {
      idle_.erase(where);
    }
    return block;
  }

  std::mutex mutex_;
  Classes idle_;
  size_t idle_bytes_ = 0;
  uint64_t uses_ = 0;
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

void let_go_of_idle_memory() {
  blocks().let_go_of_all();
}

}  // namespace pleach_torch
