#include "pleach/runtime/run_spec.h"

#include "pleach/runtime/kernels.h"

namespace pleach {

void finish_output(const RunSpec& spec) {
  const auto& [output, quotient_parts, divisor] = spec.quotient;
  for (const Interval& part : quotient_parts) {
    divide(spec.type, output + part.begin * element_bytes(spec.type), part.end - part.begin,
           divisor);
  }
  const auto& [type, rounded, from, parts, is_packed] = spec.rounded;
  int64_t packed = 0;
  for (const Interval& part : parts) {
    const int64_t place = is_packed ? packed : part.begin;
    narrow(type, rounded + place * element_bytes(type), from + part.begin, part.end - part.begin);
    packed += part.end - part.begin;
  }
}

}  // namespace pleach
