#include "pleach/runtime/run_spec.h"

#include "pleach/runtime/kernels.h"

namespace pleach {

void finish_output(const RunSpec& spec) {
  if (const auto& [begin, count, divisor] = spec.quotient; count > 0) {
    divide(spec.type, begin, count, divisor);
  }
  if (const auto& [type, begin, from, count] = spec.rounded; count > 0) {
    narrow(type, begin, from, count);
  }
}

}  // namespace pleach
