#include "pleach/runtime/peer_memory.h"

#include <fmt/format.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace pleach {
namespace {

// The regions of this process, by where they begin.
class Regions {
 public:
  Result<std::byte*> allocate(int64_t bytes) {
    auto region = std::make_shared<PeerRegion>();
    PLEACH_SET(region->memory, SharedMemory::create(bytes));
    PLEACH_SET(region->mapping, region->memory.map(0, bytes));
    region->bytes = bytes;
    std::byte* const begin = region->mapping.get();
    const std::scoped_lock lock(mutex_);
    region->number = ++last_number_;
    regions_.emplace(begin, std::move(region));
    count_.fetch_add(1);
    return begin;
  }

  std::shared_ptr<const PeerRegion> find(std::span<const std::byte> bytes) {
    if (count_.load(std::memory_order_relaxed) == 0) {
      return nullptr;
    }
    const std::scoped_lock lock(mutex_);
    const auto after = regions_.upper_bound(bytes.data());
    if (after == regions_.begin()) {
      return nullptr;
    }
    const auto& [begin, region] = *std::prev(after);
    const auto end = reinterpret_cast<uintptr_t>(begin) + static_cast<uintptr_t>(region->bytes);
    return reinterpret_cast<uintptr_t>(bytes.data()) + bytes.size() <= end ? region : nullptr;
  }

  // False: there is none.
  bool free(std::byte* memory) {
    std::shared_ptr<PeerRegion> region;  // ends outside of the lock
    const std::scoped_lock lock(mutex_);
    const auto found = regions_.find(memory);
    if (found == regions_.end()) {
      return false;
    }
    found->second->memory.discard(0, found->second->bytes);  // who maps it keeps no pages
    region = std::move(found->second);
    regions_.erase(found);
    count_.fetch_sub(1);
    freed_.fetch_add(1);
    return true;
  }

  uint64_t freed() const { return freed_.load(); }

 private:
  std::mutex mutex_;
  std::map<const std::byte*, std::shared_ptr<PeerRegion>, std::less<>> regions_;
  uint32_t last_number_ = 0;
  std::atomic<int64_t> count_ = 0;
  std::atomic<uint64_t> freed_ = 0;
};

Regions& regions() {
  // Never destroyed: memory may be freed after all statics.
  static auto& all = *new Regions;  // NOLINT(cppcoreguidelines-*)
  return all;
}

}  // namespace

Result<std::byte*> new_peer_memory(int64_t bytes) {
  if (bytes < 1) {
    return invalid(fmt::format("{} bytes of peer memory are not at least 1", bytes));
  }
  return regions().allocate(bytes);
}

Status free_peer_memory(std::byte* memory) {
  return regions().free(memory) ? ok()
                                : Status(invalid(fmt::format("no peer memory begins at {}",
                                                             static_cast<void*>(memory))));
}

Result<std::shared_ptr<std::byte>> allocate_peer_memory(int64_t bytes) {
  PLEACH_ASSIGN(memory, new_peer_memory(bytes));
  return std::shared_ptr<std::byte>(
      memory, [](std::byte* begin) { static_cast<void>(regions().free(begin)); });
}

std::shared_ptr<const PeerRegion> find_peer_region(std::span<const std::byte> bytes) {
  return regions().find(bytes);
}

uint64_t freed_peer_regions() {
  return regions().freed();
}

}  // namespace pleach
