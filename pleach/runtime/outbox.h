// Outbox: copies of what several peers are to read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace pleach {

// A value that goes to several peers is copied once, into peer memory, where each of them reads it,
// instead of to every one's place. One channel's. Used by one thread at a time.
class Outbox {
 public:
  // Which value: of a run, one of a slot's in one segment.
  struct Key {
    const void* run = nullptr;
    int32_t slot = 0;
    int32_t after_commits = 0;
    int32_t segment = 0;
    bool operator==(const Key&) const = default;
  };

  // Has memory once it is asked for some: what all ranks together take stays in a last cache.
  explicit Outbox(int32_t rank_count);

  // A copy of the value, the one that is there or a new one for so many readers, this one among
  // them. Empty: there is no room.
  //   is_far  copied past the caches
  std::span<const std::byte> put(const Key& key, std::span<const std::byte> value, int32_t readers,
                                 bool is_far);
  // One of the readers has read it, or will not.
  void release(const Key& key);
  // Whatever has become of the run's readers.
  void drop(const void* run) {
    std::erase_if(copies_, [run](const Copy& copy) { return copy.key.run == run; });
  }

 private:
  struct Copy {
    Key key;
    int64_t begin = 0;
    int64_t end = 0;
    int32_t readers = 0;
  };
  int64_t find_room(int64_t bytes) const;

  const int64_t bytes_;
  std::shared_ptr<std::byte> memory_;
  std::vector<Copy> copies_;
  // Room is taken in turn: lines that readers still have in their caches are written slowly.
  int64_t next_ = 0;
};

}  // namespace pleach
