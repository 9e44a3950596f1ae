#include "pleach/python/errors.h"

#include <nanobind/nanobind.h>

#include <string>

#include "pleach/base/text.h"

namespace pleach::python {
namespace {

namespace nb = nanobind;

// The module pleach.errors, once it is known. Never let go of: the interpreter may have forgotten
// its modules when the last errors are raised.
nb::handle& known_errors() {
  static nb::handle module;
  return module;
}

[[noreturn]] void raise_as(const char* name, const std::string& message) {
  if (!known_errors().is_valid()) {
    know_errors(nb::module_::import_("pleach.errors"));
  }
  PyErr_SetString(known_errors().attr(name).ptr(), one_line(message).c_str());
  throw nb::python_error();
}

}  // namespace

void know_errors(nb::module_ errors) {
  known_errors() = errors.release();
}

void raise(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
      raise_as("InvalidArgumentError", error.message);
    case ErrorCode::kInfeasible:
      raise_as("InfeasibleError", error.message);
    case ErrorCode::kIo:
      raise_as("FileError", error.message);
    case ErrorCode::kTimeout:
      raise_as("DeadlineError", error.message);
    case ErrorCode::kPeerLost:
      raise_as("PeerLostError", error.message);
    case ErrorCode::kUnsupported:
      raise_as("UnsupportedError", error.message);
  }
  raise_as("Error", error.message);
}

void raise(pleach_status status, const std::string& message) {
  switch (status) {
    case PLEACH_INVALID_ARGUMENT:
      raise_as("InvalidArgumentError", message);
    case PLEACH_INFEASIBLE:
      raise_as("InfeasibleError", message);
    case PLEACH_IO:
      raise_as("FileError", message);
    case PLEACH_TIMEOUT:
      raise_as("DeadlineError", message);
    case PLEACH_PEER_LOST:
      raise_as("PeerLostError", message);
    case PLEACH_UNSUPPORTED:
      raise_as("UnsupportedError", message);
    default:
      raise_as("Error", message);
  }
}

void raise_violation(const std::string& violation) {
  raise_as("VerificationError", violation);
}

}  // namespace pleach::python
