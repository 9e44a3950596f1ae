// What the shim throws: one line each, which PyTorch turns into Python exceptions.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>

#include "pleach/api/pleach.h"

namespace pleach_torch {

// How an operation ended that has failed: its group is then of no more use.
inline std::exception_ptr failure(const std::string& message) {
  const ::c10::SourceLocation here = {__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
  return std::make_exception_ptr(c10::DistBackendError(here, "pleach: " + message));
}

// The first line of what an exception says, without where it was thrown.
inline std::string said_by(const std::exception& error) {
  const auto* const torchs = dynamic_cast<const c10::Error*>(&error);
  const std::string said = torchs != nullptr ? torchs->what_without_backtrace() : error.what();
  return said.substr(0, said.find('\n'));
}

// How a call of the C interface failed, as PyTorch's exceptions have it: a mistake of the caller is
// a ValueError.
inline std::exception_ptr exception_of(pleach_status status, const std::string& message) {
  const std::string text = "pleach: " + message;
  const ::c10::SourceLocation here = {__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
  switch (status) {
    case PLEACH_INVALID_ARGUMENT:
      return std::make_exception_ptr(c10::ValueError(here, text));
    case PLEACH_UNSUPPORTED:
      return std::make_exception_ptr(c10::NotImplementedError(here, text));
    default:
      return failure(message);
  }
}

// Throws this thread's last error where a call failed.
inline void check(pleach_status status) {
  if (status != PLEACH_OK) {
    std::rethrow_exception(exception_of(status, pleach_last_error()));
  }
}

}  // namespace pleach_torch
