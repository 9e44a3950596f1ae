// ReadBlock: room for one read, on the heap, as the stack of a thread may be small (ulimit -s).
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace pleach {

class ReadBlock {
 public:
  std::span<char> bytes() const { return {memory_.get(), kBytes}; }

 private:
  static constexpr std::size_t kBytes = std::size_t{64} << 10;
  std::unique_ptr<char[]> memory_ = std::make_unique_for_overwrite<char[]>(kBytes);
};

}  // namespace pleach
