// The numbers of Pleach's C interface, which pleach.h includes: a value keeps its meaning within
// one PLEACH_ABI_VERSION.
#pragma once

#include <stdint.h>

typedef int32_t pleach_status;
enum {
  PLEACH_OK = 0,
  PLEACH_INVALID_ARGUMENT = 1,
  PLEACH_INFEASIBLE = 2,
  PLEACH_IO = 3,
  PLEACH_TIMEOUT = 4,
  PLEACH_PEER_LOST = 5,
  PLEACH_UNSUPPORTED = 6,
  PLEACH_INTERNAL = 7,    // no memory, or a mistake of the library
  PLEACH_INTERRUPTED = 8  // pleach_set_interrupt()'s function ended the call
};

typedef int32_t pleach_type;
enum {
  PLEACH_FLOAT32 = 0,
  PLEACH_FLOAT64 = 1,
  PLEACH_FLOAT16 = 2,
  PLEACH_BFLOAT16 = 3,
  PLEACH_INT8 = 4,
  PLEACH_INT32 = 5,
  PLEACH_INT64 = 6,
  PLEACH_UINT8 = 7
};

// Averages are of floating types, bitwise reductions of integers.
typedef int32_t pleach_reduction;
enum {
  PLEACH_SUM = 0,
  PLEACH_PRODUCT = 1,
  PLEACH_MIN = 2,
  PLEACH_MAX = 3,
  PLEACH_AVERAGE = 4,
  PLEACH_BITWISE_AND = 5,
  PLEACH_BITWISE_OR = 6,
  PLEACH_BITWISE_XOR = 7
};

typedef int32_t pleach_collective;
enum {
  PLEACH_ALL_REDUCE = 0,
  PLEACH_REDUCE_SCATTER = 1,
  PLEACH_ALL_GATHER = 2,
  PLEACH_BROADCAST = 3,
  PLEACH_REDUCE = 4,
  PLEACH_ALL_TO_ALL = 5,
  PLEACH_GATHER = 6,
  PLEACH_SCATTER = 7
};

// What travels: elements of the type, or of float32 in place of a half type that is reduced, which
// is then rounded once, at the end, and not in every step.
typedef int32_t pleach_wire;
enum { PLEACH_WIRE_TYPE = 0, PLEACH_WIRE_FLOAT32 = 1 };
