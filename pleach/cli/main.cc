// The process: arguments in, exit code out.
#include <cerrno>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "pleach/cli/command.h"

int main(int argument_count, char** arguments) {
  try {
    const std::vector<std::string> words(arguments, arguments + argument_count);
    const pleach::ExitCode code = pleach::run_command_line(words, stdout, stderr);
    if (std::fflush(stdout) != 0 && errno != EPIPE) {  // who reads may have read enough
      std::fputs("pleach: cannot write to the standard output\n", stderr);
      return static_cast<int>(pleach::ExitCode::kFailed);
    }
    return static_cast<int>(code);
  } catch (const std::bad_alloc&) {
    std::fputs("pleach: out of memory\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pleach: %s\n", error.what());
  }
  return static_cast<int>(pleach::ExitCode::kFailed);
}
