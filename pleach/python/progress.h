// Progress of long calls, told to Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <exception>
#include <functional>
#include <optional>
#include <string>

namespace pleach::python {

// A Python function that is told what is being done, or none.
using Progress = std::optional<std::function<void(const std::string&)>>;

// Hands steps to Python from threads that do not hold the interpreter's lock, and keeps what the
// function raises: the library is not to be left through an exception.
class ProgressCalls {
 public:
  explicit ProgressCalls(const Progress& progress) : progress_(progress) {}

  // For as long as this lives. Empty where there is nobody to tell.
  std::function<void(const std::string&)> function() {
    if (!progress_.has_value()) {
      return {};
    }
    return [this](const std::string& what) { call(what); };
  }
  // The first exception that the function has raised. The lock is held.
  void rethrow() const {
    if (raised_ != nullptr) {
      std::rethrow_exception(raised_);
    }
  }

 private:
  void call(const std::string& what) {
    if (raised_ != nullptr) {
      return;
    }
    const nanobind::gil_scoped_acquire held;
    try {
      (*progress_)(what);
    } catch (...) {
      raised_ = std::current_exception();
    }
  }

  const Progress& progress_;
  std::exception_ptr raised_;
};

}  // namespace pleach::python
