// What each file of this layer adds to the module pleach._core.
#pragma once

#include <nanobind/nanobind.h>

namespace pleach::python {

// The version of the library.
void bind_library(nanobind::module_& module);
// Topologies, and what builds them.
void bind_topology(nanobind::module_& module);
// Schedules: read, synthesised, built and proved.
void bind_schedule(nanobind::module_& module);
// Simulations, comparisons, plans and books.
void bind_timing(nanobind::module_& module);
// Commands of the command line.
void bind_command(nanobind::module_& module);
// Operations in flight.
void bind_operation(nanobind::module_& module);
// Endpoints and communicators.
void bind_communicator(nanobind::module_& module);
// Arrays that other ranks of the host may read.
void bind_memory(nanobind::module_& module);
// Atoms, plans and their replay.
void bind_policy(nanobind::module_& module);

}  // namespace pleach::python
