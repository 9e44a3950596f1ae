// The code that plans schedules, as a number.
#pragma once

#include <cstdint>

namespace pleach {

// Of the sources of all that a plan follows from; another one where any of them is changed.
uint64_t code_mark();

}  // namespace pleach
