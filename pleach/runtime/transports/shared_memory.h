// SharedMemory: memory that processes of one host share by a descriptor; no file has its name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "pleach/base/result.h"
#include "pleach/runtime/net.h"

namespace pleach {

// Zeros at first; it ends with its last descriptor and mapping. Offsets and sizes are in bytes.
class SharedMemory {
 public:
  SharedMemory() = default;  // none
  // Errors: kIo.
  static Result<SharedMemory> create(int64_t bytes);
  // Memory that another process created.
  //   errors  kInvalidArgument: it holds less than `bytes`, or cannot be written, or its creator
  //           could still shrink it (then a read ends this process by a signal) or refuse writes
  static Result<SharedMemory> adopt(Descriptor descriptor, int64_t bytes);

  int descriptor() const { return descriptor_.get(); }
  // Adds room at the end and returns where it begins: at a page.
  Result<int64_t> grow(int64_t bytes);
  // A part that begins at a page. All who map one part in one process get the same mapping.
  //   errors  kInvalidArgument: it is not all there; kIo
  Result<std::shared_ptr<std::byte>> map(int64_t offset, int64_t bytes) const;
  // Gives the memory of a part back: whoever maps it sees zeros.
  void discard(int64_t offset, int64_t bytes);
  // Has the pages of a mapping made at once, which takes longer one by one, as they are touched.
  static void populate(const std::byte* memory, int64_t bytes);

 private:
  explicit SharedMemory(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
  Descriptor descriptor_;
};

}  // namespace pleach
