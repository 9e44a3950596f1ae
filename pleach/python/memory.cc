// Memory that other ranks of the host may read where it stands, as arrays.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>

#include "pleach/api/pleach.h"
#include "pleach/python/bindings.h"
#include "pleach/python/errors.h"

namespace pleach::python {
namespace {

namespace nb = nanobind;

using Bytes = nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>;

// Zeros, freed with the last view of them.
Bytes allocate(std::size_t size_bytes) {
  void* const memory = pleach_alloc(size_bytes == 0 ? 1 : size_bytes);
  if (memory == nullptr) {
    raise(PLEACH_INTERNAL, pleach_last_error());
  }
  const nb::capsule owner(memory, [](void* freed) noexcept { pleach_free(freed); });
  return {memory, {size_bytes}, owner};
}

}  // namespace

void bind_memory(nb::module_& module) {
  module.def("allocate", allocate, nb::arg("size_bytes"));
}

}  // namespace pleach::python
