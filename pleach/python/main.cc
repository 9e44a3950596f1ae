// The extension module pleach._core, which the package's Python wraps.
#include <nanobind/nanobind.h>

#include "pleach/python/bindings.h"

NB_MODULE(_core, module) {
  // A program may end with objects in its hands.
  nanobind::set_leak_warnings(false);
  pleach::python::bind_library(module);
  pleach::python::bind_topology(module);
  pleach::python::bind_schedule(module);
  pleach::python::bind_timing(module);
  pleach::python::bind_command(module);
  pleach::python::bind_operation(module);
  pleach::python::bind_communicator(module);
  pleach::python::bind_memory(module);
  pleach::python::bind_policy(module);
}
