// Progress of long calls, told to Python.
#pragma once

#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <exception>
#include <functional>
#include <optional>
#include <string>

#include "pleach/base/interruption.h"
#include "pleach/python/calls.h"

namespace pleach::python {

// A Python function that is told what is being done, or none.
using Progress = std::optional<std::function<void(const std::string&)>>;

// Hands steps to Python from a call that does not hold the interpreter's lock. What the function
// raises ends the call.
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
  // Returns what `work` returns, called without the lock. Raises what the function has raised.
  template <typename Work>
  auto unlocked(const Work& work) {
    try {
      auto result = python::unlocked(work);
      rethrow();
      return result;
    } catch (const Interrupted&) {
      rethrow();
      throw;
    }
  }

 private:
  void rethrow() const {
    if (raised_ != nullptr) {
      std::rethrow_exception(raised_);
    }
  }
  void call(const std::string& what) {
    Call* const call = Call::present();
    if (raised_ != nullptr || call->is_interrupted()) {
      return;
    }
    call->locked([&] {
      try {
        (*progress_)(what);
      } catch (const abi::__forced_unwind&) {
        throw;
      } catch (...) {
        raised_ = std::current_exception();
      }
    });
    if (raised_ != nullptr && Interruption::present() != nullptr) {
      Interruption::present()->interrupt();
    }
  }

  const Progress& progress_;
  std::exception_ptr raised_;
};

}  // namespace pleach::python
