#include "pleach/api/library.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <vector>

#include "pleach/api/pleach.h"
#include "pleach/python/bindings.h"
#include "pleach/python/errors.h"

namespace pleach::python {
namespace {

namespace nb = nanobind;

using EntryTexts = std::tuple<std::string, std::string, std::string, std::string>;

std::vector<EntryTexts> registry(const std::string& name) {
  std::vector<EntryTexts> entries;
  for (const RegistryEntry& entry : take(list_registry(name)).entries) {
    entries.emplace_back(entry.name, entry.summary, entry.source, entry.details);
  }
  return entries;
}

}  // namespace

void bind_library(nb::module_& module) {
  module.def(
      "version", [] { return std::string(version()); }, "The library's, as \"0.1.0\".");
  module.def("abi_version", &pleach_abi_version, "PLEACH_ABI_VERSION of libpleach.so.");
  module.def("know_errors", know_errors, nb::arg("errors"),
             "Takes pleach.errors: what there is to be raised.");
  module.def("registry", registry, nb::arg("name"),
             "Name, summary, source and details of each entry.");
}

}  // namespace pleach::python
