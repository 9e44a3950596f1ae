#include "pleach/base/file_size_limit.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cerrno>
#include <system_error>

namespace pleach {

FileSizeLimit::~FileSizeLimit() {
  const int error_number = errno;  // of the write, for the caller
  const timespec at_once = {};
  // The kernel sends the signal to the thread that writes: it is taken before the mask is undone.
  static_cast<void>(sigtimedwait(&held_.blocked(), nullptr, &at_once));
  errno = error_number;
}

std::string write_cause(int error_number) {
  rlimit limit = {};
  if (error_number == EFBIG && getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
      limit.rlim_cur != RLIM_INFINITY) {
    return fmt::format("a file of this process may have {} bytes (ulimit -f)", limit.rlim_cur);
  }
  return std::generic_category().message(error_number);
}

}  // namespace pleach
