// The process: arguments in, exit code out.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <string>
#include <system_error>
#include <vector>

#include "pleach/cli/command.h"

namespace {

// Where a standard stream is closed, what is opened first would be it. What nobody can write to
// fails, as it did when it was closed.
bool hold_standard_streams() {
  while (true) {
    const int descriptor = open("/dev/null", O_RDONLY);
    if (descriptor < 0 || descriptor > STDERR_FILENO) {
      return descriptor > STDERR_FILENO && close(descriptor) == 0;
    }
  }
}

// Where not all of the standard output could be written: nothing is wrong where who reads has read
// enough.
int unwritten(pleach::ExitCode code, int error_number) {
  if (error_number == EPIPE) {
    return static_cast<int>(code);
  }
  std::fputs("pleach: cannot write to the standard output\n", stderr);
  return static_cast<int>(pleach::ExitCode::kFailed);
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (!hold_standard_streams()) {
    return static_cast<int>(pleach::ExitCode::kFailed);
  }
  try {
    const std::vector<std::string> words(arguments, arguments + argument_count);
    const pleach::ExitCode code = pleach::run_command_line(words, stdout, stderr);
    return std::fflush(stdout) == 0 ? static_cast<int>(code) : unwritten(code, errno);
  } catch (const std::bad_alloc&) {
    std::fputs("pleach: out of memory\n", stderr);
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) {  // fmt gave up on more than the stream holds back
      return unwritten(pleach::ExitCode::kDone, error.code().value());
    }
    std::fprintf(stderr, "pleach: %s\n", error.what());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pleach: %s\n", error.what());
  }
  return static_cast<int>(pleach::ExitCode::kFailed);
}
