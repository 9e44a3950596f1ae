// The limit on the size of files that a process writes (RLIMIT_FSIZE, ulimit -f).
#pragma once

#include <string>

#include "pleach/base/signal_mask.h"

namespace pleach {

// While it lives, a write of this thread beyond the limit fails with EFBIG, and its signal, which
// would end the process, does not arrive.
class FileSizeLimit {
 public:
  FileSizeLimit() = default;
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit();

 private:
  const SignalMask held_{SIGXFSZ};
};

// Why a write failed, from its errno: "No space left on device", or the limit with its name.
std::string write_cause(int error_number);

}  // namespace pleach
