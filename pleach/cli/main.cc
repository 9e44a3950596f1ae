// The process: arguments in, exit code out.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <system_error>
#include <vector>

#include "pleach/cli/command.h"
#include "pleach/cli/print.h"

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

// Below this a thread of this program, or of a library, may run out of its stack, which ends the
// process by a signal.
constexpr rlim_t kLeastStackBytes = rlim_t{256} * 1024;

// Takes the limits of the process, so that exceeding one is an error where it happens. False: the
// limits leave no room to run; it has said so.
bool take_limits() {
  // A write beyond `ulimit -f` then fails. A handler ends with exec: programs that are started have
  // the usual one.
  struct sigaction usual = {}, quiet = {};
  quiet.sa_handler = [](int /*number*/) {};
  quiet.sa_flags = SA_RESTART;
  if (sigaction(SIGXFSZ, nullptr, &usual) == 0 && usual.sa_handler == SIG_DFL) {
    sigaction(SIGXFSZ, &quiet, nullptr);
  }
  rlimit stack = {};
  if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur < kLeastStackBytes) {
    std::fprintf(stderr, "pleach: a stack of %llu KiB is too small: it takes %llu (ulimit -s)\n",
                 static_cast<unsigned long long>(stack.rlim_cur / 1024),
                 static_cast<unsigned long long>(kLeastStackBytes / 1024));
    return false;
  }
  return true;
}

// Where not all of the standard output could be written: nothing is wrong where who reads has read
// enough.
int unwritten(pleach::ExitCode code, int error_number) {
  if (error_number == EPIPE) {
    return static_cast<int>(code);
  }
  pleach::print_error(stderr, "pleach", pleach::unwritten_text(error_number));
  return static_cast<int>(pleach::ExitCode::kFailed);
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (!hold_standard_streams() || !take_limits()) {
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
    pleach::print_error(stderr, "pleach", error.what());
  } catch (const std::exception& error) {
    pleach::print_error(stderr, "pleach", error.what());
  }
  return static_cast<int>(pleach::ExitCode::kFailed);
}
