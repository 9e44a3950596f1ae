// What the ranks of an operation must agree on, in 64 bits that travel with it and can be read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "pleach/base/collective_kind.h"
#include "pleach/base/id.h"

namespace pleach {

struct RequestTraits {
  std::optional<CollectiveKind> collective;  // none: a barrier
  ElementType type = ElementType::kFloat32;
  bool is_wide = false;  // it travels as float32, and the type is another
  ReduceOp op = ReduceOp::kSum;
  int64_t count = 0;  // elements
  int32_t segment_count = 1;
  uint64_t schedule_hash = 0;  // and of the parts' counts, where they have some
  Rank root = {0};             // of a collective that has one
};

// Differs where collective, type, what travels, op, segments or count below 2^32 - 1 do, or, of
// what has a root, a root below 63 or a count below 2^26 - 1; else of two schedules, larger roots
// or counts with 65,535 chances in 65,536.
uint64_t request_fingerprint(const RequestTraits& traits);

// One of a count of 0, with another: where ranks agree in pairs.
uint64_t with_count(uint64_t fingerprint, int64_t count);
// Whether a peer's may be of this rank's operation, so far as it is not known what the two
// exchange.
bool may_be_one(uint64_t own, uint64_t theirs);
// The part of it that all ranks of the operation share: without what two ranks agree on in pairs.
uint64_t shared_part(uint64_t fingerprint);
// Whether it is the count below 2^32 alone in which they differ.
bool differ_in_count(uint64_t fingerprint, uint64_t other);

// What is left of it: the largest value of a field stands for all that are no smaller, and of the
// schedule there is a mark of 16 bits. Never fails: peers send anything.
struct RequestWords {
  std::string_view collective;  // "barrier", "what is unknown here": then the rest says nothing
  bool has_elements = false;
  std::string_view type = {};
  std::string_view wire = {};  // the type that travels
  std::string_view op = {};    // empty where nothing is reduced
  int64_t count = 0;
  int32_t segment_count = 0;
  int32_t root = 0;
  uint16_t schedule = 0;
};
RequestWords read_request(uint64_t fingerprint);
uint16_t schedule_mark(uint64_t schedule_hash);

// "all_reduce of 1024 float32 sum".
std::string request_text(uint64_t fingerprint);

// What two ranks of one operation run, which is not the same: "rank 2 runs all_reduce of 1024
// float32 sum, rank 0 of 2048". The rank of the larger number stands first, whoever asks.
std::string difference_text(Rank rank, uint64_t fingerprint, Rank other, uint64_t others);

}  // namespace pleach
