// The one place where the library's errors become Python's exceptions.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>

#include "pleach/api/pleach_types.h"
#include "pleach/base/result.h"

namespace pleach::python {

// Takes the module pleach.errors, whose exceptions the others throw.
void know_errors(nanobind::module_ errors);
// Throws the exception of pleach.errors that stands for the code. The interpreter's lock is held.
[[noreturn]] void raise(const Error& error);
// The same for a status of the C interface that is not PLEACH_OK.
[[noreturn]] void raise(pleach_status status, const std::string& message);
// The exception of a schedule that is not correct: what is wrong first.
[[noreturn]] void raise_violation(const std::string& violation);

template <typename T>
T take(Result<T> result) {
  if (!result) {
    raise(result.error());
  }
  return std::move(result).value();
}
inline void check(const Status& status) {
  if (!status) {
    raise(status.error());
  }
}

}  // namespace pleach::python
