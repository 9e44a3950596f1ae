// Commands whose options are the interface: what they print as JSON is the result.
#include "pleach/cli/command.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "pleach/cli/log.h"
#include "pleach/python/bindings.h"
#include "pleach/python/errors.h"
#include "pleach/python/progress.h"

namespace pleach::python {
namespace {

namespace nb = nanobind;

// A stream into memory.
class TextStream {
 public:
  TextStream() : file_(open_memstream(&text_, &size_)) {}
  ~TextStream() {
    std::fclose(file_);
    std::free(text_);
  }
  TextStream(const TextStream&) = delete;
  TextStream& operator=(const TextStream&) = delete;

  std::FILE* file() const { return file_; }
  std::string text() const {
    std::fflush(file_);
    return {text_, size_};
  }

 private:
  char* text_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* file_;
};

// What the command refuses, as one line without the command's name.
Error refusal(const std::string& name, std::string text) {
  const std::string own_name = "pleach " + name + ": ";
  if (text.starts_with(own_name)) {
    text.erase(0, own_name.size());
  }
  while (text.ends_with('\n')) {
    text.pop_back();
  }
  return invalid(text);
}

std::string run_command(const std::string& name, const std::vector<std::string>& arguments,
                        const Progress& progress) {
  const Command* command = take(commands().find(name));
  const TextStream out;
  const TextStream error;
  ProgressCalls calls(progress);
  Result<ExitCode> code = calls.unlocked([&] {
    const auto tell = calls.function();
    const StepListener listener([&tell](const std::string& what) {
      if (tell) {
        tell(what);
      }
    });
    return command->run(*command, {"pleach", arguments, out.file(), error.file()});
  });
  if (take(std::move(code)) != ExitCode::kDone) {
    raise(refusal(name, error.text()));
  }
  return out.text();
}

}  // namespace

void bind_command(nb::module_& module) {
  module.def("run_command", run_command, nb::arg("name"), nb::arg("arguments"),
             nb::arg("progress").none(),
             "Runs a command of the command line in this process; returns what it prints.");
}

}  // namespace pleach::python
