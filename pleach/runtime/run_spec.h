// RunSpec: what one run of a program is to do.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "pleach/base/collective_kind.h"
#include "pleach/collective/placement.h"
#include "pleach/collective/record.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/flight_recorder.h"

namespace pleach {

struct RunSpec {
  uint64_t operation = 1;    // of its channel: 1, 2, ... the same on all ranks
  uint64_t fingerprint = 0;  // request_fingerprint()
  ElementType type = ElementType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  const std::byte* input = nullptr;              // the base of Buffer::kInput
  std::byte* output = nullptr;                   // the base of Buffer::kOutput
  Duration deadline = std::chrono::seconds(30);  // for peers to begin, and between events
  Record* record = nullptr;                      // appended to when set
  FlightNote flight = {};                        // where what happens is noted
  std::string_view what = {};                    // for errors; a literal
  // Elements of the output that a number divides once they are complete.
  struct Quotient {
    std::byte* output = nullptr;
    std::span<const Interval> parts = {};  // borrowed; empty: none
    int32_t divisor = 1;
  } quotient = {};
  // Elements of a float32 output that are rounded to a half type, elsewhere, after that.
  struct Rounded {
    ElementType type = ElementType::kFloat32;
    std::byte* output = nullptr;
    const float* from = nullptr;
    std::span<const Interval> parts = {};  // of `from`; borrowed; empty: none
    bool is_packed = false;  // they lie one behind the other in the output; else in their places
  } rounded = {};
};

// Makes of a complete output what was asked for: divides and rounds.
void finish_output(const RunSpec& spec);

}  // namespace pleach
