#include "pleach/runtime/transports/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "pleach/base/file_size_limit.h"

namespace pleach {
namespace {

// Neither its creator nor anybody else can make it smaller, or take that back.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_SEAL;

int64_t to_pages(int64_t bytes) {
  static const int64_t page = sysconf(_SC_PAGESIZE);
  return (bytes + page - 1) / page * page;
}

std::optional<struct stat> status_of(int descriptor) {
  struct stat status = {};
  return fstat(descriptor, &status) == 0 ? std::optional(status) : std::nullopt;
}

// The mappings of this process: ranks that are its threads then share addresses too, and the
// thread sanitizer sees what they do with them.
class Mappings {
 public:
  using Key = std::tuple<dev_t, ino_t, int64_t, int64_t>;  // device, inode, offset, bytes

  Result<std::shared_ptr<std::byte>> get(const Key& key, int descriptor) {
    const std::scoped_lock lock(mutex_);
    if (std::shared_ptr<std::byte> found = mappings_[key].lock()) {
      return found;
    }
    const auto [device, inode, offset, bytes] = key;
    const auto size = static_cast<std::size_t>(bytes);
    void* const address =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, offset);
    if (address == MAP_FAILED) {
      return system_error(fmt::format("map {} bytes of shared memory", bytes));
    }
    const std::shared_ptr<std::byte> made(static_cast<std::byte*>(address),
                                          [this, key, size](std::byte* memory) {
                                            munmap(memory, size);
                                            forget(key);
                                          });
    mappings_[key] = made;
    return made;
  }

 private:
  void forget(const Key& key) {
    const std::scoped_lock lock(mutex_);
    if (const auto found = mappings_.find(key);
        found != mappings_.end() && found->second.expired()) {
      mappings_.erase(found);
    }
  }

  std::mutex mutex_;
  std::map<Key, std::weak_ptr<std::byte>> mappings_;
};

}  // namespace

Result<SharedMemory> SharedMemory::create(int64_t bytes) {
  const FileSizeLimit is_told_as_an_error;
  SharedMemory made(Descriptor(memfd_create("pleach", MFD_CLOEXEC | MFD_ALLOW_SEALING)));
  if (made.descriptor() < 0 || ftruncate(made.descriptor(), to_pages(bytes)) != 0 ||
      fcntl(made.descriptor(), F_ADD_SEALS, kSeals) != 0) {
    return system_error(fmt::format("make {} bytes of shared memory", bytes));
  }
  return made;
}

Result<SharedMemory> SharedMemory::adopt(Descriptor descriptor, int64_t bytes) {
  const std::optional<struct stat> status = status_of(descriptor.get());
  const int seals = fcntl(descriptor.get(), F_GET_SEALS);
  const int flags = fcntl(descriptor.get(), F_GETFL);
  // Without F_SEAL_SEAL the peer could still refuse writes, once it has been adopted.
  const bool stays_writable = seals >= 0 && (seals & kSeals) == kSeals &&
                              (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) == 0 && flags >= 0 &&
                              (flags & O_ACCMODE) == O_RDWR;
  if (!status || status->st_size < bytes || !stays_writable) {
    return invalid("a peer shares no writable memory of the size that was agreed");
  }
  return SharedMemory(std::move(descriptor));
}

Result<int64_t> SharedMemory::grow(int64_t bytes) {
  const FileSizeLimit is_told_as_an_error;
  const std::optional<struct stat> status = status_of(descriptor());
  if (!status || ftruncate(descriptor(), to_pages(status->st_size) + to_pages(bytes)) != 0) {
    return system_error(fmt::format("make {} bytes of shared memory", bytes));
  }
  return to_pages(status->st_size);
}

Result<std::shared_ptr<std::byte>> SharedMemory::map(int64_t offset, int64_t bytes) const {
  // Never destroyed: mappings may outlive all statics.
  // NOLINTNEXTLINE(cppcoreguidelines-*)
  static auto& mappings = *new Mappings;
  const std::optional<struct stat> status = status_of(descriptor());
  if (!status || offset < 0 || bytes < 1 || offset > status->st_size - bytes) {
    return invalid(fmt::format("bytes [{}, +{}) are no part of shared memory", offset, bytes));
  }
  return mappings.get({status->st_dev, status->st_ino, offset, bytes}, descriptor());
}

void SharedMemory::discard(int64_t offset, int64_t bytes) {
  // Where it fails the memory is kept for longer, no more.
  static_cast<void>(
      fallocate(descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, to_pages(bytes)));
}

void SharedMemory::populate(const std::byte* memory, int64_t bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  // Where the kernel does not know how, pages are made as they are touched.
  static_cast<void>(madvise(reinterpret_cast<void*>(begin / page * page),
                            static_cast<std::size_t>(bytes) + begin % page, MADV_POPULATE_WRITE));
}

}  // namespace pleach
