#include "pleach/runtime/process_mark.h"

#include <sys/mman.h>
#include <unistd.h>

#include "pleach/base/index.h"

namespace pleach {

ProcessMark::ProcessMark() {
  const std::size_t bytes = at(sysconf(_SC_PAGESIZE));
  void* const page =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    return;
  }
  *static_cast<unsigned char*>(page) = 1;
  if (madvise(page, bytes, MADV_WIPEONFORK) != 0) {
    munmap(page, bytes);  // a kernel before 4.14: children are not known
    return;
  }
  page_ = {static_cast<const volatile unsigned char*>(page),
           [page, bytes](const volatile unsigned char* /*page*/) { munmap(page, bytes); }};
}

}  // namespace pleach
