#include "pleach/runtime/outbox.h"

#include <algorithm>

#include "pleach/base/result.h"
#include "pleach/runtime/peer_memory.h"
#include "pleach/runtime/streaming.h"

namespace pleach {
namespace {

constexpr int64_t kAllRanksBytes = int64_t{8} << 20;
constexpr int64_t kLeastBytes = int64_t{1} << 20;
constexpr int64_t kLine = 64;

}  // namespace

Outbox::Outbox(int32_t rank_count) : bytes_(std::max(kAllRanksBytes / rank_count, kLeastBytes)) {}

std::span<const std::byte> Outbox::put(const Key& key, std::span<const std::byte> value,
                                       int32_t readers, bool is_far) {
  const auto known = std::ranges::find(copies_, key, &Copy::key);
  if (known != copies_.end()) {
    return {memory_.get() + known->begin, value.size()};
  }
  const int64_t begin = find_room(std::ssize(value));
  if (begin < 0) {
    return {};
  }
  if (memory_ == nullptr) {
    Result<std::shared_ptr<std::byte>> memory = allocate_peer_memory(bytes_);
    if (!memory) {
      return {};
    }
    memory_ = std::move(memory).value();
    SharedMemory::populate(memory_.get(), bytes_);
  }
  copy_to_peers(memory_.get() + begin, value, is_far);
  next_ = begin + (std::ssize(value) + kLine - 1) / kLine * kLine;
  copies_.push_back({key, begin, next_, readers});
  return {memory_.get() + begin, value.size()};
}

// From the last on, or the beginning. -1: somebody still reads there.
int64_t Outbox::find_room(int64_t bytes) const {
  const int64_t begin = next_ + bytes <= bytes_ ? next_ : 0;
  const bool is_free = std::ranges::none_of(
      copies_, [&](const Copy& copy) { return copy.begin < begin + bytes && begin < copy.end; });
  return is_free && bytes <= bytes_ ? begin : -1;
}

void Outbox::release(const Key& key) {
  const auto known = std::ranges::find(copies_, key, &Copy::key);
  if (known != copies_.end() && --known->readers == 0) {
    copies_.erase(known);
  }
}

}  // namespace pleach
